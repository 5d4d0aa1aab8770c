"""The page tables and slots of all ranks of one side of a case, derived or explicit."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from oracle.model.case import Case, SlotList
from oracle.model.errors import InvalidCase
from oracle.model.packing import PackedPool, pack_group
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.slots import number_blocks, slot_count
from oracle.model.topology import Rank


class Side:
    """``tables[rank]``: page table; ``slots[rank][group][request]``: int64 slots by global ordinal, -1 for none.

    The affine rule gives a slot to every ordinal; which of them a rank really holds is decided by
    truth and by the managers, each on its own.
    """

    __slots__ = ("slots", "tables")

    def __init__(self, tables: tuple[PageTable, ...], slots: tuple[dict[int, tuple[np.ndarray, ...]], ...]) -> None:
        self.tables = tables
        self.slots = slots


@lru_cache(maxsize=256)
def lay_out(case: Case, side: str) -> Side:
    """Page tables and slots of every rank of ``side``; raises ``InvalidCase`` for a slot outside its pool."""
    instance = case.side(side)
    topology = instance.topology
    explicit = dict(instance.page_tables)
    lists = {(row.rank, row.group, row.request): row for row in case.tables if row.side == side}
    derived: dict[object, tuple[PageTable, dict[int, tuple[int, int]]]] = {}
    tables: list[PageTable] = []
    slots: list[dict[int, tuple[np.ndarray, ...]]] = []
    uneven = _shares_differ(case)
    for rank in topology.ranks():
        given = explicit.get(rank.number)
        if given is not None:
            table, where = given, _numbering(case, side, given)
        else:
            key = (rank.pp, rank.tp, rank.cp) if uneven else rank.pp
            if key not in derived:
                derived[key] = _derive(case, side, rank)
            table, where = derived[key]
        tables.append(table)
        slots.append(_slots(case, side, rank, table, where, lists))
    return Side(tuple(tables), tuple(slots))


def _shares_differ(case: Case) -> bool:
    return any(
        axis.split.value in ("floor", "cyc")
        or any(section.split.value in ("floor", "cyc") for section in axis.sections)
        for group in case.model.groups
        for buffer in group.buffers
        for part in buffer.parts
        for axis in part.axes
    )


def _derive(case: Case, side: str, rank: Rank) -> tuple[PageTable, dict[int, tuple[int, int]]]:
    """(table, group -> (first running number, slots of the pool))."""
    instance = case.side(side)
    counts = dict(case.slots.counts)
    packed: list[tuple[int, tuple[PackedPool, ...]]] = []
    shares: dict[object, list[int]] = {}
    for index, group in enumerate(case.model.groups):
        pools = pack_group(case.model, index, instance, rank)
        if not pools:
            continue
        coalesced = dict(instance.packing).get(group.name, "coalesced") == "coalesced"
        widths: object = (group.kind, tuple(pool.slot_bytes for pool in pools)) if coalesced else index
        shares.setdefault(widths, []).append(len(packed))
        packed.append((index, pools))
    pools: list[Pool] = []
    entries: list[Entry] = []
    where: dict[int, tuple[int, int]] = {}
    for pool_group, members in enumerate(shares.values()):
        used = 0
        for position in members:
            index, _ = packed[position]
            where[index] = (used, 0)
            used += number_blocks(case, side, index)[0]
        given = [
            counts[case.model.groups[packed[p][0]].name]
            for p in members
            if case.model.groups[packed[p][0]].name in counts
        ]
        count = max(given) if given else slot_count(used, case.slots.mul)
        first_pool = len(pools)
        for pool in packed[members[0]][1]:
            stride = count * pool.slot_bytes if pool.layer_major else 0
            pools.append(Pool(pool.slot_bytes, count, 0, stride, pool_group))
        for position in members:
            index, own = packed[position]
            where[index] = (where[index][0], count)
            for number, pool in enumerate(own):
                places = {layer: n for n, layer in enumerate(dict.fromkeys(member[0] for member in pool.members))}
                for layer, role, offset, nbytes in pool.members:
                    if pool.layer_major:
                        offset += places[layer] * count * pool.slot_bytes
                    entries.append(Entry(index, first_pool + number, layer, role, offset, nbytes))
    return PageTable(tuple(pools), tuple(entries)), where


def _numbering(case: Case, side: str, table: PageTable) -> dict[int, tuple[int, int]]:
    """Running numbers and slot counts of the groups of an explicit table."""
    where: dict[int, tuple[int, int]] = {}
    used: dict[int, int] = {}
    for group in table.groups():
        if group >= len(case.model.groups):
            raise InvalidCase("page_tables.group", group, f"the model has {len(case.model.groups)} groups")
        pools = {entry.pool for entry in table.entries if entry.group == group}
        pool_groups = {table.pools[pool].pool_group for pool in pools}
        if len(pool_groups) != 1:
            raise InvalidCase("page_tables.pool_group", sorted(pool_groups), "a group draws slots from one pool group")
        pool_group = pool_groups.pop()
        count = min(pool.count for pool in table.pools if pool.pool_group == pool_group)
        first = used.get(pool_group, 0)
        where[group] = (first, count)
        used[pool_group] = first + number_blocks(case, side, group)[0]
    return where


def _slots(
    case: Case,
    side: str,
    rank: Rank,
    table: PageTable,
    where: dict[int, tuple[int, int]],
    lists: dict[tuple[int, str, int], SlotList],
) -> dict[int, tuple[np.ndarray, ...]]:
    rule = case.slots
    found: dict[int, tuple[np.ndarray, ...]] = {}
    for group, (first, count) in where.items():
        name = case.model.groups[group].name
        rows: list[np.ndarray] = []
        used, numbers = number_blocks(case, side, group)
        for request, own in enumerate(numbers):
            row = lists.get((rank.number, name, request)) if lists else None
            if row is not None:
                rows.append(_explicit(case, row, len(own), count))
                continue
            if lists:
                rows.append(np.full(len(own), -1, dtype=np.int64))
                continue
            rows.append((rule.mul * (own + (first + 1)) + (rule.add + 11 * rank.number)) % count)
        if not lists and (first + used > count or gcd(rule.mul, count) != 1):
            blocks = first + used
            raise InvalidCase(
                f"{side} slots of {name}",
                (rule.mul, count),
                f"the affine rule must give {blocks} blocks distinct slots",
            )
        found[group] = tuple(rows)
    return found


def _explicit(case: Case, row: SlotList, blocks: int, count: int) -> np.ndarray:
    where = f"tables.{row.side}.{row.rank}.{row.group}[{row.request}]"
    if len(row.slots) > blocks:
        raise InvalidCase(where, len(row.slots), f"the request has {blocks} blocks of this group")
    slots = np.full(blocks, -1, dtype=np.int64)
    slots[: len(row.slots)] = row.slots
    if len(slots) and slots.max() >= count:
        raise InvalidCase(where, int(slots.max()), f"the pool has slots 0..{count - 1}")
    return slots
