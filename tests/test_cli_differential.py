"""``kvwitness verify`` compares: what is the same, what is known, what is not, and what is no longer so."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from differential import runner
from differential.compare import compare
from differential.compare.alike import are_alike
from differential.compare.large import is_large
from differential.faults import find_fault
from differential.ledger import asked_of, check_case, compare_plans, entries
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from differential.subjects.registry import find_subject
from kvwitness import bench, load_case
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from oracle.model.case import Case
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from oracle.model.writes import Pair, Segment, Writes
from oracle.truth.decide import method_for
from strategies.deployments import deployment
from strategies.kinds import gqa
from strategies.scope import small_scope
from tests.face import Shell
from tests.ledger_cases import among_paired_ranks

RANDOM = ("verify", "--scope", "none", "--jobs", 1)

SENDERS = """
from differential.faults import find_fault
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.writes import Writes

class Copy:
    '''The mapping under another name.'''
    name = "copy"
    election = "own"
    def plan(self, case, facts):
        return Mapping().plan(case, facts)

class First(Copy):
    '''Every byte arrives, but from the first of several holders.'''
    name = "first"
    def plan(self, case, facts):
        return find_fault("elect-first").wrap(Mapping()).plan(case, facts)

class Silent(Copy):
    '''Sends nothing, and is not judged for the pairs that it leaves out.'''
    name = "silent"
    def plan(self, case, facts):
        return Writes()

class Raises(Copy):
    name = "raises"
    def plan(self, case, facts):
        raise ValueError("no plan")

class Mended(Copy):
    '''The mapping under the name of the legacy sender: none of its weaknesses is left.'''
    name = "native"
"""


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def senders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "their_senders.py").write_text(SENDERS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "out"


# ---- the run


def test_every_case_is_compared_and_counted_by_pair_and_kind(shell: Shell, tmp_path: Path) -> None:
    found = shell(*RANDOM, "--examples", 120, "--json", "--out", tmp_path).json
    assert found["verdict"] == "pass"
    assert found["judged"] == ["mapping", "native"]
    whole = found["subjects"]["mapping/native"]
    assert whole["identical"] + whole["accepted"] + whole["different"] == found["cases"] == 120
    assert whole["identical"] > 60 and whole["accepted"] > 5 and whole["different"] == 0
    assert set(whole["entries"]) <= {entry.name for entry in entries()}
    assert sum(whole["entries"].values()) >= whole["accepted"]
    by_kind = [kind["subjects"]["mapping/native"] for kind in found["kinds"].values()]
    for verdict in ("identical", "accepted", "different"):
        assert sum(each[verdict] for each in by_kind) == whole[verdict]


def test_the_table_tells_each_known_difference_with_its_cases(shell: Shell, tmp_path: Path) -> None:
    arguments = ("--examples", 120, "--out", tmp_path)
    counts = shell(*RANDOM, *arguments, "--json").json["kinds"]["gqa"]["subjects"]["mapping/native"]
    said = shell(*RANDOM, *arguments)
    rows = [line.split() for line in said.out.splitlines()]
    assert [
        "gqa",
        "mapping",
        "and",
        "native",
        *(str(counts[v]) for v in ("identical", "accepted", "different")),
    ] in rows
    for entry, cases in counts["entries"].items():
        assert [entry, str(cases)] in rows
    assert said.out.rstrip().endswith("and no difference that is not known")


@pytest.mark.parametrize("columns", [40, 79, 80, 120])
def test_the_comparison_fits_the_terminal(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = shell(*RANDOM, "--kinds", "gqa", "--examples", 40, "--out", tmp_path)
    assert max(map(len, said.out.splitlines())) <= columns
    assert "identical" in said.out and "head-major-and-token-major" in said.out


def test_the_known_weaknesses_of_a_legacy_subject_fail_no_run_even_alone(shell: Shell, tmp_path: Path) -> None:
    said = shell(*RANDOM, "--examples", 150, "--subjects", "native", "--json", "--out", tmp_path)
    assert said.status == 0
    assert said.json["subjects"] == {}


def test_a_difference_that_no_entry_covers_fails_the_run(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tuple(entry for entry in entries() if entry.name != "head-major-and-token-major")
    monkeypatch.setattr(import_module("differential.ledger.settle"), "entries", lambda: left)
    said = shell(*RANDOM, "--kinds", "gqa", "--examples", 200, "--json", "--out", tmp_path)
    assert said.status == 1
    assert said.json["subjects"]["mapping/native"]["different"] > 0
    (path,) = said.json["witnesses"]
    case = load_case(path)
    assert (case.context.layout == "NHD") != (case.generation.layout == "NHD")


def test_another_sender_of_the_right_bytes_differs_and_leaves_a_witness(shell: Shell, senders: Path) -> None:
    """Each plan alone delivers every byte: only the comparison sees it."""
    names = ("--subjects", "mapping,their_senders:First")
    said = shell(*RANDOM, "--examples", 400, *names, "--out", senders)
    assert said.status == 1
    assert "FAIL mapping and first: differs (bytes)" in said.out
    (path,) = senders.glob("*.json")
    plain = json.loads(path.read_text())["witness"]
    assert (plain["subject"], plain["other"]) == ("mapping", "their_senders:First")
    assert (plain["property"], plain["stage"]) == (["differs"], "comparison")
    assert f"replay it: kvwitness replay {path}" in said.out
    assert f"in full:   kvwitness diff {path}" in said.out
    for line in plain["argument"]:
        assert line in said.out
    assert "mapping is right" in said.out
    case = load_case(path)
    assert case.model.layers == 1 and len(case.requests) == 1

    again = shell("replay", path)
    assert again.status == 1
    assert f"{path}: still fails: mapping and first: differs (bytes)" in again.out
    assert shell("replay", path, "--json").json["violations"] == ["differs"]
    shown = shell("show", path)
    assert "found       mapping and their_senders:First: differs" in shown.out
    assert "now         still fails: mapping and first: differs" in shown.out


def test_a_witness_of_a_difference_is_fixed_once_the_two_plan_alike(shell: Shell, senders: Path) -> None:
    names = ("--subjects", "mapping,their_senders:First")
    (path,) = shell(*RANDOM, "--examples", 400, *names, "--json", "--out", senders).json["witnesses"]
    said = shell("replay", path, "--subjects", "mapping,their_senders:Copy")
    assert said.status == 0
    assert "fixed: it passes" in said.out
    assert "mapping and copy: identical" in said.out


def test_shrinking_keeps_to_the_way_in_which_they_differ(senders: Path) -> None:
    trial = Trial(Judged(("mapping", "their_senders:Silent")))
    failure = trial(next(iter(small_scope("mla")))).failure
    assert failure is not None and failure.kinds == ("missing",)  # whoever is wrong alone comes first
    differing = Trial(Judged(("mapping", "their_senders:First")))
    found = [judged.failure for judged in map(differing, islice(small_scope("mla"), 400)) if judged.failure is not None]
    assert {each.forms for each in found} == {("bytes",)}
    assert found[0].same_as(found[1])
    assert not found[0].same_as(replace(found[0], forms=("pairs",)))
    assert not found[0].same_as(replace(found[0], other="native"))


def test_a_subject_that_makes_no_plan_is_not_compared(shell: Shell, senders: Path) -> None:
    said = shell(*RANDOM, "--subjects", "mapping,their_senders:Raises", "--json", "--out", senders)
    assert said.status == 1
    (kind,) = (kind for kind in said.json["kinds"].values() if kind["violations"])
    assert kind["violation_kinds"] == {"crash": 1}
    assert said.json["subjects"] == {}


def test_a_subject_that_plans_like_the_mapping_shares_its_known_differences(shell: Shell, senders: Path) -> None:
    names = ("--subjects", "their_senders:Copy,native,mapping")
    found = shell(*RANDOM, "--examples", 150, *names, "--json", "--out", senders).json
    assert found["verdict"] == "pass"
    pairs = found["subjects"]
    assert pairs.keys() == {"copy/native", "copy/mapping", "native/mapping"}
    assert pairs["copy/mapping"]["identical"] == 150
    assert pairs["copy/native"] == pairs["native/mapping"]


def test_two_legacy_subjects_differ_in_known_ways_where_both_do_from_the_mapping(shell: Shell, tmp_path: Path) -> None:
    names = ("--subjects", "mapping,native,native:suffix,no-helix")
    found = shell(*RANDOM, "--examples", 150, *names, "--json", "--out", tmp_path).json
    assert found["verdict"] == "pass"
    between = found["subjects"]["native/native:suffix,no-helix"]
    assert between["accepted"] > 0 and between["different"] == 0
    assert "any-context-parallelism" in between["entries"]
    alone = shell(
        *RANDOM, "--examples", 150, "--subjects", "native,native:suffix,no-helix", "--json", "--out", tmp_path
    )
    assert alone.status == 1  # without the mapping nobody says what is known


def test_nothing_is_compared_where_a_fault_is_planted(shell: Shell, tmp_path: Path) -> None:
    arguments = ("--examples", 30, "--fault", "skip-stage", "--kinds", "mla", "--seed", 9, "--json", "--out", tmp_path)
    found = shell(*RANDOM, *arguments).json
    assert found["subjects"] == {}
    assert all(kind["subjects"] == {} for kind in found["kinds"].values())


def test_a_planted_fault_counts_where_the_subject_it_is_in_is_right() -> None:
    """The legacy sender refuses these layouts; that must not hide what is planted into the mapping."""
    case = deployment("llama-3-70b", {"tp": 1, "layout": "NHD"}, {"tp": 2}, prompt=1, tokens_per_block=1)
    failure = Trial(Judged(fault="drop-last-run"))(case, carry=False).failure
    assert failure is not None
    assert (failure.subject, failure.kinds) == ("mapping", ("missing",))


# ---- the ledger's word


def test_an_entry_that_is_no_longer_true_fails_the_run(shell: Shell, senders: Path) -> None:
    names = ("--subjects", "mapping,their_senders:Mended")
    said = shell(*RANDOM, "--examples", 20, *names, "--out", senders)
    assert said.status == 1
    stale = [line for line in said.out.splitlines() if line.startswith("FAIL stale: ")]
    assert len(stale) == sum("native" in entry.second for entry in entries())
    assert "fail: 0 witnesses" in said.out and f"{len(stale)} stale entries of the ledger" in said.out
    found = shell(*RANDOM, "--examples", 20, *names, "--json", "--out", senders).json
    assert found["verdict"] == "fail" and len(found["stale"]) == len(stale) and found["witnesses"] == []


def test_the_helix_gap_is_stale_once_the_legacy_sender_elects_among_paired_ranks() -> None:
    trial = Trial(Judged(("mapping", "native")))
    assert trial.stale_entries() == []
    trial.bases[1] = among_paired_ranks()
    (sentence,) = trial.stale_entries()
    assert "replicated-state-under-helix" in sentence and "it does not differ any more" in sentence


def test_a_date_to_look_again_warns(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(date):
        @classmethod
        def today(cls) -> date:
            return date(2099, 1, 1)

    monkeypatch.setattr("kvwitness.search.date", Later)
    said = shell(*RANDOM, "--examples", 5, "--json", "--out", tmp_path)
    assert said.status == 0
    assert any("uneven-heads was to be looked at again" in note for note in said.json["notes"])


# ---- judged once


def test_a_plan_that_is_a_right_one_but_for_cutting_is_judged_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[object] = []
    usual = runner.judge_any
    monkeypatch.setattr(
        "differential.runner.judge_any", lambda case, plan, **how: judged.append(plan) or usual(case, plan, **how)
    )
    case = deployment("llama-3-70b", {"tp": 2}, {"tp": 4}, prompt=3, tokens_per_block=2)
    result = run_case(case, [Mapping(), make()])
    assert result.alike == {"native": "mapping"}
    assert len(judged) == 1 and all(result.verdicts.values())
    assert result.verdicts["native"].runs == result.plans["native"].run_count
    judged.clear()
    wrong = run_case(case, [find_fault("drop-last-run").wrap(Mapping()), find_fault("drop-last-run").wrap(make())])
    assert len(judged) == 2 and not any(wrong.verdicts.values())


def test_a_plan_is_judged_for_its_election_even_if_a_subject_with_its_own_made_the_same() -> None:
    """Nobody asked the first one whom it elects, so its verdict says nothing of the second one's choice."""
    fault = find_fault("elect-first")

    class Own(Mapping):
        name, election = "own", "own"

        def plan(self, case: Case, facts: object) -> object:
            return fault.wrap(Mapping()).plan(case, facts)

    case = next(c for c in small_scope("mla") if not run_case(c, [fault.wrap(Mapping())]).passed)
    result = run_case(case, [Own(), fault.wrap(Mapping())])
    assert result.alike == {"mapping": "own"}
    assert result.verdicts["own"] and not result.verdicts["mapping"]


@pytest.mark.parametrize("number", range(4))
def test_plans_that_are_told_to_be_alike_are_judged_and_compared_alike(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "CASES", 40)
    cases: list[Case] = []
    bench._draw(bench.DENSE, number, cases.append)
    alike = 0
    for case in cases:
        facts = gather_facts(case)
        plans = Mapping().plan(case, facts), make().plan(case, facts)
        if not are_alike(facts, *plans):
            continue
        alike += 1
        assert compare(case, *plans).identical
        verdicts = [run_case(case, [each]).verdicts[each.name] for each in (Mapping(), make())]
        assert all(verdicts) and verdicts[0].nbytes == verdicts[1].nbytes
    assert alike > 10


def segments(*rows: tuple[int, int, int], base: int = 0, stride: int = 8) -> Writes:
    """One segment between rank 0 and rank 0, of two slots."""
    bases = np.array([base, base + stride])
    return Writes((Pair(0, 0, 0),), (Segment(0, 0, 0, 0, 0, 0, 0, bases, bases, np.array(rows)),))


def tiny() -> Case:
    """One rank a side, slots of 8 bytes: key and value of one head, two tokens of two bytes."""
    return deployment(gqa.declare(1, 1, 2, 8).model, {}, {}, prompt=4, tokens_per_block=2)


def test_plans_are_alike_but_for_order_and_cutting_alone() -> None:
    facts = gather_facts(tiny())
    whole = segments((0, 0, 8))
    assert are_alike(facts, whole, segments((4, 4, 4), (0, 0, 4)))
    assert are_alike(facts, whole, segments((0, 0, 3), (3, 3, 0), (3, 3, 5)))
    assert not are_alike(facts, whole, segments((0, 0, 7)))
    assert not are_alike(facts, whole, segments((0, 0, 8), (0, 0, 8)))
    assert not are_alike(facts, whole, segments((0, 0, 4), (5, 4, 4)))
    assert not are_alike(facts, whole, replace(whole, pairs=()))
    assert not are_alike(facts, whole, replace(whole, pairs=(Pair(0, 0, 0, "sender"),)))
    reversed_slots = replace(
        whole.segments[0],
        **{side: getattr(whole.segments[0], side)[::-1] for side in ("source_bases", "destination_bases")},
    )
    assert are_alike(facts, whole, replace(whole, segments=(reversed_slots,)))
    crossed = replace(whole.segments[0], source_bases=whole.segments[0].source_bases[::-1])
    assert not are_alike(facts, whole, replace(whole, segments=(crossed,)))


def test_a_run_that_crosses_the_end_of_a_slot_is_not_like_two_that_touch_there() -> None:
    """A judge finds the one out of bounds and takes the two for what they are."""
    facts = gather_facts(tiny())
    assert not are_alike(facts, segments((0, 0, 12)), segments((0, 0, 8), (8, 8, 4)))
    assert not are_alike(facts, segments((0, 0, 8), base=4), segments((0, 0, 4), (4, 4, 4), base=4))
    assert not are_alike(facts, segments((-4, 0, 8)), segments((-4, 0, 4), (0, 4, 4)))


# ---- large memory


def uneven(layers: int, dim: int, prompt: int) -> Case:
    """Six heads on four ranks, received on two: known to be written twice by the legacy sender."""
    declared = gqa.declare(layers, 6, dim, 16)
    return deployment(declared.model, {"tp": 4}, {"tp": 2}, prompt=prompt, native=declared.native)


def test_a_difference_in_large_memory_is_told_on_a_small_case_and_known_as_there() -> None:
    case = uneven(40, 128, 16384)
    assert is_large(case) and method_for(case) == "intervals"
    checked = check_case(case, [Mapping(), make()])
    (settled,) = checked.settled
    assert checked.passed and settled.verdict == "accepted"
    assert set(settled.accepted) == {"uneven-heads"}
    assert settled.told_of is not None and not is_large(settled.told_of)
    assert settled.told_of.context.topology == case.context.topology


def test_an_unknown_difference_in_large_memory_is_found() -> None:
    case = deployment("deepseek-v3", {"tp": 2}, {"tp": 4, "dp": True}, prompt=[40000] * 4)
    assert is_large(case)
    (settled,) = check_case(case, [Mapping(), find_fault("elect-first").wrap(make())]).settled
    assert settled.verdict == "different" and settled.open.bytes
    assert {each.right for each in settled.open.bytes} == {"first"}
    assert {each.destination for each in settled.open.bytes} == {1, 3}
    assert check_case(case, [Mapping(), make()]).settled[0].identical


def test_what_cannot_be_told_on_a_small_case_is_told_by_receiver() -> None:
    """The second subject is wrong on long prompts only."""

    class LosesTheEnd:
        name, election = "native", "own"

        def plan(self, case: Case, facts: object) -> object:
            plan = Mapping().plan(case, facts)
            if case.requests[0].prompt < 1000:
                return plan
            return replace(plan, segments=plan.segments[:-1])

    case = deployment("llama-3-70b", {"tp": 2}, {"tp": 2}, prompt=4096)
    (settled,) = check_case(case, [Mapping(), LosesTheEnd()]).settled
    assert settled.verdict == "different" and settled.told_of is None
    (line,) = settled.open.lines()
    assert line.startswith("rank 1, request 0") and line.endswith("which is right was not asked")
    assert "from rank 1 in mapping, from nobody in native" in line


# ---- nothing declared


def test_a_legacy_subject_is_not_asked_where_a_case_declares_nothing_for_it() -> None:
    case = replace(tiny(), native=None)
    both = [find_subject(name) for name in ("mapping", "native")]
    asked, left_out = asked_of(case, both)
    assert asked == both[:1] and left_out == ("native",)
    checked = check_case(case, both)
    assert checked.passed and checked.left_out == ("native",) and checked.settled == ()
    assert asked_of(case, both[1:]) == (both[1:], ())
    assert not check_case(case, both[1:]).passed  # nobody else is there: its refusal is a false one


def test_what_was_not_asked_is_said(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Trial.__call__
    monkeypatch.setattr(Trial, "__call__", lambda self, case, **how: usual(self, replace(case, native=None), **how))
    found = shell(*RANDOM, "--examples", 10, "--kinds", "mla", "--json", "--out", tmp_path).json
    assert found["verdict"] == "pass" and found["subjects"] == {}
    assert "native not run in 10 cases of mla: nothing is declared for it" in found["notes"]


def test_three_plans_are_compared_two_by_two() -> None:
    case = replace(tiny(), context=Instance(Topology(1, (1,)), 2, "NHD"), native=gqa.NATIVE)
    subjects = [make(), Mapping(), make("suffix")]
    settled = compare_plans(run_case(case, subjects), subjects)
    assert [(each.open.first, each.open.second) for each in settled] == [
        ("native", "mapping"),
        ("native", "native:suffix"),
        ("mapping", "native:suffix"),
    ]
    assert [each.verdict for each in settled] == ["accepted", "identical", "accepted"]
