"""Which runs visit which slot: segments as (slot, slot, runs inside the slot), without a row for every run and slot.

A segment of whole slots stays factored: its runs are kept once, whatever the number of its slots.
Only runs that leave their slot, and bases that are no slot's start, are taken one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from oracle.model.pages import PageTable
from oracle.model.writes import Segment, Writes
from oracle.truth.runs import exists, room
from oracle.truth.stacks import FlatSide

ROWS = 1 << 19
"""runs that are taken one by one at a time"""
STRETCHES = 64
"""a segment whose runs fall into more stretches than this, in and out of their slot, is taken one by one"""


class Runs(NamedTuple):
    """Runs inside a slot in plan order: number within the visit, in-slot offsets, bytes (at least 1)."""

    number: np.ndarray
    source: np.ndarray
    destination: np.ndarray
    nbytes: np.ndarray


class Visits(NamedTuple):
    """Visits to the slots of one pool of a receiver, in order of slot, then of the plan (int64, n each).

    ``segment``, ``base``, ``run``: what writes, which of its bases, its first run. ``runs``: the
    number of the runs inside the slot. ``source``: the sender's slot.
    """

    slot: np.ndarray
    segment: np.ndarray
    base: np.ndarray
    run: np.ndarray
    runs: np.ndarray
    source: np.ndarray


@dataclass(slots=True, eq=False)
class Plan:
    """A plan by receiver's pool. ``outside``, ``nowhere``: as in ``Carried``; ``nbytes``: bytes that arrive."""

    writes: Writes
    context: FlatSide
    generation: FlatSide
    by_pool: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    runs: list[Runs] = field(default_factory=list)
    outside: list[tuple[int, int, int]] = field(default_factory=list)
    nowhere: list[int] = field(default_factory=list)
    nbytes: int = 0
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)

    def visits(self, rank: int, pool: int) -> Visits:
        """All visits to one pool; adds to ``runs``, ``outside`` and ``nbytes``."""
        found: list[tuple[np.ndarray, ...]] = []
        for number in self.by_pool.get((rank, pool), ()):
            self._add(number, self.writes.segments[number], found)
        if not found:
            return Visits(*[np.zeros(0, dtype=np.int64)] * 6)
        visits = Visits(*[np.concatenate(column) for column in zip(*found, strict=True)])
        order = np.lexsort((visits.run, visits.base, visits.segment, visits.slot))
        return Visits(*[column[order] for column in visits])

    def _add(self, number: int, segment: Segment, found: list[tuple[np.ndarray, ...]]) -> None:
        some = np.flatnonzero(segment.runs[:, 2] > 0)
        if not len(some) or not len(segment.source_bases):
            return
        there = self.context.side.tables[segment.source_rank], segment.source_pool
        here = self.generation.side.tables[segment.destination_rank], segment.destination_pool
        start, end, nbytes = segment.runs[some].T if len(some) < len(segment.runs) else segment.runs.T
        inside = _inside_slot(*there, start, nbytes) & _inside_slot(*here, end, nbytes)
        whole = _slot_starts(*there, segment.source_bases) & _slot_starts(*here, segment.destination_bases)
        edges = np.flatnonzero(np.diff(inside)) + 1
        if not whole.any() or len(edges) >= STRETCHES:
            self._note_outside(number, self._add_one_by_one(number, segment, np.arange(len(whole)), some, found))
            return
        bases = np.flatnonzero(whole)
        slots = segment.destination_bases[bases] // here[0].pools[here[1]].slot_stride
        sources = segment.source_bases[bases] // there[0].pools[there[1]].slot_stride
        fixed = np.full_like(slots, number)
        outside: list[np.ndarray] = []
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(some)], strict=True):
            if not inside[first]:
                outside.append(some[first:last])
                continue
            runs = self._number(segment.runs, some[first:last])
            self.nbytes += len(bases) * int(nbytes[first:last].sum())
            found.append((slots, fixed, bases, np.full_like(slots, some[first]), np.full_like(slots, runs), sources))
        clipped: list[tuple[int, int, int]] = []
        if outside:
            clipped += self._add_one_by_one(number, segment, bases, np.concatenate(outside), found)
        if len(bases) < len(whole):
            clipped += self._add_one_by_one(number, segment, np.flatnonzero(~whole), some, found)
        self._note_outside(number, clipped)

    def _note_outside(self, number: int, clipped: list[tuple[int, int, int]]) -> None:
        if clipped:
            self.outside.append((number, sum(nbytes for *_, nbytes in clipped), min(clipped)[1]))

    def _number(self, rows: np.ndarray, chosen: np.ndarray) -> int:
        """The number of these rows as runs of a visit. Segments often share their runs: those are known at once."""
        complete = len(chosen) == len(rows)
        if complete and id(rows) in self._known:
            return self._known[id(rows)]
        picked = rows if complete else rows[chosen]
        number = self._keep(Runs(chosen - chosen[0], picked[:, 0], picked[:, 1], picked[:, 2]))
        if complete:
            self._known[id(rows)] = number
        return number

    def _keep(self, runs: Runs) -> int:
        content = blake2b(digest_size=16)
        for column in runs:
            content.update(np.ascontiguousarray(column))
        number = self._numbers.setdefault(content.digest(), len(self.runs))
        if number == len(self.runs):
            self.runs.append(runs)
        return number

    def _add_one_by_one(
        self, number: int, segment: Segment, bases: np.ndarray, runs: np.ndarray, found: list[tuple[np.ndarray, ...]]
    ) -> list[tuple[int, int, int]]:
        """Add some runs at some bases, clipped to their slots.

        Returns (base, destination offset in the pool of the first run that is clipped, bytes clipped), a few times.
        """
        clipped: list[tuple[int, int, int]] = []
        at_once = max(1, ROWS // len(runs))
        for start in range(0, len(bases), at_once):
            for begin in range(0, len(runs), ROWS):
                some, part = bases[start : start + at_once], runs[begin : begin + ROWS]
                clipped += self._add_rows(number, segment, some, part, found)
        return clipped

    def _add_rows(
        self, number: int, segment: Segment, bases: np.ndarray, runs: np.ndarray, found: list[tuple[np.ndarray, ...]]
    ) -> list[tuple[int, int, int]]:
        there = self.context, segment.source_rank, segment.source_pool
        here = self.generation, segment.destination_rank, segment.destination_pool
        read = (segment.source_bases[bases][:, None] + segment.runs[runs, 0]).ravel()
        written = (segment.destination_bases[bases][:, None] + segment.runs[runs, 1]).ravel()
        nbytes = np.tile(segment.runs[runs, 2], len(bases))
        kept = np.minimum(nbytes, np.minimum(room(*there, read), room(*here, written)))
        clipped: list[tuple[int, int, int]] = []
        if (kept < nbytes).any():
            first = int((kept < nbytes).argmax())
            clipped = [(int(bases[first // len(runs)]), int(written[first]), int((nbytes - kept).sum()))]
        some = np.flatnonzero(kept)
        slot, offset = split_address(self.generation.side.tables[here[1]], here[2], written[some])
        source, source_offset = split_address(self.context.side.tables[there[1]], there[2], read[some])
        kept = kept[some]
        base, run = bases[some // len(runs)], runs[some % len(runs)]
        self.nbytes += int(kept.sum())
        order = np.argsort(slot, kind="stable")
        columns = [column[order] for column in (slot, source, base, run, source_offset, offset, kept)]
        slot, source, base, run, source_offset, offset, kept = columns
        edges = np.flatnonzero((np.diff(slot) != 0) | (np.diff(source) != 0) | (np.diff(base) != 0)) + 1
        firsts = np.concatenate((np.zeros(min(1, len(slot)), dtype=np.int64), edges))
        numbers = np.empty_like(firsts)
        for visit, (begin, end) in enumerate(zip(firsts, [*firsts[1:], len(slot)], strict=False)):
            part = slice(begin, end)
            numbers[visit] = self._keep(Runs(run[part] - run[begin], source_offset[part], offset[part], kept[part]))
        fixed = np.full_like(firsts, number)
        found.append((slot[firsts], fixed, base[firsts], run[firsts], numbers, source[firsts]))
        return clipped


def plan_of(writes: Writes, context: FlatSide, generation: FlatSide) -> Plan:
    """Segments by the pool that they write to, each list in plan order."""
    plan = Plan(writes, context, generation)
    for number, segment in enumerate(writes.segments):
        pool = segment.destination_rank, segment.destination_pool
        if exists(context, segment.source_rank, segment.source_pool) and exists(generation, *pool):
            plan.by_pool.setdefault(pool, []).append(number)
        else:
            plan.nowhere.append(number)
    return plan


def _slot_starts(table: PageTable, pool: int, bases: np.ndarray) -> np.ndarray:
    what = table.pools[pool]
    return (bases >= 0) & (bases % what.slot_stride == 0) & (bases < what.count * what.slot_stride)


def _inside_slot(table: PageTable, pool: int, offsets: np.ndarray, nbytes: np.ndarray) -> np.ndarray:
    """Whether each run stays in the slot that its base starts."""
    what = table.pools[pool]
    if not what.layer_stride:
        return (offsets >= 0) & (offsets + nbytes <= what.slot_bytes)
    within = offsets % what.layer_stride
    end_of_layer = offsets - within + what.count * what.slot_stride
    return (offsets >= 0) & (within + nbytes <= what.slot_bytes) & (end_of_layer <= table.pool_extent(pool))


def split_address(table: PageTable, pool: int, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(slot, in-slot offset) of addresses in a pool; in a layer-major one the offset counts on from layer to layer."""
    what = table.pools[pool]
    if not what.layer_stride:
        return np.divmod(addresses, what.slot_stride)
    layer, within = np.divmod(addresses, what.layer_stride)
    slot, offset = np.divmod(within, what.slot_stride)
    return slot, offset + layer * what.layer_stride
