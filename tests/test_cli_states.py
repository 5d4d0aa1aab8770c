"""``kvwitness verify --states``: which random cases have cache states, and that nothing else decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.registry import find_subject
from kvwitness.settings import STATES, Search
from kvwitness.witness import save
from oracle.model.case import Case, Request, SideState
from oracle.model.errors import InvalidCase
from oracle.model.writes import Writes
from strategies.features import OF_STATES, features_of
from tests.face import Shell
from tests.small_cases import case_of, group

RANDOM = ("verify", "--scope", "none", "--jobs", 1)

SEES_STATES = """
from differential.subjects.mapping import Mapping
from strategies.features import OF_STATES, features_of
seen = []
def plan(case, facts):
    seen.append(features_of(case) & OF_STATES - {"sinks"})
    return Mapping().plan(case, facts)
"""


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def test_cases_have_states_unless_told_otherwise(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sees_states.py").write_text(SEES_STATES)
    monkeypatch.syspath_prepend(tmp_path)
    import sees_states  # type: ignore[import-not-found]

    arguments = (*RANDOM, "--examples", 120, "--subjects", "sees_states:plan", "--out", tmp_path / "out")
    for option, with_states in (((), True), (("--states", "all"), True), (("--states", "none"), False)):
        sees_states.seen.clear()
        assert shell(*arguments, *option).status == 0
        assert len(sees_states.seen) >= 120
        assert sum(map(bool, sees_states.seen)) > 60 if with_states else not any(sees_states.seen)


def test_the_set_of_cases_depends_on_the_seed_and_this_option(shell: Shell, tmp_path: Path) -> None:
    def kinds(*arguments: object) -> dict:
        found = shell(*RANDOM, "--examples", 120, "--seed", 5, "--json", "--out", tmp_path, *arguments)
        assert found.status == 0
        return found.json["kinds"]

    plain, stated = kinds("--states", "none"), kinds("--states", "all")
    assert plain == kinds("--states", "none") == kinds("--states", "none", "--jobs", 2)
    assert stated == kinds() == kinds("--jobs", 2)
    assert plain != stated
    assert {kind: tally["cases"] for kind, tally in plain.items()} == {
        kind: tally["cases"] for kind, tally in stated.items()
    }


def test_it_is_said_in_the_header_and_in_json(shell: Shell, tmp_path: Path) -> None:
    for states, words in (("all", "with cache states"), ("none", "without cache states")):
        arguments = (*RANDOM, "--examples", 20, "--states", states, "--out", tmp_path)
        said = shell(*arguments)
        assert f"random: 20 cases of seed 0 {words} in 1 shard" in " ".join(said.out.split())
        assert shell(*arguments, "--json").json["states"] == states


@pytest.mark.parametrize("others", [("--grid", "upstream"), ("--model", "llama-3-70b")])
def test_it_has_no_meaning_where_nothing_is_drawn(shell: Shell, tmp_path: Path, others: tuple[str, str]) -> None:
    said = shell("verify", "--states", "none", *others, "--out", tmp_path)
    assert said.status == 2
    assert "--states has no meaning here" in said.err


def test_another_value_is_refused(shell: Shell, tmp_path: Path) -> None:
    said = shell(*RANDOM, "--states", "some", "--out", tmp_path)
    assert said.status == 2
    for value in STATES:
        assert value in said.err
    with pytest.raises(InvalidCase, match=r"--states = 'some' is not possible: expected none or all"):
        Search(("gqa",), states="some")


def loses_a_block() -> Case:
    """A sender that went four tokens beyond its prompt and keeps nothing beyond a window of two."""
    request = Request(0, 4, context=SideState(reached=8))
    return case_of(group("key @ 0 : T D(1) ; 8", window=2), size=2, requests=(request,))


def test_a_witness_with_states_replays_as_it_is(shell: Shell, tmp_path: Path) -> None:
    case = loses_a_block()
    assert features_of(case) & OF_STATES
    plan = find_subject("mapping").plan(case, gather_facts(case))
    assert isinstance(plan, Writes) and [refusal.code for refusal in plan.refusals] == ["block_lost"]
    path = save(case, tmp_path, subject="mapping", property=("missing",), seed=0)
    said = shell("replay", path)
    assert "cannot tell: refused" in said.out or "fixed" in said.out
    assert "block_lost" in said.out
