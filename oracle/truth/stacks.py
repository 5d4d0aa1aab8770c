"""What the slots of a rank hold, for all ranks of a stage that share a page table at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from oracle.model.axes import Grid
from oracle.model.buffers import Buffer, Part
from oracle.model.case import Case
from oracle.model.counts import sub_pages
from oracle.model.pages import PageTable
from oracle.model.sides import Side, lay_out
from oracle.model.topology import Rank, Topology
from oracle.truth.holders import Seat, seat
from oracle.truth.identity import stored_identities

ALONE: Seat = (0, 1)
Shape = tuple[tuple[Part, ...], tuple[int, ...], int, int, str]
"""parts, element bits, sub-pages, rows of each, layout: what fixes a buffer's bytes but for the rank"""


@dataclass(slots=True, eq=False)
class FlatSide:
    """Addresses of one side: ``starts[rank][pool]`` in the flat array of ``size`` bytes.

    ``bounds`` are all starts in ascending order and ``owners`` the (rank, pool) of each.
    """

    name: str
    side: Side
    starts: list[list[int]]
    size: int
    bounds: list[int]
    owners: list[tuple[int, int]]
    alike: list[tuple[PageTable, tuple[Rank, ...]]]
    """ranks that share a page table, stage by stage"""
    _pools: tuple[np.ndarray, ...] = ()

    def pools(self) -> tuple[np.ndarray, ...]:
        """Start, rank, pool, slot stride and layer stride (int64) of each of ``owners``; noted when first asked for."""
        if not self._pools:
            rows = []
            for start, (rank, number) in zip(self.bounds, self.owners, strict=True):
                pool = self.side.tables[rank].pools[number]
                rows.append((start, rank, number, pool.slot_stride, pool.layer_stride))
            self._pools = tuple(np.array(rows, dtype=np.int64).reshape(-1, 5).T.copy())
        return self._pools


def flatten(case: Case, name: str) -> FlatSide:
    """The flat addresses of every rank's pools."""
    side = lay_out(case, name)
    starts: list[list[int]] = []
    bounds: list[int] = []
    owners: list[tuple[int, int]] = []
    sharing: dict[int, list[Rank]] = {}
    extents: dict[int, list[int]] = {}
    size = 0
    for rank, table in zip(case.side(name).topology.ranks(), side.tables, strict=True):
        members = sharing.get(id(table))
        if members is None:
            members = sharing[id(table)] = []
            extents[id(table)] = [table.pool_extent(pool) for pool in range(len(table.pools))]
        members.append(rank)
        row = []
        for pool, extent in enumerate(extents[id(table)]):
            row.append(size)
            owners.append((rank.number, pool))
            size += extent
        starts.append(row)
        bounds += row
    alike = [(side.tables[members[0].number], tuple(members)) for members in sharing.values()]
    return FlatSide(name, side, starts, size, bounds, owners, alike)


@dataclass(slots=True, eq=False)
class Stack:
    """One pool's slot of every rank in ``ranks``, for one group: n in-slot byte offsets and what each byte is.

    ``ids`` (ranks x n, or 1 x n where all ranks hold the same) are ids within the block, ``rows``
    (n) the last token, in the block, of the byte's row, ``moves`` (n) whether a transfer brings it, empty where it
    brings all of them.
    """

    ranks: tuple[Rank, ...]
    pool: int
    offsets: np.ndarray
    ids: np.ndarray
    rows: np.ndarray
    moves: np.ndarray
    all_move: bool
    padded: bool
    """whether the slot has bytes of no buffer"""
    whole: bool = False
    """whether ``offsets`` are all bytes of the slot, in order"""


def held_layers(case: Case, side: str, stage: range, buffer: Buffer) -> tuple[int, ...]:
    """Layers of ``buffer`` that a stage holds and its instance does not lack, in ascending order."""
    instance = case.side(side)
    layers = tuple([layer for layer in buffer.layers.ids if layer in stage])
    if instance.without:
        layers = tuple([layer for layer in layers if not instance.lacks(layer, buffer.role)])
    return layers[:1] if buffer.first_local else layers


def moves_between(case: Case, buffer: Buffer, layer: int) -> bool:
    """Whether a transfer brings this buffer: its state moves, and no side is declared to lack it."""
    if not buffer.move_on(layer).moves:
        return False
    return not (
        (case.context.without and case.context.lacks(layer, buffer.role))
        or (case.generation.without and case.generation.lacks(layer, buffer.role))
    )


def unlike(case: Case) -> Iterator[str]:
    """What the two sides cut differently of all that a transfer brings: tokens of a block, bits of an element."""
    context, generation = case.context, case.generation
    tokens = (context.tokens_per_block, generation.tokens_per_block)
    for group in case.model.groups:
        for buffer in group.buffers:
            if not any(moves_between(case, buffer, layer) for layer in buffer.layers):
                continue
            if group.is_paged and tokens[0] != tokens[1]:
                yield f"tokens per block differ: {tokens[0]} and {tokens[1]}"
                tokens = (0, 0)  # said once
            for part in buffer.parts:
                widths = (context.bits_of(buffer.role, part.bits), generation.bits_of(buffer.role, part.bits))
                if widths[0] != widths[1]:
                    yield f"elements of {buffer.role} are {widths[0]} and {widths[1]} bits wide"


Grids = tuple[bool, bool]
"""whether any axis is split over the TP grid, and over the TPCP grid"""


@lru_cache(maxsize=4096)
def _grids(parts: tuple[Part, ...]) -> Grids:
    found = {axis.grid for part in parts for axis in part.axes if axis.is_split}
    return Grid.TP in found, Grid.TPCP in found


def seats_of(topology: Topology, ranks: tuple[Rank, ...], grids: Grids) -> tuple[tuple[Seat, Seat], ...]:
    """Seats of the ranks in the grids that matter; one for all where no grid does."""
    if topology.attention_dp or True not in grids:
        ranks = ranks[:1]
    tp = _seats(topology, Grid.TP) if grids[0] else [ALONE] * topology.size
    tpcp = _seats(topology, Grid.TPCP) if grids[1] else [ALONE] * topology.size
    return tuple([(tp[rank.number], tpcp[rank.number]) for rank in ranks])


@lru_cache(maxsize=1024)
def _seats(topology: Topology, grid: Grid) -> list[Seat]:
    return [seat(topology, rank, grid) for rank in topology.ranks()]


def stacks(
    case: Case,
    side: str,
    group: int,
    table: PageTable,
    ranks: tuple[Rank, ...],
    base: dict[tuple[int, int, str], int],
) -> list[Stack]:
    """What each pool's slot holds of ``group`` on ranks of one stage; ``base`` is the id of each key's first byte."""
    instance = case.side(side)
    topology = instance.topology
    stage = topology.stage_layers(ranks[0].pp)
    places = {(entry.layer, entry.role): entry for entry in table.entries if entry.group == group}
    complete = not case.context.without and not case.generation.without
    shapes: dict[Shape, int] = {}
    alike: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
    for buffer in case.model.groups[group].buffers:
        layers = held_layers(case, side, stage, buffer)
        if not layers:
            continue
        role = buffer.role
        bits = tuple([instance.bits_of(role, part.bits) for part in buffer.parts])
        shape = (buffer.parts, bits, *sub_pages(buffer, instance.tokens_per_block), instance.layout_of(role))
        number = shapes.setdefault(shape, len(shapes))
        plain = complete and len(buffer.moves) == 1 and buffer.moves[0].layers is None
        moves = moves_between(case, buffer, layers[0])
        for layer in layers:
            entry = places.get((layer, role))
            if entry is not None:
                if not plain:
                    moves = moves_between(case, buffer, layer)
                first = base[(group, -1 if buffer.request_scope else layer, role)]
                alike.setdefault((number, entry.pool, moves), []).append((entry.offset, first))
    seats: dict[Grids, tuple[tuple[Seat, Seat], ...]] = {}
    pieces: dict[int, list[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]] = {}
    identities = []
    for shape in shapes:
        grids = _grids(shape[0])
        if grids not in seats:
            seats[grids] = seats_of(topology, ranks, grids)
        identities.append(stored_identities(*shape, seats[grids]))
    for (number, pool, moves), regions in alike.items():
        ids, last = identities[number]
        regions.sort()
        if len(regions) == 1:
            offset, first = regions[0]
            offsets, shifted, rows = np.arange(offset, offset + len(last)), ids + first if first else ids, last
        else:
            where = np.array(regions)
            offsets = (where[:, :1] + np.arange(len(last))).ravel()
            shifted = (ids[:, None, :] + where[:, 1:]).reshape(len(ids), -1)
            rows = np.concatenate((last,) * len(regions))
        pieces.setdefault(pool, []).append((offsets, shifted, rows, moves))
    found = []
    for pool, parts in pieces.items():
        if len(parts) == 1:
            offsets, ids, rows, _ = parts[0]
        else:
            height = max([len(ids) for _, ids, _, _ in parts])
            ids = np.concatenate(
                [ids if len(ids) == height else ids.repeat(height, axis=0) for _, ids, _, _ in parts], axis=1
            )
            offsets = np.concatenate([offsets for offsets, *_ in parts])
            rows = np.concatenate([last for _, _, last, _ in parts])
        flags = [part[3] for part in parts]
        all_move = all(flags)
        moves = np.array(flags).repeat([len(offsets) for offsets, *_ in parts]) if not all_move else _ALL
        what = table.pools[pool]
        padded = bool(what.layer_stride) or len(offsets) < what.slot_bytes
        found.append(Stack(ranks, pool, offsets, ids, rows, moves, all_move, padded, not padded and len(parts) == 1))
    return found


_ALL = np.ones(0, dtype=bool)
