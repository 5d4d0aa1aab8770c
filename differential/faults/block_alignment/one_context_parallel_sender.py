"""A receiver that shares its blocks with several context-parallel senders reads one of them only.

Latent attention was taken to be alike on all ranks of a sender; context parallelism deals its blocks out.
"""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size, on_plan
from differential.faults.steps import TABLES
from differential.runner import Kind
from oracle.model.case import Case
from oracle.model.writes import Writes


def read_one_sender(case: Case, plan: Writes) -> Writes:
    """``plan`` with what comes from the first context-parallel coordinate among a receiver's senders."""
    topology = case.context.topology
    first: dict[tuple[int, int], int] = {}
    for pair in plan.pairs:
        key = pair.request, pair.destination
        place = topology.rank(pair.source).cp
        first[key] = min(first.get(key, place), place)
    kept = [
        segment
        for segment in plan.segments
        if topology.rank(segment.source_rank).cp == first[segment.request, segment.destination_rank]
        or not case.model.groups[segment.group].is_paged
    ]
    return replace(plan, segments=tuple(kept))


FAULT = Fault(
    name="one-context-parallel-sender",
    description="a receiver reads one of its context-parallel senders",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=3, layers=1, blocks=2),
    plant=on_plan(read_one_sender),
    applies=lambda case: case.context.topology.cp > 1,
    report="B48 · vllm-project/vllm#50611",
    base=TABLES,
)
