"""Telling violations apart, in their fixed order, and gathering them by place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracle.model.writes import Segment, Writes
from oracle.truth.elements import Frame, Truth
from oracle.truth.reserved import FOREIGN, INCOMPATIBLE, PADDING
from oracle.truth.runs import Carried, segment_ranks
from oracle.truth.stacks import FlatSide
from oracle.truth.verdict import Element, Kind, Place, Violation

LIMIT = 200
"""violations of a kind that are described in detail; counts are always exact"""


def find_violations(
    truth: Truth,
    writes: Writes,
    carried: Carried,
    due: np.ndarray,
    required: np.ndarray,
    elected: np.ndarray,
    election: str,
) -> tuple[tuple[Violation, ...], dict[Kind, int]]:
    """(violations, bytes by kind); ``required`` (bool): which bytes of the destination must arrive.

    Per run: unpaired sender, then out of bounds. Per written byte: stale source; stray, then
    nothing more; duplicate (each write after the first); wrong element; not elected, only where
    the element is right. A due byte with any write is not missing.
    """
    violations: list[Violation] = []
    counts: dict[Kind, int] = {}
    find_unpaired(truth, writes, violations, counts)
    find_outside(truth, writes, carried.outside, carried.nowhere, violations, counts)
    sources, _, _ = segment_ranks(writes.segments)
    found = truth.source[carried.source]
    wanted = due[carried.destination]
    describe = Describer(truth, writes, carried, due, elected)

    def report(kind: Kind, chosen: np.ndarray) -> None:
        where = np.flatnonzero(chosen)
        if len(where):
            counts[kind] = counts.get(kind, 0) + len(where)
            describe.written(kind, where, violations)

    stale = found == FOREIGN
    report(Kind.STALE_SOURCE, stale)
    stray = wanted < 0
    report(Kind.STRAY, stray)
    again = np.zeros(len(wanted), dtype=bool)
    order = np.argsort(carried.destination, kind="stable")
    sorted_addresses = carried.destination[order]
    again[order[1:]] = sorted_addresses[1:] == sorted_addresses[:-1]
    again &= ~stray
    report(Kind.DUPLICATE, again)
    judged = ~stray & ~again
    wrong = judged & (found != wanted)
    report(Kind.WRONG_ELEMENT, wrong)
    if election == "paired" and len(sources):
        sender = sources[carried.segment]
        report(Kind.NOT_ELECTED, judged & ~wrong & (elected[carried.destination] != sender))
    written = np.zeros(len(due), dtype=bool)
    written[carried.destination] = True
    missing = np.flatnonzero(required & ~written)
    if len(missing):
        counts[Kind.MISSING] = counts.get(Kind.MISSING, 0) + len(missing)
        describe.missing(missing, violations)
    return tuple(violations), counts


def unserved_violation(frame: Frame, unserved: tuple[int, int, int]) -> Violation:
    """What is wrong with a plan whose every byte is right, of instances that cannot be served."""
    request, rank, number = unserved
    return Violation(
        Kind.MISSING,
        0,
        request,
        None,
        rank,
        due=frame.generation_keys.decode(frame.case, "generation", number),
        paired=frame.heard[request][rank],
        note="served, though no paired rank holds this index; a longer prompt would show it",
    )


def find_unpaired(frame: Frame, writes: Writes, violations: list[Violation], counts: dict[Kind, int]) -> None:
    """Report every segment whose sender its receiver does not hear from."""
    for segment in writes.segments:
        heard = frame.heard[segment.request].get(segment.destination_rank, ())
        if segment.source_rank not in heard:
            counts[Kind.UNPAIRED_SENDER] = counts.get(Kind.UNPAIRED_SENDER, 0) + segment.nbytes
            violations.append(
                Violation(
                    Kind.UNPAIRED_SENDER,
                    segment.nbytes,
                    segment.request,
                    segment.source_rank,
                    segment.destination_rank,
                    segment.group,
                    paired=heard,
                )
            )


def find_outside(
    frame: Frame,
    writes: Writes,
    outside: list[tuple[int, int, int]],
    nowhere: list[int],
    violations: list[Violation],
    counts: dict[Kind, int],
) -> None:
    """Report runs that leave their slot and segments without a place, as ``Carried`` tells them."""
    clipped: dict[int, list[tuple[int, int]]] = {}
    for number, nbytes, offset in outside:
        clipped.setdefault(number, []).append((nbytes, offset))
    for number in nowhere:
        clipped.setdefault(number, []).append((writes.segments[number].nbytes, 0))
    for number, pieces in clipped.items():
        segment = writes.segments[number]
        nbytes = sum(size for size, _ in pieces)
        counts[Kind.OUT_OF_BOUNDS] = counts.get(Kind.OUT_OF_BOUNDS, 0) + nbytes
        note = "this rank or pool does not exist" if number in nowhere else "the run leaves its slot"
        stride = 1
        if number not in nowhere:
            stride = frame.generation.side.tables[segment.destination_rank].pools[segment.destination_pool].slot_stride
        slot, offset = divmod(pieces[0][1], stride)
        place = Place(segment.destination_rank, segment.destination_pool, slot, offset)
        violations.append(
            Violation(
                Kind.OUT_OF_BOUNDS,
                nbytes,
                segment.request,
                segment.source_rank,
                segment.destination_rank,
                segment.group,
                place=place,
                note=note,
            )
        )


@dataclass(frozen=True, slots=True)
class Spot:
    """One byte of the destination in numbers, as a violation tells it.

    ``due`` is the id due there (below 0: nothing may come), ``found`` the id that came (None:
    nothing did), ``owner`` the request that the byte is of (-1: none), ``elected`` the source rank
    that must send it (-1: none), ``segment`` what wrote it, ``read`` where that read it.
    """

    rank: int
    pool: int
    slot: int
    offset: int
    due: int
    found: int | None
    owner: int
    elected: int
    segment: Segment | None
    read: Place | None = None


def describe(
    frame: Frame, kind: Kind, nbytes: int, spot: Spot, holders: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> Violation:
    """The violation whose first byte is ``spot``; ``holders`` says which of the paired ranks hold the due element."""
    due = frame.generation_keys.decode(frame.case, "generation", spot.due)
    group = due.group if due else (spot.segment.group if spot.segment is not None else None)
    entry = next(
        (
            e
            for e in frame.generation.side.tables[spot.rank].entries
            if e.pool == spot.pool and e.offset <= spot.offset < e.offset + e.nbytes and group in (None, e.group)
        ),
        None,
    )
    found: Element | None = None
    note = ""
    if spot.found is not None:
        found = frame.context_keys.decode(frame.case, "context", spot.found) if spot.found < INCOMPATIBLE else None
        note = {FOREIGN: "a slot that holds no block of this transfer", PADDING: "padding"}.get(spot.found, "")
    request = spot.owner
    if request < 0 and spot.segment is not None:
        request = spot.segment.request
    heard = frame.heard[request].get(spot.rank, ()) if request >= 0 else ()
    lost = frame.lost.get(request)
    explain = (
        "the source no longer holds this block"
        if kind is Kind.MISSING and lost and due and lost[1:] == (due.group, due.ordinal)
        else ""
    )
    return Violation(
        kind,
        nbytes,
        request if request >= 0 else None,
        spot.segment.source_rank if spot.segment is not None else None,
        spot.rank,
        due.group if due else (entry.group if entry else None),
        due.layer if due and due.layer >= 0 else (entry.layer if entry else None),
        due.role if due else (entry.role if entry else None),
        due.ordinal if due else None,
        Place(spot.rank, spot.pool, spot.slot, spot.offset, spot.offset - entry.offset if entry else None),
        due,
        found,
        note,
        heard,
        holders(heard) if due else (),
        spot.elected if spot.elected >= 0 else None,
        note=explain,
        read=spot.read,
    )


class Located:
    """Vectors of rank, pool, slot and offset in the slot of flat addresses."""

    __slots__ = ("offset", "pool", "rank", "slot")

    def __init__(self, flat: FlatSide, addresses: np.ndarray) -> None:
        bounds = np.array(flat.bounds, dtype=np.int64)
        owner = np.searchsorted(bounds, addresses, side="right") - 1
        self.rank = np.array([flat.owners[o][0] for o in owner], dtype=np.int64)
        self.pool = np.array([flat.owners[o][1] for o in owner], dtype=np.int64)
        inside = addresses - bounds[owner]
        self.slot = np.zeros_like(inside)
        self.offset = np.zeros_like(inside)
        for number in np.unique(owner):
            rank, pool = flat.owners[number]
            what = flat.side.tables[rank].pools[pool]
            chosen = owner == number
            layer = inside[chosen] // what.layer_stride if what.layer_stride else 0
            within = inside[chosen] % what.layer_stride if what.layer_stride else inside[chosen]
            self.slot[chosen] = within // what.slot_stride
            self.offset[chosen] = within % what.slot_stride + layer * what.layer_stride


class Describer:
    """Turns byte positions into violations, one for each (kind, request, sender, receiver, buffer, block)."""

    def __init__(self, truth: Truth, writes: Writes, carried: Carried, due: np.ndarray, elected: np.ndarray) -> None:
        self.truth = truth
        self.writes = writes
        self.carried = carried
        self.due = due
        self.elected = elected

    def written(self, kind: Kind, where: np.ndarray, violations: list[Violation]) -> None:
        numbers = self.carried.segment[where]
        self._gather(kind, where, self.carried.destination[where], violations, numbers)

    def missing(self, addresses: np.ndarray, violations: list[Violation]) -> None:
        self._gather(Kind.MISSING, None, addresses, violations, None)

    def _gather(
        self,
        kind: Kind,
        where: np.ndarray | None,
        addresses: np.ndarray,
        violations: list[Violation],
        numbers: np.ndarray | None,
    ) -> None:
        truth = self.truth
        keys = truth.generation_keys
        located = Located(truth.generation, addresses)
        wanted = self.due[addresses]
        bases = np.array(sorted(keys.base.values()), dtype=np.int64)
        buffer = np.where(wanted >= 0, np.searchsorted(bases, wanted % keys.width, side="right") - 1, -1)
        block = np.where(wanted >= 0, wanted // keys.width, -1)
        columns = [located.rank, located.pool, located.slot, buffer, block]
        columns.append(numbers if numbers is not None else np.zeros_like(addresses))
        _, first, count = np.unique(np.stack(columns), axis=1, return_index=True, return_counts=True)
        for index, nbytes in sorted(zip(first.tolist(), count.tolist(), strict=True))[:LIMIT]:
            violations.append(self._violation(kind, where, addresses, located, index, nbytes, numbers))

    def _violation(self, kind, where, addresses, located, index, nbytes, numbers) -> Violation:  # type: ignore[no-untyped-def]
        address = int(addresses[index])
        read = None
        if where is not None:
            source = Located(self.truth.context, self.carried.source[where[index : index + 1]])
            read = Place(int(source.rank[0]), int(source.pool[0]), int(source.slot[0]), int(source.offset[0]))
        spot = Spot(
            int(located.rank[index]),
            int(located.pool[index]),
            int(located.slot[index]),
            int(located.offset[index]),
            int(self.due[address]),
            int(self.truth.source[self.carried.source[where[index]]]) if where is not None else None,
            int(self.truth.owner[address]),
            int(self.elected[address]),
            self.writes.segments[numbers[index]] if numbers is not None else None,
            read,
        )
        return describe(self.truth, kind, nbytes, spot, lambda heard: self._holders(address, heard))

    def _holders(self, address: int, heard: tuple[int, ...]) -> tuple[int, ...]:
        """Paired ranks whose memory holds the due element somewhere."""
        truth = self.truth
        flat = truth.context
        found = []
        for source in heard:
            starts = flat.starts[source]
            if not starts:
                continue
            end = next((row[0] for row in flat.starts[source + 1 :] if row), flat.size)
            if (truth.source[starts[0] : end] == self.due[address]).any():
                found.append(source)
        return tuple(found)
