"""What the slots of a rank hold, in pieces: in-slot offsets against ids within the block."""

from __future__ import annotations

import numpy as np

from oracle.model.axes import Grid
from oracle.model.case import Case
from oracle.model.counts import sub_pages
from oracle.model.pages import PageTable
from oracle.model.records import frozen
from oracle.model.topology import Rank
from oracle.truth.holders import seat
from oracle.truth.intervals.pieces import Pieces, stored_pieces
from oracle.truth.stacks import held_layers, moves_between


@frozen(eq=False)
class SlotMap:
    """One pool's slot for one group, in pieces ordered by offset.

    ``start``, ``end``: in-slot offsets (a layer-major pool counts on from layer to layer), ``ident``:
    id within the block at ``start``, ``row``: see ``Pieces``, ``moves``: whether a transfer brings the
    piece. ``bounds``: all offsets where a piece starts or ends, ascending.
    """

    start: np.ndarray
    end: np.ndarray
    ident: np.ndarray
    row: np.ndarray
    moves: np.ndarray
    bounds: np.ndarray

    def at(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(piece of each offset, whether there is one)."""
        return locate(self.start, self.end, offsets)


def locate(start: np.ndarray, end: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(stretch of each offset, whether it lies in one) among disjoint stretches in order."""
    if not len(start):
        return np.zeros(len(offsets), dtype=np.int64), np.zeros(len(offsets), dtype=bool)
    piece = np.searchsorted(start, offsets, side="right") - 1
    inside = (piece >= 0) & (offsets < end[piece])
    return np.maximum(piece, 0), inside


def slot_maps(
    case: Case,
    side: str,
    group: int,
    table: PageTable,
    rank: Rank,
    base: dict[tuple[int, int, str], int],
    by_row: bool,
) -> dict[int, SlotMap]:
    """The slot of each pool that holds ``group`` on ``rank``; ``base`` is the id of each key's first byte."""
    instance = case.side(side)
    topology = instance.topology
    stage = topology.stage_layers(rank.pp)
    seats = seat(topology, rank, Grid.TP), seat(topology, rank, Grid.TPCP)
    places = {(entry.layer, entry.role): entry for entry in table.entries if entry.group == group}
    found: dict[int, list[tuple[Pieces, np.ndarray, bool]]] = {}
    for buffer in case.model.groups[group].buffers:
        layers = held_layers(case, side, stage, buffer)
        if not layers:
            continue
        bits = tuple([instance.bits_of(buffer.role, part.bits) for part in buffer.parts])
        pages, rows = sub_pages(buffer, instance.tokens_per_block)
        pieces, _ = stored_pieces(buffer.parts, bits, pages, rows, instance.layout_of(buffer.role), *seats, by_row)
        regions: dict[tuple[int, bool], list[tuple[int, int]]] = {}
        for layer in layers:
            entry = places.get((layer, buffer.role))
            if entry is not None:
                first = base[(group, -1 if buffer.request_scope else layer, buffer.role)]
                moves = moves_between(case, buffer, layer)
                regions.setdefault((entry.pool, moves), []).append((entry.offset, first))
        for (pool, moves), where in regions.items():
            found.setdefault(pool, []).append((pieces, np.array(where, dtype=np.int64), moves))
    return {pool: _in_order(regions) for pool, regions in found.items()}


def _in_order(regions: list[tuple[Pieces, np.ndarray, bool]]) -> SlotMap:
    start = np.concatenate([(where[:, :1] + pieces.start).ravel() for pieces, where, _ in regions])
    ident = np.concatenate([(where[:, 1:] + pieces.ident).ravel() for pieces, where, _ in regions])
    length = np.concatenate([np.tile(pieces.length, len(where)) for pieces, where, _ in regions])
    row = np.concatenate([np.tile(pieces.row, len(where)) for pieces, where, _ in regions])
    moves = np.repeat([moving for *_, moving in regions], [len(p.start) * len(where) for p, where, _ in regions])
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + length)[order]
    return SlotMap(start, end, ident[order], row[order], moves[order], np.unique(np.concatenate((start, end))))
