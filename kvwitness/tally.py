"""What was judged: counts and the distribution of case sizes, kind by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from differential.faults.fault import Size
from differential.ledger import Settled


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


COMPARED = ("identical", "accepted", "different", "cannot_say")
"""The counts of ``Compared``."""


@dataclass(slots=True)
class Compared:
    """How often two subjects' plans were ``identical``, ``accepted`` (all that differs is known) or ``different``.

    ``cannot_say``: identical but for what the encoding of one cannot say. ``entries``: cases by ledger entry
    that accepted something there; ``codes``: cases by the code of something that an encoding could not say.
    """

    identical: int = 0
    accepted: int = 0
    different: int = 0
    cannot_say: int = 0
    entries: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)

    def add(self, settled: Settled) -> None:
        name = settled.verdict.replace(" ", "_")
        setattr(self, name, getattr(self, name) + 1)
        self.entries.update(settled.accepted.keys())
        self.codes.update({each.code for each in settled.open.unsaid})

    def merge(self, other: Compared) -> None:
        for name in COMPARED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.entries.update(other.entries)
        self.codes.update(other.codes)


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
    left_out: Counter[str] = field(default_factory=Counter)
    """cases by a legacy subject that was not asked, for the kind has no legacy rule"""
    compared: dict[tuple[str, str], Compared] = field(default_factory=dict)
    """by the names of two subjects"""

    def compare(self, settled: Settled) -> None:
        names = settled.open.first, settled.open.second
        self.compared.setdefault(names, Compared()).add(settled)

    def add_size(self, size: Size) -> None:
        self.ranks[size.ranks] += 1
        self.layers[size.layers] += 1
        self.blocks[size.blocks] += 1

    def merge(self, other: Tally) -> None:
        for name in ("cases", "pairs", "runs", "nbytes", "refused", "carried", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("ranks", "layers", "blocks", "violations", "left_out"):
            getattr(self, name).update(getattr(other, name))
        for names, compared in other.compared.items():
            self.compared.setdefault(names, Compared()).merge(compared)


@dataclass(slots=True)
class Timing:
    """Processor seconds of random cases, and how many: all that were drawn, and those that no subject refuses at all.

    ``whole`` is everything, ``judging`` the part of served cases in planning, judging and comparing,
    ``carrying`` the engine's part of them, ``refused`` all that the others took but for drawing.
    """

    drawn: int = 0
    served: int = 0
    whole: float = 0.0
    judging: float = 0.0
    carrying: float = 0.0
    refused: float = 0.0

    def add(self, seconds: float, carrying: float, refused: bool) -> None:
        """Count one case that took ``seconds`` after it was drawn, ``carrying`` of them in the engine."""
        self.drawn += 1
        if refused:
            self.refused += seconds
        else:
            self.served += 1
            self.judging += seconds - carrying
            self.carrying += carrying

    def rate(self, *, carried: bool = False) -> float:
        """Served cases a second, drawing at its average cost included; ``carried``: the engine's part too."""
        if not self.served:
            return 0.0
        drawing = (self.whole - self.judging - self.refused - self.carrying) / self.drawn
        return 1 / (drawing + (self.judging + carried * self.carrying) / self.served)

    def merge(self, other: Timing) -> None:
        for name in ("drawn", "served", "whole", "judging", "carrying", "refused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


Tallies = dict[str, Tally]
"""Tallies by the name of the kind."""


def merge_tallies(into: Tallies, others: Tallies) -> None:
    for kind, tally in others.items():
        into.setdefault(kind, Tally()).merge(tally)
