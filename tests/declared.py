"""Short ways to declare caches in tests, and to pin the message of an impossible one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, GroupKind, LayerGroup, Model, Part
from oracle.model.case import Case, Request
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology


def tokens(per_row: int = 1) -> Axis:
    return Axis("T", tokens_per_row=per_row)


def heads(count: int, split: Split = Split.HEADS, grid: Grid = Grid.TP) -> Axis:
    return Axis("H", count, split, grid)


def payload(size: int, name: str = "D") -> Axis:
    return Axis(name, size)


def channels(*sizes: int, split: Split = Split.EVEN, grid: Grid = Grid.TPCP) -> Axis:
    return Axis("C", grid=grid, sections=tuple(Section(f"s{n}", size, split) for n, size in enumerate(sizes)))


def buffer(role: str, layers: Iterable[int] | str, *axes: Axis, bits: int = 8, **options: object) -> Buffer:
    """A buffer of one part; ``layers`` as ids or as ``0..3``."""
    held = LayerSet.parse(layers) if isinstance(layers, str) else LayerSet.of(layers)
    return Buffer(role, held, (Part(axes, bits),), **options)  # type: ignore[arg-type]


def key_value(layers: Iterable[int] | str, count: int, dim: int, *, bits: int = 16) -> tuple[Buffer, Buffer]:
    """K and V of ``count`` heads of ``dim`` elements, head-major."""
    axes = (heads(count), tokens(), payload(dim))
    return buffer("key", layers, *axes, bits=bits), buffer("value", layers, *axes, bits=bits)


def paged(name: str, *buffers: Buffer, **options: object) -> LayerGroup:
    return LayerGroup(name, GroupKind.PAGED, buffers, **options)  # type: ignore[arg-type]


def state(name: str, *buffers: Buffer, **options: object) -> LayerGroup:
    return LayerGroup(name, GroupKind.STATE, buffers, **options)  # type: ignore[arg-type]


def instance_of(
    *, tp: int = 1, stages: tuple[int, ...] = (1,), cp: int = 1, attention_dp: bool = False, **options: object
) -> Instance:
    return Instance(Topology(tp, stages, cp, attention_dp), **options)  # type: ignore[arg-type]


def case_with(
    model: Model, context: Instance, generation: Instance | None = None, *, prompt: int = 1, **options: object
) -> Case:
    """A case of one request unless ``requests`` are given; both sides alike unless ``generation`` is given."""
    options.setdefault("requests", (Request(0, prompt),))
    return Case(model, context, generation or context, **options)  # type: ignore[arg-type]


def tables_of(model: Model, instance: Instance) -> tuple[PageTable, ...]:
    """The page tables of the ranks of ``instance``, packed by its rules, for one request of one token."""
    lengths = tuple((group.length, 1) for group in model.groups if group.length != "prompt")
    request = Request(0, 1, lengths=lengths)
    return lay_out(case_with(model, instance, requests=(request,)), "context").tables


def small_case(**options: object) -> Case:
    """One layer of K and V, two heads of four bytes, two tokens a block, one rank a side."""
    model = Model(1, (paged("attention", *key_value([0], 2, 4, bits=8)),))
    return case_with(model, instance_of(tokens_per_block=2), **{"prompt": 3} | options)


def with_both(case: Case, **changes: object) -> Case:
    """``case`` with these fields of both instances replaced."""
    return replace(case, context=replace(case.context, **changes), generation=replace(case.generation, **changes))


def assert_impossible(build: Callable[[], object], argument: str, value: object, accepted: str) -> None:
    """``build`` raises ``InvalidCase``: names ``argument``, quotes ``value``, says what would be ``accepted``."""
    with pytest.raises(InvalidCase) as caught:
        build()
    error = caught.value
    assert (error.argument, error.value, error.accepted) == (argument, value, accepted)
    assert str(error) == f"{argument} = {value!r} is not possible: {accepted}"
