"""Plans by what they move, whatever the slots and offsets."""

from __future__ import annotations

import numpy as np

from oracle.model.case import Case
from oracle.model.sides import lay_out
from oracle.model.writes import Writes

WIDE = 1 << 32
"""More than the bytes of any buffer."""


def places(case: Case, side: str, rank: int, layer_group: int, pool: int, roles: dict[str, int]) -> np.ndarray:
    """For each byte of a slot of a pool: layer, role and byte of the buffer in one number; -1 for none."""
    table = lay_out(case, side).tables[rank]
    entries = [entry for entry in table.entries if entry.group == layer_group and entry.pool == pool]
    found = np.full(max(entry.offset + entry.nbytes for entry in entries), -1, dtype=np.int64)
    for entry in entries:
        code = (entry.layer * len(roles) + roles[entry.role]) * WIDE
        found[entry.offset : entry.offset + entry.nbytes] = code + np.arange(entry.nbytes)
    return found


MOVE = ("request", "group", "source", "destination", "source_block", "block", "read", "written")
"""What a row of ``moves_of`` says of one byte."""


def moves_of(case: Case, writes: Writes) -> np.ndarray:
    """One row a byte, sorted: see ``MOVE``; ``read`` and ``written`` are layer, role and byte of the buffer."""
    roles = {buffer.role: n for n, buffer in enumerate(b for g in case.model.groups for b in g.buffers)}
    sides = {side: lay_out(case, side) for side in ("context", "generation")}
    rows = [np.zeros((0, len(MOVE)), dtype=np.int64)]
    for segment in writes.segments:
        ends = []
        for side, rank, pool, bases, starts in (
            ("context", segment.source_rank, segment.source_pool, segment.source_bases, segment.runs[:, 0]),
            (
                "generation",
                segment.destination_rank,
                segment.destination_pool,
                segment.destination_bases,
                segment.runs[:, 1],
            ),
        ):
            slots = sides[side].slots[rank][segment.group][segment.request].tolist()
            stride = sides[side].tables[rank].pools[pool].slot_stride
            ordinals = np.array([slots.index(base // stride) for base in bases.tolist()], dtype=np.int64)
            offsets = np.concatenate(
                [
                    np.arange(start, start + n)
                    for start, n in zip(starts.tolist(), segment.runs[:, 2].tolist(), strict=True)
                ]
            )
            ends.append((ordinals, places(case, side, rank, segment.group, pool, roles)[offsets]))
        (source_blocks, read), (blocks, written) = ends
        table = np.empty((len(blocks), len(read), len(MOVE)), dtype=np.int64)
        table[:, :, :4] = (segment.request, segment.group, segment.source_rank, segment.destination_rank)
        table[:, :, 4], table[:, :, 5] = source_blocks[:, None], blocks[:, None]
        table[:, :, 6], table[:, :, 7] = read, written
        rows.append(table.reshape(-1, len(MOVE)))
    return in_order(np.concatenate(rows))


def in_order(moves: np.ndarray) -> np.ndarray:
    return moves[np.lexsort(moves.T[::-1])]


def column(name: str) -> int:
    return MOVE.index(name)
