"""NVFP4 K/V: keys and values of 4 bits, and one scale byte for every 16 of their elements (spec: kinds, NVFP4 K/V).

Scales are split as their data are, so a group has two units of a share: a head's data and a head's scales, an eighth as
many bytes. They stand in a pool of their own of the same pool group, as their sizes say.
"""

from __future__ import annotations

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import block_scales, by_heads, layers, paged
from strategies.kinds.protocol import Declaration, Kind, Surroundings

BLOCK = 16
"""Elements that share a scale."""
NATIVE = Native((("all", "indexed"),))
DIMS = (16, 16, 16, 32, 16, 16, 16, 48)
VALUE_DIMS = (*[0] * 28, 16, 32, 48, 128)
"""Sizes of a value's head; 0: the key's. One of 128 has as many scale bytes as a key of 16 has data bytes."""


def declare(count: int, heads: int, dim: int, value_dim: int = 0) -> Declaration:
    """``heads`` K/V heads of ``dim`` codes, a multiple of 16, on ``count`` layers; ``value_dim``: the value's."""
    on = layers(range(count))
    data = [by_heads(role, on, heads, width, 4) for role, width in (("key", dim), ("value", value_dim or dim))]
    scales = block_scales(on, heads, dim // BLOCK, value_dim // BLOCK)
    return Declaration(Model(count, (paged("kv", (*data, *scales)),)), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, dim, value = numbers
    return declare(around.layers, draw_heads(heads, around, 64), DIMS[dim], VALUE_DIMS[value])


KIND = Kind(
    name="nvfp4",
    description="keys and values of 4 bits with a scale byte for every 16 elements, both split by heads",
    order=3,
    bounds=(64, len(DIMS), len(VALUE_DIMS)),
    decode=decode,
    scope=((1, 0, 0), (2, 0, 0), (0, 3, 28)),
    tokens_per_block=(1, 2, 3, 4),
)
