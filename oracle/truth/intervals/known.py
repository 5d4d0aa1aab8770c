"""What the closed-form judge knows of a case: slot maps, who owns each slot, and who must send each piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import lcm
from typing import NamedTuple

import numpy as np

from oracle.model.case import Case
from oracle.model.records import frozen
from oracle.truth.blocks import FORBIDDEN, OPTIONAL, block_classes, resident_blocks, token_codes
from oracle.truth.elements import Frame, frame_of
from oracle.truth.fill import owned, present
from oracle.truth.intervals.pieces import cut
from oracle.truth.intervals.slots import SlotMap, locate, slot_maps
from oracle.truth.lost import note_lost
from oracle.truth.rows import tail_codes, tail_ordinal


@frozen(eq=False)
class DueMap:
    """What is due in a slot of a receiver, in pieces ordered by offset: only buffers that move.

    ``elected``: the source rank that must send each piece, -1 for none. The rest is as in ``SlotMap``.
    """

    start: np.ndarray
    end: np.ndarray
    ident: np.ndarray
    row: np.ndarray
    elected: np.ndarray
    bounds: np.ndarray

    @property
    def unserved(self) -> int:
        """The least id within the block that nobody can send; -1 if there is none."""
        lacking = self.ident[self.elected < 0]
        return int(lacking.min()) if len(lacking) else -1


class Owners(NamedTuple):
    """The blocks in the slots of one pool. ``block``: by slot, the block's number, -1 for none.

    ``group``, ``request``, ``ordinal``, ``klass`` and ``code`` (see ``Known.block_codes``) by block number.
    """

    block: np.ndarray
    group: np.ndarray
    request: np.ndarray
    ordinal: np.ndarray
    klass: np.ndarray
    code: np.ndarray


@dataclass(slots=True, eq=False)
class Known(Frame):
    """The frame of a case, and what has been worked out for it so far."""

    _maps: dict[tuple[str, int, int, bool], dict[int, SlotMap]] = field(default_factory=dict)
    _due: dict[object, DueMap | None] = field(default_factory=dict)
    _held: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    _owners: dict[tuple[str, int, frozenset[int], int], Owners] = field(default_factory=dict)
    _codes: dict[tuple[str, int, int], np.ndarray] = field(default_factory=dict)
    _mixed: dict[bytes, int] = field(default_factory=dict)
    mixed: list[np.ndarray] = field(default_factory=list)
    """codes by token of blocks that have more than one: block code -1 - i stands for number i"""
    sorts: dict[tuple[int, int, str], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """the judge's own: which blocks of a pool are judged alike, by rank, owners (their id) and padding"""

    def maps(self, side: str, rank: int, group: int, *, by_row: bool = False) -> dict[int, SlotMap]:
        """The slot map of each pool that holds ``group`` on a rank."""
        key = (side, rank, group, by_row)
        found = self._maps.get(key)
        if found is None:
            flat = self.context if side == "context" else self.generation
            keys = self.context_keys if side == "context" else self.generation_keys
            place = self.case.side(side).topology.rank(rank)
            found = slot_maps(self.case, side, group, flat.side.tables[rank], place, keys.base, by_row)
            self._maps[key] = found
        return found

    def block_codes(self, side: str, request: int, group: int) -> np.ndarray:
        """Code of the content of each block by ordinal (int64); below 0: its tokens have several, see ``mixed``."""
        key = (side, request, group)
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = self._find_codes(side, request, group)
        return found

    def _find_codes(self, side: str, request: int, group: int) -> np.ndarray:
        case = self.case
        what = case.model.groups[group]
        if not what.is_paged:
            return np.array([len(case.contents) + request])
        size = case.side(side).tokens_per_block
        blocks = -(-case.requests[request].tokens(what.length) // size)
        codes = token_codes(case, request, what.length, blocks * size).reshape(blocks, size)
        found = codes[:, -1].copy()
        for ordinal in np.flatnonzero((codes != codes[:, :1]).any(axis=1)).tolist():
            found[ordinal] = self._code_of(codes[ordinal])
        return found

    def _code_of(self, codes: np.ndarray) -> int:
        """The block code of tokens that have several codes."""
        number = self._mixed.setdefault(codes.tobytes(), len(self.mixed))
        if number == len(self.mixed):
            self.mixed.append(codes.copy())
        return -1 - number

    def code_at(self, code: int, row: int) -> int:
        """The content code of a token row of a block with block code ``code``; a row of -1: the last token's."""
        return code if code >= 0 else int(self.mixed[-1 - code][row])

    def owners(self, side: str, rank: int, pool: int) -> Owners:
        """Resident blocks of the context side, due or optional ones of the generation side, in one pool of a rank."""
        flat = self.context if side == "context" else self.generation
        groups = [group for group in flat.side.slots[rank] if pool in self.maps(side, rank, group)]
        count = flat.side.tables[rank].pools[pool].count
        key = (side, rank, frozenset(groups), count)
        found = self._owners.get(key)
        if found is None:
            found = self._owners[key] = self._find_owners(side, rank, groups, count)
        return found

    def _find_owners(self, side: str, rank: int, groups: list[int], count: int) -> Owners:
        case = self.case
        flat = self.context if side == "context" else self.generation
        place = case.side(side).topology.rank(rank)
        block = np.full(count, -1, dtype=np.int64)
        columns: list[tuple[np.ndarray, ...]] = []
        first = 0
        for group in groups:
            for request, slots in enumerate(flat.side.slots[rank][group]):
                if not present(self, side, request, (place,)):
                    continue
                if side == "context":
                    klass = np.zeros(len(slots), dtype=np.int64)
                    here = resident_blocks(case, request, group, slots)
                else:
                    klass = block_classes(case, request, group).astype(np.int64)
                    here = (slots >= 0) & (klass != FORBIDDEN)
                mine = owned(self, side, [place], group, len(slots))
                ordinals = np.flatnonzero(here if mine is None else here & mine[0])
                block[slots[ordinals]] = first + np.arange(len(ordinals))
                first += len(ordinals)
                same = np.ones_like(ordinals)
                codes = self.block_codes(side, request, group)[ordinals]
                columns.append((same * group, same * request, ordinals, klass[ordinals], codes))
                if flat.side.spare and (side == "context" or self.with_tails):
                    first += self._add_tails(side, rank, group, request, first, block, columns)
        if not columns:
            nothing = np.zeros(0, dtype=np.int64)
            return Owners(block, *[nothing] * 5)
        return Owners(block, *[np.concatenate(column) for column in zip(*columns, strict=True)])

    def _add_tails(
        self,
        side: str,
        rank: int,
        group: int,
        request: int,
        first: int,
        block: np.ndarray,
        columns: list[tuple[np.ndarray, ...]],
    ) -> int:
        """Add the beam tails of a request to its blocks; how many there are."""
        ordinal = tail_ordinal(self.case, side, group, request)
        flat = self.context if side == "context" else self.generation
        slots = flat.side.spare_slots(rank, group, request)[1]
        if ordinal is None or not len(slots):
            return 0
        size = self.case.side(side).tokens_per_block
        rows = [tail_codes(self, request, beam, ordinal, size) for beam in range(1, len(slots) + 1)]
        codes = [self._code_of(row) if (row != row[0]).any() else int(row[0]) for row in rows]
        same = np.ones(len(slots), dtype=np.int64)
        klass = 0 if side == "context" else OPTIONAL
        columns.append((same * group, same * request, same * ordinal, same * klass, np.array(codes)))
        block[slots] = first + np.arange(len(slots))
        return len(slots)

    def due_map(
        self, rank: int, pool: int, group: int, request: int, residue: int, *, by_row: bool = False
    ) -> DueMap | None:
        """What is due in a slot of ``pool`` that holds a block of the request; None: nothing that moves.

        ``residue``: the block's ordinal modulo the source's context parallelism.
        """
        heard, number = self.heard[request][rank], self.case.requests[request].generation_dp
        key = (rank, pool, group, heard, number, residue, by_row)
        if key not in self._due:
            self._due[key] = self._elect(rank, pool, group, heard, number, residue, by_row)
        return self._due[key]

    def _elect(
        self, rank: int, pool: int, group: int, heard: tuple[int, ...], number: int, residue: int, by_row: bool
    ) -> DueMap | None:
        slot = self.maps("generation", rank, group, by_row=by_row)[pool]
        start, ident, row = (column[slot.moves] for column in (slot.start, slot.ident, slot.row))
        length = (slot.end - slot.start)[slot.moves]
        if not len(start):
            return None
        topology = self.case.context.topology
        if self.case.model.groups[group].is_paged:
            heard = tuple([source for source in heard if topology.rank(source).cp == residue])
        shares = [self.held(source, group) for source in heard]
        if shares:
            pieces = cut(ident, length, np.unique(np.concatenate([bound for share in shares for bound in share])))
            if pieces is not None:
                origin, shift, length = pieces
                start, ident, row = start[origin] + shift, ident[origin] + shift, row[origin]
        elected = np.full(len(start), -1, dtype=np.int64)
        if shares:
            running = np.cumsum([locate(*share, ident)[1] for share in shares], axis=0)
            count = running[-1]
            # The elected one is the first whose running number of holders reaches the pick.
            chosen = (running == number % np.maximum(count, 1) + 1).argmax(axis=0)
            elected = np.where(count > 0, np.array(heard, dtype=np.int64)[chosen], -1)
        end = start + length
        return DueMap(start, end, ident, row, elected, np.unique(np.concatenate((start, end))))

    def held(self, source: int, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids within a block that a source rank stores, as disjoint stretches in order: (starts, ends)."""
        found = self._held.get((source, group))
        if found is None:
            maps = self.maps("context", source, group).values() if self.comparable else ()
            starts = np.concatenate([np.zeros(0, dtype=np.int64), *[slot.ident for slot in maps]])
            ends = np.concatenate([np.zeros(0, dtype=np.int64), *[slot.ident + slot.end - slot.start for slot in maps]])
            found = self._held[source, group] = unite(starts, ends)
        return found


def unite(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The union of stretches as disjoint stretches in order, neighbours joined."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts)
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    apart = np.concatenate((np.ones(1, dtype=bool), starts[1:] > reach[:-1]))
    last = np.concatenate((np.flatnonzero(apart)[1:] - 1, np.array([len(starts) - 1])))
    return starts[apart], reach[last]


def known_of(case: Case, *, with_tails: bool = False) -> Known:
    """The frame of ``case``, with its unserved indices and lost blocks; ``with_tails``: as in ``Frame``."""
    return _known_of(case, with_tails and any(request.beams > 1 for request in case.requests))


@lru_cache(maxsize=16)
def _known_of(case: Case, with_tails: bool) -> Known:
    frame = frame_of(case, with_tails=with_tails)
    known = Known(
        case,
        frame.context,
        frame.generation,
        frame.context_keys,
        frame.generation_keys,
        frame.heard,
        frame.unserved,
        frame.lost,
        with_tails,
    )
    _note_unserved(known)
    known.unserved.sort()
    note_lost(known)
    return known


def _note_unserved(known: Known) -> None:
    """Remember indices that no paired source holds, whether or not a prompt is long enough to show them."""
    case = known.case
    for _, members in known.generation.alike:
        for group in known.generation.side.slots[members[0].number]:
            if case.model.groups[group].native_only:
                continue
            paged = case.model.groups[group].is_paged
            cp, own = (side.topology.cp if paged else 1 for side in (case.context, case.generation))
            for pool in known.maps("generation", members[0].number, group):
                for request in range(len(case.requests)):
                    for residue in range(cp):
                        for position in present(known, "generation", request, members):
                            rank = members[position]
                            mine = rank.cp if paged else 0
                            shown = [o for o in range(lcm(cp, own)) if o % cp == residue and o % own == mine]
                            if not shown:
                                continue
                            due = known.due_map(rank.number, pool, group, request, residue)
                            if due is not None and due.unserved >= 0:
                                number = shown[0] * known.generation_keys.width + due.unserved
                                known.unserved.append((request, rank.number, number))
