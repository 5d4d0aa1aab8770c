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
        return Carried(
            byte_offsets(self.source, self.nbytes),
            byte_offsets(self.destination, self.nbytes),
            self.segment.repeat(self.nbytes),
            self.outside,
            self.nowhere,
        )


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
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def place_runs(truth: Truth, writes: Writes) -> Runs:
    """The runs of a plan; those that leave their slot on either side are clipped to it."""
    nowhere = [
        number
        for number, segment in enumerate(writes.segments)
        if not exists(truth.context, segment.source_rank, segment.source_pool)
        or not exists(truth.generation, segment.destination_rank, segment.destination_pool)
    ]
    real = [number for number in range(len(writes.segments)) if number not in nowhere] if nowhere else None
    segments = writes.segments if real is None else [writes.segments[number] for number in real]
    empty = np.zeros(0, dtype=np.int64)
    if not segments:
        return Runs(empty, empty, empty, empty, [], nowhere)
    numbers = np.arange(len(segments)) if real is None else np.array(real)
    owner, read, written, width = runs_of(segments)
    sources = [(segment.source_rank, segment.source_pool) for segment in segments]
    targets = [(segment.destination_rank, segment.destination_pool) for segment in segments]
    least = np.minimum(_rooms(truth.context, sources, owner, read), _rooms(truth.generation, targets, owner, written))
    outside: list[tuple[int, int, int]] = []
    if (least < width).any() or (width < 0).any():
        kept = np.clip(np.minimum(width, least), 0, None)
        for position in np.flatnonzero(kept < width).tolist():
            number = int(numbers[owner[position]])
            outside.append((number, int(width[position] - kept[position]), int(written[position])))
        some = kept > 0
        owner, read, written, width = owner[some], read[some], written[some], kept[some]
    first = np.array([truth.context.starts[rank][pool] for rank, pool in sources])
    second = np.array([truth.generation.starts[rank][pool] for rank, pool in targets])
    return Runs(read + first[owner], written + second[owner], width, numbers[owner], outside, nowhere)


def runs_of(segments: Sequence[Segment]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(position of its segment, source and destination offset in the pools, bytes) of every run, in plan order.

    There is at least one segment.
    """
    slots = np.array([len(segment.source_bases) for segment in segments])
    runs = np.array([len(segment.runs) for segment in segments])
    # Run k of a segment is (slot k // runs, in-slot run k % runs).
    total = slots * runs
    owner = np.arange(len(segments)).repeat(total)
    within = np.arange(len(owner)) - (total.cumsum() - total)[owner]
    slot, run = np.divmod(within, runs[owner])
    slot += (slots.cumsum() - slots)[owner]
    run += (runs.cumsum() - runs)[owner]
    source, destination, width = np.concatenate([segment.runs for segment in segments])[run].T
    read = np.concatenate([segment.source_bases for segment in segments])[slot] + source
    written = np.concatenate([segment.destination_bases for segment in segments])[slot] + destination
    return owner, read, written, width


def _rooms(flat: FlatSide, pools: list[tuple[int, int]], owner: np.ndarray, address: np.ndarray) -> np.ndarray:
    """``room`` of every run at once; ``owner`` is the position of its pool in ``pools``."""
    tables = flat.side.tables
    what = [tables[rank].pools[pool] for rank, pool in pools]
    if any(pool.layer_stride for pool in what):
        found = np.zeros(len(address), dtype=np.int64)
        for position, (rank, pool) in enumerate(pools):
            mine = owner == position
            found[mine] = room(flat, rank, pool, address[mine])
        return found
    sizes = np.array([(pool.slot_bytes, pool.slot_stride, pool.count * pool.slot_stride) for pool in what])[owner]
    left = sizes[:, 0] - address % sizes[:, 1]
    return np.where((address >= 0) & (address < sizes[:, 2]) & (left > 0), left, 0)


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


def segment_ranks(segments: tuple[Segment, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(source rank, destination rank, request) of every segment."""
    return (
        np.array([segment.source_rank for segment in segments], dtype=np.int64),
        np.array([segment.destination_rank for segment in segments], dtype=np.int64),
        np.array([segment.request for segment in segments], dtype=np.int64),
    )
