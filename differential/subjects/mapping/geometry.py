"""How one buffer's bytes are stored on the two sides, before anyone asks which rank holds which of them."""

from __future__ import annotations

from functools import lru_cache

from differential.subjects.mapping.shares import Seat, axis_shares
from oracle.model.axes import Axis, Grid
from oracle.model.buffers import Buffer, Part
from oracle.model.counts import in_bytes, sub_pages
from oracle.model.instance import Instance


class Array:
    """A part of a buffer: its axes, elements of ``unit`` bytes, and the storage order of the axes on both sides.

    ``sizes`` are the rows or indices of an axis that every rank holds whole, and 0 for a split axis.
    """

    __slots__ = ("axes", "destination_order", "sizes", "source_order", "split", "unit")

    def __init__(self, part: Part, bits: int, rows: int, source_layout: str, destination_layout: str) -> None:
        self.axes, self.unit = in_bytes(part.axes, bits)
        self.sizes = tuple(rows if axis.is_token else 0 if axis.is_split else axis.size for axis in self.axes)
        self.split = tuple(place for place, axis in enumerate(self.axes) if axis.is_split)
        self.source_order = storage_order(self.axes, source_layout)
        self.destination_order = storage_order(self.axes, destination_layout)


class Geometry:
    """A buffer's sub-pages and the arrays that follow one another in each.

    Equal declarations share one object, so that its identity can key caches. ``grids`` says which
    of a rank's two positions decide its share: 0 none, 1 that in the tensor grid, 2 both.
    """

    __slots__ = ("arrays", "grids", "pages")

    def __init__(self, arrays: tuple[Array, ...], pages: int) -> None:
        self.arrays = arrays
        self.pages = pages
        self.grids = max(
            (1 if array.axes[place].grid is Grid.TP else 2 for array in arrays for place in array.split), default=0
        )

    def local_bytes(self, seat: Seat) -> int:
        """Bytes of the region that a rank sitting at ``seat`` needs."""
        total = 0
        for array in self.arrays:
            nbytes = array.unit
            for axis, size in zip(array.axes, array.sizes, strict=True):
                nbytes *= size or sum(map(len, axis_shares(axis, seat)))
            total += nbytes
        return total * self.pages


def storage_order(axes: tuple[Axis, ...], layout: str) -> tuple[int, ...]:
    """Places of ``axes`` from the outermost to the innermost: HND has heads outside tokens, NHD inside."""
    order = list(range(len(axes)))
    names = [axis.name for axis in axes]
    if layout and "H" in names and "T" in names:
        first, second = sorted((names.index("H"), names.index("T")))
        if (names[first] == "H") != (layout == "HND"):
            order[first], order[second] = second, first
    return tuple(order)


def geometry_of(buffer: Buffer, source: Instance, destination: Instance) -> Geometry:
    """The geometry of ``buffer`` between two instances of equal tokens per block and element widths."""
    pages, rows = sub_pages(buffer, destination.tokens_per_block)
    bits = tuple(destination.bits_of(buffer.role, part.bits) for part in buffer.parts)
    return _geometry(buffer.parts, bits, pages, rows, source.layout_of(buffer.role), destination.layout_of(buffer.role))


@lru_cache(maxsize=2048)
def _geometry(
    parts: tuple[Part, ...], bits: tuple[int, ...], pages: int, rows: int, source_layout: str, destination_layout: str
) -> Geometry:
    arrays = tuple(
        Array(part, width, rows, source_layout, destination_layout) for part, width in zip(parts, bits, strict=True)
    )
    return Geometry(arrays, pages)
