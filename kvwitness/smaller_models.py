"""Smaller models of a case: fewer layers, groups or buffers, and with them whatever the instances say of those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet

T = TypeVar("T")


def made(build: Callable[[], Case]) -> Iterator[Case]:
    """The case that ``build`` makes, or nothing where there is no such case."""
    try:
        yield build()
    except InvalidCase:
        return


def is_explicit(case: Case) -> bool:
    return bool(case.tables or case.presented or any(case.side(side).page_tables for side in SIDES))


def halved(number: int, least: int) -> Iterator[int]:
    """Smaller numbers, the smallest first."""
    tried = {number}
    for smaller in (least, number // 4, number // 2, number - 1):
        if least <= smaller < number and smaller not in tried:
            tried.add(smaller)
            yield smaller


def fewer_layers(case: Case) -> Iterator[Case]:
    """The first layers alone, then all but one: stages give up what goes, and the others are numbered anew."""
    if is_explicit(case):
        return
    every = range(case.model.layers)
    for layers in halved(case.model.layers, 1) if not case.model.draft else ():
        yield from made(lambda n=layers: with_layers(case, every[:n]))
    for left_out in every if len(every) > 1 else ():
        yield from made(lambda n=left_out: with_layers(case, [layer for layer in every if layer != n]))


def fewer_groups(case: Case) -> Iterator[Case]:
    """One group alone, then all but one."""
    groups = case.model.groups
    if is_explicit(case) or len(groups) == 1:
        return
    for group in groups:
        yield from made(lambda g=group: _with_groups(case, (g,)))
    for left_out in groups if len(groups) > 2 else ():
        yield from made(lambda g=left_out: _with_groups(case, tuple(each for each in groups if each is not g)))


def fewer_buffers(case: Case) -> Iterator[Case]:
    """One role of a group alone, then all but one."""
    if is_explicit(case):
        return
    for index, group in enumerate(case.model.groups):
        roles = tuple(dict.fromkeys(buffer.role for buffer in group.buffers))
        for kept in [(role,) for role in roles] + [tuple(each for each in roles if each != role) for role in roles]:
            if kept and len(kept) < len(roles):
                buffers = tuple(buffer for buffer in group.buffers if buffer.role in kept)
                smaller = (*case.model.groups[:index], replace(group, buffers=buffers), *case.model.groups[index + 1 :])
                yield from made(lambda g=smaller: _with_groups(case, g))


def with_layers(case: Case, kept: Sequence[int]) -> Case:
    """``case`` with these layers of its model, ascending, which are numbered anew."""
    number = {layer: new for new, layer in enumerate(kept)}
    groups = []
    for group in case.model.groups:
        buffers = tuple(_on_layers(buffer, number) for buffer in group.buffers if number.keys() & set(buffer.layers))
        if buffers:
            groups.append(replace(group, buffers=buffers))
    model = Model(len(number), tuple(groups), _left(case.model.draft, number))
    return _with_model(case, model, {side: _with_stages(case.side(side), number) for side in SIDES})


def _on_layers(buffer: Buffer, number: dict[int, int]) -> Buffer:
    moves = [replace(move, layers=move.layers and _left(move.layers, number)) for move in buffer.moves]
    return replace(
        buffer,
        layers=_left(buffer.layers, number),
        alias=buffer.alias and (_left(buffer.alias, number) or None),
        moves=tuple(move for move in moves if move.layers is None or move.layers),
    )


def _left(layers: LayerSet, number: dict[int, int]) -> LayerSet:
    return LayerSet(tuple(number[layer] for layer in layers if layer in number))


def _with_stages(instance: Instance, number: dict[int, int]) -> Instance:
    ends = [*accumulate(instance.topology.stages)]
    stages = tuple(
        len(number.keys() & range(end - size, end)) for end, size in zip(ends, instance.topology.stages, strict=True)
    )
    gone = [replace(each, layers=_left(each.layers, number)) for each in instance.without]
    return replace(
        instance,
        topology=replace(instance.topology, stages=stages),
        layer_order=tuple(number[layer] for layer in instance.layer_order if layer in number),
        without=tuple(each for each in gone if each.layers),
    )


def _with_groups(case: Case, groups: tuple[LayerGroup, ...]) -> Case:
    return _with_model(case, replace(case.model, groups=groups), {side: case.side(side) for side in SIDES})


def _with_model(case: Case, model: Model, instances: dict[str, Instance]) -> Case:
    """``case`` of a smaller model: nothing is said any more of groups, roles and lengths that are gone."""
    names = {group.name for group in model.groups}
    roles = {buffer.role for group in model.groups for buffer in group.buffers}
    lengths = {group.length for group in model.groups}
    smaller = {
        side: replace(
            instance,
            layouts=_named(instance.layouts, roles),
            element_bits=_named(instance.element_bits, roles),
            packing=_named(instance.packing, names),
            reserve=_named(instance.reserve, names),
            without=tuple(_without(instance.without, roles)),
        )
        for side, instance in instances.items()
    }
    return replace(
        case,
        model=model,
        requests=tuple(replace(each, lengths=_named(each.lengths, lengths)) for each in case.requests),
        slots=replace(case.slots, counts=_named(case.slots.counts, names)),
        **smaller,
    )


def _named(pairs: tuple[tuple[str, T], ...], names: set[str]) -> tuple[tuple[str, T], ...]:
    return tuple((name, value) for name, value in pairs if name in names)


def _without(gone: tuple[Without, ...], roles: set[str]) -> Iterator[Without]:
    for each in gone:
        left = tuple(role for role in each.roles if role in roles)
        if left:
            yield replace(each, roles=left)
