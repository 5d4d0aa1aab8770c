"""FP4 latents (FP4 MLA): values that the receiver derives, a ring tail, BF16 fallback layers (spec: kinds)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from oracle.model.axes import Axis
from oracle.model.buffers import Buffer, LayerGroup, Model, Move, MoveState, Part
from oracle.model.case import Native
from oracle.model.layers import LayerSet
from strategies.kinds.fitting import draw_window
from strategies.kinds.pieces import layers, paged, rows, state
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings
from strategies.kinds.recurrent import ATTENTION, STATE, conv, interval_mask, on_layers, ssm

# A latent counts as one token-major head; what the receiver derives is not among the roles that move.
MAPPERS = (("all", "nhd"), ("mla_hp_tail", "replicated"))
DERIVED = ("mla_v_scale", "mla_v_packed")
NATIVE = Native(MAPPERS, DERIVED)
HYBRID = Native((*MAPPERS, ("ssm_state", "indexed"), ("conv_state", "sectioned")), DERIVED)

CACHE, TAIL = (2, 0), (2, 1)
"""Virtual layer ids: ``2m`` of a layer's cache, ``2m+1`` of its tail."""
LONGER_THAN_ANY = 1 << 20
"""A window that nothing leaves, in tokens: fallback layers are a group of their own."""
SHAPES = ((2, 1), (4, 1), (4, 3), (8, 2), (4, 2), (12, 1))
"""Stored and real elements of a small latent."""
FALLBACKS = 5
"""Numbers of a set of fallback layers."""
SMALL_TILE = 2
"""Elements, and tokens, of a quantization tile of small models."""


def groups(
    quantized: LayerSet,
    fallback: LayerSet,
    *,
    stored: int = 640,
    latent: int = 576,
    values: int = 512,
    tile: int = 16,
    ring: int = 16,
    tokens_per_block: int = 128,
    packed: bool = True,
) -> tuple[LayerGroup, ...]:
    """The paged groups: latents of ``stored`` elements of 4 bits, ring tails, and latents of ``fallback`` layers.

    A scale of a byte belongs to ``tile`` elements of a key and to ``tile`` tokens of a value, whose first ``values``
    elements are derived from the key: scales, and if ``packed`` the transposed elements. A tail holds the last
    ``ring`` tokens unquantized, ``latent`` elements of 16 bits each.
    """
    derived = (Move(MoveState.DERIVED, inputs=("key", "key_block_scale")),)
    cache = [
        rows("key", quantized, stored, 4, ids=CACHE),
        rows("key_block_scale", quantized, -(-stored // tile), 8, ids=CACHE),
        replace(_record("mla_v_scale", quantized, values * tokens_per_block // tile), moves=derived),
    ]
    if packed:
        cache.append(replace(_record("mla_v_packed", quantized, values * tokens_per_block // 2), moves=derived))
    tail = Buffer("mla_hp_tail", quantized, (Part((Axis("R", ring), Axis("D", latent)), 16),), ids=TAIL)
    found = [paged("kv", cache), paged("tail", (tail,), ring)]
    if len(fallback):
        found.append(paged("fallback", (rows("key", fallback, latent, 16, ids=CACHE),), LONGER_THAN_ANY))
    return tuple(found)


def _record(role: str, on: LayerSet, size: int) -> Buffer:
    """``size`` bytes of a block that are no rows of tokens."""
    return Buffer(role, on, (Part((Axis("B", size),), 8),), ids=CACHE)


def declare(total: int, fallback: Iterable[int] = (), **sizes: int) -> Declaration:
    """FP4 latents on ``total`` layers but the ``fallback`` ones; ``sizes`` as :func:`groups` takes them."""
    plain = layers(fallback)
    quantized = layers(layer for layer in range(total) if layer not in plain)
    return Declaration(Model(total, groups(quantized, plain, **sizes)), NATIVE)


def declare_hybrid(mask: str, heads: int, dim: int, steps: int) -> Declaration:
    """A layer a letter of ``mask``: FP4 latents on attention layers, state of ``heads`` heads on the recurrent ones."""
    recurrent = on_layers(mask, STATE)
    sections = tuple((name, heads * dim) for name in "qkv")
    buffers = (ssm(recurrent, heads, dim, dim), conv(recurrent, sections, steps))
    own = state("state", (replace(buffer, ids=CACHE) for buffer in buffers))
    return Declaration(Model(len(mask), (own, *groups(on_layers(mask, ATTENTION), LayerSet()))), HYBRID)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    shape, window, fallback, packed = numbers
    stored, latent = SHAPES[shape]
    return declare(
        around.layers,
        _fallback(fallback, around.layers),
        stored=stored,
        latent=latent,
        values=latent,
        tile=SMALL_TILE,
        ring=draw_window(window, around),
        tokens_per_block=around.tokens_per_block,
        packed=packed > 0,
    )


def _fallback(number: int, total: int) -> range | tuple[int, ...]:
    """Layers that keep BF16: none, the last, the first, every second, all but the last."""
    if total == 1:
        return ()
    return ((), (total - 1,), (0,), range(1, total, 2), range(total - 1))[number]


KIND = Kind(
    name="fp4_mla",
    description="FP4 latents: values that the receiver derives again, a ring of the last tokens, BF16 fallback layers",
    order=10,
    bounds=(len(SHAPES), 8, FALLBACKS, 2),
    decode=decode,
    scope=((1, 0, 0, 1), (2, 2, 1, 1), (3, 5, 2, 0)),
    published=(
        PublishedModel(
            "kimi-k3-fp4",
            "Kimi K3 with FP4 latents",
            93,
            lambda bits: declare_hybrid(interval_mask(92, 4) + ATTENTION, 96, 128, 3),
            "93 layers as those of kimi-k3, FP4 on all 24 with a latent: 640 stored elements for 512 and 64, tails "
            "of 16 tokens, no rewind (code of the FP4 cache manager)",
            "source",
            element_bits=(4,),
            tokens_per_block=(128,),
        ),
    ),
    tokens_per_block=(2, 4, 8),
    places=True,
)
