"""Gemma-4: windowed layers of many small heads beside full layers of few large ones (spec: kinds, base K/V and VSWA).

Full layers use their keys as values, and store both all the same. One tensor split shares out either head count, so
heads repeat on the full layers where they do not yet on the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.fitting import WINDOWED, draw_heads, draw_window, even_heads, windowed_layers
from strategies.kinds.pieces import key_value, layers, paged
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

NATIVE = Native((("all", "indexed"),))
SHAPES = ((1, 2), (2, 1), (1, 1), (2, 3), (3, 2), (1, 4), (2, 4), (2, 2))
"""Head sizes of (windowed, full) layers."""

Heads = tuple[int, int]
"""(heads, elements of a head)"""


def declare(count: int, local: Iterable[int], window: int, windowed: Heads, full: Heads, bits: int) -> Declaration:
    """``count`` layers: those of ``local`` have ``windowed`` heads and keep ``window`` tokens, the others ``full``."""
    near = layers(local)
    far = layers(set(range(count)).difference(near))
    groups = (
        paged("local", key_value(near, *windowed, bits), window),
        paged("global", key_value(far, *full, bits)),
    )
    return Declaration(Model(count, groups), NATIVE)


@lru_cache(maxsize=1024)
def in_proportion(heads: int, tensor: tuple[int, int]) -> tuple[int, ...]:
    """Head counts of which ranks of the two sides hold as many as they do of ``heads``, or so many times more."""
    here, there = (-(-heads // tp) for tp in tensor)
    return tuple(each for each in even_heads(tensor) if -(-each // tensor[0]) * there == -(-each // tensor[1]) * here)


def draw_full(number: int, heads: int, around: Surroundings) -> int:
    """The heads of full layers that ``number`` in 0..63 selects: mostly such that they repeat where ``heads`` do."""
    fitting = in_proportion(heads, around.tensor)
    return fitting[number % len(fitting)] if number < 40 and fitting else draw_heads(number, around, 64)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    many, few, dims, width, which, place = numbers
    heads = draw_heads(many, around, 64)
    dim, full_dim = SHAPES[dims]
    return declare(
        around.layers,
        windowed_layers(around.layers, which),
        draw_window(place, around),
        (heads, dim),
        (draw_full(few, heads, around), full_dim),
        (16, 8)[width],
    )


def _gemma_4(bits: int) -> Declaration:
    return declare(60, [layer for layer in range(60) if layer % 6 != 5], 1024, (16, 256), (4, 512), bits)


KIND = Kind(
    name="gemma4",
    description="windowed layers of many small heads beside full layers of few large ones, under one tensor split",
    order=5,
    bounds=(64, 64, len(SHAPES), 2, len(WINDOWED), 8),
    decode=decode,
    scope=((2, 1, 0, 1, 0, 0), (3, 1, 0, 1, 1, 1), (1, 2, 1, 1, 2, 0)),
    published=(
        PublishedModel(
            "gemma-4-31b",
            "Gemma-4 31B",
            60,
            _gemma_4,
            "60 layers, of each six five with window 1024 and 16 K/V heads of 256, one full with 4 of 512, whose keys "
            "are its values (config of google/gemma-4-31b)",
            "config",
        ),
    ),
    layers=(2, 6),
    places=True,
)
