"""Deployments of tens of GiB: judged whole, and one run that is wrong among millions is found and placed."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Segment, Writes
from oracle.truth.decide import judge_any, method_for
from oracle.truth.intervals import judge_intervals
from oracle.truth.verdict import Kind, Outcome, Verdict
from strategies.deployments import deployment
from tests.interval_cases import planned
from tests.small_cases import case_of

PROMPT = 131_072
GIB = 1 << 30


@cache
def llama(layout: str, prompt: int = PROMPT, tokens_per_block: int = 32) -> tuple[Case, Writes]:
    """Llama-3 70B from TP 4 to TP 8, and the mapping's plan."""
    sides = {"tp": 4}, {"tp": 8}
    case = deployment("llama-3-70b", *sides, prompt=prompt, layout=layout, tokens_per_block=tokens_per_block)
    plan = planned(case)
    assert isinstance(plan, Writes)
    return case, plan


def only(segment: Segment, slots: list[int] | np.ndarray) -> Segment:
    """The segment with some of its slots."""
    bases = segment.source_bases[slots], segment.destination_bases[slots]
    return replace(segment, source_bases=bases[0], destination_bases=bases[1])


def with_one_run(plan: Writes, segment: int, slot: int, run: int, row: list[int]) -> Writes:
    """The plan with one run of one slot replaced."""
    old = plan.segments[segment]
    rest = np.delete(np.arange(len(old.source_bases)), slot)
    runs = old.runs.copy()
    runs[run] = row
    parts = [only(old, rest), replace(only(old, [slot]), runs=runs)]
    return replace(plan, segments=(*plan.segments[:segment], *parts, *plan.segments[segment + 1 :]))


@pytest.mark.parametrize(("layout", "runs"), [("HND", 5_242_880), ("NHD", 167_772_160)])
def test_forty_gib_are_judged_in_a_gib(layout: str, runs: int) -> None:
    tracemalloc.start()
    try:
        case, plan = llama.__wrapped__(layout)
        verdict = judge_any(case, plan)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert verdict.outcome is Outcome.PASS
    assert (verdict.runs, verdict.nbytes) == (runs, 40 * GIB)
    assert peak < GIB // 4


@pytest.mark.parametrize(("layout", "nbytes"), [("HND", 8192), ("NHD", 256)])
@pytest.mark.parametrize(
    ("change", "kind", "single"),
    [
        ((1, 0, 0), Kind.WRONG_ELEMENT, False),
        ((0, 0, -1), Kind.MISSING, True),
        ((1, 1, -1), Kind.MISSING, True),
    ],
    ids=["read one byte on", "cut by a byte", "without its first byte"],
)
def test_one_wrong_run_is_found_and_placed(
    layout: str, nbytes: int, change: tuple[int, int, int], kind: Kind, single: bool
) -> None:
    # Rank 5 holds head 5, the second one of sender 2. A run is one row of a head (NHD), or all 32 (HND).
    case, plan = llama(layout)
    number, slot = 5, 1234
    runs = plan.segments[number].runs
    run = 77 * len(runs) // 160
    verdict = judge_any(case, with_one_run(plan, number, slot, run, (runs[run] + change).tolist()))
    assert verdict.counts == {kind: 1 if single else nbytes}
    (violation,) = verdict.violations
    assert (violation.request, violation.destination, violation.ordinal) == (0, 5, slot)
    assert (violation.due.role, violation.due.layer) == ("value", 38)
    assert dict(violation.due.indices)["H"] == 5
    assert (violation.source, violation.elected) == (None if kind is Kind.MISSING else 2, 2)
    assert violation.place.slot == int(plan.segments[number].destination_bases[slot]) // (1280 * 1024)


@pytest.mark.parametrize("layout", ["HND", "NHD"])
def test_a_run_that_is_longer_by_a_byte_spoils_the_first_byte_of_the_next(layout: str) -> None:
    # It comes first and is judged; the right byte comes second.
    case, plan = llama(layout)
    runs = plan.segments[5].runs
    row = (runs[20] + [0, 0, 1]).tolist()
    verdict = judge_any(case, with_one_run(plan, 5, 4095, 20, row))
    assert verdict.counts == {Kind.DUPLICATE: 1, Kind.WRONG_ELEMENT: 1}
    assert {violation.place.offset for violation in verdict.violations} == {int(runs[21, 1])}


def test_a_row_that_is_wrong_in_all_slots_is_counted_in_all_and_told_in_the_first() -> None:
    case, plan = llama("NHD")
    segment = plan.segments[3]
    runs = segment.runs.copy()
    runs[100, 0] += 2
    spoilt = replace(plan, segments=(*plan.segments[:3], replace(segment, runs=runs), *plan.segments[4:]))
    verdict = judge_intervals(case, spoilt)
    assert verdict.counts == {Kind.WRONG_ELEMENT: 4096 * 256}
    assert [violation.ordinal for violation in verdict.violations] == list(range(200))
    assert {violation.destination for violation in verdict.violations} == {3}


@pytest.mark.parametrize("first", [2, 6])
def test_what_is_told_is_what_comes_first_in_the_plan(first: int) -> None:
    case, plan = llama("HND")
    spoilt = []
    for number in (first, 8 - first):
        runs = plan.segments[number].runs.copy()
        runs[3, 0] += 2
        spoilt.append(replace(plan.segments[number], runs=runs))
    rest = [segment for number, segment in enumerate(plan.segments) if number not in (2, 6)]
    verdict = judge_intervals(case, replace(plan, segments=(*spoilt, *rest)))
    assert verdict.counts == {Kind.WRONG_ELEMENT: 2 * 4096 * 8192}
    assert {violation.destination for violation in verdict.violations} == {first}


def test_two_slots_that_change_places_are_wrong_from_end_to_end() -> None:
    case, plan = llama("NHD")
    segment = plan.segments[0]
    bases = segment.source_bases.copy()
    bases[[7, 4000]] = bases[[4000, 7]]
    spoilt = replace(plan, segments=(replace(segment, source_bases=bases), *plan.segments[1:]))
    verdict = judge_intervals(case, spoilt)
    assert verdict.counts == {Kind.WRONG_ELEMENT: 2 * 1280 * 1024}
    assert (verdict.violations[0].due.ordinal, verdict.violations[0].found.ordinal) == (7, 4000)


def test_rows_past_the_prompt_of_the_last_block_need_not_arrive() -> None:
    # The last of 4,096 blocks has 31 tokens; its last row is optional: one row of 256 B of 160 buffers on 8 ranks.
    case, plan = llama("NHD", PROMPT - 1)
    short = []
    for segment in plan.segments:
        last = len(segment.source_bases) - 1
        whole = segment.runs[(segment.runs[:, 1] // 256) % 32 < 31]
        short += [only(segment, np.arange(last)), replace(only(segment, [last]), runs=whole)]
    plan = replace(plan, segments=tuple(short))
    assert judge_intervals(case, plan).outcome is Outcome.PASS
    assert judge_intervals(case, plan, padding="due").counts == {Kind.MISSING: 256 * 160 * 8}


@pytest.mark.parametrize("layout", ["HND", "NHD"])
def test_both_judges_agree_on_all_layers_of_one_block(layout: str) -> None:
    case, plan = llama(layout, 7, 8)
    spoilt = with_one_run(plan, 2, 0, 11, (plan.segments[2].runs[11] + [0, 1, 0]).tolist())
    for each in (plan, spoilt):
        closed, enumerated = (judge_any(case, each, method=method) for method in ("intervals", "elements"))
        assert closed == enumerated


# ---- which judge


def test_small_memory_is_enumerated_and_large_memory_is_not() -> None:
    small = case_of("key @ 0 : T D(2) ; 8")
    assert method_for(small) == "elements"
    assert judge_any(small, planned(small)) == judge_any(small, planned(small), method="intervals")
    assert method_for(llama("HND")[0]) == "intervals"


def test_unknown_options_are_named() -> None:
    case = case_of("key @ 0 : T D(2) ; 8")
    with pytest.raises(InvalidCase, match="method = 'both' is not possible: expected auto, elements or intervals"):
        judge_any(case, Writes(), method="both")  # type: ignore[arg-type]
    with pytest.raises(InvalidCase, match="padding = 'maybe' is not possible: expected optional or due"):
        judge_intervals(case, Writes(), padding="maybe")  # type: ignore[arg-type]
    with pytest.raises(InvalidCase, match="election = 'none' is not possible: expected paired or own"):
        judge_intervals(case, Writes(), election="none")  # type: ignore[arg-type]


def test_an_empty_plan_lacks_every_due_byte() -> None:
    case, plan = llama("HND")
    verdict: Verdict = judge_intervals(case, Writes(plan.pairs))
    assert verdict.counts == {Kind.MISSING: 40 * GIB}
    assert len(verdict.violations) == 200
