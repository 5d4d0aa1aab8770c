"""Describing what landed: positions in trouble as violations, with what was due, what came and whose fault it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from differential.engines.memory.arena import GUARD
from differential.engines.memory.planes import Planes
from oracle.truth.findings import LIMIT, Located, Spot, describe, gather, place_of
from oracle.truth.verdict import Kind, Place, Violation


class Describer:
    """Turns positions into violations, one for each (kind, rank, pool, slot, buffer, block, as planned or not).

    ``words``: what the destination holds. ``expected``: what it is to hold. ``asked``: what the plan
    brings, None where no plan is known. ``elects``: whether to name the elected sender.
    """

    def __init__(
        self, planes: Planes, words: np.ndarray, expected: np.ndarray, asked: np.ndarray | None, elects: bool
    ) -> None:
        self.planes = planes
        self.words = words
        self.expected = expected
        self.asked = words if asked is None else asked
        self.elects = elects

    def __call__(self, kind: Kind, positions: np.ndarray, violations: list[Violation]) -> None:
        flat = self.planes.destination.flat_addresses(positions)
        guards = np.flatnonzero(flat < 0)
        if len(guards):
            violations.extend(self._guards(positions[guards]))
        inside = positions[flat >= 0]
        if not len(inside):
            return
        truth = self.planes.truth
        keys = truth.generation_keys
        addresses = flat[flat >= 0]
        located = Located(truth.generation, addresses)
        wanted = np.where(self.expected[inside] == self.planes.never, -1, truth.due[addresses])
        block, offset = np.divmod(wanted, keys.width)
        buffer = np.searchsorted(keys.starts, offset, side="right")
        buffer[wanted < 0] = block[wanted < 0] = -1
        planned = self.words[inside] == self.asked[inside]
        columns = [located.rank, located.pool, located.slot, buffer, block, planned]
        for index, nbytes in gather(columns):
            if len(violations) >= LIMIT:
                return
            place = place_of(truth.generation, int(addresses[index]))
            violations.append(self._violation(kind, nbytes, place, int(inside[index]), int(wanted[index])))

    def _violation(self, kind: Kind, nbytes: int, place: Place, position: int, wanted: int) -> Violation:
        truth = self.planes.truth
        address = int(self.planes.destination.flat_addresses(np.array([position]))[0])
        found, came = identity_of(self.planes, self.words[position])
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
        note = "; ".join(filter(None, (told.note, self._fault(position))))
        return replace(told, found_note=came or told.found_note, note=note)

    def _fault(self, position: int) -> str:
        """What the plan brings here, where it is not what landed."""
        asked = self.asked[position]
        if self.words[position] == asked:
            return ""
        if asked in (self.planes.never, self.planes.guard):
            return "the plan writes nothing here: it was carried out wrongly"
        if asked == self.expected[position]:
            return "the plan brings the right byte here: it was carried out wrongly"
        return "the plan brings another byte, a wrong one too: it was carried out wrongly besides"

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
        """One violation for each pool whose guard was changed, and for what was planned and what was not."""
        arena = self.planes.destination
        by_pool: dict[tuple[int, int, str], list[int]] = {}
        for position in positions.tolist():
            rank, pool, offset = arena.locate(position)
            by_pool.setdefault((rank, pool, self._fault(position)), []).append(offset)
        for (rank, pool, fault), offsets in by_pool.items():
            stride = arena.flat.side.tables[rank].pools[pool].slot_stride
            yield Violation(
                Kind.OUT_OF_BOUNDS,
                len(offsets),
                destination=rank,
                place=Place(rank, pool, *divmod(offsets[0], stride)),
                note="; ".join(filter(None, (f"a guard of {GUARD} B around the pool was written", fault))),
            )


def identity_of(planes: Planes, word: np.generic) -> tuple[int | None, str]:
    """(identity that a word spells, if it does; what it is instead, where an identity does not tell)."""
    if word == planes.never:
        return None, ""
    number = int(planes.numbers_of(np.array([word], dtype=planes.word))[0])
    if number < 0:
        return None, "bytes of several elements, or of some passes only"
    if number == len(planes.ids):
        return None, "a guard of the source"
    return int(planes.ids[number]), ""
