"""What cases of hybrids with recurrent state look like, for the tests of their kinds."""

from __future__ import annotations

from collections.abc import Callable

from differential.managers.tables import gather_facts
from differential.subjects.native.declared import Registered, state_geometry
from oracle.model.axes import Grid, Split
from oracle.model.buffers import Buffer
from oracle.model.case import SIDES, Case
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.deployments import deployment
from strategies.topologies import Shape

STATE, PAGED = "state", "kv"
"""The groups of these kinds."""


def shapes(case: Case) -> tuple[Shape, Shape]:
    return Shape.of(case.context.topology), Shape.of(case.generation.topology)


def buffer_of(case: Case, role: str) -> Buffer:
    return next(each for group in case.model.groups for each in group.buffers if each.role == role)


def group_of(case: Case, name: str) -> int:
    return case.model.group_index(name)


def stage_groups(case: Case) -> list[set[str]]:
    """The groups of which each stage of either side holds something."""
    names = [group.name for group in case.model.groups]
    found = []
    for side in SIDES:
        topology = case.side(side).topology
        tables = lay_out(case, side).tables
        for stage in range(topology.pp):
            entries = tables[topology.number(stage, 0, 0)].entries
            found.append({names[entry.group] for entry in entries})
    return found


def cuts_inside_a_group(case: Case, role: str, section: str, groups: int) -> bool:
    """Whether a share of ``section``, which has ``groups`` groups of channels, ends inside one of them."""
    (axis,) = [axis for axis in buffer_of(case, role).parts[0].axes if axis.sections]
    (found,) = [each for each in axis.sections if each.name == section]
    if axis.grid is not Grid.TPCP or found.split is not Split.EVEN:
        return False
    wide = found.size // groups
    return any(found.size // shape.whole % wide for shape in shapes(case))


def has_rank_without_block(case: Case) -> bool:
    """Whether a Helix rank of the receiver lists no block at all of some request."""
    if case.generation.topology.cp == 1:
        return False
    kv = group_of(case, PAGED)
    lists = [
        rank.blocks.get((request, kv))
        for rank in gather_facts(case).generation
        for request in range(len(case.requests))
    ]
    return any(table is not None and not len(table.slots) for table in lists)


REACHED: dict[str, Callable[[Case], bool]] = {
    "a stage without state": lambda case: {PAGED} in stage_groups(case),
    "a stage without attention": lambda case: {STATE} in stage_groups(case),
    "a stage with both": lambda case: {STATE, PAGED} in stage_groups(case),
    "an empty stage": lambda case: 0 in (*case.context.topology.stages, *case.generation.topology.stages),
    "uneven stages": lambda case: len(set(case.generation.topology.stages) - {0}) > 1,
    "a finer grid at the receiver": lambda case: shapes(case)[0].whole < shapes(case)[1].whole,
    "a coarser grid at the receiver": lambda case: shapes(case)[0].whole > shapes(case)[1].whole,
    "context-parallel ranks that act as tensor ranks": lambda case: (
        case.generation.topology.cp > 1 and shapes(case)[0].tensor > 1
    ),
    "a Helix rank without a block": has_rank_without_block,
    "whole state on a rank with attention DP": lambda case: any(shape.attention_dp for shape in shapes(case)),
    "another layer order": lambda case: case.context.layer_order != case.generation.layer_order,
    "attention first": lambda case: 0 in case.model.groups[group_of(case, PAGED)].layers,
    "neighbouring state layers": lambda case: any(
        layer + 1 in case.model.groups[group_of(case, STATE)].layers
        for layer in case.model.groups[group_of(case, STATE)].layers
    ),
}
"""Shapes that every hybrid must reach."""


def one_rank(model: str, **options: object) -> PageTable:
    """The page table of the only rank that holds a published model."""
    return lay_out(deployment(model, {}, {}, prompt=1, **options), "context").tables[0]  # type: ignore[arg-type]


def sizes(table: PageTable) -> dict[str, set[int]]:
    """Bytes of a buffer by role."""
    found: dict[str, set[int]] = {}
    for entry in table.entries:
        found.setdefault(entry.role, set()).add(entry.nbytes)
    return found


def section_bytes(case: Case, role: str, tp: int) -> tuple[int, ...]:
    """What the legacy manager declares of the sections of ``role`` on the first of ``tp`` tensor ranks."""
    instance = Instance(Topology(tp, (case.model.layers,)))
    assert case.native is not None
    kind, found = state_geometry(Registered(buffer_of(case, role), case.native.mapper_of(role)), instance, (tp, 0))
    assert kind == "sections"
    return found
