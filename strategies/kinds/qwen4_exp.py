"""Qwen4Exp: delta-net state, sparse attention with an index key, and a layer embedding's state on one layer.

The positions of the index keys are one buffer of the whole request, which the first attention layer of each stage
holds (spec: kinds, Qwen4Exp and decision 1).
"""

from __future__ import annotations

from dataclasses import replace

from oracle.model.axes import Axis
from oracle.model.buffers import Buffer, Model, Part
from oracle.model.case import Native
from oracle.model.layers import LayerSet
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import key_value, layers, paged, rows, state
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings
from strategies.kinds.recurrent import (
    ATTENTION,
    STATE,
    delta_net,
    draw_state_dim,
    draw_state_heads,
    interval_mask,
    masks,
    on_layers,
)
from strategies.numbers import pick

NATIVE = Native(
    (
        ("all", "indexed"),
        ("ssm_state", "indexed"),
        ("conv_state", "sectioned"),
        ("ple_conv_state", "replicated"),
        ("ple_ngram_context", "replicated"),
        ("index_key", "replicated"),
        ("qsa_index_position", "replicated"),
    )
)

DIMS = (1, 2, 1, 2, 4, 3, 1, 2)
INDEX_DIMS = (1, 2, 4, 3, 6, 8, 5, 12)
"""Some cross the size of a key of one side alone, some that of the positions."""
EMBEDDINGS = ((2, 3, 1), (3, 1, 2), (2, 2, 1), (4, 2, 2))
"""(channels, steps of them, tokens of context) of the layer embedding; the last two buffers are of one size."""


def embedding(on: LayerSet, channels: int, steps: int, context: int, *, context_first: bool) -> tuple[Buffer, Buffer]:
    """State of the layer embedding, whole on every rank: a convolution's inputs and the last ``context`` token ids."""
    parts = Part((Axis("C", channels), Axis("W", steps)), 16), Part((Axis("W", context),), 64)
    convolution, ngram = Buffer("ple_conv_state", on, (parts[0],)), Buffer("ple_ngram_context", on, (parts[1],))
    return (ngram, convolution) if context_first else (convolution, ngram)


def declare(
    mask: str,
    kv_heads: int,
    kv_dim: int,
    bits: int,
    index_dim: int,
    index_bits: int,
    recurrent: tuple[Buffer, ...],
) -> Declaration:
    """A layer a letter of ``mask``: attention ones have K/V heads and an index key, the others ``recurrent`` state."""
    on = on_layers(mask, ATTENTION)
    positions = replace(rows("qsa_index_position", on, 3, 32), request_scope=True, first_local=True)
    attention = (*key_value(on, kv_heads, kv_dim, bits), rows("index_key", on, index_dim, index_bits), positions)
    return Declaration(Model(len(mask), (state("state", recurrent), paged("kv", attention))), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    number, kv_heads, row, index, heads, key_dim, ple_layer, ple = numbers
    mask = pick(masks(around.layers), number)
    on = on_layers(mask, STATE)
    key_heads, value_heads, value_dim = 1 + heads // 12, 1 + heads // 4 % 3, (2, 1, 3, 4)[heads % 4]
    recurrent = delta_net(
        on,
        key_heads,
        draw_state_dim(key_heads, 1 + key_dim // 3, around),
        draw_state_heads(value_heads, around),
        value_dim,
        1 + key_dim % 3,
    )
    layer = layers((on.ids[ple_layer % len(on)],))
    return declare(
        mask,
        draw_heads(kv_heads, around, 64),
        DIMS[row % 8],
        (16, 8)[row // 8],
        INDEX_DIMS[index % 8],
        (16, 8)[index // 8],
        (*recurrent, *embedding(layer, *EMBEDDINGS[ple % 4], context_first=ple >= 4)),
    )


def _flash_next(bits: int) -> Declaration:
    mask = interval_mask(48, 4)
    recurrent = delta_net(on_layers(mask, STATE), 16, 128, 48, 128, 3)
    ple = embedding(layers((1,)), 10240, 9, 2, context_first=False)
    return declare(mask, 2, 256, bits, 128, 16, (*recurrent, *ple))


KIND = Kind(
    name="qwen4_exp",
    description="delta-net hybrids with index keys, request-wide positions and a layer embedding's replicated state",
    order=15,
    bounds=(64, 64, 16, 16, 48, 9, 5, 8),
    decode=decode,
    scope=((0, 1, 1, 1, 0, 1, 0, 0), (0, 0, 1, 2, 12, 3, 0, 4)),
    published=(
        PublishedModel(
            "qwen3.8-flash-next",
            "Qwen3.8-Flash-Next",
            48,
            _flash_next,
            "config of Qwen/Qwen3.8-Flash-Next: every fourth layer is attention with 2 K/V heads of 256 and an index "
            "key of 128; 16 key heads and 48 value heads of 128, kernel 4; layer embedding on layer 1: 4 x 2560 "
            "channels, 9 steps, 2 tokens",
            "config",
        ),
    ),
    layers=(2, 6),
)
