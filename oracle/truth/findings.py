"""Telling violations apart, in their fixed order, and gathering them by place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracle.model.writes import Writes
from oracle.truth.blocks import DUE
from oracle.truth.elements import Truth
from oracle.truth.reserved import FOREIGN, INCOMPATIBLE, PADDING
from oracle.truth.runs import Carried, segment_ranks
from oracle.truth.stacks import FlatSide
from oracle.truth.verdict import Element, Kind, Place, Violation

LIMIT = 200
"""violations described in detail; counts are always exact"""


def find_violations(
    truth: Truth,
    writes: Writes,
    carried: Carried,
    due: np.ndarray,
    klass: np.ndarray,
    elected: np.ndarray,
    election: str,
) -> tuple[tuple[Violation, ...], dict[Kind, int]]:
    """(violations, bytes by kind).

    Per run: unpaired sender, then out of bounds. Per written byte: stale source; stray, then
    nothing more; duplicate (each write after the first); wrong element; not elected, only where
    the element is right. A due byte with any write is not missing.
    """
    violations: list[Violation] = []
    counts: dict[Kind, int] = {}
    _find_unpaired(truth, writes, violations, counts)
    _find_outside(truth, writes, carried, violations, counts)
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
    missing = np.flatnonzero((klass == DUE) & ~written)
    if len(missing):
        counts[Kind.MISSING] = counts.get(Kind.MISSING, 0) + len(missing)
        describe.missing(missing, violations)
    if election == "paired" and truth.unserved and not counts:
        request, rank, number = truth.unserved[0]
        element = truth.generation_keys.decode(truth.case, "generation", number)
        counts[Kind.MISSING] = 0
        violations.append(
            Violation(
                Kind.MISSING,
                0,
                request,
                None,
                rank,
                due=element,
                paired=truth.heard[request][rank],
                note="served, though no paired rank holds this index; a longer prompt would show it",
            )
        )
    return tuple(violations), counts


def _find_unpaired(truth: Truth, writes: Writes, violations: list[Violation], counts: dict[Kind, int]) -> None:
    for segment in writes.segments:
        heard = truth.heard[segment.request].get(segment.destination_rank, ())
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


def _find_outside(
    truth: Truth, writes: Writes, carried: Carried, violations: list[Violation], counts: dict[Kind, int]
) -> None:
    clipped: dict[int, list[tuple[int, int]]] = {}
    for number, nbytes, offset in carried.outside:
        clipped.setdefault(number, []).append((nbytes, offset))
    for number in carried.nowhere:
        clipped.setdefault(number, []).append((writes.segments[number].nbytes, 0))
    for number, pieces in clipped.items():
        segment = writes.segments[number]
        nbytes = sum(size for size, _ in pieces)
        counts[Kind.OUT_OF_BOUNDS] = counts.get(Kind.OUT_OF_BOUNDS, 0) + nbytes
        note = "this rank or pool does not exist" if number in carried.nowhere else "the run leaves its slot"
        stride = 1
        if number not in carried.nowhere:
            stride = truth.generation.side.tables[segment.destination_rank].pools[segment.destination_pool].slot_stride
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


class Located:
    """Vectors of rank, pool, slot, offset in the slot, and entry index (-1: no buffer) of flat addresses."""

    __slots__ = ("entry", "offset", "pool", "rank", "slot")

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
        self._blocks: dict[tuple[int, int, int, int], tuple[int, int] | None] = {}

    def written(self, kind: Kind, where: np.ndarray, violations: list[Violation]) -> None:
        segments = self.writes.segments
        numbers = self.carried.segment[where]
        addresses = self.carried.destination[where]
        self._gather(kind, where, addresses, lambda i: segments[numbers[i]].source_rank, violations, numbers)

    def missing(self, addresses: np.ndarray, violations: list[Violation]) -> None:
        self._gather(Kind.MISSING, None, addresses, lambda _: None, violations, None)

    def _gather(
        self,
        kind: Kind,
        where: np.ndarray | None,
        addresses: np.ndarray,
        sender: Callable[[int], int | None],
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
        for index, nbytes in sorted(zip(first.tolist(), count.tolist(), strict=True)):
            if len(violations) >= LIMIT:
                return
            violations.append(self._violation(kind, where, addresses, sender, located, index, nbytes, numbers))

    def _violation(self, kind, where, addresses, sender, located, index, nbytes, numbers) -> Violation:  # type: ignore[no-untyped-def]
        truth = self.truth
        address = int(addresses[index])
        rank, pool, slot = int(located.rank[index]), int(located.pool[index]), int(located.slot[index])
        offset = int(located.offset[index])
        due = truth.generation_keys.decode(truth.case, "generation", int(self.due[address]))
        entry = next(
            (
                e
                for e in truth.generation.side.tables[rank].entries
                if e.pool == pool
                and e.offset <= offset < e.offset + e.nbytes
                and (due is None or (e.group == due.group and e.role == due.role))
            ),
            None,
        )
        found: Element | None = None
        note = ""
        if where is not None:
            number = int(truth.source[self.carried.source[where[index]]])
            found = truth.context_keys.decode(truth.case, "context", number) if number < INCOMPATIBLE else None
            note = {FOREIGN: "a slot that holds no block of this transfer", PADDING: "padding"}.get(number, "")
        request = int(truth.owner[address])
        if request < 0 and numbers is not None:
            request = self.writes.segments[numbers[index]].request
        heard = truth.heard[request].get(rank, ()) if request >= 0 else ()
        elected = int(self.elected[address])
        lost = truth.lost.get(request)
        explain = (
            "the source no longer holds this block"
            if kind is Kind.MISSING and lost and due and lost[2] == due.ordinal
            else ""
        )
        return Violation(
            kind,
            nbytes,
            request if request >= 0 else None,
            sender(index),
            rank,
            due.group if due else (entry.group if entry else None),
            due.layer if due and due.layer >= 0 else (entry.layer if entry else None),
            due.role if due else (entry.role if entry else None),
            due.ordinal if due else None,
            Place(rank, pool, slot, offset, offset - entry.offset if entry else None),
            due,
            found,
            note,
            heard,
            self._holders(request, address, heard, due),
            elected if elected >= 0 else None,
            note=explain,
        )

    def _holders(self, request: int, address: int, heard: tuple[int, ...], due: Element | None) -> tuple[int, ...]:
        """Paired ranks whose memory holds the due element somewhere."""
        if due is None:
            return ()
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
