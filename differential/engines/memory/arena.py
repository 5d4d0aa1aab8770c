"""Where the pools of one side lie in guarded memory."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import numpy as np

from oracle.truth.stacks import FlatSide

GUARD = 64
"""bytes before and after each pool that nothing may touch"""
ALIGNED = 64
"""every pool starts at a multiple of this, as allocators have it"""


class Arena:
    """The guarded memory of one side: its pools in the order of the truth's flat layout, guards around each.

    ``spans[rank][pool]``: where the pool's buffer starts and ends, the guard on either end included.
    """

    __slots__ = ("_bounds", "_edges", "flat", "size", "spans")

    def __init__(self, flat: FlatSide) -> None:
        self.flat = flat
        bounds = np.array([*flat.bounds, flat.size], dtype=np.int64)
        counted = np.diff(bounds)
        taken = -(-(counted + 2 * GUARD) // ALIGNED) * ALIGNED
        ends = np.cumsum(taken)
        starts = ends - taken
        self.size = int(ends[-1]) if len(ends) else 0
        self._edges: list[int] = starts.tolist()
        self._bounds: list[int] = bounds.tolist()
        self.spans: list[list[tuple[int, int]]] = [[] for _ in flat.starts]
        for (rank, _), start, nbytes in zip(flat.owners, self._edges, counted.tolist(), strict=True):
            self.spans[rank].append((start, start + nbytes + 2 * GUARD))

    def spread(self, flat_values: np.ndarray, guard: int) -> np.ndarray:
        """Values of the flat memory at their arena positions, ``guard`` in between."""
        found = np.full(self.size, guard, dtype=flat_values.dtype)
        for edge, (start, end) in zip(self._edges, pairwise(self._bounds), strict=True):
            found[edge + GUARD : edge + GUARD + end - start] = flat_values[start:end]
        return found

    def filled(self, inside: int | np.generic, guard: int | np.generic, kind: np.dtype) -> np.ndarray:
        """Memory that holds one value in the pools and another in the guards."""
        found = np.full(self.size, guard, dtype=kind)
        for edge, (start, end) in zip(self._edges, pairwise(self._bounds), strict=True):
            found[edge + GUARD : edge + GUARD + end - start] = inside
        return found

    def flat_addresses(self, positions: np.ndarray) -> np.ndarray:
        """The flat address at each arena position (int64); -1 for a guard."""
        edges = np.array(self._edges, dtype=np.int64)
        bounds = np.array(self._bounds, dtype=np.int64)
        number = np.searchsorted(edges, positions, side="right") - 1
        offset = positions - edges[number] - GUARD
        inside = (offset >= 0) & (offset < (bounds[1:] - bounds[:-1])[number])
        return np.where(inside, offset + bounds[number], -1)

    @property
    def guards(self) -> int:
        """Guard bytes in all."""
        return self.size - self.flat.size

    def locate(self, position: int) -> tuple[int, int, int]:
        """(rank, pool, offset from the pool's start) of an arena position; a guard belongs to its pool."""
        number = bisect_right(self._edges, position) - 1
        rank, pool = self.flat.owners[number]
        return rank, pool, position - self._edges[number] - GUARD
