"""Gated delta net hybrids: convolution state of queries, keys and values, recurrent state (spec: kinds, GDN)."""

from __future__ import annotations

from collections.abc import Iterable

from oracle.model.buffers import Buffer, Model
from oracle.model.case import Native
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import key_value, paged, state
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings
from strategies.kinds.recurrent import (
    ATTENTION,
    STATE,
    STEP_STATES,
    delta_net,
    draw_state_dim,
    draw_state_heads,
    interval_mask,
    masks,
    on_layers,
    step_states,
)
from strategies.numbers import pick

NATIVE = Native((("all", "indexed"), ("ssm_state", "indexed"), ("conv_state", "sectioned")), ignored=(STEP_STATES,))

DIMS = (1, 2, 1, 2, 4, 3, 1, 2)
VALUE_DIMS = (2, 1, 3, 4)
KEY_HEADS = (1, 2, 3, 4)


def declare(mask: str, kv_heads: int, kv_dim: int, bits: int, recurrent: Iterable[Buffer]) -> Declaration:
    """A layer a letter of ``mask``: attention ones have ``kv_heads`` K/V heads, the others ``recurrent`` state."""
    attention = key_value(on_layers(mask, ATTENTION), kv_heads, kv_dim, bits)
    return Declaration(Model(len(mask), (state("state", recurrent), paged("kv", attention))), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    number, kv_heads, row, key_heads, key_dim, value_heads, steps, width = numbers
    mask = pick(masks(around.layers), number)
    recurrent = delta_net(
        on_layers(mask, STATE),
        KEY_HEADS[key_heads],
        draw_state_dim(KEY_HEADS[key_heads], 1 + key_dim, around),
        draw_state_heads(1 + value_heads // 4, around),
        VALUE_DIMS[value_heads % 4],
        1 + steps,
        bits=(32, 16, 32)[width],
    )
    if width == 2:
        recurrent = (*recurrent, step_states(on_layers(mask, STATE), 8))
    return declare(mask, draw_heads(kv_heads, around, 64), DIMS[row % 8], (16, 8)[row // 8], recurrent)


def _qwen3_next(bits: int) -> Declaration:
    mask = interval_mask(48, 4)
    return declare(mask, 2, 256, bits, delta_net(on_layers(mask, STATE), 16, 128, 32, 128, 3))


KIND = Kind(
    name="gdn",
    description="gated delta net hybrids: convolution state of queries, keys and values, state by value heads, K/V",
    order=12,
    bounds=(64, 64, 16, len(KEY_HEADS), 3, 12, 3, 3),
    decode=decode,
    scope=((0, 1, 1, 0, 0, 0, 1, 0), (0, 0, 1, 1, 0, 1, 0, 1)),
    published=(
        PublishedModel(
            "qwen3-next-80b",
            "Qwen3-Next 80B",
            48,
            _qwen3_next,
            "config of Qwen/Qwen3-Next-80B-A3B: every fourth layer is attention with 2 K/V heads of 256; 16 key heads "
            "and 32 value heads of 128, kernel 4",
            "config",
        ),
    ),
    layers=(2, 6),
)
