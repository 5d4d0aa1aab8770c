"""The bytes that a plan reads and writes, as flat addresses in plan order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.model.writes import Segment, Writes
from oracle.truth.elements import Truth
from oracle.truth.stacks import FlatSide


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


def carry(truth: Truth, writes: Writes) -> Carried:
    """Expand a plan to bytes; runs that leave their slot on either side are clipped to it."""
    sources: list[np.ndarray] = []
    destinations: list[np.ndarray] = []
    owners: list[int] = []
    lengths: list[int] = []
    outside: list[tuple[int, int, int]] = []
    nowhere: list[int] = []
    for number, segment in enumerate(writes.segments):
        if not _exists(truth.context, segment.source_rank, segment.source_pool) or not _exists(
            truth.generation, segment.destination_rank, segment.destination_pool
        ):
            nowhere.append(number)
            continue
        read = segment.source_bases[:, None] + segment.runs[:, 0]
        written = segment.destination_bases[:, None] + segment.runs[:, 1]
        width = segment.runs[:, 2]
        source_room = _room(truth.context, segment.source_rank, segment.source_pool, read)
        destination_room = _room(truth.generation, segment.destination_rank, segment.destination_pool, written)
        room = np.minimum(source_room, destination_room)
        read = read + truth.context.starts[segment.source_rank][segment.source_pool]
        target = written + truth.generation.starts[segment.destination_rank][segment.destination_pool]
        if (room >= width).all() and (width >= 0).all():
            from_offsets = byte_offsets(segment.runs[:, 0], width)
            to_offsets = byte_offsets(segment.runs[:, 1], width)
            start = truth.context.starts[segment.source_rank][segment.source_pool]
            end = truth.generation.starts[segment.destination_rank][segment.destination_pool]
            sources.append(((segment.source_bases + start)[:, None] + from_offsets).ravel())
            destinations.append(((segment.destination_bases + end)[:, None] + to_offsets).ravel())
        else:
            widths = np.broadcast_to(width, read.shape)
            kept = np.clip(np.minimum(widths, room), 0, None)
            short = np.argwhere(kept < widths)
            for slot, run in short:
                outside.append((number, int(widths[slot, run] - kept[slot, run]), int(written[slot, run])))
            flat = kept.ravel()
            some = flat > 0
            sources.append(byte_offsets(read.ravel()[some], flat[some]))
            destinations.append(byte_offsets(target.ravel()[some], flat[some]))
        owners.append(number)
        lengths.append(len(sources[-1]))
    empty = np.zeros(0, dtype=np.int64)
    return Carried(
        np.concatenate(sources) if sources else empty,
        np.concatenate(destinations) if destinations else empty,
        np.repeat(np.array(owners, dtype=np.int64), np.array(lengths, dtype=np.int64)) if owners else empty,
        outside,
        nowhere,
    )


def _exists(flat: FlatSide, rank: int, pool: int) -> bool:
    return 0 <= rank < len(flat.starts) and 0 <= pool < len(flat.starts[rank])


def _room(flat: FlatSide, rank: int, pool: int, address: np.ndarray) -> np.ndarray:
    """Bytes from each pool-relative address to the end of the slot that it lies in; 0 outside every slot."""
    table = flat.side.tables[rank]
    what = table.pools[pool]
    within = address % what.layer_stride if what.layer_stride else address
    room = what.slot_bytes - within % what.slot_stride
    legal = (address >= 0) & (address < table.pool_extent(pool)) & (within < what.count * what.slot_stride)
    return np.where(legal & (room > 0), room, 0)


def segment_ranks(segments: tuple[Segment, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(source rank, destination rank, request) of every segment."""
    return (
        np.array([segment.source_rank for segment in segments], dtype=np.int64),
        np.array([segment.destination_rank for segment in segments], dtype=np.int64),
        np.array([segment.request for segment in segments], dtype=np.int64),
    )
