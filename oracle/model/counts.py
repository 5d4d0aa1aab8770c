"""How many indices and bytes a rank holds: sizes for packing, never which indices.

Tests pin these counts to published byte figures and check them against the predicates of
``oracle.truth``.
"""

from __future__ import annotations

from functools import lru_cache

from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, Part
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.topology import Rank, Topology


def count_indices(axis: Axis, part: int, parts: int) -> int:
    """Number of indices of a split or payload axis on part ``part`` of ``parts``."""
    if axis.sections:
        return sum(_count(section.size, section.split, part, parts, axis.name) for section in axis.sections)
    return _count(axis.size, axis.split, part, parts, axis.name)


def _count(size: int, split: Split, part: int, parts: int, name: str) -> int:
    if split is Split.ALL or parts == 1:
        return size
    if split is Split.EVEN:
        if size % parts:
            raise InvalidCase(f"axis {name}", size, f"an even split over {parts} ranks needs a multiple of {parts}")
        return size // parts
    if split is Split.HEADS:
        return -(-size // parts)
    if split is Split.FLOOR:
        return max(1, (part + 1) * size // parts - part * size // parts)
    return len(range(part, size, parts))


def grid_part(topology: Topology, rank: Rank, grid: Grid) -> tuple[int, int]:
    """(part, parts) of ``rank`` in ``grid``; every grid has one part under attention DP."""
    if topology.attention_dp:
        return 0, 1
    if grid is Grid.TP:
        return rank.tp, topology.tp
    return rank.tp * topology.cp + rank.cp, topology.tp * topology.cp


def ordered_axes(part: Part, layout: str) -> tuple[Axis, ...]:
    """The axes of ``part`` in storage order."""
    return order_axes(part.axes, layout)


def order_axes(axes: tuple[Axis, ...], layout: str) -> tuple[Axis, ...]:
    """``axes`` in storage order: HND and NHD exchange the head and the token axis."""
    names = [axis.name for axis in axes]
    if not layout or "H" not in names or "T" not in names:
        return axes
    head, token = names.index("H"), names.index("T")
    if (head < token) == (layout == "HND"):
        return axes
    swapped = list(axes)
    swapped[head], swapped[token] = swapped[token], swapped[head]
    return tuple(swapped)


@lru_cache(maxsize=4096)
def in_bytes(axes: tuple[Axis, ...], bits: int) -> tuple[tuple[Axis, ...], int]:
    """``axes`` with whole-byte elements: (axes, bytes an element).

    Elements narrower than a byte are folded along the innermost axis, whose shares must then end
    on whole bytes: it may be split evenly or not at all.
    """
    if bits % 8 == 0:
        return axes, bits // 8
    if 8 % bits or not axes or axes[-1].is_token:
        raise InvalidCase("element bits", bits, "expected whole bytes, or 1, 2 or 4 bits along a payload axis")
    inner = axes[-1]
    splits = {section.split for section in inner.sections} or {inner.split}
    if splits - {Split.ALL, Split.EVEN}:
        raise InvalidCase(f"axis {inner.name}", bits, "share boundaries of elements below a byte must be whole bytes")
    if any(size * bits % 8 for size in [section.size for section in inner.sections] or [inner.size]):
        raise InvalidCase(f"axis {inner.name}", bits, "the innermost stored row must be whole bytes")
    if inner.sections:
        sections = tuple(
            type(section)(section.name, section.size * bits // 8, section.split) for section in inner.sections
        )
        folded = Axis(inner.name, 0, Split.ALL, inner.grid, sections)
    else:
        folded = Axis(inner.name, inner.size * bits // 8, inner.split, inner.grid)
    return (*axes[:-1], folded), 1


@lru_cache(maxsize=4096)
def sub_pages(buffer: Buffer, tokens_per_block: int) -> tuple[int, int]:
    """(sub-pages of a block, token rows of each); (1, 0) for a buffer without a token axis."""
    tokens = buffer.tokens_per_row
    if not tokens:
        return 1, 0
    where = f"buffer {buffer.role}"
    if tokens_per_block % tokens:
        raise InvalidCase(where, tokens, f"T({tokens}) does not divide tokens_per_block = {tokens_per_block}")
    rows = tokens_per_block // tokens
    if buffer.expansion > 1:
        if rows % buffer.expansion:
            raise InvalidCase(where, buffer.expansion, f"x({buffer.expansion}) does not divide {rows} rows a block")
        return buffer.expansion, rows // buffer.expansion
    if buffer.sub_rows and rows > buffer.sub_rows:
        if rows % buffer.sub_rows:
            raise InvalidCase(where, buffer.sub_rows, f"the sub-page does not divide {rows} rows a block")
        return rows // buffer.sub_rows, buffer.sub_rows
    return 1, rows


@lru_cache(maxsize=8192)
def local_bytes(buffer: Buffer, instance_bits: tuple[int, ...], parts: tuple[tuple[int, int], ...], tpb: int) -> int:
    """Bytes that a rank stores of ``buffer`` for one block or one request.

    ``instance_bits`` are the element bits of each part, ``parts`` the (part, parts) of the TP and
    the TPCP grid.
    """
    pages, rows = sub_pages(buffer, tpb)
    total = 0
    for part, bits in zip(buffer.parts, instance_bits, strict=True):
        axes, unit = in_bytes(part.axes, bits)
        size = unit
        for axis in axes:
            size *= rows if axis.is_token else count_indices(axis, *parts[0 if axis.grid is Grid.TP else 1])
        total += size
    return pages * total


def buffer_bytes(buffer: Buffer, instance: Instance, rank: Rank) -> int:
    """Bytes of ``buffer`` in one slot of ``rank`` of ``instance``; what cannot be is told with its role."""
    topology = instance.topology
    bits = tuple([instance.bits_of(buffer.role, part.bits) for part in buffer.parts])
    parts = (grid_part(topology, rank, Grid.TP), grid_part(topology, rank, Grid.TPCP))
    try:
        return local_bytes(buffer, bits, parts, instance.tokens_per_block)
    except InvalidCase as error:
        where = f"buffer {buffer.role}"
        if error.argument.startswith(where):
            raise
        raise InvalidCase(f"{where}, {error.argument}", error.value, error.accepted) from error
