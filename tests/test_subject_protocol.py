"""Any planner can be pointed at, as the documentation says, and may keep state between its peers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.compare.history import Remembered, compare_after_others
from differential.managers.facts import Facts
from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from differential.subjects.protocol import Subject
from differential.subjects.registry import GROUP, find_subject
from oracle.model.case import SIDES, Case, Native, Request
from oracle.model.topology import Topology
from oracle.model.writes import Refusal, Writes
from strategies.cases import cases
from tests.ledger_cases import VARIANTS, state_case
from tests.small_cases import case_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "new-subject.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
FILES = {
    match[1]: code for language, code in BLOCKS if language == "python" and (match := re.match(r"# (\w+\.py)\n", code))
}
ONE_FILE, FOUND = "witnesses/FILE.json", "witnesses/*.json"
SNIPPETS = [code for language, code in BLOCKS if language == "python" and code not in FILES.values()]
COMMANDS = [line.removeprefix("$ ") for language, code in BLOCKS if language == "console" for line in code.splitlines()]


# ---- the page


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page, in which its code runs; nothing of it stays imported."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in FILES:
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    return tmp_path


def test_the_page_wraps_a_planner_in_thirty_lines() -> None:
    assert list(FILES) == ["their_planner.py", "my_subject.py"]
    lines = [line for line in FILES["my_subject.py"].splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 30
    assert "oracle" not in FILES["their_planner.py"] and "differential" not in FILES["their_planner.py"]


def test_the_code_of_the_page_runs_as_it_stands(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for code in SNIPPETS:
        exec(compile(code, "docs/new-subject.md", "exec"), names)
    told = capsys.readouterr().out
    assert "differs  head 0 in place of 1, row 1 in place of 0" in told
    assert "from rank 0 in mapping, from rank 0 in my_subject:plan; mapping is right" in told
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_the_commands_of_the_page_do_what_it_says(project: Path) -> None:
    statuses = []
    for command in COMMANDS:
        program, *words = command.split()
        assert program == "kvwitness"
        arguments = [str(next(project.glob(FOUND))) if word == ONE_FILE else word for word in words]
        done = subprocess.run(
            [sys.executable, "-m", "kvwitness", *arguments],
            cwd=project,
            env={"PYTHONPATH": f"{project}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(project)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        statuses.append(done.returncode)
        assert "Traceback" not in done.stderr, done.stderr
    assert statuses == [1, 1, 0]
    (witness,) = (project / "witnesses").glob("*.json")
    assert "false refusal" in witness.read_text()


def test_the_page_gives_one_file_to_commands_that_take_one() -> None:
    for command in COMMANDS:
        words = command.split()
        assert "*" not in command
        if words[1] in ("replay", "show"):
            assert words[2] == ONE_FILE and [word for word in words[2:] if word.endswith(".json")] == [ONE_FILE]


def test_the_page_names_the_group_of_entry_points() -> None:
    assert f'[project.entry-points."{GROUP}"]' in PAGE


# ---- the protocol


@pytest.mark.parametrize("name", ["mapping", *VARIANTS])
def test_a_subject_says_its_name_and_whose_choice_of_senders_it_makes(name: str) -> None:
    subject = find_subject(name)
    assert subject.name == name
    assert subject.election == ("paired" if name == "mapping" else "own")


# ---- state between peers

SUBJECTS: dict[str, Callable[[], Subject]] = {
    "mapping": Mapping,
    **{name: (lambda options: lambda: make(options))(name.partition(":")[2]) for name in VARIANTS},
}
PEERS = st.lists(cases(), min_size=2, max_size=3)


@pytest.mark.parametrize("name", SUBJECTS)
@given(peers=PEERS)
def test_a_subject_plans_the_same_for_a_peer_after_it_served_others(name: str, peers: list[Case]) -> None:
    found = compare_after_others(SUBJECTS[name], peers)
    assert found is None, str(found)


FIT_ANY_SPLIT = ("gqa", "mla", "fp8", "vswa", "gemma4")
"""Kinds without axes that must divide."""


def one_beam(request: Request) -> Request:
    """The request without the beams that context parallelism does not go with."""
    sides = {side: replace(request.state(side), tails=0) for side in SIDES}
    return replace(request, beams=1, **sides)


def registered_again(case: Case, other: Case) -> Case:
    """``case``, its receiver now split as that of ``other`` where the layers allow it."""
    topology = other.generation.topology
    stages = (case.model.layers,) if sum(topology.stages) != case.model.layers else topology.stages
    split = replace(topology, stages=stages)
    requests = tuple(
        replace(one_beam(each) if split.cp > 1 else each, generation_dp=each.generation_dp % split.data_parallel)
        for each in case.requests
    )
    return replace(case, generation=replace(case.generation, topology=split), requests=requests)


@pytest.mark.parametrize("name", SUBJECTS)
@given(case=cases(FIT_ANY_SPLIT), other=cases(FIT_ANY_SPLIT))
def test_a_subject_plans_anew_for_a_peer_that_registers_again(name: str, case: Case, other: Case) -> None:
    found = compare_after_others(SUBJECTS[name], [case, registered_again(case, other)])
    assert found is None, str(found)


@pytest.mark.parametrize("name", SUBJECTS)
def test_recurrent_state_is_planned_anew_for_a_peer_that_registers_again(name: str) -> None:
    peers = [
        state_case(Topology(2, (2,)), Topology(*split)) for split in ((1, (2,), 2), (2, (2,)), (2, (1, 1)), (4, (2,)))
    ]
    assert compare_after_others(SUBJECTS[name], peers) is None


class KeepsPairs:
    """A sender that remembers whom it is paired with, and under what it remembers it (spec: legacy sender, 7.5).

    ``key(case)``: the name under which the peer registered, joined with its data-parallel rank.
    """

    election = "own"
    name = "keeps pairs"

    def __init__(self, key: Callable[[Case], object]) -> None:
        self.base = make()
        self.key = key
        self.kept: dict[object, Writes | Refusal] = {}

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        plan = self.base.plan(case, facts)
        kept = self.kept.setdefault(self.key(case), plan)
        if isinstance(plan, Refusal) or isinstance(kept, Refusal):
            return plan
        pairs = {(pair.source, pair.destination) for pair in kept.pairs}
        segments = tuple(each for each in plan.segments if (each.source_rank, each.destination_rank) in pairs)
        return replace(plan, pairs=kept.pairs, segments=segments)


def name_and_rank(case: Case) -> str:
    return f"{case.notes}{case.requests[0].generation_dp}"


def name_beside_rank(case: Case) -> tuple[str, int]:
    return case.notes, case.requests[0].generation_dp


LATENT = "key @ 0 : T D(2) ; 8"


def peer(name: str, dp: int, generation: str = "tp12 dp", context: str = "tp1") -> Case:
    """A latent for the peer of that name and data-parallel rank."""
    requests = (Request(0, 2, generation_dp=dp),)
    return replace(native(case_of(LATENT, context, generation, requests=requests)), notes=name)


def native(case: Case) -> Case:
    return replace(case, native=Native((("all", "indexed"),)))


def test_two_peers_whose_names_and_ranks_read_alike_are_told_apart() -> None:
    peers = [peer("ctx1", 11), peer("ctx11", 1)]
    assert name_and_rank(peers[0]) == name_and_rank(peers[1]) == "ctx111"
    found = compare_after_others(lambda: KeepsPairs(name_and_rank), peers)
    assert found is not None and found.case == peers[1] and found.served == (0,)
    assert str(found).startswith("planned otherwise after 1 other: ")
    assert compare_after_others(lambda: KeepsPairs(name_beside_rank), peers) is None


def test_an_overlap_that_is_kept_over_a_registration_is_noticed() -> None:
    peers = [peer("ctx1", 0, "tp1", "tp4"), peer("ctx1", 0, "tp2", "tp4")]
    found = compare_after_others(lambda: KeepsPairs(name_and_rank), peers)
    assert isinstance(found, Remembered) and found.case == peers[1]
    assert found.comparison.first == "a new keeps pairs" and found.comparison.pairs
    cleared = compare_after_others(lambda: KeepsPairs(lambda case: (case.notes, case.generation)), peers)
    assert cleared is None


@given(case=cases(FIT_ANY_SPLIT), other=cases(FIT_ANY_SPLIT))
def test_a_name_alone_tells_a_drawn_peer_from_none_that_is_split_otherwise(case: Case, other: Case) -> None:
    again = registered_again(case, other)
    plans = [make().plan(each, gather_facts(each)) for each in (case, again)]
    found = compare_after_others(lambda: KeepsPairs(lambda each: each.notes), [case, again])
    if all(isinstance(plan, Writes) and not plan.refusals for plan in plans):
        alike = set(plans[0].pairs) == set(plans[1].pairs)  # type: ignore[union-attr]
        assert alike == (found is None)
