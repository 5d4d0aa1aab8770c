"""Digit planes: the identities of a case as bytes that an engine can carry.

Memory holds one byte per byte, an identity is longer. So the identities of a case are numbered
densely and written as ``k`` digits; the engine carries the plan out once per digit, and the k bytes
that landed at one place are put together again.

No value stands for a digit in two planes: plane p has the digits p*B to p*B + B - 1, where B is the
k-th part of 254. So a byte that kept what an earlier pass brought, or that landed in some passes
only, never looks like an identity. The destination's bytes that nothing has reached, and guards,
hold 254 and 255 in turn, so that memory which is set to one value does not look untouched either.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from differential.engines.memory.arena import Arena
from oracle.model.case import Case
from oracle.truth.blocks import NATIVE_ONLY, is_required
from oracle.truth.elements import Truth, truth_of
from oracle.truth.reserved import FOREIGN, PADDING

DIGITS = 254
"""values of a byte that digits may have; the other two mark guards and what nothing has reached"""
DENSE = 16
"""a table over the whole range of ids is made where it has at most this many entries a byte of memory"""


class Planes:
    """The identities of a case, ready to be carried.

    Words hold the k digits of a number, that of plane p in byte p; they are uint32, or uint64 from
    five digits on. ``source`` (uint8, k x source size): what the source holds in each pass.
    ``expected`` (words): what the destination must hold in the end, ``never`` where nothing may
    come, ``guard`` in guards. ``due`` (bool): where it must be so, guards included. ``ids``: the
    identity by number; the number after the last one is that of the source's guards.
    """

    __slots__ = (
        "base",
        "destination",
        "due",
        "expected",
        "guard",
        "ids",
        "native_only",
        "never",
        "passes",
        "source",
        "source_arena",
        "truth",
        "word",
    )

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.ids, source_numbers, due_numbers = number_densely(truth.source, truth.due)
        known = len(self.ids) + 1
        self.passes = passes_for(known + 1)
        self.base = DIGITS // self.passes
        self.word = np.dtype(np.uint32 if self.passes <= 4 else np.uint64)
        words = self.words_of(np.arange(known + 1))
        self.never = self.together([never_digit(digit) for digit in range(self.passes)])
        self.guard = self.together([guard_digit(digit) for digit in range(self.passes)])
        self.source_arena = Arena(truth.context)
        self.destination = Arena(truth.generation)
        held = self.source_arena.spread(words[source_numbers], int(words[known - 1]))
        del source_numbers
        self.source = np.empty((self.passes, self.source_arena.size), dtype=np.uint8)
        for digit in range(self.passes):
            np.copyto(self.source[digit], held >> self.word.type(8 * digit), casting="unsafe")
        del held
        wanted = words[due_numbers]
        del due_numbers
        wanted[truth.due < 0] = self.never
        self.expected = self.destination.spread(wanted, self.guard)
        self.due = self.destination.spread(is_required(truth.klass, paired=True), True)
        self.native_only = None
        if any(group.native_only for group in truth.case.model.groups):
            self.native_only = self.destination.spread(truth.klass == NATIVE_ONLY, False)

    def together(self, digits: Sequence[int]) -> np.generic:
        """The word of some digits, that of plane 0 first."""
        return self.word.type(sum(digit << 8 * plane for plane, digit in enumerate(digits)))

    def words_of(self, numbers: np.ndarray) -> np.ndarray:
        """The words of some numbers."""
        words = np.zeros(len(numbers), dtype=self.word)
        rest = numbers
        for digit in range(self.passes):
            rest, low = np.divmod(rest, self.base)
            words |= (low + digit * self.base).astype(self.word) << self.word.type(8 * digit)
        return words

    def numbers_of(self, words: np.ndarray) -> np.ndarray:
        """The number that each word spells: ``len(ids)`` for the source's guards, -1 where it spells none."""
        numbers = np.zeros(len(words), dtype=np.int64)
        spelled = np.ones(len(words), dtype=bool)
        for digit in range(self.passes):
            value = ((words >> self.word.type(8 * digit)) & self.word.type(255)).astype(np.int64) - digit * self.base
            numbers += value * self.base**digit
            spelled &= (value >= 0) & (value < self.base)
        return np.where(spelled & (numbers <= len(self.ids)), numbers, -1)

    def fresh_destination(self, plane: int) -> np.ndarray:
        """The destination's memory (uint8) before pass ``plane``: nothing has been written, guards are whole."""
        return self.destination.filled(never_digit(plane), guard_digit(plane), np.dtype(np.uint8))

    def fresh_words(self) -> np.ndarray:
        """The destination's words before anything has been written."""
        return self.destination.filled(self.never, self.guard, self.word)

    def source_words(self) -> np.ndarray:
        """The word of every byte of the source, guards included."""
        words = np.zeros(self.source_arena.size, dtype=self.word)
        for plane in range(self.passes):
            words |= self.source[plane].astype(self.word) << self.word.type(8 * plane)
        return words


def passes_for(numbers: int) -> int:
    """The least number of planes whose digits tell so many numbers apart."""
    passes = 1
    while (DIGITS // passes) ** passes < numbers:
        passes += 1
    return passes


def never_digit(plane: int) -> int:
    """What a byte of the destination holds in this plane until something reaches it."""
    return 255 - plane % 2


def guard_digit(plane: int) -> int:
    """What a guard of the destination holds in this plane."""
    return 254 + plane % 2


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
        table = np.full(span, len(ids) + 1, dtype=np.int32 if len(ids) < 1 << 30 else np.int64)
        table[ids - lowest] = np.arange(len(ids))
        return ids, table[source - lowest], table[due - lowest]
    ids, numbers = np.unique(source, return_inverse=True)
    place = np.minimum(np.searchsorted(ids, due), len(ids) - 1)
    return ids, numbers, np.where(ids[place] == due, place, len(ids) + 1)


@lru_cache(maxsize=4)
def planes_of(case: Case, padding: str = "optional", with_tails: bool = False) -> Planes:
    """The planes of ``case``; they are shared: do not change them. ``with_tails``: whether beam tails may arrive."""
    return Planes(truth_of(case, padding, with_tails=with_tails))
