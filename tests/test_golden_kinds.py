"""Every class of the recorded plans passes through a declared cache kind too.

A recorded scenario is taken as groups of declared kinds: the kind's own buffers, of the same axes, splits and mappers,
in the sizes, layers and pools that were recorded. The legacy sender does with them what was recorded, byte for byte.
The kinds as they are, with all that they have besides, are then compared on the scenario's splits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from differential.grid import managers_of
from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.subjects.native import make
from differential.subjects.registry import find_subject
from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import SIDES, Case, Native, Request, Slots
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from strategies.kinds import find_kind
from strategies.kinds.protocol import Declaration
from strategies.topologies import Grid, Shape, even_cut, with_extra
from tests.golden import MAPPERS, Scenario, case_of, scenarios
from tests.native_data import SETTINGS, moved_bytes, recorded_bytes

KINDS: dict[str, tuple[str, ...]] = {
    "dense_hnd": ("gqa",),
    "dense_nhd": ("gqa",),
    "dense_hnd_dup": ("fp8", "gqa"),
    "dense_nhd_dup": ("fp8", "gqa"),
    "dense_hnd_layer_order": ("fp8",),
    "dense_nhd_layer_order": ("fp8",),
    "mla": ("mla",),
    "mla_gen_adp": ("mla",),
    "mla_ctx_adp": ("mla",),
    "mla_both_adp": ("mla",),
    "mla_index_gen_adp": ("dsa",),
    "mla_index": ("dsa",),
    "dense_hnd_gen_adp": ("gqa",),
    "dense_hnd_ctx_adp": ("gqa",),
    "dense_nhd_gen_adp": ("gqa",),
    "dense_nhd_ctx_adp": ("gqa",),
    "dense_nhd_both_adp": ("gqa",),
    "index_gen_adp": ("minimax_m3",),
    "index_gen_adp_dup": ("minimax_m3",),
    "index_ctx_adp": ("minimax_m3",),
    "pp_hnd": ("fp8",),
    "pp_nhd": ("fp8",),
    "pp_mla": ("mla",),
    "pp_index": ("minimax_m3",),
    "pp_layer_order": ("fp8",),
    "index_hnd_separate": ("minimax_m3",),
    "index_nhd_separate": ("minimax_m3",),
    "index_some_layers_pp_separate": ("minimax_m3",),
    "index_hnd_interleaved": ("minimax_m3",),
    "index_nhd_interleaved": ("minimax_m3",),
    "index_some_layers_pp_interleaved": ("minimax_m3",),
    "index_mixed_packing": ("minimax_m3",),
    "vswa": ("vswa",),
    "vswa_lists_ctx_full_gen_suffix": ("vswa",),
    "vswa_lists_ctx_suffix_gen_full": ("vswa",),
    "vswa_lists_ctx_full_gen_full": ("vswa",),
    "vswa_pp": ("vswa",),
    "vswa_three_windows": ("vswa",),
    "state_interleaved": ("mamba2",),
    "state_layer_major": ("mamba2",),
    "state_replicated": ("qwen4_exp",),
    "state_separate_pools": ("qwen4_exp",),
    "state_gen_adp": ("qwen4_exp",),
    "state_ctx_adp": ("qwen4_exp",),
    "state_both_adp": ("qwen4_exp",),
    "state_pp": ("qwen4_exp",),
    "state_pp_layer_major": ("mamba2",),
    "state_five_sections": ("mamba2",),
    "helix_mla": ("mla",),
    "helix_mla_index": ("dsa",),
    "helix_hnd": ("fp8",),
    "helix_nhd": ("fp8",),
    "helix_dup": ("fp8",),
    "helix_state": ("kda",),
    "helix_state_replicated": ("kda", "qwen4_exp"),
    "helix_state_ctx_adp": ("qwen4_exp",),
    "uneven_tp": ("fp8",),
    "uneven_tp_mla": ("mla",),
    "uneven_tp_index": ("minimax_m3",),
    "uneven_tp_state": ("mamba2",),
    "cp_both": ("mla",),
    "elem_bytes_differ": ("gqa",),
    "mapper_kind_ctx_source_cp": ("mla",),
    "prefix_reuse": ("fp8",),
    "prefix_ctx_shorter_than_gen": ("fp8",),
    "subbyte": ("nvfp4",),
    "vswa_receiver_extra_head": ("vswa",),
    "vswa_sender_extra_head": ("vswa",),
    "dense_hnd_dup_gen_adp": ("fp8",),
    "dense_nhd_dup_gen_adp": ("minimax_m3",),
    "dense_hnd_nonpow2_dup": ("fp8",),
    "dense_hnd_nonpow2": ("fp8",),
    "mixed": ("deepseek_v4", "dsa", "fp8", "kda", "mamba2", "minimax_m3", "mla", "qwen4_exp", "vswa"),
    "chunked": ("minimax_m3",),
    "chunked_prefix_reuse": ("fp8",),
    "chunked_state": ("qwen4_exp",),
    "chunked_helix": ("mla",),
}
"""The declared kinds that express the scenarios of each class."""

BY_CLASS: dict[str, list[Scenario]] = defaultdict(list)
for _scenario in scenarios():
    BY_CLASS[_scenario["class"]].append(_scenario)


@cache
def declared(kind: str) -> Declaration:
    """A small model of ``kind``: the one that the grid of managers runs first."""
    return next(manager.declare() for manager in managers_of("all") if manager.kind == kind and manager.declare)


def part_of(kind: str, role: str) -> tuple[LayerGroup, Buffer]:
    """The group and the buffer that ``kind`` declares for a role."""
    for group in declared(kind).model.groups:
        for buffer in group.buffers:
            if buffer.role == role:
                return group, buffer
    raise AssertionError(f"kind {kind} declares no {role}")


# ---- which kind expresses a recorded role


def has(scenario: Scenario, name: str) -> bool:
    return any(role["name"] == name for group in scenario["model"]["groups"] for role in group["roles"])


def kind_of(scenario: Scenario, group: Scenario, role: Scenario) -> str:
    """The kind whose buffer a recorded role is."""
    latent, indexed, state = (has(scenario, name) for name in ("latent", "index", "ssm"))
    if role["name"] == "ple":
        return "qwen4_exp"
    if role["name"] == "index":
        return "dsa" if latent else "qwen4_exp" if state else "minimax_m3"
    if state:
        return "kda" if latent else "qwen4_exp" if has(scenario, "ple") or indexed else "mamba2"
    if "window" in group:
        return "deepseek_v4" if latent else "vswa"
    if latent or indexed:
        return ("dsa" if indexed else "mla") if latent else "minimax_m3"
    if len(scenario["model"]["groups"]) > 1:
        return "vswa"
    return {2: "gqa", 1: "fp8", 0.5: "nvfp4"}[role["elem_bytes"]]


NAMES = {("deepseek_v4", "key"): "swa", ("qwen4_exp", "ple_state"): "ple_conv_state"}
"""What a kind calls a recorded buffer, where the names differ."""


# ---- the kind's own buffers in recorded sizes


def sizes_of(role: Scenario, parts: int) -> list[tuple[dict[str, object], int]]:
    """For each part of a buffer its axes' recorded sizes by name, and the bits of an element."""
    match role["kind"]:
        case "HND" | "NHD":
            return [({"H": role.get("heads"), "D": role["head_dim"]}, round(role["elem_bytes"] * 8))]
        case "REPLICATED" if "bytes" in role:
            return [({"C": role["bytes"], "W": 1}, 8)]
        case "REPLICATED" if parts == 1:
            return [({"D": role["bytes_per_token"]}, 8)]
        case "REPLICATED":  # data, and after all of it a byte a row
            return [({"B": role["bytes_per_token"] - 1}, 8), ({"B": 1}, 8)]
        case "STATE_HEADS":
            return [({"H": role["heads"], "P": role["bytes_per_head"], "N": 1}, 8)]
        case "SECTIONED":
            return [({"C": role["section_dims"], "W": role["bytes_per_dim"]}, 8)]
    raise AssertionError(role["kind"])


def in_recorded_sizes(buffer: Buffer, role: Scenario, name: str, on: list[int]) -> Buffer:
    """``buffer`` under a recorded name, on the recorded layers and in recorded sizes; axes and splits are its own."""
    parts = []
    for part, (sizes, bits) in zip(buffer.parts, sizes_of(role, len(buffer.parts)), strict=True):
        axes = []
        for axis in part.axes:
            if axis.is_token:
                axes.append(axis)
            elif axis.sections:
                first = axis.sections[0]
                own = tuple(replace(first, name=f"s{n}", size=size) for n, size in enumerate(sizes[axis.name]))
                axes.append(replace(axis, size=sum(sizes[axis.name]), sections=own))
            else:
                axes.append(replace(axis, size=sizes[axis.name]))
        parts.append(replace(part, axes=tuple(axes), bits=bits))
    return replace(buffer, role=name, layers=LayerSet.of(on), parts=tuple(parts), ids=(1, 0))


def through_kinds(scenario: Scenario) -> tuple[Case, set[str]]:
    """The scenario's case with the buffers of declared kinds in place of those read from the record, and the kinds."""
    recorded = case_of(scenario)
    groups, mappers, kinds = [], {}, set()
    for group in scenario["model"]["groups"]:
        buffers = []
        for role in group["roles"]:
            kind = kind_of(scenario, group, role)
            kinds.add(kind)
            for name in role["buffers"]:
                own = NAMES.get((kind, name), name)
                source, buffer = part_of(kind, own)
                assert source.is_paged is (group["type"] == "paged")
                buffers.append(in_recorded_sizes(buffer, role, name, role.get("layers", group["layers"])))
                mappers[name] = mapper_of(kind, own)
        like = next(each for each in recorded.model.groups if each.name == group["name"])
        groups.append(replace(like, buffers=tuple(buffers)))
    layout = "NHD" if any(role["kind"] == "NHD" for g in scenario["model"]["groups"] for role in g["roles"]) else "HND"
    sides = {side: replace(recorded.side(side), layout=layout) for side in SIDES}
    model = Model(recorded.model.layers, tuple(groups))
    return replace(recorded, model=model, native=Native(tuple(sorted(mappers.items()))), **sides), kinds


def mapper_of(kind: str, role: str) -> str:
    """What ``kind`` tells the legacy sender of a role."""
    native = declared(kind).native
    assert native is not None and role not in native.ignored
    return dict(native.mappers).get(role, dict(native.mappers)["all"])


def test_every_class_of_the_record_names_the_kinds_that_express_it() -> None:
    found = {name: {kind for each in members for kind in through_kinds(each)[1]} for name, members in BY_CLASS.items()}
    assert found == {name: set(kinds) for name, kinds in KINDS.items()}
    assert all(find_kind(kind) for kinds in KINDS.values() for kind in kinds)


@pytest.mark.parametrize("name", BY_CLASS)
def test_the_kinds_of_a_class_lay_its_bytes_out_as_recorded(name: str) -> None:
    for scenario in BY_CLASS[name]:
        case, _ = through_kinds(scenario)
        recorded = case_of(scenario)
        for side in SIDES:
            assert lay_out(case, side).tables == lay_out(recorded, side).tables
        for own, group in zip(case.model.groups, recorded.model.groups, strict=True):
            assert [form_of(buffer) for buffer in own.buffers] == [form_of(buffer) for buffer in group.buffers]


def form_of(buffer: Buffer) -> object:
    """What a buffer is whatever its sizes and the order of its axes: who shares what, and whether tokens have rows."""
    axes = {
        (axis.split, axis.grid, tuple(section.split for section in axis.sections))
        for part in buffer.parts
        for axis in part.axes
        if axis.is_split or axis.sections
    }
    return axes, buffer.tokens_per_row, buffer.request_scope, buffer.moves


@pytest.mark.parametrize("name", BY_CLASS)
def test_the_kinds_of_a_class_tell_the_legacy_sender_what_was_recorded(name: str) -> None:
    for scenario in BY_CLASS[name]:
        mappers = dict(through_kinds(scenario)[0].native.mappers)  # type: ignore[union-attr]
        for group in scenario["model"]["groups"]:
            for role in group["roles"]:
                # Head-major and token-major are told apart by the layout of the instance.
                expected = MAPPERS[role["kind"]].replace("nhd", "indexed")
                assert {mappers[buffer] for buffer in role["buffers"]} == {expected}


@pytest.mark.parametrize("name", BY_CLASS)
def test_the_legacy_sender_does_with_declared_kinds_what_was_recorded(name: str) -> None:
    for scenario in BY_CLASS[name]:
        case, _ = through_kinds(scenario)
        for result, generation in replayed(scenario):
            plan = make(SETTINGS[generation]).plan(case, gather_facts(case))
            where = (scenario["id"], generation)
            if result["status"] != "ok":
                refusals = (plan,) if isinstance(plan, Refusal) else plan.refusals
                assert [refusal.code for refusal in refusals] == [result["reason"]], where
                continue
            assert isinstance(plan, Writes) and not plan.refusals, where
            asked = {(pair.source, pair.destination) for pair in plan.pairs if pair.seen_by != "sender"}
            assert asked == set(map(tuple, result["pairs"])), where
            assert np.array_equal(moved_bytes(plan), recorded_bytes(scenario, result)), where


def replayed(scenario: Scenario) -> Iterator[tuple[Scenario, str]]:
    """The results of generations that a setting of the subject stands for."""
    for result in scenario["results"]:
        for generation in set(result["generations"]) & set(SETTINGS):
            yield result, generation


def test_nearly_every_scenario_is_replayed_through_kinds() -> None:
    # The others have only results of a generation that no setting stands for.
    without = [scenario["id"] for scenario in scenarios() if not any(replayed(scenario))]
    assert len(without) <= 3, without


# ---- the kinds as they are, on the splits of the record


def split_of(scenario: Scenario) -> Grid:
    shapes = []
    for side in ("ctx", "gen"):
        own = scenario[side]
        stages = sum(layers > 0 for layers in own["layers_per_pp"])
        shapes.append(Shape(own["tp"], stages, own.get("cp", 1), own.get("attention_dp", False)))
    return Grid(*shapes)


def whole_case(kind: str, split: Grid, layout: str, prompt: int, tokens: int, keys: tuple[int, int]) -> Case:
    """The first small model of ``kind`` that fits a split, with all that the kind has."""
    own = find_kind(kind)
    tokens = tokens if tokens in own.tokens_per_block else max(own.tokens_per_block)
    count = max(own.layers[0], split.context.pp, split.generation.pp)
    declaration = own.declare(own.scope[0], split.surroundings(count, tokens, prompt))
    instances = [
        Instance(
            shape.topology(with_extra(even_cut(count, shape.pp), declaration.extra_of(side))),
            tokens,
            layout,
            without=without,
        )
        for side, shape, without in zip(SIDES, (split.context, split.generation), declaration.without, strict=True)
    ]
    return Case(
        declaration.model,
        *instances,
        (Request(0, prompt, *keys),),
        slots=Slots(mul=2, add=1),
        native=declaration.native,
        kind=kind,
    )


@pytest.mark.parametrize("name", BY_CLASS)
def test_the_kinds_of_a_class_differ_in_known_ways_only_on_its_splits(name: str) -> None:
    asked = set()
    for scenario in BY_CLASS[name]:
        request = scenario["request"]
        token_major = any(role["kind"] == "NHD" for group in scenario["model"]["groups"] for role in group["roles"])
        for kind in through_kinds(scenario)[1]:
            keys = request["ctx_dp_rank"], request["gen_dp_rank"]
            layout = "NHD" if token_major else "HND"
            asked.add((kind, split_of(scenario), layout, request["prompt_len"], request["tokens_per_block"], keys))
    for each in asked:
        case = whole_case(*each)
        for variant in ("native", "native:suffix"):
            checked = check_case(case, [find_subject("mapping"), find_subject(variant)])
            assert checked.passed, (each, [line for settled in checked.settled for line in settled.open.lines()])
