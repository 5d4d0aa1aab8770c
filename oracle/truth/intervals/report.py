"""Counting what is wrong, and telling the first bytes of it as the enumerating judge does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from oracle.truth.findings import LIMIT, Spot, describe
from oracle.truth.intervals.compare import Cuts
from oracle.truth.intervals.known import DueMap, Known, Owners
from oracle.truth.intervals.visits import Plan, Visits
from oracle.truth.reserved import FOREIGN, INCOMPATIBLE, NEVER, PADDING
from oracle.truth.verdict import Kind, Place, Violation

WRITTEN = (Kind.STALE_SOURCE, Kind.STRAY, Kind.DUPLICATE, Kind.WRONG_ELEMENT, Kind.NOT_ELECTED)

Position = tuple[int, ...]
"""of a byte among all of its kind: its place in the plan, or its address where nothing was written"""


class Pool(NamedTuple):
    """One pool of a receiver: its blocks, and the visits to its slots."""

    rank: int
    pool: int
    owners: Owners
    visits: Visits


class Seen(NamedTuple):
    """Bytes of one kind in one slot. ``first``: number of the slot's first visit."""

    position: Position
    pool: Pool
    slot: int
    first: int
    due: DueMap | None
    cuts: Cuts


@dataclass(slots=True, eq=False)
class Findings:
    """Bytes by kind, exactly, and the slots whose bytes of a kind come first."""

    known: Known
    plan: Plan
    counts: dict[Kind, int] = field(default_factory=dict)
    first: dict[Kind, list[Seen]] = field(default_factory=dict)

    def add(
        self, pool: Pool, slots: np.ndarray, firsts: np.ndarray, due: DueMap | None, found: dict[Kind, Cuts]
    ) -> None:
        """Add what was found in one slot, for all ``slots`` that are visited alike."""
        for kind, cuts in found.items():
            self.counts[kind] = self.counts.get(kind, 0) + int(cuts.nbytes.sum()) * len(slots)
            if kind is Kind.MISSING:
                table = self.known.generation.side.tables[pool.rank]
                start = self.known.generation.starts[pool.rank][pool.pool] + int(cuts.destination[0])
                keys = (start + slots * table.pools[pool.pool].slot_stride,)
            else:
                visit = firsts + cuts.visit[0]
                run = pool.visits.run[visit] + cuts.run[0]
                keys = (pool.visits.segment[visit], pool.visits.base[visit], run, np.full_like(run, cuts.byte[0]))
            kept = self.first.setdefault(kind, [])
            for number in np.lexsort(keys[::-1])[:LIMIT].tolist():
                position = tuple([int(key[number]) for key in keys])
                kept.append(Seen(position, pool, int(slots[number]), int(firsts[number]), due, cuts))
            kept.sort(key=lambda seen: seen.position)
            del kept[LIMIT:]

    def tell(self, kind: Kind, most: int) -> list[Violation]:
        """The first ``most`` violations of a kind, one for each segment, slot, buffer and content."""
        parts: list[tuple[Position, int, Spot, Seen]] = []
        for seen in self.first.get(kind, ()):
            parts += self._parts(kind, seen)
        parts.sort(key=lambda part: part[0])
        return [
            describe(
                self.known, kind, nbytes, spot, lambda heard, seen=seen, spot=spot: self._holders(seen, spot, heard)
            )
            for _, nbytes, spot, seen in parts[: max(0, most)]
        ]

    def _parts(self, kind: Kind, seen: Seen) -> list[tuple[Position, int, Spot, Seen]]:
        known, cuts, visits = self.known, seen.cuts, seen.pool.visits
        buffer = np.searchsorted(known.generation_keys.starts, cuts.ident, side="right")
        block = int(seen.pool.owners.block[seen.slot])
        code = np.full(len(buffer), -1, dtype=np.int64)
        if block >= 0 and seen.due is not None:
            whole = int(seen.pool.owners.code[block])
            code[:] = whole if whole >= 0 else known.mixed[-1 - whole][seen.due.row[cuts.piece]]
        visit = seen.first + cuts.visit
        segment = np.zeros_like(buffer) if kind is Kind.MISSING else visits.segment[visit]
        columns = np.stack([segment, buffer, code])
        _, firsts, which = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        sizes = np.zeros(len(firsts), dtype=np.int64)
        np.add.at(sizes, which.ravel(), cuts.nbytes)
        table = known.generation.side.tables[seen.pool.rank]
        start = known.generation.starts[seen.pool.rank][seen.pool.pool]
        start += seen.slot * table.pools[seen.pool.pool].slot_stride
        found = []
        for i, nbytes in zip(firsts.tolist(), sizes.tolist(), strict=True):
            if kind is Kind.MISSING:
                position: Position = (start + int(cuts.destination[i]),)
                spot = self._spot(seen, i, int(code[i]), None)
            else:
                v = int(visit[i])
                position = (
                    int(visits.segment[v]),
                    int(visits.base[v]),
                    int(visits.run[v] + cuts.run[i]),
                    int(cuts.byte[i]),
                )
                spot = self._spot(seen, i, int(code[i]), v)
            found.append((position, nbytes, spot, seen))
        return found

    def _spot(self, seen: Seen, i: int, code: int, visit: int | None) -> Spot:
        known, pool = self.known, seen.pool
        offset = int(seen.cuts.destination[i])
        piece = int(seen.cuts.piece[i])
        owners, block = pool.owners, int(pool.owners.block[seen.slot])
        due, owner, elected = NEVER, -1, -1
        if seen.due is not None and piece >= 0:
            keys = known.generation_keys
            due = (code * keys.ordinals + int(owners.ordinal[block])) * keys.width + int(seen.cuts.ident[i])
            owner, elected = int(owners.request[block]), int(seen.due.elected[piece])
        elif block >= 0:
            # Bytes of a request that is refused are stray, and still its own.
            group, request = int(owners.group[block]), int(owners.request[block])
            slot = known.maps("generation", pool.rank, group)[pool.pool]
            place, inside = slot.at(np.array([offset]))
            owner = request if inside[0] and slot.moves[place[0]] else -1
        segment = found = read = None
        if visit is not None:
            segment = self.plan.writes.segments[int(pool.visits.segment[visit])]
            slot_read, offset_read = int(pool.visits.source[visit]), int(seen.cuts.source[i])
            found = source_id(known, segment.source_rank, segment.source_pool, slot_read, offset_read)
            read = Place(segment.source_rank, segment.source_pool, slot_read, offset_read)
        return Spot(pool.rank, pool.pool, seen.slot, offset, due, found, owner, elected, segment, read)

    def _holders(self, seen: Seen, spot: Spot, heard: tuple[int, ...]) -> tuple[int, ...]:
        """Paired ranks that hold the due element in some resident block."""
        known = self.known
        block, ident = divmod(spot.due, known.generation_keys.width)
        code, ordinal = divmod(block, known.generation_keys.ordinals)
        number = int(seen.pool.owners.block[spot.slot])
        group = int(seen.pool.owners.group[number])
        slot = known.maps("generation", spot.rank, group, by_row=True)[spot.pool]
        row = int(slot.row[slot.at(np.array([spot.offset]))[0][0]])
        found = []
        for source in heard:
            starts, ends = known.held(source, group)
            if not ((starts <= ident) & (ident < ends)).any():
                continue
            pools = known.maps("context", source, group)
            blocks = known.owners("context", source, next(iter(pools)))
            alike = blocks.code[(blocks.group == group) & (blocks.ordinal == ordinal)].tolist()
            if any(known.code_at(each, row) == code for each in alike):
                found.append(source)
        return tuple(found)


def source_id(known: Known, rank: int, pool: int, slot: int, offset: int) -> int:
    """The id of one byte of a sender's slot, as ``Truth.source`` has it."""
    owners = known.owners("context", rank, pool)
    block = int(owners.block[slot])
    if block < 0:
        return FOREIGN
    held = known.maps("context", rank, int(owners.group[block]), by_row=True)[pool]
    piece, inside = held.at(np.array([offset]))
    if not inside[0]:
        return FOREIGN if known.context.side.tables[rank].pools[pool].layer_stride else PADDING
    ident = int(held.ident[piece[0]]) + offset - int(held.start[piece[0]])
    code = known.code_at(int(owners.code[block]), int(held.row[piece[0]]))
    keys = known.context_keys
    number = (code * keys.ordinals + int(owners.ordinal[block])) * keys.width + ident
    return number if known.comparable else number + INCOMPATIBLE
