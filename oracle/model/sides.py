"""The page tables and slots of all ranks of one side of a case, derived or explicit."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from oracle.model.axes import Split
from oracle.model.buffers import Model
from oracle.model.case import Case, SlotList
from oracle.model.errors import InvalidCase
from oracle.model.explicit import check_lists, check_slots_differ, check_table, explicit_slots
from oracle.model.packing import PackedPool, pack_group
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.slots import number_blocks, number_spare, slot_count
from oracle.model.topology import Rank


class Side:
    """``tables[rank]``: page table; ``slots[rank][group][request]``: int64 slots by global ordinal, -1 for none.

    The affine rule gives a slot to every ordinal; which of them a rank really holds is decided by
    truth and by the managers, each on its own. ``spare[rank][group][request]``: (slots of the blocks
    after the prompt's, slots of beam tails), see ``oracle.model.slots.Spare``; empty for a case without.
    """

    __slots__ = ("slots", "spare", "tables")

    def __init__(
        self,
        tables: tuple[PageTable, ...],
        slots: tuple[dict[int, tuple[np.ndarray, ...]], ...],
        spare: tuple[dict[int, tuple[tuple[np.ndarray, np.ndarray], ...]], ...] = (),
    ) -> None:
        self.tables = tables
        self.slots = slots
        self.spare = spare

    def spare_slots(self, rank: int, group: int, request: int) -> tuple[np.ndarray, np.ndarray]:
        """(slots past the prompt, slots of beam tails), each int64; both empty where there are none."""
        return self.spare[rank][group][request] if self.spare else _NO_SLOTS


_NO_TABLE = PageTable((), ())
_NO_SLOTS = (np.zeros(0, dtype=np.int64),) * 2


@lru_cache(maxsize=256)
def lay_out(case: Case, side: str) -> Side:
    """Page tables and slots of every rank of ``side``; raises ``InvalidCase`` for a slot outside its pool."""
    instance = case.side(side)
    topology = instance.topology
    explicit = dict(instance.page_tables)
    lists = {(row.rank, row.group, row.request): row for row in case.tables if row.side == side}
    uneven = _shares_differ(case.model)
    ranks = topology.ranks()
    alike: dict[object, list[Rank]] = {}
    for rank in ranks:
        if rank.number in explicit:
            alike[("explicit", rank.number)] = [rank]
        else:
            alike.setdefault((rank.pp, rank.tp, rank.cp) if uneven else rank.pp, []).append(rank)
    tables: list[PageTable] = [_NO_TABLE] * len(ranks)
    slots: list[dict[int, tuple[np.ndarray, ...]]] = [{}] * len(ranks)
    if lists:
        check_lists(case, side, lists)
    extra = _spare_blocks(case, side)
    with_spare = not lists and any(extra)
    spare: list[dict[int, tuple[tuple[np.ndarray, np.ndarray], ...]]] = [{}] * len(ranks) if with_spare else []
    for members in alike.values():
        given = explicit.get(members[0].number)
        if given is not None:
            table, where = given, check_table(case, side, members[0], given)
        else:
            table, where = _derive(case, side, members[0], extra)
        found = _slots(case, side, members, where, lists, extra)
        if lists:
            check_slots_differ(case, side, members, table, found)
        for rank, own in zip(members, found, strict=True):
            tables[rank.number] = table
            slots[rank.number] = own
        if with_spare:
            for rank, beyond in zip(members, _spare_slots(case, side, members, where), strict=True):
                spare[rank.number] = beyond
    return Side(tuple(tables), tuple(slots), tuple(spare))


@lru_cache(maxsize=1024)
def _shares_differ(model: Model) -> bool:
    """Whether ranks of one stage may store different numbers of bytes."""
    uneven = (Split.FLOOR, Split.CYCLIC)
    return any(
        axis.split in uneven or any(section.split in uneven for section in axis.sections)
        for group in model.groups
        for buffer in group.buffers
        for part in buffer.parts
        for axis in part.axes
    )


def _spare_blocks(case: Case, side: str) -> list[int]:
    """How many spare blocks each group has."""
    groups = range(len(case.model.groups))
    if all(request.is_plain for request in case.requests):
        return [0 for _ in groups]
    return [number_spare(case, side, group)[0] for group in groups]


def _derive(case: Case, side: str, rank: Rank, extra: list[int]) -> tuple[PageTable, dict[int, tuple[int, int]]]:
    """(table, group -> (first running number, slots of the pool)); ``extra``: spare blocks by group."""
    instance = case.side(side)
    counts = dict(case.slots.counts)
    packed: list[tuple[int, tuple[PackedPool, ...]]] = []
    shares: dict[object, list[int]] = {}
    for index, group in enumerate(case.model.groups):
        pools = pack_group(case.model, index, instance, rank)
        if not pools:
            continue
        coalesced = dict(instance.packing).get(group.name, "coalesced") == "coalesced"
        widths: object = tuple(pool.slot_bytes for pool in pools) if coalesced else index
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
            used += number_blocks(case, side, index)[0] + extra[index]
        given = []
        if counts:
            names = [case.model.groups[packed[position][0]].name for position in members]
            given = [counts[name] for name in names if name in counts]
        count = max(given) if given else slot_count(used, case.slots.mul)
        first_pool = len(pools)
        for pool in packed[members[0]][1]:
            stride = count * pool.slot_bytes if pool.layer_major else 0
            pools.append(Pool(pool.slot_bytes, count, 0, stride, pool_group))
        for position in members:
            index, own = packed[position]
            where[index] = (where[index][0], count)
            for number, pool in enumerate(own):
                members_of = pool.members
                if pool.layer_major:
                    step = count * pool.slot_bytes
                    places = {layer: n for n, layer in enumerate(dict.fromkeys([member[0] for member in members_of]))}
                    members_of = [(layer, role, at + places[layer] * step, n) for layer, role, at, n in members_of]
                for layer, role, offset, nbytes in members_of:
                    entries.append(Entry(index, first_pool + number, layer, role, offset, nbytes))
    return PageTable(tuple(pools), tuple(entries)), where


def _slots(
    case: Case,
    side: str,
    ranks: list[Rank],
    where: dict[int, tuple[int, int]],
    lists: dict[tuple[int, str, int], SlotList],
    extra: list[int],
) -> list[dict[int, tuple[np.ndarray, ...]]]:
    """Slots by group and request of ranks that share a page table."""
    rule = case.slots
    found: list[dict[int, tuple[np.ndarray, ...]]] = [{} for _ in ranks]
    shift = _shifts(ranks)
    for group, (first, count) in where.items():
        name = case.model.groups[group].name
        used, numbers = number_blocks(case, side, group)
        used += extra[group]
        if lists:
            for rank, own in zip(ranks, found, strict=True):
                own[group] = tuple(
                    explicit_slots(lists.get((rank.number, name, request)), len(blocks), count)
                    for request, blocks in enumerate(numbers)
                )
            continue
        if first + used > count or gcd(rule.mul, count) != 1:
            raise InvalidCase(
                f"{side} slots of {name}",
                (rule.mul, count),
                f"the affine rule must give {first + used} blocks distinct slots of the pool",
            )
        begin = shift + (rule.add + rule.mul * (first + 1))
        by_request = [((own if rule.mul == 1 else rule.mul * own) + begin) % count for own in numbers]
        for rows in by_request:
            rows.setflags(write=False)  # who is handed slots must not be able to move blocks
        for own, of_rank in zip(found, zip(*by_request, strict=True), strict=True):
            own[group] = of_rank
    return found


def _shifts(ranks: list[Rank]) -> np.ndarray:
    """What the affine rule adds on each of ``ranks``, which ascend (int64, ranks x 1)."""
    first, last = ranks[0].number, ranks[-1].number
    if last - first + 1 == len(ranks):  # as where a whole stage shares a table
        return np.arange(11 * first, 11 * last + 1, 11)[:, None]
    return 11 * np.array([rank.number for rank in ranks], dtype=np.int64)[:, None]


def _spare_slots(
    case: Case, side: str, ranks: list[Rank], where: dict[int, tuple[int, int]]
) -> list[dict[int, tuple[tuple[np.ndarray, np.ndarray], ...]]]:
    """Slots of the spare blocks, by group and request, of ranks that share a page table."""
    rule = case.slots
    shift = rule.add + _shifts(ranks)
    found: list[dict[int, tuple[tuple[np.ndarray, np.ndarray], ...]]] = [{} for _ in ranks]
    for group, (first, count) in where.items():
        by_request = [
            [
                (rule.mul * (own + (first + 1)) + shift) % count if len(own) else None
                for own in (each.beyond, each.tails)
            ]
            for each in number_spare(case, side, group)[1]
        ]
        for index, own in enumerate(found):
            own[group] = tuple(
                [
                    tuple([none if rows is None else rows[index] for rows, none in zip(pair, _NO_SLOTS, strict=True)])
                    for pair in by_request
                ]
            )
    return found
