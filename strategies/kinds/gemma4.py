"""Gemma-4: windowed layers of many small heads beside full layers of few large ones (spec: kinds, base K/V and VSWA).

Full layers use their keys as values, and store both all the same. One tensor split shares out either head count, so
heads repeat on the full layers where they do not yet on the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.fitting import WINDOWED, draw_heads, draw_window, windowed_layers
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


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, few, dims, width, which, place = numbers
    dim, full_dim = SHAPES[dims]
    return declare(
        around.layers,
        windowed_layers(around.layers, which),
        draw_window(place, around),
        (draw_heads(heads, around, 64), dim),
        (draw_heads(few, around, 64), full_dim),
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
