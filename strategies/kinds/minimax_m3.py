"""MiniMax M3: on sparse layers an index key, whole on every rank, beside K/V split by heads (spec: kinds)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from oracle.model.buffers import Buffer, Model, Move, MoveState, Placement
from oracle.model.case import Native
from oracle.model.instance import Without
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import block_scales, key_value, layers, paged, rows
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

# Keys and values are head-major or token-major as the instance's layout says.
NATIVE = Native((("all", "indexed"), ("index_key", "replicated")), ignored=("index_value",))

DIMS = (1, 2, 4, 2)
BITS = (16, 8, 4)
INDEXED = 8
"""Numbers of a width of the index key."""
MASKS = 6
"""Numbers of a set of sparse layers."""


def declare(
    total: int,
    heads: int,
    dim: int,
    bits: int,
    sparse: Iterable[int],
    index_dim: int,
    index_bits: int,
    *,
    scaled: int = 16,
    index_value: bool = False,
    draft: int = 0,
    draft_heads: int = 1,
    lacking: str = "",
) -> Declaration:
    """``heads`` K/V heads of ``dim`` elements on ``total`` layers, an index key of ``index_dim`` on ``sparse`` ones.

    K/V of 4 bits come with a scale of a byte for every ``scaled`` elements. ``index_value``: the optional value of the
    indexer, which stands outside the pools of the manager and never moves. ``draft``: Eagle-3 layers after the
    others, with ``draft_heads`` heads each and no index key; ``lacking``: the side that has none of them.
    """
    attention, indexed = layers(range(total)), layers(sparse)
    appended = layers(range(total, total + draft))
    each = [(attention, heads), *([(appended, draft_heads)] if draft else ())]
    buffers: list[Buffer] = [buffer for on, count in each for buffer in key_value(on, count, dim, bits)]
    if bits == 4:
        buffers += [buffer for on, count in each for buffer in block_scales(on, count, dim // scaled)]
    buffers.append(rows("index_key", indexed, index_dim, index_bits))
    if index_value:
        value = rows("index_value", indexed, index_dim, index_bits)
        buffers.append(replace(value, moves=(Move(MoveState.NEVER),), placement=Placement(own=True)))
    roles = tuple(dict.fromkeys(buffer.role for buffer in buffers if appended.ids and appended.ids[0] in buffer.layers))
    gone = {lacking: (Without(roles, appended),)} if lacking else {}
    model = Model(total + draft, (paged("full", buffers),), draft=appended)
    return Declaration(model, NATIVE, draft, (gone.get("context", ()), gone.get("generation", ())))


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, shape, width, index, mask, more = numbers
    count, dim, bits = draw_heads(heads, around, 64), DIMS[shape], BITS[width]
    if bits == 4:
        dim *= 4
    index_dim, index_bits = _index(index, count, dim, bits, around)
    draft_heads = draw_heads((more - 8) * 4, around, 32) if more >= 8 else 1
    return declare(
        around.layers,
        count,
        dim,
        bits,
        _sparse(mask, around.layers),
        index_dim,
        index_bits,
        scaled=4,
        index_value=more in (6, 7, 15),
        draft=int(more >= 8),
        draft_heads=draft_heads,
        lacking={11: "context", 13: "generation"}.get(more, ""),
    )


def _index(number: int, heads: int, dim: int, bits: int, around: Surroundings) -> tuple[int, int]:
    """(elements, bits of each) of an index key: as wide as a head, or in bytes as a key on one side, or as no key."""
    held = [-(-heads // ranks) * dim * bits // 8 for ranks in around.tensor]
    if number in (2, 3, 4, 5):
        size = held[number % 2]
        return (size // 2, 16) if number < 4 and size % 2 == 0 else (size, 8)
    if number == 6:
        return max(held) + 1, 8
    if number == 7:
        return dim + 1, 16
    return dim, (16, 8)[number]


def _sparse(number: int, total: int) -> range | tuple[int, ...]:
    """Layers with an index key: all, all after a dense one, the last, every second, all but the last, the first."""
    if total == 1:
        return (0,)
    return (
        range(total),
        range(1, total),
        (total - 1,),
        range(1, total, 2),
        range(total - 1),
        (0,),
    )[number]


def _published(name: str, title: str, index_bits: int, draft: int = 0, says: str = "") -> PublishedModel:
    return PublishedModel(
        name,
        title,
        60,
        lambda bits: declare(60, 4, 128, bits, range(3, 60), 128, index_bits, draft=draft, draft_heads=4),
        "60 layers, the first 3 dense, 4 K/V heads of 128, one index key of 128 (config of MiniMaxAI/MiniMax-M3)"
        + says,
        "config",
        element_bits=(16, 8, 4),
        tokens_per_block=(128,),
    )


KIND = Kind(
    name="minimax_m3",
    description="block-sparse attention: key and value split by heads, beside them an index key that all ranks hold",
    order=8,
    # The first number means what it means to simpler kinds, so that a case shrinks to one of theirs.
    bounds=(64, len(DIMS), len(BITS), INDEXED, MASKS, 16),
    decode=decode,
    scope=((2, 1, 0, 0, 1, 0), (2, 1, 1, 0, 1, 6), (1, 1, 2, 2, 3, 8)),
    published=(
        _published("minimax-m3", "MiniMax-M3", 16),
        _published("minimax-m3-fp8-index", "MiniMax-M3 with an index key of 8 bits", 8, says="; index key in FP8"),
    ),
)
