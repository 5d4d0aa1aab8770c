"""A short list of settings in which every two values of different factors meet at least once.

Faults of a transfer mostly need two conditions that meet; a list that lets every pair meet is far
shorter than all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product

Row = tuple[object, ...]
"""One value of each factor, in the order of the factors."""


def cover(
    factors: Mapping[str, Sequence[object]],
    *,
    most: int,
    exists: Callable[[Row], bool] = lambda row: True,
    cost: Callable[[Row], object] = lambda row: 0,
    first: tuple[str, str] | None = None,
) -> tuple[Row, ...]:
    """At most ``most`` rows in which, as far as they go, every pair of values of two factors meets.

    Every step takes the row with the most pairs that have not met, of those the cheapest, of those the
    first. ``first``: two factors whose pairs are to meet before all others. Rows that do not ``exist``
    are no candidates, and pairs that no candidate has are not asked for.
    """
    names = list(factors)
    numbers: dict[tuple[int, object, int, object], int] = {}
    candidates: list[tuple[int, object, Row]] = []
    for row in product(*factors.values()):
        if exists(row):
            pairs = [(i, row[i], j, row[j]) for i, j in combinations(range(len(names)), 2)]
            mask = 0
            for pair in pairs:
                mask |= 1 << numbers.setdefault(pair, len(numbers))
            candidates.append((mask, cost(row), row))
    candidates.sort(key=lambda candidate: candidate[1])  # type: ignore[arg-type,return-value]  # stable: keeps the order
    urgent = 0
    if first is not None:
        wanted = {names.index(name) for name in first}
        urgent = sum(1 << bit for (i, _, j, _), bit in numbers.items() if {i, j} == wanted)
    left = (1 << len(numbers)) - 1
    found: list[Row] = []
    while left and len(found) < most:
        rank = (left & urgent) or left
        mask, _, row = max(candidates, key=lambda c: ((c[0] & rank).bit_count(), (c[0] & left).bit_count()))
        found.append(row)
        left &= ~mask
    return tuple(found)


def meets(factors: Mapping[str, Sequence[object]], rows: Sequence[Row], one: str, other: str) -> set[Row]:
    """Pairs of values of two factors that meet in ``rows``."""
    i, j = (list(factors).index(name) for name in (one, other))
    return {(row[i], row[j]) for row in rows}
