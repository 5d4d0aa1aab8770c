"""Carrying a plan out digit plane by digit plane, and what the plan itself asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.engines.memory.arena import Arena
from differential.engines.memory.landed import Landing
from differential.engines.memory.planes import Planes
from differential.engines.memory.reach import within_reach
from differential.engines.protocol import Engine, has_own_memory
from differential.engines.runs import are_disjoint, expand, in_pieces, runs_of
from oracle.model.writes import Writes

PIECE = 1 << 22
"""Bytes of a plan whose words are moved at a time."""


class HostMemory:
    """Memory for an engine that has none of its own: one array a side, a buffer for each pool."""

    def allocate(self, nbytes: int) -> np.ndarray:
        return np.empty(nbytes, dtype=np.uint8)

    def view(self, memory: np.ndarray, start: int, end: int) -> memoryview:
        return memoryview(memory)[start:end]

    def write(self, memory: np.ndarray, values: np.ndarray) -> None:
        memory[:] = values

    def read(self, memory: np.ndarray) -> np.ndarray:
        return memory


def carry_out(planes: Planes, writes: Writes, engine: Engine) -> Landing:
    """Let ``engine`` carry ``writes`` out once for each plane, in guarded memory, and put together what landed."""
    plan, beyond = within_reach(writes, planes)
    ground = engine if has_own_memory(engine) else HostMemory()
    source = ground.allocate(planes.source_arena.size)
    destination = ground.allocate(planes.destination.size)
    from_views = views(planes.source_arena, ground, source)
    to_views = views(planes.destination, ground, destination)
    words = np.zeros(planes.destination.size, dtype=planes.word)
    changed = np.zeros(planes.source_arena.size, dtype=bool)
    for plane in range(planes.passes):
        ground.write(source, planes.source[plane])
        ground.write(destination, planes.fresh_destination(plane))
        engine.carry(plan, from_views, to_views)
        words |= ground.read(destination).astype(planes.word) << planes.word.type(8 * plane)
        changed |= ground.read(source) != planes.source[plane]
    return Landing(planes, words, np.flatnonzero(changed), asked_by(planes, plan), beyond)


def views(arena: Arena, ground: Any, memory: Any) -> list[list[Any]]:
    """``memory`` as ``[rank][pool]``, guards included."""
    return [[ground.view(memory, start, end) for start, end in row] for row in arena.spans]


def asked_by(planes: Planes, plan: Writes) -> np.ndarray:
    """The words of the destination after ``plan``, which counts from the start of the guarded buffers.

    Runs are carried out in plan order: of two that write one byte, the later stays.
    """
    words, held = planes.fresh_words(), planes.source_words()
    segments = list(plan.segments)
    runs = runs_of(
        segments,
        [planes.source_arena.spans[s.source_rank][s.source_pool][0] for s in segments],
        [planes.destination.spans[s.destination_rank][s.destination_pool][0] for s in segments],
    )
    if are_disjoint(runs.destination, runs.nbytes):
        for piece in in_pieces(runs, PIECE):
            words[expand(piece.destination, piece.nbytes)] = held[expand(piece.source, piece.nbytes)]
        return words
    for start, end, nbytes in zip(*(column.tolist() for column in runs), strict=True):
        words[end : end + nbytes] = held[start : start + nbytes]
    return words
