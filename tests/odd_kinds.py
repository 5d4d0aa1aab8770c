"""Small kinds that break one law each, for tests of ``kvwitness conform``."""

from __future__ import annotations

from collections.abc import Callable

from kvwitness.conform import Sample, Source
from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import Native
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import key_value, layers, paged, rows
from strategies.kinds.protocol import Declaration, Kind, Surroundings

NATIVE = Native((("all", "indexed"),))
Decode = Callable[[tuple[int, ...], Surroundings], Declaration]


def kind_of(decode: Decode, bounds: tuple[int, ...] = (2,), **options: object) -> Kind:
    """A kind called ``odd``; its small scope has the model of all zeros unless told otherwise."""
    options.setdefault("scope", ((0,) * len(bounds),))
    options.setdefault("description", "a kind that is made for a test")
    return Kind(name="odd", order=99, bounds=bounds, decode=decode, **options)  # type: ignore[arg-type]


def declared(
    around: Surroundings, *groups: LayerGroup, native: Native | None = NATIVE, **options: object
) -> Declaration:
    """A declaration of these groups over all layers of the surroundings."""
    return Declaration(Model(around.layers, groups), native, **options)  # type: ignore[arg-type]


def keys(around: Surroundings, dim: int = 2, *more: Buffer, window: int | None = None) -> LayerGroup:
    """A group of a latent key of ``dim`` bytes a token, and ``more``."""
    return paged("kv", (rows("key", layers(range(around.layers)), dim, 8), *more), window)


def heads_and_dims(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    """Keys and values by heads: a good kind of two numbers, below 64 and 3."""
    every = layers(range(around.layers))
    return declared(around, paged("kv", key_value(every, draw_heads(numbers[0], around, 64), 1 + numbers[1], 8)))


def sample_of(kind: Kind, examples: int = 40, **options: object) -> Sample:
    return Sample(Source(kind), examples=examples, **options)  # type: ignore[arg-type]
