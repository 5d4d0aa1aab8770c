"""Recurrent state as the legacy sender sees it: its grids of ranks, and layers taken by their place in a view."""

from __future__ import annotations

from functools import lru_cache

from differential.ledger.legacy.sides import asked_ranks
from differential.ledger.legacy.views import layers, roles, views
from oracle.model.axes import Split
from oracle.model.buffers import Buffer
from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.topology import Rank


def state_grid(instance: Instance) -> int:
    """Ranks that share the recurrent state of one request: context-parallel ones act as tensor ranks."""
    topology = instance.topology
    return 1 if topology.attention_dp else topology.tp * topology.cp


def _place(instance: Instance, rank: Rank) -> int:
    return 0 if instance.topology.attention_dp else rank.tp * instance.topology.cp + rank.cp


def shared_state(case: Case, group: int | None, role: str | None) -> Buffer | None:
    """The buffer of a state group that the legacy sender takes for a share of its grid; None for any other."""
    if case.native is None or group is None or role is None or case.model.groups[group].is_paged:
        return None
    if role in case.native.ignored or case.native.mapper_of(role) not in ("indexed", "sectioned"):
        return None
    return next((buffer for buffer in case.model.groups[group].buffers if buffer.role == role), None)


def all_shared_state(case: Case) -> list[Buffer]:
    """All buffers that the legacy sender takes for shares of its grid."""
    found = [
        shared_state(case, group, buffer.role)
        for group, declared in enumerate(case.model.groups)
        if not declared.native_only
        for buffer in declared.buffers
    ]
    return [buffer for buffer in found if buffer is not None]


def is_whole_in_part(buffer: Buffer) -> bool:
    """Whether every rank holds all of ``buffer``, or of one of its sections."""
    axes = [axis for part in buffer.parts for axis in part.axes]
    sections = [section for axis in axes for section in axis.sections]
    return not any(axis.is_split for axis in axes) or any(section.split is Split.ALL for section in sections)


def grid_partners(case: Case, request: Request, destination: int, stage: int) -> tuple[Rank, ...]:
    """Ranks of context stage ``stage`` that ``destination`` asks and whose share of the state meets its own."""
    rank = case.generation.topology.rank(destination)
    senders, receivers = state_grid(case.context), state_grid(case.generation)
    own = _place(case.generation, rank)
    found = []
    for asked in asked_ranks(case, request, destination):
        there = _place(case.context, asked)
        # The parts of the finer grid that both ranks cover.
        if asked.pp == stage and there * receivers < (own + 1) * senders and own * senders < (there + 1) * receivers:
            found.append(asked)
    return tuple(found)


@lru_cache(maxsize=4096)
def slices(
    case: Case, source: int, destination: int, group: int, role: str
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Layers that the sender reads and that it writes, one by one; None where the two share no view with ``role``.

    From the first layer of the sender's view that both hold, either side takes as many layers as there are shared
    ones, in the order of its own slot, whatever layers these are.
    """
    own = next((view for view in views(case, "context", source, group) if role in roles(view)), None)
    if own is None:
        return None
    there = views(case, "generation", destination, group)
    peer = next((view for view in there if roles(view) == roles(own) and layers(view) & layers(own)), None)
    if peer is None:
        return None
    mine = _in_slot_order(case, "context", source, group, own)
    theirs = _in_slot_order(case, "generation", destination, group, peer)
    shared = [layer for layer in mine if layer in theirs]
    first, there_first = mine.index(shared[0]), theirs.index(shared[0])
    return mine[first : first + len(shared)], theirs[there_first : there_first + len(shared)]


def _in_slot_order(case: Case, side: str, rank: int, group: int, view: frozenset[tuple[int, str]]) -> tuple[int, ...]:
    entries = [entry for entry in lay_out(case, side).tables[rank].entries if entry.group == group]
    entries = [entry for entry in entries if (entry.layer, entry.role) in view]
    return tuple(dict.fromkeys(entry.layer for entry in sorted(entries, key=lambda entry: entry.offset)))


def read_layers(
    case: Case, request: Request, destination: int, group: int, layer: int, role: str
) -> list[tuple[Rank, int]]:
    """(sender, layer that it reads) of all that lands on one layer of a receiver, in the order of ranks."""
    found = []
    for stage in range(len(case.context.topology.stages)):
        for rank in grid_partners(case, request, destination, stage):
            taken = slices(case, rank.number, destination, group, role)
            found += [(rank, own) for own, target in zip(*(taken or ((), ())), strict=False) if target == layer]
    return found
