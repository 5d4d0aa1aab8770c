"""Memory that others allocated, as the pools of a case: which bytes of it are which, and what is wrong with it.

``memories`` names the sides; a side is a list by rank, or a mapping from rank numbers; the memory of
a rank is either a list of its pools, or a mapping (layer, role) -> array whose first axis counts the
slots. A pool or an array is what ``surface_of`` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from differential.engines.memory.arena import GUARD, Arena
from differential.engines.surface import Surface, find_overlap, surface_of
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.pages import Entry, PageTable
from oracle.model.sides import lay_out

Key = int | tuple[int, str]
"""number of a pool, or (layer, role)"""
Where = slice | np.ndarray
"""positions in an arena"""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One array that holds bytes of a rank."""

    side: str
    rank: int
    key: Key
    surface: Surface

    def __str__(self) -> str:
        return name_of(self.side, self.rank, self.key)


def name_of(side: str, rank: int, key: Key) -> str:
    """``generation rank 1 pool 0`` or ``generation rank 1 key of layer 3``."""
    return f"{side} rank {rank} " + (f"pool {key}" if isinstance(key, int) else f"{key[1]} of layer {key[0]}")


def adopt(case: Case, memories: Any, *, guard: int = 0) -> list[Piece]:
    """The arrays of ``memories``, each checked against the page table of its rank, and all against one another.

    ``guard``: bytes before and after each pool that belong to it and must not change. Ranks that are
    not named are left out. Raises ``InvalidCase`` that names side, rank and pool, and the bytes
    expected.
    """
    if type(guard) is not int or not 0 <= guard <= GUARD:
        raise InvalidCase("guard", guard, f"expected 0 to {GUARD} bytes")
    if not isinstance(memories, Mapping) or not set(memories) <= set(SIDES):
        given = sorted(map(str, memories)) if isinstance(memories, Mapping) else type(memories).__name__
        raise InvalidCase("memories", given, "expected a mapping with the keys context and generation")
    pieces = [piece for side in SIDES if side in memories for piece in _side(case, side, memories[side], guard)]
    overlap = find_overlap([piece.surface for piece in pieces])
    if overlap is not None:
        one, other, address = overlap
        whose = "its own" if one == other else f"{pieces[one]}"
        raise InvalidCase(
            str(pieces[other]), f"at {address:#x}, where bytes of {whose} lie", "expected memories that do not overlap"
        )
    return pieces


def _side(case: Case, side: str, given: Any, guard: int) -> Iterator[Piece]:
    tables = lay_out(case, side).tables
    if isinstance(given, Mapping):
        by_rank = dict(given)
        for rank in by_rank:
            if type(rank) is not int or not 0 <= rank < len(tables):
                raise InvalidCase(f"memories.{side}", rank, f"{side} has the ranks 0..{len(tables) - 1}")
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray | memoryview):
        if len(given) != len(tables):
            raise InvalidCase(
                f"memories.{side}", f"{len(given)} ranks", f"expected {len(tables)}, or a mapping from rank numbers"
            )
        by_rank = dict(enumerate(given))
    else:
        raise InvalidCase(f"memories.{side}", type(given).__name__, "expected a list by rank or a mapping")
    for rank, memory in by_rank.items():
        if isinstance(memory, Mapping):
            yield from _views(case, side, rank, tables[rank], memory)
        elif isinstance(memory, list | tuple):
            yield from _pools(side, rank, tables[rank], memory, guard)
        else:
            raise InvalidCase(
                f"{side} rank {rank}",
                type(memory).__name__,
                "expected a list of its pools or a mapping from (layer, role)",
            )


def _pools(side: str, rank: int, table: PageTable, memory: Sequence[Any], guard: int) -> Iterator[Piece]:
    if len(memory) != len(table.pools):
        raise InvalidCase(f"{side} rank {rank}", f"{len(memory)} pools", f"expected {len(table.pools)}")
    for number, given in enumerate(memory):
        name = name_of(side, rank, number)
        surface = surface_of(name, given)
        pool, extent = table.pools[number], table.pool_extent(number)
        if surface.geometry.nbytes != extent + 2 * guard:
            around = f" with {guard} B of guard on either end" if guard else ""
            regions = extent // (pool.count * pool.slot_stride) if pool.layer_stride else 1
            layers = f" in {regions} layers" if regions > 1 else ""
            raise InvalidCase(
                name,
                f"{surface.geometry.nbytes} B on {surface.device}",
                f"expected {extent + 2 * guard} B: {pool.count} slots{layers}, {pool.slot_stride} B apart{around}",
            )
        yield Piece(side, rank, number, surface)


def _views(case: Case, side: str, rank: int, table: PageTable, memory: Mapping[Any, Any]) -> Iterator[Piece]:
    entries = {(entry.layer, entry.role): entry for entry in table.entries}
    if set(memory) != set(entries):
        different = sorted(map(str, set(memory) ^ set(entries)))
        raise InvalidCase(
            f"{side} rank {rank}", different[0], f"expected each (layer, role) of {sorted(entries)} once, and no other"
        )
    _require_regions_apart(case, side, rank, table)
    for key, entry in entries.items():
        name = name_of(side, rank, key)
        surface = surface_of(name, memory[key])
        count, shape = table.pools[entry.pool].count, surface.geometry.shape
        if not shape or shape[0] != count or surface.geometry.nbytes != count * entry.nbytes:
            raise InvalidCase(
                name,
                f"{surface.geometry.nbytes} B of shape {shape} on {surface.device}",
                f"expected {count * entry.nbytes} B: {count} slots along the first axis, {entry.nbytes} B each",
            )
        yield Piece(side, rank, key, surface)


def _require_regions_apart(case: Case, side: str, rank: int, table: PageTable) -> None:
    """Where groups take slots of one pool, a byte of it is of one layer in one slot and of another in the next."""
    for pool in range(len(table.pools)):
        groups = sorted({entry.group for entry in table.entries if entry.pool == pool})
        if len(groups) > 1:
            names = ", ".join(case.model.groups[group].name for group in groups)
            raise InvalidCase(
                f"{side} rank {rank}", "arrays by layer", f"the groups {names} share pool {pool}: give the rank's pools"
            )


def positions(arena: Arena, rank: int, key: Key, guard: int) -> Where:
    """Where the bytes of a piece lie in the guarded memory of its side."""
    table = arena.flat.side.tables[rank]
    if isinstance(key, int):
        start, end = arena.spans[rank][key]
        return slice(start + GUARD - guard, end - GUARD + guard)
    entry = _entry(table, key)
    pool = table.pools[entry.pool]
    start = arena.spans[rank][entry.pool][0] + GUARD + entry.offset
    return np.add.outer(start + pool.slot_stride * np.arange(pool.count), np.arange(entry.nbytes)).ravel()


def _entry(table: PageTable, key: tuple[int, str]) -> Entry:
    return next(entry for entry in table.entries if (entry.layer, entry.role) == key)


def missing_keys(table: PageTable, keys: set[Key]) -> list[Key]:
    """What is left out of a rank's memory; empty where ``keys`` are all of its pools, or all arrays of its layers."""
    pools: list[Key] = list(range(len(table.pools)))
    arrays: list[Key] = [(entry.layer, entry.role) for entry in table.entries]
    wanted = arrays if any(isinstance(key, tuple) for key in keys) else pools
    return [key for key in wanted if key not in keys]
