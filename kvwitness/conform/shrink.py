"""Making numbers smaller as long as what they stand for still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Numbers = tuple[int, ...]

TRIES = 600
"""Numbers that are tried at most: a bound that does not depend on the machine."""


def smallest(numbers: Sequence[int], fails: Callable[[Numbers], bool], *, tries: int = TRIES) -> Numbers:
    """The smallest numbers that a greedy walk down from ``numbers``, which fail, reaches.

    First all and ever shorter stretches become 0, then each number goes down on its own.

    >>> smallest((7, 9, 200), lambda numbers: numbers[2] > 17)
    (0, 0, 18)
    """
    found = tuple(numbers)
    tried = {found}
    moved = True
    while moved:
        moved = False
        for lower in _lower(found):
            if lower in tried:
                continue
            if len(tried) > tries:
                return found
            tried.add(lower)
            if fails(lower):
                found, moved = lower, True
                break
    return found


def _lower(numbers: Numbers) -> Iterator[Numbers]:
    width = len(numbers)
    while width >= 1:
        for first in range(0, len(numbers), width):
            end = min(first + width, len(numbers))
            if any(numbers[first:end]):
                yield (*numbers[:first], *(0,) * (end - first), *numbers[end:])
        if width == 1:
            break
        width = -(-width // 2)
    for place, number in enumerate(numbers):
        for lower in dict.fromkeys((1, number // 4, number // 2, number - 1)):
            if 0 < lower < number:
                yield (*numbers[:place], lower, *numbers[place + 1 :])
