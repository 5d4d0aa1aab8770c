"""Blocks that are due and that no source rank holds any more: of their request, a refusal is the one right answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oracle.model.pages import PageTable
from oracle.truth.blocks import DUE, block_classes, may_lose, resident_blocks
from oracle.truth.fill import owned
from oracle.truth.stacks import moves_between

if TYPE_CHECKING:
    from oracle.truth.elements import Frame


def note_lost(frame: Frame) -> None:
    """Remember due blocks of which a buffer moves, and that no paired source rank with that buffer holds."""
    case = frame.case
    if not may_lose(case):
        return
    for request in range(len(case.requests)):
        for number, heard in frame.heard[request].items():
            rank = case.generation.topology.rank(number)
            for group, rows in frame.generation.side.slots[number].items():
                classes = block_classes(case, request, group)
                due = (classes == DUE) & (rows[request] >= 0)
                mine = owned(frame, "generation", [rank], group, len(classes))
                due = due if mine is None else due & mine[0]
                if not due.any():
                    continue
                for sources in _senders(frame, group, number, heard):
                    gone = np.flatnonzero(due & ~_held_by(frame, request, group, sources, len(due)))
                    if len(gone):
                        frame.lost.setdefault(request, (number, group, int(gone[0])))


def _senders(frame: Frame, group: int, number: int, heard: tuple[int, ...]) -> set[tuple[int, ...]]:
    """For each buffer of the group that a transfer brings to a rank: the paired source ranks that have it, if any."""
    case, tables = frame.case, frame.context.side.tables
    if case.model.groups[group].native_only:
        return set()
    buffers = case.model.groups[group].buffers
    found = set()
    for entry in frame.generation.side.tables[number].entries:
        if entry.group != group:
            continue
        buffer = next(each for each in buffers if each.role == entry.role and entry.layer in each.layers)
        if moves_between(case, buffer, entry.layer):
            layer = None if buffer.request_scope else entry.layer
            found.add(tuple([source for source in heard if _has(tables[source], group, layer, entry.role)]))
    return found - {()}


def _has(table: PageTable, group: int, layer: int | None, role: str) -> bool:
    """Whether a rank has a buffer of the role; ``layer`` None: on whichever layer."""
    return any((entry.group, entry.role) == (group, role) and layer in (None, entry.layer) for entry in table.entries)


def _held_by(frame: Frame, request: int, group: int, sources: tuple[int, ...], blocks: int) -> np.ndarray:
    """Whether any of some source ranks still holds each block (bool by ordinal)."""
    case = frame.case
    found = np.zeros(blocks, dtype=bool)
    for source in sources:
        held = frame.context.side.slots[source].get(group)
        if held is not None and len(held[request]) == blocks:
            theirs = owned(frame, "context", [case.context.topology.rank(source)], group, blocks)
            here = resident_blocks(case, request, group, held[request])
            found |= here if theirs is None else here & theirs[0]
    return found
