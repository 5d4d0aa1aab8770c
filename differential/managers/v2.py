"""The second cache manager: pages by ordinal, with holes (spec: blocks, V2 manager)."""

from __future__ import annotations

import numpy as np

from oracle.model.records import frozen

HOLE = -1
Range = tuple[int, int]
"""Ordinals [first, end); empty where ``end <= first``."""


@frozen(eq=False)
class PageList:
    """What the manager answers when asked for one request's pages by position.

    ``slots`` (int64): one entry an ordinal that there is room for, ``HOLE`` where it has no page of its
    own. ``parked``: ordinals whose page waits for its commit; it may have moved to another level, so its
    slot number says nothing. ``stale``: the ordinals that left the window at the sequence's history,
    ``scratch``: those that were written to shared slots. ``given``: whether the list came from elsewhere,
    so that no rule says where it has holes.
    """

    slots: np.ndarray
    parked: tuple[int, ...] = ()
    stale: Range = (0, 0)
    scratch: tuple[Range, ...] = ()
    given: bool = False

    @property
    def left_behind(self) -> int:
        """The first block behind those that left the window; 0 where none did."""
        return self.stale[1] if self.stale[0] < self.stale[1] else 0

    def usable(self) -> np.ndarray:
        """The slots, with a hole for every page that is parked."""
        if not self.parked:
            return self.slots
        slots = self.slots.copy()
        slots[list(self.parked)] = HOLE
        return slots

    def compact(self) -> np.ndarray:
        """The slots without holes: their ordinals are lost."""
        slots = self.usable()
        return slots[slots != HOLE]


def stale_range(history: int, window: int | None, sinks: int, tokens_per_block: int) -> Range:
    """Ordinals that have left the window when ``history`` tokens are in the cache; ``sinks`` in tokens stay."""
    if window is None:
        return 0, 0
    front = min(-(-history // tokens_per_block), -(-sinks // tokens_per_block))
    return front, max(front, (history + 1 - window) // tokens_per_block)


def scratch_range(
    history: int, capacity: int, rewind: int | None, window: int | None, sinks: int, tokens_per_block: int
) -> Range:
    """Ordinals without a page of their own: begun after ``history``, and stale before ``capacity`` is reached.

    ``rewind``: how many tokens may be taken back, None where nothing is written to scratch.
    """
    if rewind is None or window is None:
        return 0, 0
    low, high = stale_range(max(0, capacity - rewind), window, sinks, tokens_per_block)
    return max(low, -(-history // tokens_per_block)), min(high, -(-capacity // tokens_per_block))


def make_holes(slots: np.ndarray, *ranges: Range) -> np.ndarray:
    """``slots`` with holes at all ordinals of ``ranges``; the same array where there are none."""
    real = [(first, end) for first, end in ranges if first < end]
    if not real:
        return slots
    slots = slots.copy()
    for first, end in real:
        slots[first:end] = HOLE
    return slots
