"""Where there are more ranks than heads, a rank's head is its number modulo the heads, not its place in line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from differential.faults.fault import Fault, Size, on_plan
from differential.runner import Kind
from oracle.model.axes import Split
from oracle.model.buffers import LayerGroup
from oracle.model.case import Case
from oracle.model.writes import Segment, Writes


def heads_of(group: LayerGroup) -> int:
    """The heads of the group's first buffer that splits heads over the tensor grid, 0 if none does."""
    for buffer in group.buffers:
        for part in buffer.parts:
            for axis in part.axes:
                if axis.split is Split.HEADS:
                    return axis.size
    return 0


def pick_heads_modulo(case: Case, plan: Writes) -> Writes:
    """``plan`` with each receiver reading the head number (rank mod n) of the n heads that its sender serves."""
    topology = case.generation.topology
    heads = [heads_of(group) for group in case.model.groups]
    families: dict[tuple[int, ...], dict[int, Segment]] = {}
    for segment in plan.segments:
        rank = topology.rank(segment.destination_rank)
        families.setdefault(_family(segment, rank.pp, rank.cp), {})[rank.tp] = segment
    segments: list[Segment] = []
    for segment in plan.segments:
        count = heads[segment.group]
        rank = topology.rank(segment.destination_rank)
        twin = None
        if 0 < count < topology.tp:
            twin = _misled(families[_family(segment, rank.pp, rank.cp)], rank.tp, count, topology.tp)
        if twin is not None and np.array_equal(twin.source_bases, segment.source_bases):
            segment = replace(segment, runs=twin.runs)
        segments.append(segment)
    return replace(plan, segments=tuple(segments))


def _family(segment: Segment, pp: int, cp: int) -> tuple[int, ...]:
    """What the segments of receivers that differ in their tensor coordinate alone have in common."""
    return (
        segment.request,
        segment.chunk,
        segment.group,
        segment.source_rank,
        segment.source_pool,
        segment.destination_pool,
        pp,
        cp,
    )


def _misled(family: dict[int, Segment], rank: int, heads: int, ranks: int) -> Segment | None:
    """The segment of the first receiver with the head that ``rank`` is wrongly given."""
    served = sorted({each * heads // ranks for each in family})
    wrong = served[rank % len(served)]
    return next((family[each] for each in sorted(family) if each * heads // ranks == wrong), None)


def has_more_ranks_than_heads(case: Case) -> bool:
    topology = case.generation.topology
    return not topology.attention_dp and any(0 < heads_of(group) < topology.tp for group in case.model.groups)


FAULT = Fault(
    name="heads-modulo",
    description="head = rank mod heads",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=4, layers=1, blocks=1),
    plant=on_plan(pick_heads_modulo),
    applies=has_more_ranks_than_heads,
    report="B21 · sgl-project/sglang#23746",
)
