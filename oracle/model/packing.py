"""How an instance packs the buffers of a stage into slots (spec: kinds, packing).

Rules, by group: ``coalesced`` (default) buckets regions by size alone, in first-seen order, pools
widest first; groups whose ordered slot widths are equal share a pool group. ``interleaved`` is one
pool, a layer's buffers side by side. ``separate`` is one pool a role. ``key+value|index_key`` names
the pools by their roles. A leading ``layer_major`` makes those pools [layer][slot][bytes];
alone it means one pool a role.
"""

from __future__ import annotations

from functools import lru_cache

from oracle.model.buffers import PLAIN, Buffer, LayerGroup, Model
from oracle.model.counts import buffer_bytes
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.topology import Rank

Member = tuple[int, str, int, int]
"""(layer, role, offset inside the region, bytes)"""
Region = tuple[int, tuple[Member, ...]]
"""(bytes with padding, members)"""


class PackedPool:
    """One pool before its slot count is known."""

    __slots__ = ("layer_major", "members", "slot_bytes")

    def __init__(self, slot_bytes: int, members: tuple[Member, ...], layer_major: bool = False) -> None:
        self.slot_bytes = slot_bytes
        self.members = members
        self.layer_major = layer_major


@lru_cache(maxsize=1024)
def pack_group(model: Model, group_index: int, instance: Instance, rank: Rank) -> tuple[PackedPool, ...]:
    """The pools of one layer group on ``rank``, empty where the stage holds none of its layers.

    Only the stage and, for uneven shares, the tensor coordinates of the rank matter.
    """
    group = model.groups[group_index]
    rule = dict(instance.packing).get(group.name, "coalesced")
    regions = _regions(group, instance, rank)
    if not regions:
        return ()
    if rule == "coalesced":
        return _coalesced(regions)
    layer_major = rule.startswith("layer_major")
    families = (rule.removeprefix("layer_major").strip() or "separate") if layer_major else rule
    if families == "interleaved" and not layer_major:
        pools = [_back_to_back([region for _, _, region in regions])]
    else:
        pools = []
        for family in _families(families, rule, group):
            chosen = [region for _, buffer, region in regions if buffer.role in family]
            if chosen:
                pools.append(_layer_major(chosen) if layer_major else _back_to_back(chosen))
    return tuple(pools)


def _families(families: str, rule: str, group: LayerGroup) -> list[set[str]]:
    roles = list(dict.fromkeys(buffer.role for buffer in group.buffers))
    if families == "separate":
        return [{role} for role in roles]
    split = [[role.strip() for role in family.split("+")] for family in families.split("|")]
    named = [role for family in split for role in family]
    if sorted(named) != sorted(roles):
        accepted = f"coalesced, interleaved, separate, or each of the roles {', '.join(roles)} once"
        raise InvalidCase(f"packing of {group.name}", rule, f"expected {accepted}")
    return [set(family) for family in split]


def _regions(group: LayerGroup, instance: Instance, rank: Rank) -> list[tuple[int, Buffer, Region]]:
    """(layer, first buffer, region) in physical order."""
    stage = instance.topology.stage_layers(rank.pp)
    by_layer: dict[int, list[tuple[Buffer, int]]] = {}
    for buffer in group.buffers:
        local = [layer for layer in buffer.layers.ids if layer in stage]
        if instance.without:
            local = [layer for layer in local if not instance.lacks(layer, buffer.role)]
        if not local:
            continue
        size = buffer_bytes(buffer, instance, rank)
        for layer in local[:1] if buffer.first_local else local:
            by_layer.setdefault(layer, []).append((buffer, size))
    found: list[tuple[int, Buffer, Region]] = []
    for layer in instance.in_layer_order(tuple(by_layer)):
        fused: set[str] = set()
        for buffer, size in by_layer[layer]:
            place = buffer.placement
            if place is PLAIN or place == PLAIN:
                region: Region = (size, ((layer, buffer.role, 0, size),))
            else:
                if place.fused in fused:
                    continue
                members = [(buffer, size)]
                if place.fused:
                    fused.add(place.fused)
                    members = [pair for pair in by_layer[layer] if pair[0].placement.fused == place.fused]
                region = _region(layer, members)
            if region[0]:
                found.append((layer, buffer, region))
    return found


def _region(layer: int, buffers: list[tuple[Buffer, int]]) -> Region:
    offset = 0
    members: list[Member] = []
    for buffer, size in buffers:
        if size:
            members.append((layer, buffer.role, offset, size))
        offset += size
    pad = max(buffer.placement.pad for buffer, _ in buffers)
    align = max(buffer.placement.align for buffer, _ in buffers)
    if pad and offset > pad:
        raise InvalidCase(f"pad of {buffers[0][0].role}", pad, f"the region has {offset} B already")
    if align:
        offset = -(-offset // align) * align
    return max(offset, pad), tuple(members)


def _coalesced(regions: list[tuple[int, Buffer, Region]]) -> tuple[PackedPool, ...]:
    buckets: dict[object, list[Region]] = {}
    for _, buffer, region in regions:
        buckets.setdefault(buffer.role if buffer.placement.own else region[0], []).append(region)
    pools = [_back_to_back(bucket) for bucket in buckets.values()]
    return tuple(sorted(pools, key=lambda pool: -pool.slot_bytes))


def _back_to_back(regions: list[Region]) -> PackedPool:
    offset = 0
    members: list[Member] = []
    for size, inside in regions:
        members += [(layer, role, offset + start, nbytes) for layer, role, start, nbytes in inside]
        offset += size
    return PackedPool(offset, tuple(members))


def _layer_major(regions: list[Region]) -> PackedPool:
    """The regions of a layer, back to back, stand for one layer; ``slot_bytes`` is the width of one of them."""
    by_layer: dict[int, list[Region]] = {}
    for region in regions:
        by_layer.setdefault(region[1][0][0], []).append(region)
    layers = [_back_to_back(inside) for inside in by_layer.values()]
    widths = {layer.slot_bytes for layer in layers}
    if len(widths) != 1:
        raise InvalidCase("packing", sorted(widths), "a layer-major pool needs layers of one width")
    return PackedPool(widths.pop(), tuple(member for layer in layers for member in layer.members), layer_major=True)
