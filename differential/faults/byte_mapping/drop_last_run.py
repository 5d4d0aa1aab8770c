"""The loop over the runs of a plan ends one early."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size, on_plan
from differential.runner import Kind
from oracle.model.case import Case
from oracle.model.writes import Segment, Writes


def drop_last_run(case: Case, plan: Writes) -> Writes:
    """``plan`` without the last run of the last slot of its last segment."""
    segments = list(plan.segments)
    while segments:
        last = segments.pop()
        if last.run_count:
            segments += [part for part in _without_last(last) if part.run_count]
            break
    return replace(plan, segments=tuple(segments))


def _without_last(segment: Segment) -> tuple[Segment, Segment]:
    """All slots but the last one with all runs, and the last slot with all runs but the last one."""
    source, destination = segment.source_bases, segment.destination_bases
    return (
        replace(segment, source_bases=source[:-1], destination_bases=destination[:-1]),
        replace(segment, source_bases=source[-1:], destination_bases=destination[-1:], runs=segment.runs[:-1]),
    )


FAULT = Fault(
    name="drop-last-run",
    description="the last run of a plan is not sent",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_plan(drop_last_run),
)
