"""Instances for the laws of fingerprints: every byte of one, and families that differ in one thing each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

from differential.subjects.compatibility import Configuration, configuration_of
from oracle.model.axes import Grid, Split
from oracle.model.buffers import Buffer, LayerGroup, Model, Move
from oracle.model.case import Case
from oracle.model.counts import sub_pages
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.truth.holders import seat
from oracle.truth.identity import place_of_offset, stored_identity
from tests.small_cases import case_of, group, model_of

Byte = tuple[object, ...]


def image_of(configuration: Configuration) -> list[object]:
    """All bytes of an instance, rank by rank: the pools, where each region lies, and what each byte of it is."""
    instance = configuration.instance
    found: list[object] = []
    for rank in instance.topology.ranks():
        table = configuration.tables[rank.number]
        found.append([(p.slot_bytes, p.slot_stride, bool(p.layer_stride), p.pool_group) for p in table.pools])
        regions: dict[object, list[Byte]] = {}
        for entry in table.entries:
            buffer = configuration.find(entry.group, entry.role, entry.layer)
            stride = table.pools[entry.pool].layer_stride
            place = divmod(entry.offset, stride) if stride else (0, entry.offset)
            layer = None if buffer.request_scope else entry.layer
            regions[entry.pool, place, entry.nbytes, entry.group, layer, entry.role] = _bytes_of(
                buffer, instance, seat(instance.topology, rank, Grid.TP), seat(instance.topology, rank, Grid.TPCP)
            )
        found.append(regions)
    return found


@cache
def _bytes_of(buffer: Buffer, instance: Instance, tp: tuple[int, int], tpcp: tuple[int, int]) -> list[Byte]:
    """The element of every stored byte: indices of axes that have several, last token of the row, byte, width."""
    bits = tuple(instance.bits_of(buffer.role, part.bits) for part in buffer.parts)
    pages, rows = sub_pages(buffer, instance.tokens_per_block)
    layout = instance.layout_of(buffer.role)
    offsets, tokens = stored_identity(buffer.parts, bits, pages, rows, layout, tp, tpcp)
    sizes = {axis.name: pages * rows if axis.is_token else axis.size for part in buffer.parts for axis in part.axes}
    found: list[Byte] = []
    for offset, token in zip(offsets.tolist(), tokens.tolist(), strict=True):
        part, indices, byte = place_of_offset(buffer, bits, instance.tokens_per_block, offset)
        named = tuple(sorted((name, index) for name, index in indices if sizes[name] > 1))
        found.append((part, named, token, byte, bits[part]))
    return found


def variants(configuration: Configuration) -> Iterator[Configuration]:
    """The configuration with one thing changed, where that is a layout at all; some changes change no byte."""
    model, instance = configuration.model, configuration.instance
    topology = instance.topology
    total = sum(topology.stages)
    changes: list[tuple[Model, Instance]] = [(model, replace(instance, layout=layout)) for layout in ("", "HND", "NHD")]
    changes += [(model, replace(instance, tokens_per_block=size)) for size in (1, 2, 4)]
    changes += [(model, replace(instance, layer_order=tuple(reversed(range(total)))))]
    changes += [
        (model, replace(instance, packing=tuple((each.name, rule) for each in model.groups)))
        for rule in ("coalesced", "interleaved", "separate", "layer_major separate")
    ]
    changes += [
        (model, replace(instance, topology=replace(topology, **split)))
        for split in (
            {"tp": 1},
            {"tp": 2},
            {"tp": 4},
            {"cp": 1},
            {"cp": 2},
            {"attention_dp": not topology.attention_dp},
            {"stages": (total,)},
            {"stages": (total, 0)},
            {"stages": (1, total - 1)},
        )
    ]
    first = model.groups[0].buffers[0]
    changes += [(model, replace(instance, element_bits=((first.role, bits),))) for bits in (8, 16)]
    for axis in first.parts[0].axes:
        if not axis.is_token and not axis.sections:
            other = [replace(axis, split=split) for split in Split if split is not axis.split]
            other += [replace(axis, size=2 * axis.size), replace(axis, grid=Grid.TPCP)]
            changes += [(_with_axis(model, axis, each), instance) for each in other]
    changes.append((_renamed(model), instance))
    for changed, own in changes:
        try:
            case = Case(changed, own, own, case_of("key @ 0 : T ; 8").requests)
            yield Configuration(changed, own, lay_out(case, "context").tables)
        except InvalidCase:
            continue


def _with_axis(model: Model, axis: object, other: object) -> Model:
    group_, *rest = model.groups
    first, *others = group_.buffers
    part, *parts = first.parts
    axes = tuple(other if each == axis else each for each in part.axes)
    buffer = replace(first, parts=(replace(part, axes=axes), *parts))
    return replace(model, groups=(replace(group_, buffers=(buffer, *others)), *rest))


def _renamed(model: Model) -> Model:
    group_, *rest = model.groups
    buffers = tuple(replace(each, role=f"{each.role}_", moves=(Move(),)) for each in group_.buffers)
    return replace(model, groups=(LayerGroup("renamed", group_.kind, buffers), *rest))


@cache
def configurations() -> tuple[tuple[Configuration, ...], ...]:
    """Families of configurations that differ in one thing each from the first."""
    models = (
        model_of(group("key @ 0..1 : H(2).heads T D(2) ; 8", "value @ 0..1 : H(2).heads T D(2) ; 8"), layers=2),
        model_of(group("key @ 0 : H(1).heads T D(1) ; 8")),
        model_of(group("key @ 0..1 : T D(4) ; 4", "index_key @ 1 : T D(2) ; 8"), layers=2),
        model_of(group("c @ 0 : C[x:4.even, B:2.all]@TPCP W(2) ; 8", "h @ 0 : H(4).even@TPCP ; 8", state=True)),
        model_of(group("key @ 0 : H(3).heads T D(1) ; 8 ; pad(16)")),
    )
    instances = (Instance(Topology(1), 2), Instance(Topology(2), 2, "HND"), Instance(Topology(2, cp=2), 4, "NHD"))
    found = []
    for model, instance in product(models, instances):
        fitted = replace(instance, topology=replace(instance.topology, stages=(model.layers,)))
        case = Case(model, fitted, fitted, case_of("key @ 0 : T ; 8").requests)
        base = configuration_of(case, "context")
        found.append((base, *variants(base)))
    return tuple(found)
