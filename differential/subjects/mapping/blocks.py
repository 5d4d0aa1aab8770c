"""Which blocks of a request are sent from where: two sets of positional tables, intersected (spec: blocks, tables)."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np

from differential.managers.facts import BlockTable
from oracle.model.buffers import LayerGroup

NONE = np.zeros(0, dtype=np.int64)


class Shared(NamedTuple):
    """Blocks that a destination lists and exactly ``sources`` hold.

    ``ordinals`` (n) are their numbers in the request; ``source_slots`` has n slots for each of
    ``sources``, in their order, ``slots`` those of the destination.
    """

    sources: tuple[int, ...]
    ordinals: range | np.ndarray
    source_slots: list[np.ndarray]
    slots: np.ndarray

    def numbers(self) -> np.ndarray:
        """``ordinals`` as int64 (n)."""
        ordinals = self.ordinals
        if isinstance(ordinals, range):
            return np.arange(ordinals.start, ordinals.stop, ordinals.step, dtype=np.int64)
        return ordinals


def stale_end(group: LayerGroup, tokens: int, tokens_per_block: int) -> int:
    """The first block that the model's window still reaches once ``tokens`` tokens are in the cache.

    The next query sits at position ``tokens`` and sees ``window`` keys up to itself.
    """
    if group.window is None:
        return 0
    return max(0, (tokens + 1 - group.window) // tokens_per_block)


def is_due(group: LayerGroup, tokens: int, tokens_per_block: int, ordinals: np.ndarray) -> np.ndarray:
    """Which of ``ordinals`` the model's window or sinks reach: those must not be lost."""
    sinks = -(-group.sinks // tokens_per_block)
    return (ordinals < sinks) | (ordinals >= stale_end(group, tokens, tokens_per_block))


def share_blocks(
    destination: BlockTable, tables: dict[int, BlockTable], sources: tuple[int, ...], blocks: int
) -> list[Shared]:
    """The first ``blocks`` blocks that ``destination`` lists, by the set of ``sources`` that hold them.

    ``sources`` have tables of one first ordinal and stride; a source without a table holds nothing.
    """
    wanted = destination.slots
    step = destination.stride
    first = destination.first
    span = tables[sources[0]] if sources and sources[0] in tables else None
    if span is not None and (span.first, span.stride) != (first, step):
        first, step = _meet(first, step, span.first, span.stride)
        wanted = wanted[(first - destination.first) // destination.stride :: step // destination.stride]
    count = min(len(wanted), max(0, -(-(blocks - first) // step)))
    wanted = wanted[:count]
    ordinals = range(first, first + count * step, step)
    held: list[np.ndarray] = []
    for source in sources:
        table = tables.get(source)
        slots = NONE if table is None else table.slots
        if table is not None and (table.first != first or table.stride != step):
            slots = slots[(first - table.first) // table.stride :: step // table.stride]
        if len(slots) < count:
            slots = np.concatenate((slots, np.full(count - len(slots), -1, dtype=np.int64)))
        held.append(slots[:count])
    if all(map(_is_whole, held)):
        if _is_whole(wanted):
            return [Shared(sources, ordinals, held, wanted)] if count else []
        chosen = np.flatnonzero(wanted >= 0)
        if not len(chosen):
            return []
        return [Shared(sources, chosen * step + first, [slots[chosen] for slots in held], wanted[chosen])]
    numbers = np.arange(first, first + count * step, step, dtype=np.int64)
    listed = wanted >= 0
    if not listed.all():
        numbers, wanted, held = numbers[listed], wanted[listed], [slots[listed] for slots in held]
    return by_holders(sources, numbers, held, wanted)


def _is_whole(slots: np.ndarray) -> bool:
    return -1 not in slots.tolist() if len(slots) < 64 else bool(slots.min() >= 0)


def _meet(first: int, stride: int, other: int, other_stride: int) -> tuple[int, int]:
    """(first, stride) of the ordinals that two progressions have in common; they must have some."""
    common = stride // gcd(stride, other_stride) * other_stride
    start = max(first, other)
    start += -(start - first) % stride
    while (start - other) % other_stride:
        start += stride
    return start, common


def by_holders(
    sources: tuple[int, ...], ordinals: np.ndarray, held: list[np.ndarray], wanted: np.ndarray
) -> list[Shared]:
    """Listed blocks (n) grouped by who holds them; ``held`` has n slots for each of ``sources``, -1 for none."""
    if not len(ordinals):
        return []
    have = np.array([slots >= 0 for slots in held])
    patterns: list[tuple[list[bool], np.ndarray]]
    if (have == have[0]).all():
        # The usual case: ranks of one instance dropped the same blocks.
        groups = [(bool(holds), np.flatnonzero(have[0] == holds)) for holds in (True, False)]
        patterns = [([holds] * len(sources), chosen) for holds, chosen in groups if len(chosen)]
    else:
        columns, which = np.unique(have, axis=1, return_inverse=True)
        patterns = [(column.tolist(), np.flatnonzero(which.ravel() == i)) for i, column in enumerate(columns.T)]
    found: list[Shared] = []
    for pattern, chosen in patterns:
        there = [i for i, holds in enumerate(pattern) if holds]
        slots = [held[i][chosen] for i in there]
        found.append(Shared(tuple([sources[i] for i in there]), ordinals[chosen], slots, wanted[chosen]))
    return found
