"""Where buffers lie: pools that groups share, buffers in one pool by accident, size classes, padding."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations
from math import gcd

from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer, LayerGroup, Model, Part, Placement
from oracle.model.case import SIDES, Case
from oracle.model.counts import count_indices
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.packing import pack_group
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Rank
from strategies.stresses.stress import Stress, every, split_axes

RANKS = (1, 2, 3, 4, 6, 8)
"""Numbers of shares at which declared sizes are compared."""

_PLAIN = Placement()


# ---- what lies where in a case


class Placed:
    """One pool of a rank as one group sees it: which pool group it is of, and what lies in a slot."""

    __slots__ = ("group", "members", "pool_group", "slot_bytes")

    def __init__(self, group: int, pool_group: object, slot_bytes: int, members: list[tuple[int, str, int]]) -> None:
        self.group = group
        self.pool_group = pool_group
        self.slot_bytes = slot_bytes
        self.members = members
        """(layer, role, bytes)"""


@lru_cache(maxsize=512)
def placed(case: Case, side: str) -> tuple[tuple[Placed, ...], ...]:
    """The pools of each rank of ``side``, once for ranks that are alike: those of its page tables."""
    instance = case.side(side)
    if instance.page_tables:
        tables = {id(table): table for table in lay_out(case, side).tables}.values()
        return tuple(map(_of_table, tables))
    uneven = any(
        section.split in (Split.FLOOR, Split.CYCLIC)
        for axis in split_axes(case.model)
        for section in axis.sections or (axis,)
    )
    ranks = [rank for rank in instance.topology.ranks() if uneven or rank.tp == rank.cp == 0]
    return tuple(_of_rank(case.model, instance, rank) for rank in ranks)


def _of_table(table: PageTable) -> tuple[Placed, ...]:
    found: dict[tuple[int, int], Placed] = {}
    for entry in table.entries:
        pool = table.pools[entry.pool]
        place = found.setdefault((entry.group, entry.pool), Placed(entry.group, pool.pool_group, pool.slot_bytes, []))
        place.members.append((entry.layer, entry.role, entry.nbytes))
    return tuple(found.values())


def _of_rank(model: Model, instance: Instance, rank: Rank) -> tuple[Placed, ...]:
    found: list[Placed] = []
    for index in range(len(model.groups)):
        pools = pack_group(model, index, instance, rank)
        by_size = index in _pooled_by_size(model, instance)
        pool_group = tuple([pool.slot_bytes for pool in pools]) if by_size else index
        for pool in pools:
            members = [(layer, role, nbytes) for layer, role, _, nbytes in pool.members]
            found.append(Placed(index, pool_group, pool.slot_bytes, members))
    return tuple(found)


@lru_cache(maxsize=1024)
def _pooled_by_size(model: Model, instance: Instance) -> frozenset[int]:
    """Groups that ``instance`` packs by size alone."""
    rules = dict(instance.packing)
    return frozenset(
        index for index, group in enumerate(model.groups) if rules.get(group.name, "coalesced") == "coalesced"
    )


@lru_cache(maxsize=4096)
def _shapes(model: Model) -> dict[tuple[int, int, str], tuple[Part, ...]]:
    """What buffers that nothing places store, by group, layer and role."""
    return {
        (index, layer, buffer.role): buffer.parts
        for index, group in enumerate(model.groups)
        for buffer in group.buffers
        if buffer.placement == _PLAIN
        for layer in buffer.layers
    }


def _share_a_pool_group(case: Case) -> bool:
    for side in SIDES if len(case.model.groups) > 1 else ():
        for pools in placed(case, side):
            owners = {(pool.pool_group, pool.group) for pool in pools}
            if len(owners) > len({pool_group for pool_group, _ in owners}):
                return True
    return False


@lru_cache(maxsize=512)
def coalesced(case: Case, side: str) -> frozenset[tuple[int, str, str]]:
    """(group, role, role) of buffers of different shape in one pool, where sizes alone put them there."""
    shapes, by_size = _shapes(case.model), _pooled_by_size(case.model, case.side(side))
    found: set[tuple[int, str, str]] = set()
    for pool in (pool for pools in placed(case, side) for pool in pools if pool.group in by_size):
        members: dict[tuple[Part, ...], set[str]] = {}
        for layer, role, _ in pool.members:
            shape = shapes.get((pool.group, layer, role))
            if shape is not None:
                members.setdefault(shape, set()).add(role)
        for one, other in combinations(members.values(), 2) if len(members) > 1 else ():
            found |= {(pool.group, min(a, b), max(a, b)) for a in one for b in other}
    return frozenset(found)


def _on_one_side(case: Case) -> bool:
    by_size = _pooled_by_size(case.model, case.context) & _pooled_by_size(case.model, case.generation)
    return any(group in by_size for group, _, _ in coalesced(case, "context") ^ coalesced(case, "generation"))


@lru_cache(maxsize=512)
def _size_classes(case: Case) -> int:
    """The most pools of a group that is packed by size, on any rank."""
    most = 0
    for side in SIDES:
        by_size = _pooled_by_size(case.model, case.side(side))
        for pools in placed(case, side):
            counts = Counter(pool.group for pool in pools if pool.group in by_size)
            most = max(most, *counts.values(), 0)
    return most


def _has_padding(case: Case) -> bool:
    """Whether a slot has bytes of no buffer."""
    return _is_padded(case.model) and any(
        sum(nbytes for _, _, nbytes in pool.members) < pool.slot_bytes
        for side in SIDES
        for pools in placed(case, side)
        for pool in pools
    )


# ---- what the sizes of a declaration allow


Unit = tuple[int, int]
"""(bits, tokens that they are for) without a common divisor; no tokens: a block of any length, or the request"""


@lru_cache(maxsize=16384)
def _unit(buffer: Buffer, ranks: int) -> Unit | None:
    """What the first of ``ranks`` shares stores; ``None`` where there is no such share."""
    bits = 0
    for part in buffer.parts:
        size = part.bits
        for axis in part.axes:
            size *= 1 if axis.is_token else _held(axis, ranks)
        bits += size
    rows = buffer.tokens_per_row
    common = gcd(bits, rows) if rows else 1
    return (bits // common, rows // common) if bits else None


def _held(axis: Axis, ranks: int) -> int:
    try:
        return count_indices(axis, 0, ranks)
    except InvalidCase:
        return 0


def _units(group: LayerGroup, ranks: int) -> set[Unit | None]:
    return {_unit(buffer, ranks) for buffer in group.buffers}


@lru_cache(maxsize=4096)
def _may_share(model: Model) -> bool:
    """Whether two groups hold buffers of the same sizes, or one is padded to what another may have."""
    return any(
        any(buffer.placement.pad for buffer in (*one.buffers, *other.buffers))
        or any(None not in _units(one, ranks) and _units(one, ranks) == _units(other, ranks) for ranks in RANKS)
        for one, other in combinations(model.groups, 2)
    )


@lru_cache(maxsize=4096)
def _meetings(model: Model) -> frozenset[str]:
    """Whether two buffers of a group that are unlike are of one size ``always`` or ``sometimes``, by the ranks."""
    found: set[str] = set()
    for group in model.groups:
        plain = {buffer.parts: buffer for buffer in group.buffers if buffer.placement == _PLAIN}.values()
        for one, other in combinations(plain, 2):
            sizes = [(_unit(one, ranks), _unit(other, ranks)) for ranks in RANKS]
            equal = [a == b for a, b in sizes if a is not None and b is not None]
            if any(equal):
                found.add("always" if all(equal) else "sometimes")
    return frozenset(found)


@lru_cache(maxsize=4096)
def _most_classes(model: Model) -> int:
    """The most sizes of regions of a group; those that are fused under one name are one region."""
    return max(
        len({buffer.placement.fused or buffer.placement.pad or _unit(buffer, ranks) for buffer in group.buffers})
        for group in model.groups
        for ranks in (1, 4)
    )


@lru_cache(maxsize=4096)
def _is_padded(model: Model) -> bool:
    return any(buffer.placement.pad or buffer.placement.align for _, buffer in every(model))


@lru_cache(maxsize=4096)
def _is_fused(model: Model) -> bool:
    return any(buffer.placement.fused for _, buffer in every(model))


PLACES = (
    Stress(
        "several groups in one pool group",
        "groups of equal slot widths draw their slots from the same pools, where the same bytes mean other layers",
        _may_share,
        _share_a_pool_group,
    ),
    Stress(
        "coalesced by accident",
        "a side buffer is as large as a key and joins its pool, which makes the stride of layers uneven",
        lambda model: bool(_meetings(model)),
        lambda case: any(coalesced(case, side) for side in SIDES),
    ),
    Stress(
        "coalesced on one side only",
        "two buffers share a pool on one side and have pools of their own on the other",
        lambda model: "sometimes" in _meetings(model),
        _on_one_side,
    ),
    Stress(
        "two size classes in a group",
        "one slot number selects a slot in each of several pools",
        lambda model: _most_classes(model) > 1,
        lambda case: _size_classes(case) > 1,
    ),
    Stress(
        "many size classes in a group",
        "a group has three pools or more",
        lambda model: _most_classes(model) > 2,
        lambda case: _size_classes(case) > 2,
    ),
    Stress(
        "page padding, alignment",
        "a region is padded, so that some bytes of a slot are of no buffer",
        _is_padded,
        _has_padding,
    ),
    Stress(
        "fused regions",
        "several buffers of a layer are one region, whose size alone decides where it lies",
        _is_fused,
        lambda case: _is_fused(case.model),
    ),
)
"""What depends on the sizes of buffers and on how they are placed."""
