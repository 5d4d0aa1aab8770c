"""Which rank holds which index of an axis, by asking each index (spec: kinds, vocabulary).

Nothing here computes a share: each predicate is the definition of its split, tried on every index.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oracle.model.axes import Axis, Grid, Split
from oracle.model.topology import Rank, Topology

Seat = tuple[int, int]
"""(position of a rank in a grid, ranks of the grid)"""


@lru_cache(maxsize=4096)
def seat(topology: Topology, rank: Rank, grid: Grid) -> Seat:
    """The position of ``rank`` among the ranks that share an axis of ``grid``, by listing them.

    Under attention DP a rank shares with nobody.
    """
    if topology.attention_dp:
        return 0, 1
    if grid is Grid.TP:
        members = [(tp, rank.cp) for tp in range(topology.tp)]
    else:
        members = [(tp, cp) for tp in range(topology.tp) for cp in range(topology.cp)]
    return members.index((rank.tp, rank.cp)), len(members)


def holds(split: Split, size: int, index: int, place: Seat) -> bool:
    """Whether the rank at ``place`` holds ``index`` of ``size`` indices under ``split``."""
    rank, ranks = place
    if split is Split.ALL:
        return True
    if split is Split.EVEN:
        return rank * size <= index * ranks < (rank + 1) * size
    if split is Split.CYCLIC:
        return (index - rank) % ranks == 0
    before = sum(1 for other in range(1, size + 1) if other * ranks <= rank * size)
    if split is Split.HEADS:
        width = next(width for width in range(1, size + 1) if width * ranks >= size)
        return before <= index < before + width
    if ranks > size:
        return index == before
    after = sum(1 for other in range(1, size + 1) if other * ranks <= (rank + 1) * size)
    return before <= index < after


@lru_cache(maxsize=16384)
def held_indices(axis: Axis, place: Seat) -> np.ndarray:
    """The global indices of a split or payload axis that the rank at ``place`` stores, in stored order (int64)."""
    if not axis.is_split:
        return np.arange(axis.size)
    found: list[int] = []
    start = 0
    for size, split in [(section.size, section.split) for section in axis.sections] or [(axis.size, axis.split)]:
        found.extend(start + index for index in range(size) if holds(split, size, index, place))
        start += size
    return np.array(found, dtype=np.int64)
