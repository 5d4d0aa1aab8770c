"""A stage of an uneven pipeline cut is forgotten."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size, on_plan
from differential.runner import Kind
from oracle.model.case import SIDES, Case
from oracle.model.topology import Topology
from oracle.model.writes import Writes


def is_uneven(topology: Topology) -> bool:
    """Whether stages that hold layers hold different numbers of them."""
    return len({layers for layers in topology.stages if layers}) > 1


def forget_stage(case: Case, plan: Writes) -> Writes:
    """``plan`` without the pairs and segments of the last stage that holds layers, of the first uneven side."""
    side = next(side for side in SIDES if is_uneven(case.side(side).topology))
    topology = case.side(side).topology
    last = max(stage for stage, layers in enumerate(topology.stages) if layers)
    gone = {rank.number for rank in topology.ranks() if rank.pp == last}
    if side == "context":
        return replace(
            plan,
            pairs=tuple(pair for pair in plan.pairs if pair.source not in gone),
            segments=tuple(each for each in plan.segments if each.source_rank not in gone),
        )
    return replace(
        plan,
        pairs=tuple(pair for pair in plan.pairs if pair.destination not in gone),
        segments=tuple(each for each in plan.segments if each.destination_rank not in gone),
    )


FAULT = Fault(
    name="skip-stage",
    description="the last stage of an uneven pipeline cut is skipped",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=3, layers=3, blocks=1),
    plant=on_plan(forget_stage),
    applies=lambda case: is_uneven(case.context.topology) or is_uneven(case.generation.topology),
    report="B52 · vllm-project/vllm-ascend#4892",
)
