"""vLLM's pages of attention: all keys of a block, then all its values, in one region (spec: kinds, vLLM).

Quantised per token and head, the region ends with the scales of both. With NVFP4 each row of a head holds its data and
then its scales. Heads are shared out by floor: shares are disjoint, and may be uneven.
"""

from __future__ import annotations

from oracle.model.axes import Axis, Section, Split
from oracle.model.buffers import Buffer, Model, Part
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import TOKENS, by_heads, in_region, layers, paged
from strategies.kinds.protocol import Declaration, Kind, Surroundings

SCALE_BITS = 32
NVFP4 = "nvfp4"
PER_TOKEN_HEAD = "per token and head"


def declare(
    total: int, heads: int, dim: int, bits: int, *, value_dim: int = 0, scales: str = "", scaled: int = 16
) -> Declaration:
    """``heads`` heads of ``dim`` elements on each of ``total`` layers; ``value_dim`` where the value's differs.

    ``scales``: ``PER_TOKEN_HEAD`` for one of FP32 a token and head, ``NVFP4`` for one of a byte after the four-bit
    elements of each row, for every ``scaled`` of them, or none.
    """
    on = layers(range(total))
    dims = {"key": dim, "value": value_dim or dim}
    if scales == NVFP4:
        buffers = [_row_with_scales(role, total, heads, size // 2, size // scaled) for role, size in dims.items()]
    else:
        buffers = [by_heads(role, on, heads, size, bits, Split.FLOOR) for role, size in dims.items()]
    if scales == PER_TOKEN_HEAD:
        part = Part((TOKENS, Axis("H", heads, Split.FLOOR)), SCALE_BITS)
        buffers += [Buffer(f"{role}_scale", on, (part,)) for role in dims]
    return Declaration(Model(total, (paged("full", in_region("page", buffers)),)), None)


def _row_with_scales(role: str, total: int, heads: int, data: int, scale: int) -> Buffer:
    sections = (Section("data", data, Split.ALL), Section("scale", scale, Split.ALL))
    axes = (Axis("H", heads, Split.FLOOR), TOKENS, Axis("D", sections=sections))
    return Buffer(role, layers(range(total)), (Part(axes, 8),))


FORMS = (
    # dim, value dim, bits, scales
    (1, 1, 16, ""),
    (2, 2, 8, PER_TOKEN_HEAD),
    (4, 4, 4, NVFP4),
    (2, 3, 8, ""),
    (4, 2, 4, PER_TOKEN_HEAD),
    (8, 4, 4, NVFP4),
    (3, 2, 8, PER_TOKEN_HEAD),
    (2, 1, 16, ""),
)
SCALED = 4
"""Elements a scale is for, in small models."""


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, form = numbers
    dim, value_dim, bits, scales = FORMS[form]
    count = draw_heads(heads, around, 64)
    return declare(around.layers, count, dim, bits, value_dim=value_dim, scales=scales, scaled=SCALED)


KIND = Kind(
    name="vllm_fused",
    description="vLLM's K/V in one region of a block, with scales per token and head after them or in each row",
    order=19,
    bounds=(64, len(FORMS)),
    decode=decode,
    scope=((1, 1), (2, 2), (0, 3)),
    helix=False,
)
