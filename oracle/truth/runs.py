"""The bytes that a plan reads and writes, as flat addresses in plan order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracle.model.writes import Segment, Writes
from oracle.truth.elements import Truth
from oracle.truth.stacks import FlatSide


@dataclass(slots=True, eq=False)
class Runs:
    """Every run of a plan, clipped to its slots, in plan order: flat addresses, bytes, and the index of its segment."""

    source: np.ndarray
    destination: np.ndarray
    nbytes: np.ndarray
    segment: np.ndarray
    outside: list[tuple[int, int, int]]
    """(segment, bytes clipped, first destination offset in the pool) of runs that leave their slot"""
    nowhere: list[int]
    """segments whose rank or pool does not exist"""

    def expand(self) -> Carried:
        """The bytes of the runs."""
        lengths = self.nbytes
        segment = self.segment.repeat(lengths)
        if len(lengths) and (lengths == lengths[0]).all():
            source, destination = byte_offsets(self.source, lengths), byte_offsets(self.destination, lengths)
        else:
            inside = within(lengths)
            source, destination = (starts.repeat(lengths) + inside for starts in (self.source, self.destination))
        return Carried(source, destination, segment, self.outside, self.nowhere)


@dataclass(slots=True, eq=False)
class Carried:
    """Every byte that arrives, in plan order: flat source and destination address, and the index of its segment."""

    source: np.ndarray
    destination: np.ndarray
    segment: np.ndarray
    outside: list[tuple[int, int, int]]
    """(segment, bytes clipped, first destination offset in the pool) of runs that leave their slot"""
    nowhere: list[int]
    """segments whose rank or pool does not exist"""


def byte_offsets(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start+1, ... start+length-1 of every run, one after another."""
    if len(lengths) and (lengths == lengths[0]).all():
        return (starts[:, None] + np.arange(lengths[0])).ravel()
    return starts.repeat(lengths) + within(lengths)


def within(lengths: np.ndarray) -> np.ndarray:
    """0, 1, ... length-1 of every run, one after another."""
    ends = lengths.cumsum()
    return np.arange(ends[-1] if len(ends) else 0) - (ends - lengths).repeat(lengths)


FEW = 48
"""runs up to which a loop is faster than array arithmetic"""


def place_runs(truth: Truth, writes: Writes) -> Runs:
    """The runs of a plan; those that leave their slot on either side are clipped to it."""
    there, here = ([len(row) for row in side.starts] for side in (truth.context, truth.generation))
    nowhere = [
        number
        for number, segment in enumerate(writes.segments)
        if not (
            0 <= segment.source_rank < len(there)
            and 0 <= segment.source_pool < there[segment.source_rank]
            and 0 <= segment.destination_rank < len(here)
            and 0 <= segment.destination_pool < here[segment.destination_rank]
        )
    ]
    if not nowhere and writes.segments and writes.run_count <= FEW:
        found = _place_few(truth, writes.segments)
        if found is not None:
            return found
    real = [number for number in range(len(writes.segments)) if number not in nowhere] if nowhere else None
    segments = writes.segments if real is None else [writes.segments[number] for number in real]
    empty = np.zeros(0, dtype=np.int64)
    if not segments:
        return Runs(empty, empty, empty, empty, [], nowhere)
    owner, read, written, width = runs_of(segments)
    sources = [(segment.source_rank, segment.source_pool) for segment in segments]
    targets = [(segment.destination_rank, segment.destination_pool) for segment in segments]
    first, fits = _place(truth.context, sources, owner, read, width)
    second, fits_too = _place(truth.generation, targets, owner, written, width)
    outside: list[tuple[int, int, int]] = []
    if not (fits & fits_too & (width >= 0)).all():
        rooms = _rooms(truth.context, sources, owner, read), _rooms(truth.generation, targets, owner, written)
        kept = np.clip(np.minimum(width, np.minimum(*rooms)), 0, None)
        for position in np.flatnonzero(kept < width).tolist():
            number = int(owner[position]) if real is None else real[owner[position]]
            outside.append((number, int(width[position] - kept[position]), int(written[position])))
        some = kept > 0
        owner, first, second, width = owner[some], first[some], second[some], kept[some]
    return Runs(first, second, width, owner if real is None else np.array(real)[owner], outside, nowhere)


def _place_few(truth: Truth, segments: Sequence[Segment]) -> Runs | None:
    """``place_runs`` of few runs, whose pools exist; None unless each surely stays in its slot on both sides."""
    rows: list[tuple[int, int, int, int]] = []
    for number, segment in enumerate(segments):
        start, nbytes, stride, extent = _measures(truth.context, segment.source_rank, segment.source_pool)
        own_start, own_nbytes, own_stride, own_extent = _measures(
            truth.generation, segment.destination_rank, segment.destination_pool
        )
        runs = segment.runs.tolist()
        for base, own_base in zip(segment.source_bases.tolist(), segment.destination_bases.tolist(), strict=True):
            for source, destination, width in runs:
                read, written = base + source, own_base + destination
                if not (
                    width >= 0
                    and 0 <= read < extent
                    and read % stride + width <= nbytes
                    and 0 <= written < own_extent
                    and written % own_stride + width <= own_nbytes
                ):
                    return None
                rows.append((start + read, own_start + written, width, number))
    return Runs(*np.array(rows, dtype=np.int64).reshape(-1, 4).T, [], [])


def _measures(flat: FlatSide, rank: int, number: int) -> tuple[int, int, int, int]:
    """(flat address, bytes of a slot, from slot to slot, in all) of a pool; none in all where nothing is sure."""
    pool = flat.side.tables[rank].pools[number]
    extent = 0 if pool.layer_stride else pool.count * pool.slot_stride
    return flat.starts[rank][number], pool.slot_bytes, pool.slot_stride, extent


def runs_of(segments: Sequence[Segment]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(position of its segment, source and destination offset in the pools, bytes) of every run, in plan order.

    There is at least one segment.
    """
    slots = np.array([len(segment.source_bases) for segment in segments])
    runs = np.array([len(segment.runs) for segment in segments])
    # Each slot of a segment has all of its runs.
    of_slot = np.arange(len(segments)).repeat(slots)
    runs_of_slot = runs[of_slot]
    slot = np.arange(len(of_slot)).repeat(runs_of_slot)
    run = within(runs_of_slot) + (runs.cumsum() - runs)[of_slot][slot]
    source, destination, width = np.concatenate([segment.runs for segment in segments])[run].T
    read = np.concatenate([segment.source_bases for segment in segments])[slot] + source
    written = np.concatenate([segment.destination_bases for segment in segments])[slot] + destination
    return of_slot[slot], read, written, width


def _place(
    flat: FlatSide, pools: list[tuple[int, int]], owner: np.ndarray, address: np.ndarray, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(flat address of every run, whether it surely stays in its slot); ``owner`` is its pool's position in ``pools``.

    The pools exist; of layer-major ones nothing is sure.
    """
    first, nbytes, stride, extent = np.array([_measures(flat, *pool) for pool in pools]).T[:, owner]
    return address + first, (address >= 0) & (address < extent) & (address % stride + width <= nbytes)


def _rooms(flat: FlatSide, pools: list[tuple[int, int]], owner: np.ndarray, address: np.ndarray) -> np.ndarray:
    """``room`` of every run; ``owner`` is the position of its pool in ``pools``."""
    found = np.zeros(len(address), dtype=np.int64)
    for position, (rank, pool) in enumerate(pools):
        mine = owner == position
        found[mine] = room(flat, rank, pool, address[mine])
    return found


def exists(flat: FlatSide, rank: int, pool: int) -> bool:
    """Whether the side has this rank and the rank this pool."""
    return 0 <= rank < len(flat.starts) and 0 <= pool < len(flat.starts[rank])


def room(flat: FlatSide, rank: int, pool: int, address: np.ndarray) -> np.ndarray:
    """Bytes from each pool-relative address to the end of the slot that it lies in; 0 outside every slot."""
    table = flat.side.tables[rank]
    what = table.pools[pool]
    within = address % what.layer_stride if what.layer_stride else address
    left = what.slot_bytes - within % what.slot_stride
    legal = (address >= 0) & (address < table.pool_extent(pool)) & (within < what.count * what.slot_stride)
    return np.where(legal & (left > 0), left, 0)


def senders_of(segments: Sequence[Segment]) -> np.ndarray:
    """The source rank of every segment."""
    return np.array([segment.source_rank for segment in segments], dtype=np.int64)
