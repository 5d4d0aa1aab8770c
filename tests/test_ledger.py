"""The ledger: each known difference is shown by its witness, means what it says, and hides nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count as count_from
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential import faults, ledger
from differential.compare import PairDifference, RefusalDifference, compare
from differential.ledger import Bytes, Refuses, check_case, covers_verdict, entries, find_entry, settle
from differential.ledger.entry import WITNESSES
from differential.ledger.legacy.sides import chunk_count
from differential.managers.chunks import chunks_of
from differential.managers.tables import gather_facts
from differential.runner import Kind, Outcome, Verdict, Violation, run_case
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from differential.subjects.registry import find_subject
from oracle.model.case import Case, Request, SideState
from oracle.model.codec import decode
from oracle.model.topology import Topology
from strategies.cases import cases
from strategies.cases import decode as decode_numbers
from strategies.kinds import find_kind
from strategies.kinds.protocol import Kind as CacheKind
from strategies.numbers import WIDTH
from tests.golden import case_of, scenarios
from tests.ledger_cases import (
    VARIANTS,
    compared,
    state_case,
    subjects,
)

NAMES = [entry.name for entry in entries()]
GAP = "replicated-state-under-helix"


def random_cases(count: int, seed: int, kinds: Sequence[CacheKind] | None = None) -> list[Case]:
    """Drawn cases that the legacy sender has rules for, without a search for failures: the same ones on every run."""
    random = Random(seed)
    drawn = (decode_numbers(random.randbytes(WIDTH), kinds=kinds) for _ in count_from(0))
    return list(islice((case for case in drawn if case.native is not None), count))


# ---- entries and their witnesses


def test_every_witness_differs_as_it_states_and_in_nothing_else() -> None:
    assert ledger.check_witnesses(subjects(*VARIANTS)) == []


def test_every_entry_has_a_witness_and_every_witness_an_entry() -> None:
    assert sorted(path.stem for path in WITNESSES.glob("*.json")) == NAMES == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_witness_is_small_and_says_where_its_difference_is_described(name: str) -> None:
    entry = find_entry(name)
    case, stated = ledger.read_witness(entry)
    assert max(faults.size_of(case)) <= 6 and stated
    assert "spec: " in entry.reference and entry.component and entry.summary
    assert repr(entry) == f"the known difference {name}: {entry.summary}"


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_covers_its_witness_and_no_other_entry_does(name: str) -> None:
    entry = find_entry(name)
    case, _ = ledger.read_witness(entry)
    for second in entry.second:
        assert list(settle(case, compared(case, second)).accepted) == [name]
        assert not settle(case, compared(case, second), known=[e for e in entries() if e is not entry]).open.identical


@pytest.mark.parametrize("name", NAMES)
def test_the_failure_of_a_witness_is_covered_and_not_by_an_empty_ledger(name: str) -> None:
    entry = find_entry(name)
    case, _ = ledger.read_witness(entry)
    for second in entry.second:
        subject = find_subject(second)
        verdict = run_case(case, [subject]).verdicts[second]
        settled = settle(case, compared(case, second))
        assert covers_verdict(case, second, verdict, [settled])
        if verdict.outcome is Outcome.FAIL:
            assert not covers_verdict(case, second, verdict, [])
            assert not covers_verdict(case, second, verdict, [settle(case, compared(case, second), known=())])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_covered_where_the_subjects_are_called_something_else(name: str) -> None:
    case, _ = ledger.read_witness(find_entry(name))
    other = replace(compared(case, find_entry(name).second[0]), second="another")
    assert not settle(case, other).accepted


@pytest.mark.parametrize("name", NAMES)
def test_subjects_may_be_compared_in_either_order(name: str) -> None:
    entry = find_entry(name)
    case, _ = ledger.read_witness(entry)
    there = settle(case, compared(case, entry.second[0]))
    back = settle(case, compared(case, first=entry.second[0], second="mapping"))
    assert list(back.accepted) == list(there.accepted) == [name] and back.open.identical
    assert back.open.first == entry.second[0] and back.verdict == there.verdict == "accepted"


# ---- narrowness


BYTES = [entry.name for entry in entries() if isinstance(entry.form, Bytes) and entry.name != "empty-stage-is-paired"]
REFUSALS = [entry.name for entry in entries() if isinstance(entry.form, Refuses)]


@pytest.mark.parametrize("name", BYTES)
def test_a_byte_entry_covers_none_of_the_neighbours_of_its_difference(name: str) -> None:
    entry = find_entry(name)
    case, _ = ledger.read_witness(entry)
    for difference in compared(case, entry.second[0]).bytes:
        assert entry.covers(case, difference)
        for change in (
            {"right": "second"},
            {"right": "neither"},
            {"role": "another"},
            {"role": None},
            {"group": None},
            {"second_senders": (5,)},
            {"first_senders": ()},
            {"first_senders": (0, 1)},
        ):
            neighbour = replace(difference, **change)
            assert neighbour == difference or not entry.covers(case, neighbour), change


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_entry_covers_its_code_on_its_side_and_in_its_cases_only(name: str) -> None:
    entry = find_entry(name)
    case, _ = ledger.read_witness(entry)
    assert isinstance(entry.form, Refuses)
    (difference,) = compared(case, entry.second[0]).refusals
    turned = {"first": "second", "second": "first"}[difference.refused_by]
    assert entry.covers(case, difference)
    assert not entry.covers(case, replace(difference, code="another"))
    assert not entry.covers(case, replace(difference, refused_by=turned))
    assert not entry.covers(case, replace(difference, request=0 if difference.request is None else None))
    plain = decode(
        '{"schema": 1, "model": {"layers": 1, "groups": [{"name": "kv", "buffers": ["key @ 0 : T D(1) ; 8"]}]}, '
        '"context": {"tp": 1, "stages": [1], "tokens_per_block": 1}, "native": {"mappers": {"all": "indexed"}}, '
        '"generation": {"tp": 1, "stages": [1], "tokens_per_block": 1}, "requests": [{"content": 0, "prompt": 2}]}'
    )
    for code in entry.form.codes:
        for request in (None, 0):
            assert not entry.covers(plain, RefusalDifference(entry.form.by, code, "", request))


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_fault_is_never_taken_for_a_known_difference(seed: int) -> None:
    """Where both sides serve, what a fault changes stays open; only bytes the other side leaves out tell nothing."""
    changed = 0
    for case in random_cases(45, 100 + seed):
        facts = gather_facts(case)
        plans = {name: find_subject(name).plan(case, facts) for name in ("mapping", "native")}
        good = settle(case, compare(case, *plans.values(), names=("mapping", "native")))
        if any(isinstance(each, RefusalDifference) for found in good.accepted.values() for each in found):
            continue
        for name in faults.names():
            fault = faults.find_fault(name)
            for base in plans if fault.applies(case) else ():
                spoiled = fault.wrap(find_subject(base)).plan(case, facts)
                spoils = compare(case, plans[base], spoiled)
                if spoils.identical or spoils.refusals:
                    continue
                pair = {**plans, base: spoiled}
                settled = settle(case, compare(case, *pair.values(), names=("mapping", "native")))
                left_out = "other-roles-in-a-view" in good.accepted and base == "mapping"
                # A fault may undo a known difference: then there is none.
                assert left_out or settled.verdict in ("different", "identical"), (name, base, case)
                changed += 1
    assert changed > 20


# ---- what settles


@given(cases())
def test_mapping_and_every_generation_of_native_differ_in_known_ways_only(case: Case) -> None:
    checked = [check_case(case, subjects(variant)) for variant in VARIANTS]
    for each in checked:
        assert each.passed, (each.settled[0].open.lines(), [str(v[2].violations[:1]) for v in each.uncovered()])


@pytest.mark.parametrize("seed", range(3))
def test_drawn_cases_reach_the_common_entries(seed: int) -> None:
    accepted: set[str] = set()
    for case in random_cases(300, seed, (find_kind("gqa"), find_kind("mla"))):
        settled = settle(case, compared(case))
        assert settled.open.identical, settled.open.lines()
        accepted.update(settled.accepted)
    assert {"head-major-and-token-major", "helix-with-reuse", "other-roles-in-a-view", "uneven-heads"} <= accepted


RECORDED = [case_of(scenario) for scenario in scenarios()]
UNTRIMMED = "g207"
"""Lists that no manager would hand over: mapping and native alike send blocks that the window has left."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_scenarios_differ_in_known_ways_only(variant: str) -> None:
    used: set[str] = set()
    for case in RECORDED:
        checked = check_case(case, subjects(variant))
        (settled,) = checked.settled
        used.update(settled.accepted)
        if case.notes.startswith(UNTRIMMED):
            assert settled.identical and len(checked.uncovered()) == 2
        else:
            assert checked.passed, (case.notes, settled.open.lines())
    expected = {
        "native": {"lost-block-is-not-noticed", "chunks-with-state", "stage-without-attention", GAP},
        "native:suffix": {"window-start-without-trim", "context-parallel-sender-of-suffixes", GAP},
        "native:suffix,no-helix": {"window-start-without-trim", "any-context-parallelism"},
    }
    assert expected[variant] | {"tensor-sizes-that-do-not-divide"} <= used


def test_a_failure_that_the_comparison_does_not_show_is_not_covered() -> None:
    case, _ = ledger.read_witness(find_entry("uneven-heads"))
    settled = [settle(case, compared(case))]
    verdict = run_case(case, [make()]).verdicts["native"]
    stray = Violation(Kind.STRAY, 1, 0, 0, 0, 0, 0, "key", 0)
    worse = replace(verdict, violations=(*verdict.violations, stray))
    assert covers_verdict(case, "native", verdict, settled)
    assert not covers_verdict(case, "native", worse, settled)
    assert ledger.unexplained(case, "native", worse, settled[0]) == (stray,)
    assert not covers_verdict(case, "mapping", replace(verdict, violations=(stray,)), settled)
    assert not covers_verdict(case, "native:suffix", verdict, settled)


def test_a_subject_that_raised_is_not_covered_and_a_pass_needs_no_cover() -> None:
    case, _ = ledger.read_witness(find_entry("uneven-heads"))
    settled = [settle(case, compared(case))]
    assert not covers_verdict(case, "native", Verdict(Outcome.FAIL, reason="crash: KeyError"), settled)
    assert not covers_verdict(case, "native", Verdict(Outcome.NOT_RUN, reason="no engine"), settled)
    assert covers_verdict(case, "native", Verdict(Outcome.PASS), [])


def test_an_open_difference_takes_the_cover_from_every_failure_of_the_case() -> None:
    case, _ = ledger.read_witness(find_entry("uneven-heads"))
    comparison = compared(case)
    more = PairDifference(0, 0, 0, "both", "no")
    settled = settle(case, replace(comparison, pairs=(more,)))
    assert settled.verdict == "different" and settled.open.pairs == (more,)
    assert not covers_verdict(case, "native", run_case(case, [make()]).verdicts["native"], [settled])


def test_a_checked_case_tells_what_is_open_and_what_is_uncovered() -> None:
    case, _ = ledger.read_witness(find_entry("uneven-heads"))
    fault = faults.find_fault("drop-last-run")
    checked = check_case(case, [Mapping(), fault.wrap(make())])
    assert not checked.passed and checked.open and checked.uncovered()[0][:2] == ("native", "plan")
    crashing = check_case(case, [Mapping(), Raises()])
    assert not crashing.settled and [row[:2] for row in crashing.uncovered()] == [("raises", "plan")]
    assert check_case(case, subjects("native")).passed


class Raises:
    name, election = "raises", "own"

    def plan(self, case: Case, facts: object) -> None:
        raise RuntimeError("no plan")


# ---- what the entries say of the legacy sender

CUTS = st.lists(st.integers(1, 19), max_size=4, unique=True).map(sorted)


@given(st.integers(1, 5), st.integers(0, 19), CUTS)
def test_slices_are_counted_as_a_manager_cuts_them(size: int, reused: int, cuts: list[int]) -> None:
    case = state_case(Topology(1, (2,)), Topology(1, (2,)), prompt=20)
    request = Request(0, 20, cuts=tuple(cuts), context=SideState(min(reused, 19)))
    case = replace(case, context=replace(case.context, tokens_per_block=size), requests=(request,))
    assert chunk_count(case, request) == len(chunks_of(request, size))
