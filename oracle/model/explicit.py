"""Checking page tables and slot lists that a case gives instead of having them derived."""

from __future__ import annotations

import numpy as np

from oracle.model.case import Case, SlotList
from oracle.model.errors import InvalidCase
from oracle.model.packing import pack_group
from oracle.model.pages import PageTable
from oracle.model.slots import number_blocks, number_spare
from oracle.model.topology import Rank

Lists = dict[tuple[int, str, int], SlotList]
"""by (rank, group name, request)"""


def check_table(case: Case, side: str, rank: Rank, table: PageTable) -> dict[int, tuple[int, int]]:
    """Hold an explicit page table against the declaration: the buffers of the stage, each of its size.

    Returns group -> (first running number of its blocks in the pool group, slots of the pool).
    """
    instance = case.side(side)
    where = f"{side}.page_tables.{rank.number}"
    expected = {
        (group, layer, role): nbytes
        for group in range(len(case.model.groups))
        for pool in pack_group(case.model, group, instance, rank)
        for layer, role, _, nbytes in pool.members
    }
    given = {(entry.group, entry.layer, entry.role): entry.nbytes for entry in table.entries}
    for key in [*(key for key in given if key not in expected), *(key for key in expected if key not in given)]:
        what = "the rank holds no such (group, layer, role)" if key in given else "expected an entry for each buffer"
        raise InvalidCase(where, key, what)
    for key, nbytes in given.items():
        if nbytes != expected[key]:
            raise InvalidCase(f"{where}.nbytes of {key}", nbytes, f"the rank stores {expected[key]} B of it")
    for number, pool in enumerate(table.pools):
        if pool.layer_stride and pool.layer_stride < pool.count * pool.slot_stride:
            raise InvalidCase(
                f"{where}.pools[{number}].layer_stride",
                pool.layer_stride,
                f"expected at least the bytes of its {pool.count} slots, {pool.count * pool.slot_stride}",
            )
    return _numbering(case, side, table)


def _numbering(case: Case, side: str, table: PageTable) -> dict[int, tuple[int, int]]:
    where: dict[int, tuple[int, int]] = {}
    used: dict[int, int] = {}
    for group in table.groups():
        pools = {entry.pool for entry in table.entries if entry.group == group}
        pool_groups = {table.pools[pool].pool_group for pool in pools}
        if len(pool_groups) != 1:
            raise InvalidCase("page_tables.pool_group", sorted(pool_groups), "a group draws slots from one pool group")
        pool_group = pool_groups.pop()
        count = min(pool.count for pool in table.pools if pool.pool_group == pool_group)
        first = used.get(pool_group, 0)
        where[group] = (first, count)
        used[pool_group] = first + number_blocks(case, side, group)[0] + number_spare(case, side, group)[0]
    return where


def check_lists(case: Case, side: str, lists: Lists) -> None:
    """Every list is of a group that its rank's stage holds and of a request that is on the rank.

    Which blocks a side holds is decided once a request and group: all its ranks hold the same, of
    which a context-parallel rank has every cp-th.
    """
    topology = case.side(side).topology
    held: dict[tuple[str, int], dict[int, frozenset[int]]] = {}
    for (number, name, request), row in lists.items():
        rank = topology.rank(number)
        where = f"tables.{side}.{number}.{name}"
        group = case.model.group_index(name)
        if not pack_group(case.model, group, case.side(side), rank):
            raise InvalidCase(f"tables.{side}.{number}", name, "the stage of this rank holds no layer of the group")
        if topology.attention_dp and rank.tp != case.requests[request].dp_rank(side):
            raise InvalidCase(where, request, "the request is on another attention data-parallel rank")
        blocks = frozenset(ordinal for ordinal, slot in enumerate(row.slots) if slot >= 0)
        for ordinal in sorted(blocks) if case.model.groups[group].is_paged else ():
            if ordinal % topology.cp != rank.cp:
                raise InvalidCase(
                    f"{where}[{request}]", ordinal, f"rank {number} owns blocks {rank.cp} mod {topology.cp}"
                )
        held.setdefault((name, request), {})[number] = blocks
    for (name, request), by_rank in held.items():
        group = case.model.group_index(name)
        paged = case.model.groups[group].is_paged
        everything = frozenset().union(*by_rank.values())
        for rank in topology.ranks():
            if topology.attention_dp and rank.tp != case.requests[request].dp_rank(side):
                continue
            if not pack_group(case.model, group, case.side(side), rank):
                continue
            own = {ordinal for ordinal in everything if not paged or ordinal % topology.cp == rank.cp}
            lacking = own - by_rank.get(rank.number, frozenset())
            if lacking:
                where = f"tables.{side}.{rank.number}.{name}[{request}]"
                raise InvalidCase(where, min(lacking), "another rank of the side has a slot for this block")


def explicit_slots(row: SlotList | None, blocks: int, count: int) -> np.ndarray:
    """Slots by ordinal (int64, ``blocks``), -1 where the list has none or there is no list."""
    slots = np.full(blocks, -1, dtype=np.int64)
    if row is None:
        return slots
    where = f"tables.{row.side}.{row.rank}.{row.group}[{row.request}]"
    if len(row.slots) > blocks:
        raise InvalidCase(where, len(row.slots), f"the request has {blocks} blocks of this group")
    slots[: len(row.slots)] = row.slots
    if len(slots) and slots.max() >= count:
        raise InvalidCase(where, int(slots.max()), f"the pool has slots 0..{count - 1}")
    slots.setflags(write=False)
    return slots


def check_slots_differ(
    case: Case, side: str, ranks: list[Rank], table: PageTable, found: list[dict[int, tuple[np.ndarray, ...]]]
) -> None:
    """No two different content blocks of a rank lie in one slot of a pool group."""
    pool_groups = {entry.group: table.pools[entry.pool].pool_group for entry in table.entries}
    for rank, own in zip(ranks, found, strict=True):
        owners: dict[tuple[int, int], tuple[int, int]] = {}
        for group, rows in own.items():
            numbers = number_blocks(case, side, group)[1]
            for request, slots in enumerate(rows):
                for ordinal in np.flatnonzero(slots >= 0).tolist():
                    slot = int(slots[ordinal])
                    block = (group, int(numbers[request][ordinal]))
                    if owners.setdefault((pool_groups[group], slot), block) != block:
                        name = case.model.groups[group].name
                        where = f"tables.{side}.{rank.number}.{name}[{request}]"
                        raise InvalidCase(where, slot, f"another block has this slot already (block {ordinal})")
