"""One plan told in different segments is judged the same, however much of it can be kept factored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from oracle.model.case import Case
from oracle.model.writes import Segment, Writes
from oracle.truth.intervals import judge_intervals, visits
from oracle.truth.judge import judge
from oracle.truth.stacks import flatten
from oracle.truth.verdict import Outcome
from tests.interval_cases import planned
from tests.run_mutants import mutant
from tests.small_cases import small_cases
from tests.test_intervals_agree import MODES, agreed
from tests.test_intervals_production import llama


def by_slot(segment: Segment) -> list[Segment]:
    """A segment for each slot, each with runs of its own."""
    return [
        replace(
            segment,
            source_bases=segment.source_bases[i : i + 1],
            destination_bases=segment.destination_bases[i : i + 1],
            runs=segment.runs.copy(),
        )
        for i in range(len(segment.source_bases))
    ]


def by_run(segment: Segment) -> list[Segment]:
    return [replace(segment, runs=segment.runs[i : i + 1]) for i in range(len(segment.runs))]


def from_the_pool(segment: Segment) -> list[Segment]:
    """One segment whose runs count from the start of the pool."""
    runs = np.repeat(segment.runs[None], len(segment.source_bases), axis=0)
    runs[:, :, 0] += segment.source_bases[:, None]
    runs[:, :, 1] += segment.destination_bases[:, None]
    start = np.zeros(1, dtype=np.int64)
    return [replace(segment, source_bases=start, destination_bases=start, runs=runs.reshape(-1, 3))]


def from_the_next_byte(segment: Segment) -> list[Segment]:
    """Bases that are no slot's start, runs that begin before them."""
    return [
        replace(
            segment,
            source_bases=segment.source_bases + 1,
            destination_bases=segment.destination_bases + 1,
            runs=segment.runs - [1, 1, 0],
        )
    ]


def with_empty_runs(segment: Segment) -> list[Segment]:
    """Runs of no bytes, that write nothing wherever they are."""
    nothing = np.array([[0, 0, 0], [1 << 40, -5, 0], [3, 2, 0]])
    return [replace(segment, runs=np.concatenate((nothing[:2], segment.runs, nothing[2:])))]


SHAPES = (by_slot, by_run, from_the_pool, from_the_next_byte, with_empty_runs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("at_once", [1, 3, 1 << 19])
def test_the_same_runs_in_other_segments(
    shape: Callable[[Segment], list[Segment]], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "ROWS", at_once)
    monkeypatch.setattr(visits, "STRETCHES", min(at_once, 64))

    @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(small_cases(), st.randoms(use_true_random=False))
    def told_otherwise(case: Case, random: Random) -> None:
        plan = planned(case)
        assume(isinstance(plan, Writes) and plan.run_count)
        ways = ("lengthen", "shift_destination", "leave_bounds", "cut_short")
        spoilt = mutant(random.choice(ways), case, plan, random)
        for each in (plan, spoilt):
            told = replace(each, segments=tuple(part for segment in each.segments for part in shape(segment)))
            padding, election = random.choice(MODES)
            verdict = agreed(case, told, padding, election)
            assert verdict.counts == judge(case, each, padding=padding, election=election).counts

    told_otherwise()


@pytest.mark.parametrize("shape", SHAPES)
def test_production_plans_in_other_segments_pass(shape: Callable[[Segment], list[Segment]]) -> None:
    case, plan = llama("HND", 4096)
    told = replace(plan, segments=tuple(part for segment in plan.segments for part in shape(segment)))
    verdict = judge_intervals(case, told)
    assert (verdict.outcome, verdict.nbytes) == (Outcome.PASS, plan.nbytes)


def test_runs_that_leave_their_slot_do_not_undo_the_factoring_of_the_others() -> None:
    case, plan = llama("NHD", 65_536)
    segment = plan.segments[0]
    runs = segment.runs.copy()
    runs[-1, 2] += 1
    sides = flatten(case, "context"), flatten(case, "generation")
    spoilt = visits.plan_of(replace(plan, segments=(replace(segment, runs=runs),)), *sides)
    found = spoilt.visits(segment.destination_rank, segment.destination_pool)
    # 5,119 runs that stay inside, once for all 2,048 slots, and the last one once more.
    assert len(found.slot) == 2 * 2048
    assert sorted(len(each.nbytes) for each in spoilt.runs) == [1, 5119]
    assert spoilt.outside == [(0, 2048, int(segment.destination_bases[0] + runs[-1, 1]))]
    assert spoilt.nbytes == segment.nbytes


def test_the_first_clipped_run_is_told_whichever_way_it_is_taken() -> None:
    # Base 0 is no slot's start and its run passes the end of slot 3; bases 1 and 2 are, and the last run passes theirs.
    case, plan = llama("HND", 4096)
    segment = plan.segments[0]
    size = 1280 * 1024
    runs = segment.runs.copy()
    runs[-1, 2] += 1
    bases = np.array([3 * size + 5, 7 * size, 9 * size])
    odd = replace(segment, source_bases=segment.source_bases[:3], destination_bases=bases, runs=runs)
    sides = flatten(case, "context"), flatten(case, "generation")
    for order in ([0, 1, 2], [1, 0, 2]):
        told = replace(odd, source_bases=odd.source_bases[order], destination_bases=bases[order])
        found = visits.plan_of(replace(plan, segments=(told,)), *sides)
        found.visits(segment.destination_rank, segment.destination_pool)
        assert found.outside == [(0, 6 + 1 + 1, int(bases[order[0]] + runs[-1, 1]))]
