"""FP8 K/V: keys and values of one byte an element, whose one scale a tensor is kept outside the cache.

No buffer holds that scale, so nothing of it moves (spec: kinds, base K/V and FP8 K/V).
"""

from __future__ import annotations

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import key_value, layers, paged
from strategies.kinds.protocol import Declaration, Kind, Surroundings

NATIVE = Native((("all", "indexed"),))
DIMS = (1, 2, 3, 5, 4, 2, 7, 3)
"""Head sizes; most are odd, so shares of one byte an element end anywhere."""


def declare(count: int, heads: int, dim: int, value_dim: int = 0) -> Declaration:
    """``heads`` K/V heads of ``dim`` bytes a token on ``count`` layers; ``value_dim`` where the value's differs."""
    buffers = key_value(layers(range(count)), heads, dim, 8, value_dim)
    return Declaration(Model(count, (paged("kv", buffers),)), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, dim, other = numbers
    size = DIMS[dim]
    return declare(around.layers, draw_heads(heads, around, 64), size, size + other - 6 if other > 6 else 0)


KIND = Kind(
    name="fp8",
    description="keys and values of one byte an element, split by heads; the scale of a tensor is outside the cache",
    order=2,
    bounds=(64, len(DIMS), 8),
    decode=decode,
    scope=((1, 1, 0), (2, 2, 0), (0, 1, 7)),
)
