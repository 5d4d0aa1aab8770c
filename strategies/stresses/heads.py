"""Axes that ranks share out: heads that repeat or overlap, rows of tokens, sections, several holders of an index."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import Case
from oracle.model.counts import count_indices, order_axes
from oracle.model.instance import Instance
from strategies.stresses.stress import Stress, moving, shares, split_axes

_REPEATING = (Split.HEADS, Split.FLOOR)
_UNEVEN = (*_REPEATING, Split.CYCLIC)


def _instances(case: Case) -> tuple[Instance, Instance]:
    return case.context, case.generation


# ---- heads


def repeats_heads(case: Case) -> bool:
    """Whether a side has more ranks than heads, so that a head is on several of them."""
    return any(
        axis.size < shares(instance, axis.grid)
        for axis in split_axes(case.model)
        if axis.split in _REPEATING
        for instance in _instances(case)
    )


def _leave_a_rest(size: int, parts: int) -> bool:
    return size % parts > 0 and parts % size > 0


def shares_heads_unevenly(case: Case) -> bool:
    """Whether heads and ranks of a side leave a rest: shares overlap, or are not of one size."""
    return any(
        _leave_a_rest(axis.size, shares(instance, axis.grid))
        for axis in split_axes(case.model)
        if axis.split in _UNEVEN
        for instance in _instances(case)
    )


@lru_cache(maxsize=4096)
def _rows_of_heads(model: Model) -> tuple[tuple[str, tuple[Axis, ...]], ...]:
    """Axes, heads and tokens among them, and the role, each once."""
    found = {(buffer.role, part.axes): None for _, buffer in moving(model) for part in buffer.parts}
    return tuple(
        (role, axes)
        for role, axes in found
        if any(axis.name == "H" and axis.size > 1 for axis in axes) and any(axis.is_token for axis in axes)
    )


def cuts_rows(case: Case) -> bool:
    """Whether a token-major side has several heads of which the other one has more, fewer, or not token by token."""
    for role, axes in _rows_of_heads(case.model):
        (heads,) = (axis for axis in axes if axis.name == "H")
        held = [count_indices(heads, 0, shares(instance, heads.grid)) for instance in _instances(case)]
        rows = [_token_major(order_axes(axes, instance.layout_of(role))) for instance in _instances(case)]
        unlike = held[0] != held[1] or rows[0] != rows[1]
        if unlike and any(row and count > 1 for row, count in zip(rows, held, strict=True)):
            return True
    return False


def _token_major(axes: tuple[Axis, ...]) -> bool:
    names = [axis.name for axis in axes]
    return names.index("T") < names.index("H")


# ---- several holders


def _is_whole(buffer: Buffer) -> bool:
    return not any(axis.is_split for part in buffer.parts for axis in part.axes)


def _beside(held: Iterable[Buffer]) -> tuple[Axis, ...]:
    """The split axes of ``held``, where it has buffers as well of which each rank has all."""
    buffers = tuple(held)
    if not any(map(_is_whole, buffers)):
        return ()
    return tuple(dict.fromkeys(axis for b in buffers for part in b.parts for axis in part.axes if axis.is_split))


@lru_cache(maxsize=4096)
def _beside_rows(model: Model) -> tuple[Axis, ...]:
    return _beside(buffer for group, buffer in moving(model) if group.is_paged)


@lru_cache(maxsize=4096)
def _beside_state(model: Model) -> tuple[Axis, ...]:
    """Those over the TP×CP grid, of state groups."""
    states = [group for group in model.groups if not group.is_paged]
    found = [_beside(buffer for holder, buffer in moving(model) if holder is group) for group in states]
    return tuple(axis for axes in found for axis in axes if axis.grid is Grid.TPCP)


def holds_whole_beside_shares(case: Case) -> bool:
    """Whether ranks of a side hold shares of some rows of tokens, and all of others."""
    return any(shares(instance, axis.grid) > 1 for axis in _beside_rows(case.model) for instance in _instances(case))


def holds_whole_state_under_helix(case: Case) -> bool:
    """Whether a group over the TP×CP grid of a Helix instance has state that each rank holds whole."""
    return bool(_beside_state(case.model)) and any(instance.topology.cp > 1 for instance in _instances(case))


def _repeats(axis: Axis, parts: int) -> bool:
    """Whether an index of ``axis`` is on several of ``parts`` ranks."""
    for section in axis.sections or (axis,):
        if section.split is Split.ALL or (section.split is Split.HEADS and section.size % parts):
            return True
        if section.split is Split.FLOOR and section.size < parts:
            return True
    return False


def elects(case: Case) -> bool:
    """Whether a receiver hears from several ranks that hold the same index: it has fewer tensor ranks than they."""
    if shares(case.context) <= shares(case.generation):
        return False
    return any(
        all(_repeats(axis, shares(case.context, axis.grid)) for part in buffer.parts for axis in part.axes)
        for _, buffer in moving(case.model)
    )


def _can_elect(model: Model) -> bool:
    return any(
        all(
            any(section.split in (Split.ALL, *_REPEATING) for section in axis.sections or (axis,))
            for part in buffer.parts
            for axis in part.axes
        )
        for _, buffer in moving(model)
    )


# ---- sections and state


def _sectioned(model: Model) -> list[Axis]:
    return [axis for axis in split_axes(model) if len(axis.sections) > 1]


def _of_several_widths(model: Model) -> list[Axis]:
    return [axis for axis in _sectioned(model) if len({section.size for section in axis.sections}) > 1]


def _partly_whole(model: Model) -> list[Axis]:
    return [axis for axis in _sectioned(model) if len({section.split for section in axis.sections}) > 1]


def _cut_twice(case: Case, axes: list[Axis]) -> bool:
    return any(shares(case.context, axis.grid) != shares(case.generation, axis.grid) for axis in axes)


def _over_both(groups: tuple[LayerGroup, ...]) -> bool:
    return any(
        axis.is_split and axis.grid is Grid.TPCP
        for group in groups
        if not group.is_paged
        for buffer in group.buffers
        for part in buffer.parts
        for axis in part.axes
    )


def _on_both(case: Case) -> bool:
    topologies = [instance.topology for instance in _instances(case)]
    return any(t.tp > 1 and t.cp > 1 and not t.attention_dp for t in topologies) and _over_both(case.model.groups)


# ---- widths of elements


def _has_two_units(group: LayerGroup, *instances: Instance) -> bool:
    for instance in instances:
        bits = {instance.bits_of(buffer.role, part.bits) for buffer in group.buffers for part in buffer.parts}
        if len(bits) > 1 and min(bits) < 8:
            return True
    return False


_DECLARED = Instance()


HEADS = (
    Stress(
        "duplicated heads",
        "a side has more tensor ranks than heads, and several ranks hold the same head",
        lambda model: any(axis.split in _REPEATING for axis in split_axes(model)),
        repeats_heads,
    ),
    Stress(
        "overlapping, uneven head shares",
        "heads do not divide over the tensor ranks: shares overlap, or one is larger than another",
        lambda model: any(axis.split in _UNEVEN and axis.size > 1 for axis in split_axes(model)),
        shares_heads_unevenly,
    ),
    Stress(
        "NHD: a run per token",
        "tokens come before heads, so a part of the heads is one run for each token",
        lambda model: bool(_rows_of_heads(model)),
        cuts_rows,
    ),
    Stress(
        "sub-byte elements, two units",
        "elements of less than a byte, beside others of another width in the same slot number",
        lambda model: any(_has_two_units(group, _DECLARED) for group in model.groups),
        lambda case: any(_has_two_units(group, *_instances(case)) for group in case.model.groups),
    ),
    Stress(
        "replicated beside sharded",
        "rows of tokens that ranks share out, and beside them others that each rank has whole",
        lambda model: bool(_beside_rows(model)),
        holds_whole_beside_shares,
    ),
    Stress(
        "election among replicas",
        "a receiver hears from several ranks that hold the same index, and one of them has to send it",
        _can_elect,
        elects,
    ),
    Stress(
        "sectioned axis, cut by two grids",
        "an axis of several sections, each shared out on its own, over another number of ranks on the other side",
        lambda model: bool(_sectioned(model)),
        lambda case: _cut_twice(case, _sectioned(case.model)),
    ),
    Stress(
        "sections of unequal width",
        "such sections are not of one size, so they cannot be exchanged unnoticed",
        lambda model: bool(_of_several_widths(model)),
        lambda case: _cut_twice(case, _of_several_widths(case.model)),
    ),
    Stress(
        "whole sections beside cut ones",
        "some sections of such an axis are on every rank, the others are shared out",
        lambda model: bool(_partly_whole(model)),
        lambda case: _cut_twice(case, _partly_whole(case.model)),
    ),
    Stress(
        "state over the TP×CP grid",
        "state of which every tensor and context-parallel rank has a part of its own",
        lambda model: _over_both(model.groups),
        _on_both,
        ("helix",),
    ),
    Stress(
        "replicated state under Helix",
        "beside such parts, state that every rank holds whole, with context-parallel receivers",
        lambda model: bool(_beside_state(model)),
        holds_whole_state_under_helix,
        ("helix",),
    ),
)
"""What follows from how ranks share out the axes of a buffer."""
