"""The recorded plans of the legacy sender as cases and plans of this project.

``tests/data/native_plans.jsonl`` holds one scenario a line; ``tests/data/README.md`` says what its
fields mean. A scenario becomes a :class:`Case` whose slots are given explicitly, and each of its
results becomes the :class:`Writes` that the recorded sender would have made.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, GroupKind, LayerGroup, Model, Part
from oracle.model.case import Case, Native, Request, SideState, SlotList, Slots
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.model.writes import Pair, Refusal, Writes

Scenario = dict[str, Any]
"""One line of the file: plain data."""

RECORDED = Path(__file__).parent / "data" / "native_plans.jsonl"
SIDES = {"ctx": "context", "gen": "generation"}
MAPPERS = {
    "HND": "indexed",
    "NHD": "nhd",
    "REPLICATED": "replicated",
    "STATE_HEADS": "indexed",
    "SECTIONED": "sectioned",
}


@cache
def _read(path: Path) -> tuple[Scenario, ...]:
    return tuple(json.loads(line) for line in path.read_text().splitlines() if line.strip())


def scenarios(path: Path = RECORDED) -> list[Scenario]:
    """All recorded scenarios, in file order. They are shared: do not change them."""
    return list(_read(path))


def case_of(scenario: Scenario) -> Case:
    """The case that a scenario describes, its slots given as tables placed by global block ordinal.

    Heads are split ``.heads``: every recorded head count is a multiple of the tensor grid or
    divides it, and there the rule gives the recorded shares. K and V stand in the axis order that
    the scenario names, on both sides alike.
    """
    model = _model(scenario)
    request = scenario["request"]
    cached = request.get("gen_first_block", 0) * request["tokens_per_block"]
    return Case(
        model=model,
        context=_instance(scenario, "ctx", model),
        generation=_instance(scenario, "gen", model),
        requests=(
            Request(
                content=0,
                prompt=request["prompt_len"],
                context_dp=request["ctx_dp_rank"],
                generation_dp=request["gen_dp_rank"],
                cuts=tuple(start for start, _ in request.get("chunks", [])[1:]),
                generation=SideState(cached=cached),
            ),
        ),
        slots=Slots(counts=tuple((group["name"], group["num_slots"]) for group in scenario["model"]["groups"])),
        tables=_tables(scenario),
        presented=_presented(scenario),
        native=Native(tuple(sorted({mapper for group in scenario["model"]["groups"] for mapper in _mappers(group)}))),
        kind="recorded",
        notes=f"{scenario['id']} {scenario['class']}",
    )


def _model(scenario: Scenario) -> Model:
    groups = []
    for group in scenario["model"]["groups"]:
        buffers = [
            Buffer(name, LayerSet.of(role.get("layers", group["layers"])), (_part(group, role),))
            for role in group["roles"]
            for name in role["buffers"]
        ]
        kind = GroupKind.PAGED if group["type"] == "paged" else GroupKind.STATE
        groups.append(LayerGroup(group["name"], kind, tuple(buffers), window=group.get("window")))
    return Model(sum(scenario["ctx"]["layers_per_pp"]), tuple(groups))


def _part(group: Scenario, role: Scenario) -> Part:
    token = Axis("T", tokens_per_row=1)
    kind = role["kind"]
    if kind in ("HND", "NHD"):
        payload = Axis("D", role["head_dim"])
        bits = round(role["elem_bytes"] * 8)
        if role.get("mla"):
            return Part((token, payload), bits)
        heads = Axis("H", role["heads"], Split.HEADS)
        return Part((heads, token, payload) if kind == "HND" else (token, heads, payload), bits)
    if kind == "REPLICATED":
        if group["type"] == "paged":
            return Part((token, Axis("B", role["bytes_per_token"])), 8)
        return Part((Axis("B", role["bytes"]),), 8)
    if kind == "STATE_HEADS":
        return Part((Axis("H", role["heads"], Split.EVEN, Grid.TPCP), Axis("B", role["bytes_per_head"])), 8)
    if kind == "SECTIONED":
        sections = tuple(Section(f"s{number}", size) for number, size in enumerate(role["section_dims"]))
        return Part((Axis("C", grid=Grid.TPCP, sections=sections), Axis("B", role["bytes_per_dim"])), 8)
    raise ValueError(f"role kind {kind!r} of {role['name']}: expected one of {', '.join(MAPPERS)}")


def _mappers(group: Scenario) -> list[tuple[str, str]]:
    return [(name, MAPPERS[role["kind"]]) for role in group["roles"] for name in role["buffers"]]


def _instance(scenario: Scenario, side: str, model: Model) -> Instance:
    declared = scenario[side]
    order = declared.get("layer_order")
    if order not in (None, "reverse"):
        raise ValueError(f"layer_order {order!r} of {scenario['id']}: expected reverse or nothing")
    bits: tuple[tuple[str, int], ...] = ()
    if "elem_bytes" in declared:
        bits = tuple(
            (name, round(declared["elem_bytes"] * 8))
            for group in scenario["model"]["groups"]
            for role in group["roles"]
            if "elem_bytes" in role
            for name in role["buffers"]
        )
    return Instance(
        topology=Topology(
            tp=declared["tp"],
            stages=tuple(declared["layers_per_pp"]),
            cp=declared.get("cp", 1),
            attention_dp=declared.get("attention_dp", False),
        ),
        tokens_per_block=scenario["request"]["tokens_per_block"],
        layer_order=tuple(reversed(range(model.layers))) if order == "reverse" else (),
        element_bits=bits,
        packing=tuple(
            (group["name"], _packing(group, declared.get("packing") if group["type"] == "paged" else None))
            for group in scenario["model"]["groups"]
        ),
    )


def _packing(group: Scenario, override: str | None) -> str:
    """The rule of a group: one pool a recorded role, unless it says interleaved."""
    rule = override or group.get("packing", "separate")
    if rule == "interleaved":
        return rule
    families = "|".join("+".join(role["buffers"]) for role in group["roles"])
    if rule == "separate":
        return families
    if rule == "layer_major":
        return f"layer_major {families}"
    raise ValueError(f"packing {rule!r} of {group['name']}: expected separate, interleaved or layer_major")


def _presented(scenario: Scenario) -> tuple[SlotList, ...]:
    """The recorded lists of windowed groups as the receiver was handed them, blocks out of the window included."""
    windowed = {group["name"] for group in scenario["model"]["groups"] if "window" in group}
    return tuple(row for row in _tables(scenario) if row.side == "generation" and row.group in windowed)


def _tables(scenario: Scenario) -> tuple[SlotList, ...]:
    rows = []
    for side, name in SIDES.items():
        for rank, groups in scenario["blocks"][side].items():
            for group, (ordinals, slots) in groups.items():
                placed = [-1] * (max(ordinals, default=-1) + 1)
                for ordinal, slot in zip(ordinals, slots, strict=True):
                    placed[ordinal] = slot
                group_name = scenario["model"]["groups"][int(group)]["name"]
                rows.append(SlotList(name, int(rank), group_name, 0, tuple(placed)))
    return tuple(rows)


def writes_of(scenario: Scenario, result: Scenario, case: Case) -> Writes:
    """The plan that a recorded result describes; a refused result is a plan that refuses the instances.

    Recorded fragments are merged over slots and buffers that touch on both sides. They are cut
    again where a region starts or ends on either side, so that each run lies in one region of one
    slot; bytes past a pool's end stay with the run that leaves the pool.
    """
    if result["status"] != "ok":
        return Writes(refusals=(Refusal(result["reason"], "recorded"),))
    sources, destinations = lay_out(case, "context").tables, lay_out(case, "generation").tables
    rows = []
    for source, destination, *pools, source_start, destination_start, nbytes in result["fragments"]:
        tables = (sources[source], destinations[destination])
        group, other = (_group_of(table, pool) for table, pool in zip(tables, pools, strict=True))
        if group != other:
            raise ValueError(f"{scenario['id']}: pools {pools} belong to groups {group} and {other}")
        edges = {0, nbytes}
        for table, pool, start in zip(tables, pools, (source_start, destination_start), strict=True):
            edges.update(edge - start for edge in _edges(table, pool))
        for start, end in pairwise(sorted(edge for edge in edges if 0 <= edge <= nbytes)):
            places = (source_start + start, destination_start + start, end - start)
            rows.append((0, 0, group, source, destination, *pools, *places))
    return Writes.from_runs(rows, pairs=_pairs(result))


def _group_of(table: PageTable, pool: int) -> int:
    groups = {entry.group for entry in table.entries if entry.pool == pool}
    if len(groups) != 1:
        raise ValueError(f"pool {pool} holds groups {sorted(groups)}: expected one")
    return groups.pop()


@cache
def _edges(table: PageTable, pool: int) -> frozenset[int]:
    """Where regions of ``pool`` start and end, in bytes from its start; not the pool's end."""
    described = table.pools[pool]
    starts = [slot * described.slot_stride for slot in range(described.count)]
    edges = {
        start + offset
        for entry in table.entries
        if entry.pool == pool
        for offset in (entry.offset, entry.offset + entry.nbytes)
        for start in starts
    }
    return frozenset(edges - {table.pool_extent(pool)})


def _pairs(result: Scenario) -> list[Pair]:
    asymmetry = result.get("pair_asymmetry", {})
    asked = [tuple(pair) for pair in asymmetry.get("receiver_only", [])]
    pairs = [
        Pair(0, source, destination, "receiver" if (source, destination) in asked else "both")
        for source, destination in result["pairs"]
    ]
    pairs.extend(Pair(0, source, destination, "sender") for source, destination in asymmetry.get("sender_only", []))
    return sorted(pairs)
