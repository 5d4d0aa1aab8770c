"""The end of a run is taken as its last byte, so that every run is one byte too long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from differential.faults.fault import Fault, Size, on_plan
from differential.runner import Kind
from oracle.model.case import Case
from oracle.model.writes import Writes

ONE_LONGER = np.array([0, 0, 1], dtype=np.int64)


def lengthen_runs(case: Case, plan: Writes) -> Writes:
    """``plan`` with one more byte at the end of each run."""
    return replace(plan, segments=tuple(replace(each, runs=each.runs + ONE_LONGER) for each in plan.segments))


FAULT = Fault(
    name="run-end-off-by-one",
    description="every run is one byte too long",
    kinds=frozenset({Kind.OUT_OF_BOUNDS, Kind.STRAY, Kind.DUPLICATE}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_plan(lengthen_runs),
)
