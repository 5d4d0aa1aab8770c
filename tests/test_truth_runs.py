"""Few runs are placed one by one, many by array arithmetic: both say the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from differential.managers.tables import gather_facts
from differential.subjects.registry import find_subject
from oracle.model.case import Case
from oracle.model.writes import Segment, Writes
from oracle.truth import runs
from oracle.truth.elements import truth_of
from oracle.truth.runs import Runs, place_runs
from strategies.cases import decode
from strategies.numbers import WIDTH

CASES = 150


def told(found: Runs) -> tuple[object, ...]:
    columns = found.source, found.destination, found.nbytes, found.segment
    return (*[column.tolist() for column in columns], found.outside, found.nowhere)


def placed(case: Case, plan: Writes, few: int, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(runs, "FEW", few)
        return told(place_runs(truth_of(case), plan))


def plans(random: Random) -> list[tuple[Case, Writes]]:
    found = []
    for _ in range(CASES):
        case = decode(bytes(random.randrange(256) for _ in range(WIDTH)))
        plan = find_subject("mapping").plan(case, gather_facts(case))
        if isinstance(plan, Writes) and plan.segments:
            found.append((case, plan))
    return found


def moved(segment: Segment, random: Random) -> Segment:
    """The segment with its runs longer or shorter, or its slots elsewhere: some of them leave their slots."""
    by = random.choice((-100_800, -1, 1, 2, 40, 100_800))
    what = random.choice(("source_bases", "destination_bases", "runs"))
    if what == "runs":
        return replace(segment, runs=segment.runs + np.array([0, 0, by]))
    return replace(segment, **{what: getattr(segment, what) + by})


def test_few_runs_are_placed_as_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for case, plan in plans(Random(1)):
        assert placed(case, plan, 1 << 30, monkeypatch) == placed(case, plan, 0, monkeypatch)


def test_few_runs_that_leave_their_slots_are_clipped_as_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(2)
    clipped = 0
    for case, plan in plans(random):
        segments = list(plan.segments)
        chosen = random.randrange(len(segments))
        segments[chosen] = moved(segments[chosen], random)
        wrong = replace(plan, segments=tuple(segments))
        one, other = (placed(case, wrong, few, monkeypatch) for few in (1 << 30, 0))
        assert one == other
        clipped += bool(one[-2])
    assert clipped > CASES // 10
