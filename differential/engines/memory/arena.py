"""Where the pools of one side lie in guarded memory."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from oracle.truth.stacks import FlatSide

GUARD = 64
"""bytes before and after each pool that nothing may touch"""
ALIGNED = 64
"""every pool starts at a multiple of this, as allocators have it"""


class Arena:
    """The guarded memory of one side: its pools in the order of the truth's flat layout, guards around each.

    ``place`` (int64): arena position of every flat address. ``spans[rank][pool]``: where the pool's
    buffer starts and ends, the guard on either end included.
    """

    __slots__ = ("edges", "flat", "place", "size", "spans")

    def __init__(self, flat: FlatSide) -> None:
        self.flat = flat
        bounds = np.array([*flat.bounds, flat.size], dtype=np.int64)
        counted = np.diff(bounds)
        taken = -(-(counted + 2 * GUARD) // ALIGNED) * ALIGNED
        ends = np.cumsum(taken)
        starts = ends - taken
        self.size = int(ends[-1]) if len(ends) else 0
        self.place = np.arange(flat.size) + np.repeat(starts + GUARD - bounds[:-1], counted)
        self.edges: list[int] = starts.tolist()
        self.spans: list[list[tuple[int, int]]] = [[] for _ in flat.starts]
        for (rank, _), start, nbytes in zip(flat.owners, self.edges, counted.tolist(), strict=True):
            self.spans[rank].append((start, start + nbytes + 2 * GUARD))

    def spread(self, flat_values: np.ndarray, guard: int) -> np.ndarray:
        """Values of the flat memory at their arena positions, ``guard`` in between."""
        found = np.full(self.size, guard, dtype=flat_values.dtype)
        found[self.place] = flat_values
        return found

    @property
    def guards(self) -> int:
        """Guard bytes in all."""
        return self.size - len(self.place)

    def locate(self, position: int) -> tuple[int, int, int]:
        """(rank, pool, offset from the pool's start) of an arena position; a guard belongs to its pool."""
        number = bisect_right(self.edges, position) - 1
        rank, pool = self.flat.owners[number]
        return rank, pool, position - self.edges[number] - GUARD
