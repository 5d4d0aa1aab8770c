"""Judging what landed: the words of the destination's memory against the identities that were due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from differential.engines.memory.planes import GUARD, Arena, Planes
from differential.engines.memory.reach import Beyond
from oracle.model.writes import Writes
from oracle.truth.elements import Truth
from oracle.truth.findings import LIMIT, Located, Spot, describe
from oracle.truth.reserved import FOREIGN
from oracle.truth.verdict import Kind, Outcome, Place, Verdict, Violation


def judge_landed(
    planes: Planes,
    writes: Writes,
    words: np.ndarray,
    *,
    beyond: Beyond,
    changed: np.ndarray,
    refused: frozenset[int] = frozenset(),
    elects: bool = True,
) -> Verdict:
    """The verdict on the destination's memory (``words``, one for each arena position).

    ``beyond``: what the engine could not be given. ``changed``: source positions that it changed,
    which fails whatever landed. ``refused``: requests of which nothing is due and nothing may come.
    ``elects``: whether violations name the elected sender.

    Per byte: out of bounds (a guard changed, or a guard of the source arrived), then nothing more;
    stale source; stray, then nothing more; wrong element or torn. A due byte is missing only if
    nothing reached it.
    """
    expected, due = planes.expected, planes.due
    if refused:
        gone = planes.destination.place[np.isin(planes.truth.owner, list(refused))]
        expected, due = expected.copy(), due.copy()
        expected[gone], due[gone] = planes.never, False
    untouched = words == planes.never
    wrong = words != expected
    wrong &= ~untouched | due
    trouble = np.flatnonzero(wrong)
    nbytes = int(len(words) - planes.destination.guards - np.count_nonzero(untouched))
    if not (len(trouble) or beyond or len(changed)):
        return Verdict(Outcome.PASS, nbytes=nbytes, runs=writes.run_count, refusals=writes.refusals)
    violations: list[Violation] = []
    counts: dict[Kind, int] = {}
    for violation in _cut_off(planes.truth, writes, beyond):
        counts[violation.kind] = counts.get(violation.kind, 0) + violation.nbytes
        violations.append(violation)
    tell = Describer(planes, expected, elects)
    for kind, positions in _sorted_out(planes, words, expected, trouble):
        if len(positions):
            counts[kind] = counts.get(kind, 0) + len(positions)
            tell(kind, positions, words[positions], violations)
    return Verdict(
        Outcome.FAIL,
        tuple(violations),
        counts,
        nbytes=nbytes,
        runs=writes.run_count,
        reason=_overwritten(planes.source_arena, changed),
        refusals=writes.refusals,
    )


def _sorted_out(
    planes: Planes, words: np.ndarray, expected: np.ndarray, trouble: np.ndarray
) -> Iterator[tuple[Kind, np.ndarray]]:
    """Positions in trouble by kind of violation, in the fixed order."""
    came, wanted = words[trouble], expected[trouble]
    numbers = planes.numbers_of(came)
    outside = (wanted == planes.guard) | (numbers == len(planes.ids))
    missing = came == planes.never
    arrived = ~outside & ~missing
    known = arrived & (numbers >= 0)
    forbidden = wanted == planes.never
    stale = np.zeros(len(trouble), dtype=bool)
    stale[known] = planes.ids[numbers[known]] == FOREIGN
    yield Kind.OUT_OF_BOUNDS, trouble[outside]
    yield Kind.STALE_SOURCE, trouble[stale]
    yield Kind.STRAY, trouble[arrived & forbidden]
    yield Kind.WRONG_ELEMENT, trouble[known & ~forbidden]
    yield Kind.TORN, trouble[arrived & ~forbidden & (numbers < 0)]
    yield Kind.MISSING, trouble[missing & ~outside]


def _cut_off(truth: Truth, writes: Writes, beyond: Beyond) -> Iterator[Violation]:
    for number, nbytes in beyond:
        segment = writes.segments[number]
        yield Violation(
            Kind.OUT_OF_BOUNDS,
            nbytes,
            segment.request,
            segment.source_rank,
            segment.destination_rank,
            segment.group,
            paired=truth.heard[segment.request].get(segment.destination_rank, ()),
            note="runs of a rank or pool that does not exist, or far outside it, were not carried",
        )


def _overwritten(arena: Arena, positions: np.ndarray) -> str:
    """What an engine did to the source, which it may only read; no plan asks for it, so it is no violation of one."""
    if not len(positions):
        return ""
    rank, pool, offset = arena.locate(int(positions[0]))
    slot, within = divmod(offset, arena.flat.side.tables[rank].pools[pool].slot_stride)
    return (
        f"the engine changed {len(positions)} B of the source, the first at pool {pool} slot {slot} +{within} "
        f"of context rank {rank}"
    )


class Describer:
    """Turns positions into violations, one for each (kind, rank, pool, slot, buffer, block)."""

    def __init__(self, planes: Planes, expected: np.ndarray, elects: bool) -> None:
        self.planes = planes
        self.elects = elects
        self.expected = expected
        truth = planes.truth
        self.flat_of = np.full(planes.destination.size, -1, dtype=np.int64)
        self.flat_of[planes.destination.place] = np.arange(truth.generation.size)

    def __call__(self, kind: Kind, positions: np.ndarray, words: np.ndarray, violations: list[Violation]) -> None:
        flat = self.flat_of[positions]
        guards = np.flatnonzero(flat < 0)
        if len(guards):
            violations.extend(self._guards(positions[guards]))
        inside = np.flatnonzero(flat >= 0)
        if not len(inside):
            return
        truth = self.planes.truth
        keys = truth.generation_keys
        addresses = flat[inside]
        located = Located(truth.generation, addresses)
        wanted = np.where(self.expected[positions[inside]] == self.planes.never, -1, truth.due[addresses])
        bases = np.array(sorted(keys.base.values()), dtype=np.int64)
        buffer = np.where(wanted >= 0, np.searchsorted(bases, wanted % keys.width, side="right") - 1, -1)
        block = np.where(wanted >= 0, wanted // keys.width, -1)
        columns = np.stack([located.rank, located.pool, located.slot, buffer, block])
        _, first, count = np.unique(columns, axis=1, return_index=True, return_counts=True)
        for index, nbytes in sorted(zip(first.tolist(), count.tolist(), strict=True)):
            if len(violations) >= LIMIT:
                return
            place = Place(
                *(int(column[index]) for column in (located.rank, located.pool, located.slot, located.offset))
            )
            word = int(words[inside[index]])
            violations.append(self._violation(kind, nbytes, place, int(addresses[index]), int(wanted[index]), word))

    def _violation(self, kind: Kind, nbytes: int, place: Place, address: int, wanted: int, word: int) -> Violation:
        truth = self.planes.truth
        found, note = self._came(word)
        spot = Spot(
            place.rank,
            place.pool,
            place.slot,
            place.offset,
            wanted,
            found,
            int(truth.owner[address]),
            int(truth.elected[address]) if self.elects else -1,
            None,
        )
        told = describe(truth, kind, nbytes, spot, lambda heard: self._holders(wanted, heard))
        return replace(told, found_note=note) if note else told

    def _came(self, word: int) -> tuple[int | None, str]:
        """(identity that landed, if it is one; what it is instead, where the identity does not tell)."""
        planes = self.planes
        if word == planes.never:
            return None, ""
        number = int(planes.numbers_of(np.array([word], dtype=np.uint32))[0])
        if number < 0:
            return None, "bytes of several elements, or of some passes only"
        if number == len(planes.ids):
            return None, "a guard of the source"
        return int(planes.ids[number]), ""

    def _holders(self, wanted: int, heard: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the ranks ``heard`` whose memory holds the due identity."""
        arena = self.planes.source_arena
        numbers = np.flatnonzero(self.planes.ids == wanted)
        found = []
        for rank in heard if len(numbers) else ():
            words = self.planes.words_of(numbers)
            for start, end in arena.spans[rank]:
                here = [
                    plane[start:end] == (int(words[0]) >> 8 * digit) & 255
                    for digit, plane in enumerate(self.planes.source)
                ]
                if np.logical_and.reduce(here).any():
                    found.append(rank)
                    break
        return tuple(found)

    def _guards(self, positions: np.ndarray) -> Iterator[Violation]:
        """One violation for each pool whose guard was changed."""
        arena = self.planes.destination
        by_pool: dict[tuple[int, int], list[int]] = {}
        for position in positions.tolist():
            rank, pool, offset = arena.locate(position)
            by_pool.setdefault((rank, pool), []).append(offset)
        for (rank, pool), offsets in by_pool.items():
            stride = arena.flat.side.tables[rank].pools[pool].slot_stride
            yield Violation(
                Kind.OUT_OF_BOUNDS,
                len(offsets),
                destination=rank,
                place=Place(rank, pool, *divmod(offsets[0], stride)),
                note=f"a guard of {GUARD} B around the pool was written",
            )
