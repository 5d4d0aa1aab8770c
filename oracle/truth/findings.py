"""Telling violations apart, in their fixed order, and gathering them by place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from oracle.model.records import frozen
from oracle.model.writes import Segment, Writes
from oracle.truth.elements import Frame, Truth
from oracle.truth.reserved import FOREIGN, INCOMPATIBLE, PADDING
from oracle.truth.runs import Carried, senders_of
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
    sources = senders_of(writes.segments)
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
    written = np.zeros(len(due), dtype=bool)
    written[carried.destination] = True
    again = np.zeros(len(wanted), dtype=bool)
    if np.count_nonzero(written) < len(wanted):
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


@frozen()
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
    entry = None
    for each in frame.generation.side.tables[spot.rank].entries:
        inside = each.pool == spot.pool and each.offset <= spot.offset < each.offset + each.nbytes
        if inside and (group is None or each.group == group):
            entry = each
            break
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
    """Vectors (int64) of rank, pool, slot and offset in the slot of flat addresses."""

    __slots__ = ("offset", "pool", "rank", "slot")

    def __init__(self, flat: FlatSide, addresses: np.ndarray) -> None:
        starts, ranks, pools, strides, steps = flat.pools()
        owner = np.searchsorted(starts, addresses, side="right") - 1
        self.rank, self.pool, stride = ranks[owner], pools[owner], strides[owner]
        inside = addresses - starts[owner]
        if not steps.any():
            self.slot, self.offset = np.divmod(inside, stride)
            return
        step = steps[owner]
        layered = step > 0
        layer = np.where(layered, inside // np.maximum(step, 1), 0)
        self.slot, within = np.divmod(inside - layer * step, stride)
        self.offset = within + layer * step


def place_of(flat: FlatSide, address: int) -> Place:
    """The place of one flat address."""
    owner = bisect_right(flat.bounds, address) - 1
    rank, pool = flat.owners[owner]
    what = flat.side.tables[rank].pools[pool]
    inside = address - flat.bounds[owner]
    before = inside - inside % what.layer_stride if what.layer_stride else 0
    slot, offset = divmod(inside - before, what.slot_stride)
    return Place(rank, pool, slot, before + offset)


def gather(columns: list[np.ndarray]) -> list[tuple[int, int]]:
    """(first index, how many) of the entries, at least one, that agree in all columns; in the order of the first."""
    rows = np.stack(columns)
    heads = np.flatnonzero((rows[:, 1:] != rows[:, :-1]).any(axis=0)) + 1
    firsts = [0, *heads.tolist()]
    # Entries that agree mostly stand together, so few are left to be looked up.
    found: dict[tuple[int, ...], tuple[int, int]] = {}
    for key, first, end in zip(rows[:, firsts].T.tolist(), firsts, (*firsts[1:], rows.shape[1]), strict=True):
        known, count = found.get(tuple(key), (first, 0))
        found[tuple(key)] = known, count + end - first
    return list(found.values())


class Describer:
    """Turns byte positions into violations, one for each (kind, request, sender, receiver, buffer, block)."""

    def __init__(self, truth: Truth, writes: Writes, carried: Carried, due: np.ndarray, elected: np.ndarray) -> None:
        self.truth = truth
        self.writes = writes
        self.carried = carried
        self.due = due
        self.elected = elected
        self._held: dict[int, set[int]] = {}

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
        block, offset = np.divmod(wanted, keys.width)
        buffer = np.searchsorted(keys.starts, offset, side="right")
        buffer[wanted < 0] = block[wanted < 0] = -1
        columns = [located.rank, located.pool, located.slot, buffer, block]
        if numbers is not None:
            columns.append(numbers)
        told = gather(columns)[:LIMIT]
        self._find_holders({int(wanted[index]) for index, _ in told if wanted[index] >= 0})
        for index, nbytes in told:
            violations.append(self._violation(kind, where, addresses, index, nbytes, numbers))

    def _violation(self, kind, where, addresses, index, nbytes, numbers) -> Violation:  # type: ignore[no-untyped-def]
        address = int(addresses[index])
        place = place_of(self.truth.generation, address)
        found = read = segment = None
        if where is not None:
            came = int(self.carried.source[where[index]])
            read = place_of(self.truth.context, came)
            found = int(self.truth.source[came])
            segment = self.writes.segments[numbers[index]]
        due, owner, elected = (int(each[address]) for each in (self.due, self.truth.owner, self.elected))
        spot = Spot(place.rank, place.pool, place.slot, place.offset, due, found, owner, elected, segment, read)
        return describe(self.truth, kind, nbytes, spot, lambda heard: self._holders(due, heard))

    def _find_holders(self, ids: set[int]) -> None:
        """Note the ranks whose memory holds elements of these ids somewhere."""
        new = ids - self._held.keys()
        if not new:
            return
        for each in new:
            self._held[each] = set()
        source, flat = self.truth.source, self.truth.context
        where = np.flatnonzero(np.isin(source, list(new)))
        for each, rank in zip(source[where].tolist(), Located(flat, where).rank.tolist(), strict=True):
            self._held[each].add(rank)

    def _holders(self, due: int, heard: tuple[int, ...]) -> tuple[int, ...]:
        """Paired ranks whose memory holds the due element somewhere."""
        held = self._held[due]
        return tuple([rank for rank in heard if rank in held])
