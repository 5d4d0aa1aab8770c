"""What was judged: counts and the distribution of case sizes, kind by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from differential.faults.fault import Size


@dataclass(frozen=True, slots=True)
class Spread:
    """Least, median and most of what was counted."""

    least: int = 0
    median: int = 0
    most: int = 0

    @classmethod
    def of(cls, counted: Counter[int]) -> Spread:
        if not counted:
            return cls()
        values = sorted(counted)
        half, passed = (counted.total() - 1) // 2, 0
        for value in values:
            passed += counted[value]
            if passed > half:
                break
        return cls(values[0], value, values[-1])

    def __str__(self) -> str:
        return f"{self.least}/{self.median}/{self.most}"


@dataclass(slots=True)
class Tally:
    """Counts of one kind. ``pairs``, ``runs`` and ``nbytes`` add up all subjects; ``refused`` counts right refusals."""

    cases: int = 0
    pairs: int = 0
    runs: int = 0
    nbytes: int = 0
    refused: int = 0
    carried: int = 0
    """cases whose bytes an engine also moved"""
    failed: int = 0
    ranks: Counter[int] = field(default_factory=Counter)
    layers: Counter[int] = field(default_factory=Counter)
    blocks: Counter[int] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)

    def add_size(self, size: Size) -> None:
        self.ranks[size.ranks] += 1
        self.layers[size.layers] += 1
        self.blocks[size.blocks] += 1

    def merge(self, other: Tally) -> None:
        for name in ("cases", "pairs", "runs", "nbytes", "refused", "carried", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("ranks", "layers", "blocks", "violations"):
            getattr(self, name).update(getattr(other, name))


Tallies = dict[str, Tally]
"""Tallies by the name of the kind."""


def merge_tallies(into: Tallies, others: Tallies) -> None:
    for kind, tally in others.items():
        into.setdefault(kind, Tally()).merge(tally)
