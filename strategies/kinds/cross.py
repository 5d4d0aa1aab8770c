"""Cross attention: keys and values of an encoder's tokens beside those of the prompt (spec: kinds, cross attention).

They are as long as the encoder's input, the request's second number, are written once and never leave a window. No
legacy rule transfers them.
"""

from __future__ import annotations

from collections.abc import Iterable

from oracle.model.buffers import Model
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import by_heads, key_value, layers, paged
from strategies.kinds.protocol import Declaration, Kind, Surroundings

DIMS = (1, 2, 1, 3, 2, 4, 1, 2)
LAYERS = (
    lambda count: (range(count), range(count)),
    lambda count: (range(count), range(0, count, 2)),
    lambda count: (range(count), range(count - 1, count)),
    lambda count: (range(0, count, 2), range(1, count, 2)),
    lambda count: (range(count - 1), range(count - 1, count)),
    lambda count: (range(count), range(1, count)),
)
"""Layers with self attention and with cross attention: both on all, or cross attention on some, or instead of it."""


def declare(
    count: int, own: Iterable[int], cross: Iterable[int], heads: int, cross_heads: int, dim: int, bits: int
) -> Declaration:
    """``heads`` heads of ``dim`` elements a prompt token on the layers of ``own``, ``cross_heads`` a token of the
    encoder on those of ``cross``."""
    on = layers(cross)
    far = [by_heads(role, on, cross_heads, dim, bits) for role in ("cross_key", "cross_value")]
    groups = (
        paged("full", key_value(layers(own), heads, dim, bits)),
        paged("cross", far, length="encoder"),
    )
    return Declaration(Model(count, groups), None)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, cross_heads, dim, width, which = numbers
    same = draw_heads(heads, around, 64)
    # Below half, cross attention has the heads of self attention, as it mostly does.
    other = same if cross_heads < 32 else draw_heads(cross_heads, around, 64)
    return declare(around.layers, *LAYERS[which](around.layers), same, other, DIMS[dim], (16, 8)[width])


KIND = Kind(
    name="cross",
    description="cross attention: keys and values of an encoder's tokens, a second length, beside those of the prompt",
    order=6,
    bounds=(64, 64, len(DIMS), 2, len(LAYERS)),
    decode=decode,
    scope=((1, 0, 0, 1, 0), (2, 41, 0, 1, 3), (0, 0, 0, 1, 1)),
    layers=(2, 6),
)
