"""Engines that carry a right plan out wrongly, made of any right engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from differential.engines.protocol import Engine, Memories
from oracle.model.writes import Segment, Writes

Change = Callable[[Writes], Writes]


class Mistaken:
    """``base`` with a mistake in the passes ``when`` (all where None); else it is ``base``, its memory too."""

    def __init__(self, base: Engine, when: tuple[int, ...] | None = None) -> None:
        self.base = base
        self.when = when
        self.passes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def carry(self, writes: Writes, source: Memories, destination: Memories) -> None:
        if self.when is None or self.passes in self.when:
            self.carry_wrongly(writes, source, destination)
        else:
            self.base.carry(writes, source, destination)
        self.passes += 1

    def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
        raise NotImplementedError


class Planning(Mistaken):
    """Carries out another plan than it is given."""

    def __init__(self, base: Engine, change: Change, when: tuple[int, ...] | None = None) -> None:
        super().__init__(base, when)
        self.change = change

    def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
        self.base.carry(self.change(writes), source, destination)


class Stale(Mistaken):
    """Reads the source as it was in the pass before; ``only``: no more than these runs of the first segment."""

    def __init__(self, base: Engine, only: slice = slice(None)) -> None:
        super().__init__(base)
        self.only = only
        self.kept: Memories | None = None

    def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
        self.base.carry(writes, source, destination)
        if self.kept is not None:
            self.base.carry(Writes(segments=tuple(cut(s, self.only) for s in writes.segments)), self.kept, destination)
        self.kept = [[m.clone() if hasattr(m, "clone") else bytearray(m) for m in row] for row in source]


class Setting(Mistaken):
    """Sets all of the first receiver's first pool to one value before it carries the plan out."""

    def __init__(self, base: Engine, value: int) -> None:
        super().__init__(base)
        self.value = value

    def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
        pool = destination[0][0]
        for position in range(64, len(pool) - 64):
            pool[position] = self.value
        self.base.carry(writes, source, destination)


def cut(segment: Segment, rows: slice) -> Segment:
    return replace(segment, runs=segment.runs[rows])


def by_runs(writes: Writes) -> list[Segment]:
    """The plan with one run a segment, in plan order."""
    zero = np.zeros(1, dtype=np.int64)
    found = []
    for segment in writes.segments:
        for source, destination, nbytes in segment.runs.tolist():
            for from_base, to_base in zip(
                segment.source_bases.tolist(), segment.destination_bases.tolist(), strict=True
            ):
                row = np.array([[from_base + source, to_base + destination, nbytes]], dtype=np.int64)
                found.append(replace(segment, source_bases=zero, destination_bases=zero, runs=row))
    return found


def drop_the_last_run(writes: Writes) -> Writes:
    return replace(writes, segments=tuple(by_runs(writes)[:-1]))


def one_byte_more(number: int) -> Change:
    """The run of this number is followed by its own last byte once more."""

    def change(writes: Writes) -> Writes:
        runs = by_runs(writes)
        source, destination, nbytes = runs[number].runs[0].tolist()
        again = replace(runs[number], runs=np.array([[source + nbytes - 1, destination + nbytes, 1]]))
        runs.insert(number % len(runs) + 1, again)
        return replace(writes, segments=tuple(runs))

    return change


def swap_two_runs(writes: Writes) -> Writes:
    """The first two runs of one length to one receiver, each to the other's place."""
    runs = by_runs(writes)
    for first, one in enumerate(runs):
        for second in range(first + 1, len(runs)):
            other = runs[second]
            same = (one.destination_rank, one.destination_pool, int(one.runs[0, 2]))
            if same == (other.destination_rank, other.destination_pool, int(other.runs[0, 2])):
                ends = one.runs[0, 1], other.runs[0, 1]
                runs[first] = replace(one, runs=np.array([[one.runs[0, 0], ends[1], one.runs[0, 2]]]))
                runs[second] = replace(other, runs=np.array([[other.runs[0, 0], ends[0], one.runs[0, 2]]]))
                return replace(writes, segments=tuple(runs))
    raise AssertionError("no two runs of one length")
