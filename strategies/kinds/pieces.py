"""Buffers that several kinds declare: keys and values split by heads, latents, and rows that all ranks hold alike.

What is asked for again is the same object: many drawn models have it, and so it is checked, hashed and measured once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec

from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer, GroupKind, LayerGroup, Move, Part, Placement
from oracle.model.errors import InvalidCase
from oracle.model.layers import LayerSet

Options = ParamSpec("Options")

TOKENS = Axis("T", tokens_per_row=1)


KEPT = 4096
"""Equal pieces are one object, so that what is remembered of one is found by the others without comparing them."""


def layers(ids: Iterable[int]) -> LayerSet:
    """The set of the layers ``ids``."""
    return _layers(frozenset(ids))


@lru_cache(maxsize=KEPT)
def _layers(ids: frozenset[int]) -> LayerSet:
    return LayerSet.of(ids)


def _telling_its_role(
    build: Callable[Concatenate[str, Options], Buffer],
) -> Callable[Concatenate[str, Options], Buffer]:
    """``build``, whose first argument is the role: what is refused of an axis or a part of the buffer names it too."""

    @wraps(build)
    def told(role: str, *arguments: Options.args, **options: Options.kwargs) -> Buffer:
        try:
            return build(role, *arguments, **options)
        except InvalidCase as error:
            if error.argument.startswith("buffer"):
                raise
            raise InvalidCase(f"buffer {role}, {error.argument}", error.value, error.accepted) from error

    return told


@lru_cache(maxsize=KEPT)
@_telling_its_role
def by_heads(role: str, on: LayerSet, heads: int, dim: int, bits: int, split: Split = Split.HEADS) -> Buffer:
    """``heads`` heads of ``dim`` elements a token, split over the tensor ranks."""
    return Buffer(role, on, _by_heads(heads, dim, bits, split))


@lru_cache(maxsize=KEPT)
def _by_heads(heads: int, dim: int, bits: int, split: Split) -> tuple[Part]:
    return (Part((Axis("H", heads, split), TOKENS, Axis("D", dim)), bits),)


@lru_cache(maxsize=KEPT)
def moving(buffer: Buffer, *moves: Move) -> Buffer:
    """``buffer`` with other moves."""
    return replace(buffer, moves=moves)


def in_region(name: str, buffers: Iterable[Buffer], pad: int = 0) -> tuple[Buffer, ...]:
    """``buffers`` back to back in one region of each layer, which is padded to ``pad`` bytes."""
    return tuple(replace(buffer, placement=Placement(pad=pad, fused=name)) for buffer in buffers)


def key_value(on: LayerSet, heads: int, dim: int, bits: int, value_dim: int = 0) -> tuple[Buffer, Buffer]:
    """A key and a value of ``heads`` heads of ``dim`` elements; ``value_dim`` where the value's differs."""
    return by_heads("key", on, heads, dim, bits), by_heads("value", on, heads, value_dim or dim, bits)


def block_scales(on: LayerSet, heads: int, blocks: int, value_blocks: int = 0) -> tuple[Buffer, Buffer]:
    """A scale of one byte for each of the ``blocks`` that a head of a key, and of a value, is quantized in."""
    return (
        by_heads("key_block_scale", on, heads, blocks, 8),
        by_heads("value_block_scale", on, heads, value_blocks or blocks, 8),
    )


@lru_cache(maxsize=KEPT)
@_telling_its_role
def rows(
    role: str, on: LayerSet, dim: int, bits: int, *, tokens_per_row: int = 1, ids: tuple[int, int] = (1, 0)
) -> Buffer:
    """``dim`` elements in each row of ``tokens_per_row`` tokens, the same on every tensor rank."""
    tokens = TOKENS if tokens_per_row == 1 else Axis("T", tokens_per_row=tokens_per_row)
    return Buffer(role, on, (Part((tokens, Axis("D", dim)), bits),), ids=ids)


@lru_cache(maxsize=KEPT)
@_telling_its_role
def footer(
    role: str,
    on: LayerSet,
    data: int,
    tail: int,
    *,
    tokens_per_row: int = 1,
    sub_rows: int = 0,
    ids: tuple[int, int] = (1, 0),
) -> Buffer:
    """Rows of ``data`` bytes and after all of them rows of ``tail`` bytes; ``sub_rows``: rows of a sub-page."""
    tokens = TOKENS if tokens_per_row == 1 else Axis("T", tokens_per_row=tokens_per_row)
    parts = (Part((tokens, Axis("B", data)), 8), Part((tokens, Axis("B", tail)), 8))
    return Buffer(role, on, parts, sub_rows=sub_rows, ids=ids)


@lru_cache(maxsize=KEPT)
@_telling_its_role
def records(role: str, on: LayerSet, size: int, *, tokens_per_row: int = 1, ids: tuple[int, int] = (1, 0)) -> Buffer:
    """Opaque rows of ``size`` bytes, the same on every tensor rank."""
    tokens = TOKENS if tokens_per_row == 1 else Axis("T", tokens_per_row=tokens_per_row)
    return Buffer(role, on, (Part((tokens, Axis("B", size)), 8),), ids=ids)


def paged(
    name: str,
    buffers: Iterable[Buffer],
    window: int | None = None,
    *,
    sinks: int = 0,
    domain: str = "",
    length: str = "prompt",
) -> LayerGroup:
    """A layer group of one slot a block."""
    return _paged(name, tuple(buffers), window, sinks, domain, length)


@lru_cache(maxsize=16384)
def _paged(
    name: str, buffers: tuple[Buffer, ...], window: int | None, sinks: int, domain: str, length: str
) -> LayerGroup:
    return LayerGroup(name, GroupKind.PAGED, buffers, window, sinks, domain, length)


def state(name: str, buffers: Iterable[Buffer]) -> LayerGroup:
    """A layer group of one slot a request."""
    return LayerGroup(name, GroupKind.STATE, tuple(buffers))
