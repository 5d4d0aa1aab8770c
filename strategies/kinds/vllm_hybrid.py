"""vLLM's hybrids: recurrent state in one region a layer, padded to the page of attention (spec: kinds, vLLM).

The region holds the three parts of the convolution state, then the SSM state. Heads of attention are shared out by
floor, state over the tensor ranks alone.
"""

from __future__ import annotations

from math import prod

from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer, Model, Part
from oracle.model.layers import LayerSet
from strategies.kinds.fitting import divisible, draw_heads
from strategies.kinds.pieces import by_heads, in_region, paged, state
from strategies.kinds.protocol import Declaration, Kind, Surroundings
from strategies.kinds.recurrent import ATTENTION, CONV_BITS, SSM_BITS, STATE, masks, on_layers

Shape = tuple[tuple[int, int, int], int, tuple[int, int, int]]
"""Channels of x, B and C; earlier tokens of the convolution; heads, head size and state size of the SSM state."""


def state_bytes(shape: Shape, ranks: int = 1) -> int:
    """Bytes of the region of a layer, before padding, on each of ``ranks`` tensor ranks."""
    sections, steps, matrix = shape
    return (sum(sections) * steps * CONV_BITS + prod(matrix) * SSM_BITS) // 8 // ranks


def page_bytes(heads: int, dim: int, bits: int, tokens_per_block: int, ranks: int = 1) -> int:
    """Bytes of the keys and values of a layer and block, on whichever of ``ranks`` tensor ranks has the most heads."""
    return 2 * -(-heads // ranks) * tokens_per_block * dim * bits // 8


def declare(mask: str, heads: int, dim: int, bits: int, shape: Shape, pad: int) -> Declaration:
    """A layer for each letter of ``mask``: attention of ``heads`` heads, or state padded to ``pad`` bytes."""
    attention, recurrent = on_layers(mask, ATTENTION), on_layers(mask, STATE)
    kv = [by_heads(role, attention, heads, dim, bits, Split.FLOOR) for role in ("key", "value")]
    return Declaration(
        Model(
            len(mask),
            (
                paged("full", in_region("page", kv)),
                state("state", in_region("page", _state(recurrent, shape), pad)),
            ),
        ),
        None,
    )


def _state(on: LayerSet, shape: Shape) -> list[Buffer]:
    sections, steps, (heads, head_dim, state_dim) = shape
    parts = [
        Buffer(f"conv_state_{name}", on, (Part((Axis("C", size, Split.EVEN), Axis("W", steps)), CONV_BITS),))
        for name, size in zip("xbc", sections, strict=True)
    ]
    axes = (Axis("H", heads, Split.EVEN), Axis("P", head_dim), Axis("N", state_dim))
    return [*parts, Buffer("ssm_state", on, (Part(axes, SSM_BITS),))]


SHAPES = ((1, 1, 1), (2, 1, 1), (3, 1, 2), (1, 2, 2))
"""Channels of x, B and C on each rank of the finest grid that fits both sides."""
MATRICES = ((1, 1), (1, 2), (2, 1))


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, width, mask, sections, steps, matrix = numbers
    count, (dim, bits) = draw_heads(heads, around, 32), ((1, 16), (2, 16), (3, 8), (4, 16))[width]
    found = masks(around.layers)
    unit = divisible(1, around.tensor)
    channels = tuple(unit * size for size in SHAPES[sections])
    shape: Shape = (channels, 1 + steps, (unit, *MATRICES[matrix]))  # type: ignore[assignment]
    block = around.tokens_per_block or 1
    pages = [page_bytes(count, dim, bits, block, ranks) for ranks in around.tensor]
    pad = max(*pages, *(state_bytes(shape, ranks) for ranks in around.tensor))
    return declare(found[mask % len(found)], count, dim, bits, shape, pad)


KIND = Kind(
    name="vllm_hybrid",
    description="vLLM's hybrids: convolution and SSM state in one region, padded to the page of attention",
    order=18,
    bounds=(32, 4, 64, len(SHAPES), 3, len(MATRICES)),
    decode=decode,
    scope=((1, 1, 0, 1, 0, 0), (0, 3, 1, 2, 1, 1), (2, 0, 2, 0, 0, 2)),
    layers=(2, 6),
    helix=False,
    places=True,
)
