"""One slot of a receiver against all that is written to it, in pieces; slots visited alike are compared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oracle.truth.blocks import is_required
from oracle.truth.intervals.known import DueMap, unite
from oracle.truth.intervals.pieces import cut
from oracle.truth.intervals.slots import SlotMap, locate
from oracle.truth.intervals.visits import Runs
from oracle.truth.reserved import FOREIGN
from oracle.truth.verdict import Kind


class Visit(NamedTuple):
    """Runs from one slot of a sender.

    ``source``: what the sender's slot holds, None for nothing of this transfer. ``gap``: the
    reserved id of its bytes between the pieces. ``same``: whether the sender's block is the block
    that is due, or (bool by token of the block) for which rows it is.
    """

    runs: Runs
    sender: int
    source: SlotMap | None
    gap: int
    same: bool | np.ndarray


class Due(NamedTuple):
    """What is due in the slot. ``klass``: that of its block; token rows that end at ``valid`` or later are optional."""

    map: DueMap
    klass: int
    valid: int


@dataclass(slots=True, eq=False)
class Cuts:
    """Runs cut until each lies in one piece on both sides, in plan order (n each).

    ``visit``: which visit, ``run``: which of its runs, ``byte``: offset in the run, ``source`` and
    ``destination``: in-slot offsets. ``piece``: piece of what is due, -1 where nothing may come.
    ``ident``: the id that is due within the block. ``again``: written before.
    """

    visit: np.ndarray
    run: np.ndarray
    byte: np.ndarray
    source: np.ndarray
    destination: np.ndarray
    nbytes: np.ndarray
    piece: np.ndarray
    ident: np.ndarray
    again: np.ndarray

    def at(self, chosen: np.ndarray) -> Cuts:
        return Cuts(*[getattr(self, name)[chosen] for name in self.__slots__])

    def cut_at(self, pieces: tuple[np.ndarray, np.ndarray, np.ndarray] | None) -> Cuts:
        if pieces is None:
            return self
        origin, shift, nbytes = pieces
        cuts = self.at(origin)
        cuts.byte, cuts.source, cuts.destination = cuts.byte + shift, cuts.source + shift, cuts.destination + shift
        cuts.nbytes = nbytes
        return cuts


def compare(due: Due | None, visits: list[Visit], *, comparable: bool, paired: bool) -> dict[Kind, Cuts]:
    """The bytes of each kind of violation in one slot, kinds without any left out.

    ``comparable``: whether elements and blocks mean the same on both sides. ``paired``: whether it
    is judged who sends. A missing byte is of no visit (-1).
    """
    found: dict[Kind, Cuts] = {}
    if visits:
        cuts = _all_runs(visits)
        found = _judge_written(due, visits, cuts, comparable=comparable, paired=paired)
        written = unite(cuts.destination, cuts.destination + cuts.nbytes)
    else:
        written = (np.zeros(0, dtype=np.int64),) * 2
    if due is not None and is_required(due.klass, paired=paired):
        missing = _missing(due, *written)
        if missing is not None:
            found[Kind.MISSING] = missing
    return found


def _all_runs(visits: list[Visit]) -> Cuts:
    number, source, destination, nbytes = (
        visits[0].runs if len(visits) == 1 else [np.concatenate(c) for c in zip(*[v.runs for v in visits], strict=True)]
    )
    visit = np.repeat(np.arange(len(visits)), [len(v.runs.nbytes) for v in visits])
    nothing = np.zeros_like(visit)
    return Cuts(visit, number, nothing, source, destination, nbytes, nothing - 1, nothing, nothing.astype(bool))


def _judge_written(
    due: Due | None, visits: list[Visit], cuts: Cuts, *, comparable: bool, paired: bool
) -> dict[Kind, Cuts]:
    cuts = _mark_repeats(cuts)
    if due is not None:
        cuts = cuts.cut_at(cut(cuts.destination, cuts.nbytes, due.map.bounds))
    cuts, came, stale = _read(cuts, visits)
    wanted = np.zeros(len(cuts.visit), dtype=bool)
    right = wanted
    if due is not None:
        piece, wanted = locate(due.map.start, due.map.end, cuts.destination)
        cuts.piece = np.where(wanted, piece, -1)
        cuts.ident = np.where(wanted, due.map.ident[piece] + cuts.destination - due.map.start[piece], -1)
        if comparable:
            right = wanted & (came == cuts.ident) & _same_block(due.map, cuts, visits)
    first = wanted & ~cuts.again
    kinds = {
        Kind.STALE_SOURCE: stale,
        Kind.STRAY: ~wanted,
        Kind.DUPLICATE: wanted & cuts.again,
        Kind.WRONG_ELEMENT: first & ~right,
    }
    if paired and due is not None:
        senders = np.array([visit.sender for visit in visits])[cuts.visit]
        kinds[Kind.NOT_ELECTED] = first & right & (due.map.elected[cuts.piece] != senders)
    return {kind: cuts.at(chosen) for kind, chosen in kinds.items() if chosen.any()}


def _mark_repeats(cuts: Cuts) -> Cuts:
    """``cuts``, cut where another run starts or ends if any two overlap, and ``again`` set on all but the first."""
    order = np.argsort(cuts.destination, kind="stable")
    start = cuts.destination[order]
    if not (start[1:] < (start + cuts.nbytes[order])[:-1]).any():
        return cuts
    edges = np.unique(np.concatenate((start, cuts.destination + cuts.nbytes)))
    cuts = cuts.cut_at(cut(cuts.destination, cuts.nbytes, edges))
    order = np.argsort(cuts.destination, kind="stable")
    start = cuts.destination[order]
    cuts.again = np.zeros(len(start), dtype=bool)
    cuts.again[order[1:]] = start[1:] == start[:-1]
    return cuts


def _read(cuts: Cuts, visits: list[Visit]) -> tuple[Cuts, np.ndarray, np.ndarray]:
    """``cuts`` cut at the pieces of their senders; the id that each reads (-1: none); whether nothing is held there."""
    maps = {id(visit.source): visit.source for visit in visits}
    if len(maps) == 1:
        (slot,) = maps.values()
        parts = [(slot, cuts)]
    else:
        numbers = np.array([list(maps).index(id(visit.source)) for visit in visits])[cuts.visit]
        parts = [(slot, cuts.at(numbers == number)) for number, slot in enumerate(maps.values())]
    read: list[Cuts] = []
    came: list[np.ndarray] = []
    for slot, part in parts:
        if slot is None:
            ident = np.full(len(part.visit), -1, dtype=np.int64)
        else:
            part = part.cut_at(cut(part.source, part.nbytes, slot.bounds))
            piece, inside = locate(slot.start, slot.end, part.source)
            ident = np.where(inside, slot.ident[piece] + part.source - slot.start[piece], -1)
        read.append(part)
        came.append(ident)
    cuts, ident = read[0], came[0]
    if len(read) > 1:
        cuts = Cuts(*[np.concatenate([getattr(part, name) for part in read]) for name in Cuts.__slots__])
        order = np.lexsort((cuts.byte, cuts.run, cuts.visit))
        cuts, ident = cuts.at(order), np.concatenate(came)[order]
    gaps = np.array([visit.gap for visit in visits])[cuts.visit]
    return cuts, ident, (ident < 0) & (gaps == FOREIGN)


def _same_block(due: DueMap, cuts: Cuts, visits: list[Visit]) -> np.ndarray:
    same = np.array([visit.same is True for visit in visits])[cuts.visit]
    for number, visit in enumerate(visits):
        if isinstance(visit.same, np.ndarray):
            mine = np.flatnonzero(cuts.visit == number)
            # A row of -1 counts from the end: what has no token axis is of the last token.
            same[mine] = visit.same[due.row[cuts.piece[mine]]]
    return same


def _missing(due: Due, starts: np.ndarray, ends: np.ndarray) -> Cuts | None:
    """Due bytes outside the written stretches; None if there are none."""
    slot = due.map
    pieces = np.flatnonzero(slot.row < due.valid)
    lacking = slot.end[pieces] - slot.start[pieces]
    if len(starts):
        total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(ends - starts)))
        lacking -= _below(starts, ends, total, slot.end[pieces]) - _below(starts, ends, total, slot.start[pieces])
    pieces = pieces[lacking > 0]
    if not len(pieces):
        return None
    start, nbytes = slot.start[pieces], slot.end[pieces] - slot.start[pieces]
    bounds = np.sort(np.concatenate((starts, ends)))
    finer = cut(start, nbytes, bounds)
    if finer is not None:
        origin, shift, nbytes = finer
        pieces, start = pieces[origin], start[origin] + shift
        open_here = ~locate(starts, ends, start)[1]
        pieces, start, nbytes = pieces[open_here], start[open_here], nbytes[open_here]
    nothing = np.full_like(pieces, -1)
    ident = slot.ident[pieces] + start - slot.start[pieces]
    return Cuts(nothing, nothing, nothing, nothing, start, nbytes, pieces, ident, nothing < -1)


def _below(starts: np.ndarray, ends: np.ndarray, total: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Bytes of the stretches that lie below each offset."""
    stretch = np.searchsorted(starts, offsets, side="right") - 1
    reached = np.minimum(offsets, ends[stretch]) - starts[stretch]
    return np.where(stretch >= 0, total[np.maximum(stretch, 0)] + reached, 0)
