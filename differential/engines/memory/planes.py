"""Digit planes: the identities of a case as bytes that an engine can carry.

Memory holds one byte per byte, an identity is longer. So the identities of a case are numbered
densely and written as ``k`` digits; the engine carries the plan out once per digit, and the k bytes
that landed at one place are put together again. A digit is at most 253. On the destination 254 marks
guard bytes and 255 bytes that nothing has reached, in every plane: a byte that landed in some passes
only never looks like an identity.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oracle.model.case import Case
from oracle.truth.blocks import DUE
from oracle.truth.elements import Truth, truth_of
from oracle.truth.reserved import FOREIGN, PADDING
from oracle.truth.stacks import FlatSide

GUARD = 64
"""bytes before, between and after the pools of a side, in bytes"""
BASE = 254
GUARD_DIGIT = 254
NEVER_DIGIT = 255
DENSE = 16
"""a table over the whole range of ids is made where it has at most this many entries a byte of memory"""


class Arena:
    """The guarded memory of one side: its pools in the order of the truth's flat layout, guards around each.

    ``place`` (int64): arena position of every flat address. ``spans[rank][pool]``: where the pool's
    buffer starts and ends, a guard on each end included; neighbours share the guard between them.
    """

    __slots__ = ("flat", "place", "size", "spans")

    def __init__(self, flat: FlatSide) -> None:
        self.flat = flat
        edges = [*flat.bounds, flat.size]
        counted = np.diff(edges)
        self.place = np.arange(flat.size) + np.repeat(GUARD * np.arange(1, len(counted) + 1), counted)
        self.size = flat.size + GUARD * len(edges)
        self.spans: list[list[tuple[int, int]]] = [[] for _ in flat.starts]
        for number, (rank, _) in enumerate(flat.owners):
            start = edges[number] + GUARD * number
            self.spans[rank].append((start, start + counted[number] + 2 * GUARD))

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
        """(rank, pool, offset from the pool's start) of an arena position; a guard belongs to the nearer pool."""
        for number, owner in enumerate(self.flat.owners):
            rank, pool = owner
            start, end = self.spans[rank][pool]
            if position < end - GUARD // 2 or number == len(self.flat.owners) - 1:
                return rank, pool, position - start - GUARD
        raise IndexError(position)

    def buffers(self, memory: np.ndarray) -> list[list[memoryview]]:
        """``memory`` (uint8, size) as one writable buffer for each rank and pool, guards included."""
        view = memoryview(memory)
        return [[view[start:end] for start, end in row] for row in self.spans]


class Planes:
    """The identities of a case, ready to be carried.

    Words (uint32) hold the k digits of a number, the lowest in the lowest byte. ``source`` (uint8,
    k x source size): what the source holds in each pass. ``expected`` (words): what the destination
    must hold in the end, ``never`` where nothing may come, ``guard`` in guards. ``due`` (bool):
    where it must have come. ``ids``: the identity by number; the number after the last one is that
    of the source's guards.
    """

    __slots__ = ("destination", "due", "expected", "guard", "ids", "never", "passes", "source", "source_arena", "truth")

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.ids, source_numbers, due_numbers = number_densely(truth.source, truth.due)
        known = len(self.ids) + 1
        self.passes = 1
        while BASE**self.passes < known + 1:
            self.passes += 1
        words = self.words_of(np.arange(known + 1))
        self.never = np.uint32(sum(NEVER_DIGIT << 8 * digit for digit in range(self.passes)))
        self.guard = np.uint32(sum(GUARD_DIGIT << 8 * digit for digit in range(self.passes)))
        self.source_arena = Arena(truth.context)
        self.destination = Arena(truth.generation)
        held = self.source_arena.spread(words[source_numbers], int(words[known - 1]))
        self.source = np.stack([(held >> 8 * digit).astype(np.uint8) for digit in range(self.passes)])
        self.expected = self.destination.spread(np.where(truth.due < 0, self.never, words[due_numbers]), self.guard)
        self.due = self.destination.spread(truth.klass == DUE, False)

    def words_of(self, numbers: np.ndarray) -> np.ndarray:
        """The words of some numbers."""
        words = np.zeros(len(numbers), dtype=np.uint32)
        rest = numbers
        for digit in range(self.passes):
            rest, low = np.divmod(rest, BASE)
            words |= low.astype(np.uint32) << np.uint32(8 * digit)
        return words

    def numbers_of(self, words: np.ndarray) -> np.ndarray:
        """The number that each word spells: ``len(ids)`` for the source's guards, -1 where it spells none."""
        numbers = np.zeros(len(words), dtype=np.int64)
        spelled = np.ones(len(words), dtype=bool)
        for digit in range(self.passes):
            value = (words >> np.uint32(8 * digit)) & np.uint32(255)
            numbers += value.astype(np.int64) * BASE**digit
            spelled &= value < BASE
        return np.where(spelled & (numbers <= len(self.ids)), numbers, -1)

    def fresh_destination(self) -> np.ndarray:
        """The destination's memory (uint8) before a pass: nothing has been written, guards are whole."""
        memory = np.full(self.destination.size, GUARD_DIGIT, dtype=np.uint8)
        memory[self.destination.place] = NEVER_DIGIT
        return memory


def number_densely(source: np.ndarray, due: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ids on the source in ascending order, their number at every source byte, the due number at every other byte).

    A due id that the source does not hold has the number ``len(ids) + 1``: nothing spells it.
    """
    lowest = min(FOREIGN, PADDING)
    span = int(max(source.max(initial=0), due.max(initial=0))) - lowest + 1
    if span <= DENSE * (len(source) + len(due)) + 4096:
        held = np.zeros(span, dtype=bool)
        held[source - lowest] = True
        ids = np.flatnonzero(held) + lowest
        table = np.full(span, len(ids) + 1, dtype=np.int64)
        table[ids - lowest] = np.arange(len(ids))
        return ids, table[source - lowest], table[due - lowest]
    ids, numbers = np.unique(source, return_inverse=True)
    place = np.minimum(np.searchsorted(ids, due), len(ids) - 1)
    return ids, numbers, np.where(ids[place] == due, place, len(ids) + 1)


@lru_cache(maxsize=4)
def planes_of(case: Case, padding: str = "optional") -> Planes:
    """The planes of ``case``. They are shared: do not change them."""
    return Planes(truth_of(case, padding))
