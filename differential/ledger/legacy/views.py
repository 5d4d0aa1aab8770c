"""Views: what of a rank's page table the legacy sender takes for one thing (spec: legacy sender, 2 and 6.1)."""

from __future__ import annotations

from functools import lru_cache

from oracle.model.buffers import Buffer, MoveState
from oracle.model.case import Case
from oracle.model.sides import lay_out

View = frozenset[tuple[int, str]]
"""(layer, role) of the buffers that stand in one pool under one mapper kind."""


def token_major(case: Case, side: str, buffer: Buffer) -> bool | None:
    """Whether the side stores ``buffer`` token by token; None if it has not both a head and a token axis."""
    names = [axis.name for axis in buffer.parts[0].axes]
    if "H" not in names or "T" not in names:
        return None
    layout = case.side(side).layout_of(buffer.role)
    if layout:
        return layout == "NHD"
    return case.native is not None and case.native.mapper_of(buffer.role) == "nhd"


def _mapper(case: Case, side: str, buffer: Buffer) -> str:
    assert case.native is not None
    declared = case.native.mapper_of(buffer.role)
    major = token_major(case, side, buffer)
    if declared in ("indexed", "nhd") and major is not None:
        return "nhd" if major else "indexed"
    return declared


@lru_cache(maxsize=4096)
def views(case: Case, side: str, rank: int, group: int) -> tuple[View, ...]:
    """The views of one layer group on one rank."""
    if case.native is None:
        return ()
    buckets: dict[tuple[int, str], set[tuple[int, str]]] = {}
    for entry in lay_out(case, side).tables[rank].entries:
        if entry.group != group or entry.role in case.native.ignored:
            continue
        buffers = case.model.groups[group].buffers
        buffer = next(each for each in buffers if each.role == entry.role and entry.layer in each.layers)
        if buffer.move_on(entry.layer).state is MoveState.REBUILT:
            continue
        buckets.setdefault((entry.pool, _mapper(case, side, buffer)), set()).add((entry.layer, entry.role))
    return tuple(frozenset(view) for view in buckets.values())


@lru_cache(maxsize=4096)
def roles(view: View) -> frozenset[str]:
    return frozenset(role for _, role in view)


@lru_cache(maxsize=4096)
def layers(view: View) -> frozenset[int]:
    return frozenset(layer for layer, _ in view)


@lru_cache(maxsize=4096)
def lacks_partner(case: Case, source: int, destination: int, group: int, layer: int, role: str) -> bool:
    """Whether the sender has (layer, role) in a view, and the receiver no view of those roles with such a layer."""
    own = next((view for view in views(case, "context", source, group) if (layer, role) in view), None)
    there = views(case, "generation", destination, group)
    return own is not None and not any(roles(view) == roles(own) and layers(view) & layers(own) for view in there)


@lru_cache(maxsize=4096)
def is_in_a_later_view(case: Case, source: int, destination: int, group: int, layer: int, role: str) -> bool:
    """Whether the receiver has (layer, role) in a view of the right roles that is not the sender's view's partner.

    The partner is the first view of those roles that shares any layer.
    """
    own = next((view for view in views(case, "context", source, group) if (layer, role) in view), None)
    if own is None:
        return False
    fitting = [
        view
        for view in views(case, "generation", destination, group)
        if roles(view) == roles(own) and layers(view) & layers(own)
    ]
    return any(layer in layers(view) for view in fitting[1:])


def is_request_wide(case: Case, group: int, role: str) -> bool:
    """Whether ``role`` is one buffer of the whole request, whatever layer holds it."""
    return any(buffer.role == role and buffer.request_scope for buffer in case.model.groups[group].buffers)


def holding_layer(case: Case, side: str, rank: int, group: int, role: str) -> int | None:
    """The layer under which a rank holds the request-wide ``role``; None if it does not."""
    entries = lay_out(case, side).tables[rank].entries
    return next((entry.layer for entry in entries if (entry.group, entry.role) == (group, role)), None)


def uneven_view(case: Case, side: str) -> bool:
    """Whether a paged view of some rank holds roles of unequal size for one layer."""
    for rank, table in enumerate(lay_out(case, side).tables):
        sizes = {(entry.group, entry.layer, entry.role): entry.nbytes for entry in table.entries}
        for group in range(len(case.model.groups)):
            if not case.model.groups[group].is_paged:
                continue
            for view in views(case, side, rank, group):
                by_layer: dict[int, set[int]] = {}
                for layer, role in view:
                    by_layer.setdefault(layer, set()).add(sizes[group, layer, role])
                if any(len(found) > 1 for found in by_layer.values()):
                    return True
    return False


def uneven_regions(case: Case, side: str) -> bool:
    """Whether some view of a rank of ``side`` has layers of unequal size; a layer is what its manager calls one."""
    for rank, table in enumerate(lay_out(case, side).tables):
        sizes = {(entry.group, entry.layer, entry.role): entry.nbytes for entry in table.entries}
        for group, what in enumerate(case.model.groups):
            ids = {(layer, buffer.role): buffer.ids for buffer in what.buffers for layer in buffer.layers}
            for view in views(case, side, rank, group):
                regions: dict[int, int] = {}
                for layer, role in view:
                    mul, add = ids[layer, role]
                    number = mul * layer + add
                    regions[number] = regions.get(number, 0) + sizes[group, layer, role]
                if len(set(regions.values())) > 1:
                    return True
    return False
