"""What two instances can differ in so that no plan between them is possible (spec: mapping, contract)."""

from __future__ import annotations

from collections.abc import Iterator

from differential.subjects.mapping.fan import fan
from differential.subjects.mapping.geometry import geometry_of
from differential.subjects.mapping.pages import Pages
from differential.subjects.mapping.refusals import (
    AXES_DIFFER,
    BUFFER_MISSING,
    CONTEXT_PARALLEL_WITH_ATTENTION_DP,
    ELEMENT_WIDTH_DIFFERS,
    GROUP_KIND_DIFFERS,
    REGION_TOO_SMALL,
    RING_LENGTH_DIFFERS,
    SECTIONS_DIFFER,
    SUB_PAGES_DIFFER,
    TOKENS_PER_BLOCK_DIFFER,
    Refused,
)
from differential.subjects.mapping.shares import seat_of
from oracle.model.buffers import Buffer, LayerGroup, MoveState
from oracle.model.instance import Instance
from oracle.model.topology import Rank
from oracle.model.writes import Refusal

Declared = dict[tuple[int, str], tuple[LayerGroup, Buffer]]


def check_compatible(source: Pages, destination: Pages) -> Refusal | None:
    """Why these two instances cannot be served whatever is asked of them, or ``None``.

    Only what would make bytes land wrong is compared: a buffer that does not move may differ. The
    reason names the buffer and both values.
    """
    there, here = source.instance, destination.instance
    if there.tokens_per_block != here.tokens_per_block and any(group.is_paged for group, _, _ in _moving(source, here)):
        return _differ(TOKENS_PER_BLOCK_DIFFER, "tokens per block", there.tokens_per_block, here.tokens_per_block)
    if source.model is not destination.model and source.model != destination.model:
        refusal = _check_models(source, destination)
        if refusal is not None:
            return refusal
    if there.element_bits or here.element_bits:
        for group, buffer, _ in _moving(source, here):
            bits = [[side.bits_of(buffer.role, part.bits) for part in buffer.parts] for side in (there, here)]
            if bits[0] != bits[1]:
                what = f"element bits of {buffer.role} in group {group.name}"
                return _differ(ELEMENT_WIDTH_DIFFERS, what, bits[0], bits[1])
    for name, instance in (("context", there), ("generation", here)):
        topology = instance.topology
        if topology.attention_dp and topology.cp > 1:
            reason = f"the {name} side has cp = {topology.cp} and attention DP {topology.tp}"
            return Refusal(CONTEXT_PARALLEL_WITH_ATTENTION_DP, reason)
    sizes = [1 if side.topology.attention_dp else side.topology.tp for side in (there, here)]
    for dimension, ranks in (("tp", sizes), ("cp", [side.topology.cp for side in (there, here)])):
        try:
            fan(ranks[0], ranks[1], 0)
        except Refused as refused:
            return Refusal(refused.refusal.code, f"along {dimension}: {refused.refusal.reason}")
    if there.page_tables or here.page_tables:
        return _check_tables(source, destination) or _check_tables(destination, source)
    return None


def _moving(pages: Pages, other: Instance) -> Iterator[tuple[LayerGroup, Buffer, int]]:
    """(group, buffer, layer) of all that moves between the instance of ``pages`` and ``other``."""
    for group in pages.model.groups:
        for buffer in group.buffers if not group.native_only else ():
            for layer in buffer.layers:
                if not buffer.move_on(layer).moves:
                    continue
                if not pages.instance.lacks(layer, buffer.role) and not other.lacks(layer, buffer.role):
                    yield group, buffer, layer


def _differ(code: str, what: str, source: object, destination: object) -> Refusal:
    return Refusal(code, f"{what}: {source} on the context side, {destination} on the generation side")


def _check_models(source: Pages, destination: Pages) -> Refusal | None:
    """Compare two declarations buffer by buffer; groups may be cut differently."""
    there = _declared(source, destination.instance)
    here = _declared(destination, source.instance)
    for key in sorted(there.keys() | here.keys()):
        what = key[1] if key[0] < 0 else f"{key[1]} of layer {key[0]}"
        if key not in there or key not in here:
            _, declared = there.get(key) or here[key]
            if declared.move_on(max(key[0], declared.layers.ids[0])).state is MoveState.OPTIONAL:
                continue
            return _differ(BUFFER_MISSING, what, *("declared" if key in side else "missing" for side in (there, here)))
        (group, buffer), (own_group, own) = there[key], here[key]
        if group.kind is not own_group.kind:
            return _differ(GROUP_KIND_DIFFERS, f"kind of {what}", group.kind.value, own_group.kind.value)
        refusal = _compare(what, buffer, own)
        if refusal is not None:
            return refusal
    return None


def _declared(pages: Pages, other: Instance) -> Declared:
    return {
        (-1 if buffer.request_scope else layer, buffer.role): (group, buffer)
        for group, buffer, layer in _moving(pages, other)
    }


def _compare(what: str, buffer: Buffer, own: Buffer) -> Refusal | None:
    if (buffer.sub_rows, buffer.expansion) != (own.sub_rows, own.expansion):
        values = [f"sub-pages of {b.sub_rows} rows, x({b.expansion})" for b in (buffer, own)]
        return _differ(SUB_PAGES_DIFFER, what, *values)
    bits = [[part.bits for part in b.parts] for b in (buffer, own)]
    if len(bits[0]) == len(bits[1]) and bits[0] != bits[1]:
        return _differ(ELEMENT_WIDTH_DIFFERS, f"element bits of {what}", *bits)
    axes = [_axes_of(buffer), _axes_of(own)]
    if sorted(map(sorted, axes[0])) != sorted(map(sorted, axes[1])):
        rings = [[size for part in side for name, size, _ in part if name == "R"] for side in axes]
        if rings[0] != rings[1]:
            return _differ(RING_LENGTH_DIFFERS, f"ring rows of {what}", *rings)
        return _differ(AXES_DIFFER, f"axes of {what}", *axes)
    for part, own_part in zip(buffer.parts, own.parts, strict=True):
        by_name = {axis.name: axis for axis in own_part.axes}
        for axis in part.axes:
            other = by_name.get(axis.name)
            if other is None:
                return _differ(AXES_DIFFER, f"axes of {what}", *axes)
            if axis.sections != other.sections:
                values = [{s.name: f"{s.size}.{s.split.value}" for s in a.sections} for a in (axis, other)]
                return _differ(SECTIONS_DIFFER, f"sections of axis {axis.name} of {what}", *values)
            if (axis.split, axis.grid) != (other.split, other.grid):
                values = [f"{a.split.value}@{a.grid.value}" for a in (axis, other)]
                return _differ(AXES_DIFFER, f"split of axis {axis.name} of {what}", *values)
    return None


def _axes_of(buffer: Buffer) -> list[list[tuple[str, int, int]]]:
    return [[(axis.name, axis.size, axis.tokens_per_row) for axis in part.axes] for part in buffer.parts]


def _check_tables(pages: Pages, other: Pages) -> Refusal | None:
    """Check explicit page tables: each has a region, large enough, for all that moves on its stage."""
    instance = pages.instance
    moving = list(_moving(pages, other.instance))
    for number, _ in instance.page_tables:
        rank = instance.topology.rank(number)
        stage = instance.topology.stage_layers(rank.pp)
        entries = {(entry.layer, entry.role): entry for entry in pages.tables[number].entries}
        by_role = {entry.role: entry for entry in pages.tables[number].entries}
        for group, buffer, layer in moving:
            if layer not in stage:
                continue
            entry = by_role.get(buffer.role) if buffer.request_scope else entries.get((layer, buffer.role))
            where = f"page table of rank {number}: {buffer.role} of layer {layer} in group {group.name}"
            needed = _needed(buffer, instance, rank)
            if entry is None and needed:
                return Refusal(BUFFER_MISSING, f"{where} has no region")
            if entry is not None and entry.nbytes < needed:
                return Refusal(REGION_TOO_SMALL, f"{where} has {entry.nbytes} B, its share takes {needed} B")
    return None


def _needed(buffer: Buffer, instance: Instance, rank: Rank) -> int:
    return geometry_of(buffer, instance, instance).local_bytes(seat_of(instance.topology, rank))
