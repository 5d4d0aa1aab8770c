"""What an engine may be given: runs that lie within the guarded buffers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from differential.engines.memory.arena import GUARD, Arena
from differential.engines.memory.planes import Planes
from oracle.model.writes import Segment, Writes

Beyond = list[tuple[int, int]]
"""(segment, bytes that no buffer has room for)"""


def within_reach(writes: Writes, planes: Planes) -> tuple[Writes, Beyond]:
    """(the plan as the engine gets it, what it is not given).

    Bases then count from the start of the guarded buffers. A run that leaves its pool by no more
    than the guard is left as it is: the guard will show it. What lies further out is cut off.
    """
    whole = [s for s in writes.segments if len(s.source_bases) and len(s.runs)]
    if not whole:
        return Writes(), [(n, s.nbytes) for n, s in enumerate(writes.segments) if s.nbytes]
    read = _ends(whole, [s.source_bases for s in whole], 0)
    written = _ends(whole, [s.destination_bases for s in whole], 1)
    segments: list[Segment] = []
    beyond: Beyond = []
    at = 0
    for number, segment in enumerate(writes.segments):
        if not len(segment.source_bases) or not len(segment.runs):
            continue
        room = _room(planes.source_arena, segment.source_rank, segment.source_pool)
        space = _room(planes.destination, segment.destination_rank, segment.destination_pool)
        if room is None or space is None:
            beyond.append((number, segment.nbytes))
        elif _inside(read, at, room) and _inside(written, at, space) and read.shortest[at] >= 0:
            segments.append(_moved(segment, read.bases[at], written.bases[at], segment.runs))
        else:
            kept, lost = _cut(segment, room, space)
            segments.append(kept)
            beyond.append((number, lost))
        at += 1
    return Writes(segments=tuple(segments)), beyond


class _Ends:
    """Of each segment on one side: shifted bases, lowest and highest address in its pool, shortest run."""

    __slots__ = ("bases", "highest", "lowest", "shortest")

    def __init__(self, bases: list[np.ndarray], lowest: list[int], highest: list[int], shortest: list[int]) -> None:
        self.bases = bases
        self.lowest = lowest
        self.highest = highest
        self.shortest = shortest


def _ends(segments: Sequence[Segment], bases: list[np.ndarray], column: int) -> _Ends:
    """All segments at once: a few calls for the whole plan."""
    all_bases = np.concatenate(bases)
    shifted = all_bases + GUARD
    runs = np.concatenate([segment.runs for segment in segments])
    base_cuts = np.cumsum([0, *(len(base) for base in bases)])
    run_starts = np.cumsum([0, *(len(segment.runs) for segment in segments)])[:-1]
    offsets, nbytes = runs[:, column], runs[:, 2]
    lowest = np.minimum.reduceat(all_bases, base_cuts[:-1]) + np.minimum.reduceat(offsets, run_starts)
    highest = np.maximum.reduceat(all_bases, base_cuts[:-1]) + np.maximum.reduceat(offsets + nbytes, run_starts)
    edges = base_cuts.tolist()
    return _Ends(
        [shifted[start:end] for start, end in pairwise(edges)],
        lowest.tolist(),
        highest.tolist(),
        np.minimum.reduceat(nbytes, run_starts).tolist(),
    )


def _room(arena: Arena, rank: int, pool: int) -> int | None:
    """Bytes of a pool without its guards; None where rank or pool does not exist."""
    if not 0 <= rank < len(arena.spans) or not 0 <= pool < len(arena.spans[rank]):
        return None
    start, end = arena.spans[rank][pool]
    return int(end - start - 2 * GUARD)


def _inside(ends: _Ends, at: int, room: int) -> bool:
    return ends.lowest[at] >= -GUARD and ends.highest[at] <= room + GUARD


def _moved(segment: Segment, source: np.ndarray, destination: np.ndarray, runs: np.ndarray) -> Segment:
    return Segment(
        segment.request,
        segment.chunk,
        segment.group,
        segment.source_rank,
        segment.destination_rank,
        segment.source_pool,
        segment.destination_pool,
        source,
        destination,
        runs,
    )


def _cut(segment: Segment, room: int, space: int) -> tuple[Segment, int]:
    """(the segment with every run cut to what both buffers have, bytes cut off)."""
    read = np.add.outer(segment.runs[:, 0], segment.source_bases).ravel()
    written = np.add.outer(segment.runs[:, 1], segment.destination_bases).ravel()
    nbytes = np.maximum(np.repeat(segment.runs[:, 2], len(segment.source_bases)), 0)
    front = np.maximum(np.maximum(-GUARD - read, -GUARD - written), 0)
    back = np.minimum(np.minimum(room + GUARD - read, space + GUARD - written), nbytes)
    kept = np.maximum(back - front, 0)
    some = kept > 0
    rows = np.stack([read + front, written + front, kept], axis=1)[some]
    start = np.array([GUARD], dtype=np.int64)
    return _moved(segment, start, start, rows), int((nbytes - kept).sum())
