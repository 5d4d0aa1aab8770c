"""FP4 latents: derived buffers stay where they are, tails and fallback layers are groups of their own."""

from __future__ import annotations

from statistics import median

import pytest

from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping, check_compatible
from differential.subjects.mapping.refusals import RING_LENGTH_DIFFERS
from differential.subjects.native import make
from oracle.model.buffers import GroupKind, MoveState
from oracle.model.case import SIDES, Case, Request
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.deployments import deployment
from strategies.kinds import find_kind, find_model, fp4_mla
from strategies.kinds.protocol import Surroundings
from strategies.topologies import Shape
from tests.declared import tables_of
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of, roles_of
from tests.mapping_cases import case_of, pages_of

K3 = "kimi-k3-fp4"
SIZES = {"key": 40_960, "mla_v_packed": 32_768, "key_block_scale": 5_120, "mla_v_scale": 4_096}

# ---- at the published size (spec: kinds, FP4 MLA)


@pytest.mark.parametrize("rewind", [0, 1, 3])
def test_a_block_of_128_tokens_has_the_published_sizes(rewind: int) -> None:
    declaration = fp4_mla.declare(3, fallback=[2], ring=16 + rewind)
    (table,) = tables_of(declaration.model, Instance(Topology(1, (3,)), 128))
    assert pools_of(table, 0) == [(2 * size, 2) for size in SIZES.values()]
    assert roles_of(table, 0) == [{role} for role in SIZES]
    assert pools_of(table, 1) == [(2 * (18_432 + 1_152 * rewind), 2)]
    assert pools_of(table, 2) == [(147_456, 1)]
    assert [group.window for group in declaration.model.groups] == [None, 16 + rewind, 1 << 20]


def test_values_need_not_be_kept_transposed() -> None:
    model = fp4_mla.declare(1, packed=False).model
    assert [buffer.role for buffer in model.groups[0].buffers] == ["key", "key_block_scale", "mla_v_scale"]


def test_caches_and_tails_are_internal_layers_with_ids_of_their_own() -> None:
    model = fp4_mla.declare(3, fallback=[1]).model
    ids = {
        (group.name, buffer.role): [mul * layer + add for layer in buffer.layers]
        for group in model.groups
        for buffer in group.buffers
        for mul, add in [buffer.ids]
    }
    assert ids["kv", "key"] == ids["kv", "mla_v_scale"] == [0, 4]
    assert ids["tail", "mla_hp_tail"] == [1, 5]
    assert ids["fallback", "key"] == [2]


def test_kimi_k3_keeps_24_latents_and_449_megabytes_of_state_a_request() -> None:
    (table,) = deployed(K3)
    assert pools_of(table, 0) == [(69 * 6_291_456, 69), (69 * 221_184, 69)]
    assert sum(size for size, _ in pools_of(table, 0)) == 449_372_160
    assert pools_of(table, 1) == [(24 * size, 24) for size in SIZES.values()]
    assert pools_of(table, 2) == [(24 * 18_432, 24)]
    groups = find_model(K3)[1].declare().model.groups
    assert [(group.name, group.kind, len(group.layers)) for group in groups] == [
        ("state", GroupKind.STATE, 69),
        ("kv", GroupKind.PAGED, 24),
        ("tail", GroupKind.PAGED, 24),
    ]
    assert set(groups[0].layers).isdisjoint(groups[1].layers) and groups[1].layers == groups[2].layers
    assert find_model(K3)[1].tokens_per_block == (128,)


def test_tensor_ranks_share_the_state_and_each_holds_whole_latents() -> None:
    tables = deployed(K3, tp=8)
    assert {tuple(pools_of(table, 0)) for table in tables} == {((69 * 786_432, 69), (69 * 27_648, 69))}
    assert {tuple(pools_of(table, 1)) for table in tables} == {tuple((24 * size, 24) for size in SIZES.values())}


def test_only_the_latent_its_scales_and_the_last_block_of_the_tail_are_sent() -> None:
    case = deployment(K3, {"tp": 2}, {"tp": 4}, prompt=1000)
    result = run_case(case, [Mapping(), make("")])
    assert all(verdict and not verdict.refusals for verdict in result.verdicts.values())
    sent: dict[int, int] = {}
    for segment in result.plans["mapping"].segments:
        if segment.destination_rank == 0:
            sent[segment.group] = sent.get(segment.group, 0) + len(segment.source_bases) * int(segment.runs[:, 2].sum())
    blocks = 8
    assert sent == {
        0: 449_372_160 // 4,
        1: blocks * 24 * (SIZES["key"] + SIZES["key_block_scale"]),
        2: 24 * 18_432,
    }


# ---- declarations


def test_what_is_derived_comes_from_what_is_sent_and_the_legacy_sender_does_not_register_it() -> None:
    declaration = fp4_mla.declare(2)
    moves = {buffer.role: buffer.move_on(0) for buffer in declaration.model.groups[0].buffers}
    assert {role for role, move in moves.items() if move.state is MoveState.DERIVED} == set(declaration.native.ignored)
    assert {move.inputs for move in moves.values() if move.inputs} == {("key", "key_block_scale")}
    assert declaration.native.mapper_of("key") == "nhd" and declaration.native.mapper_of("mla_hp_tail") == "replicated"


@pytest.mark.parametrize("subject", [Mapping(), make("")], ids=["mapping", "native"])
def test_derived_buffers_are_never_written(subject: object) -> None:
    model = fp4_mla.declare(2, stored=4, latent=2, values=2, tile=2, ring=3, tokens_per_block=4).model
    side = Instance(Topology(1, (2,)), 4)
    case = Case(model, side, side, (Request(0, 9),), native=fp4_mla.NATIVE, kind="fp4_mla")
    regions = [
        (entry.pool, entry.offset, entry.offset + entry.nbytes)
        for entry in lay_out(case, "generation").tables[0].entries
        if entry.role in fp4_mla.DERIVED
    ]
    segments = subject.plan(case, gather_facts(case)).segments  # type: ignore[attr-defined]
    written = [
        (segment.destination_pool, int(run[1]), int(run[1] + run[2])) for segment in segments for run in segment.runs
    ]
    assert written and regions
    assert not [
        (run, region)
        for run in written
        for region in regions
        if run[0] == region[0] and run[1] < region[2] > region[1] < run[2]
    ]


def test_a_rewind_of_unequal_length_on_the_two_sides_is_refused() -> None:
    sides = [
        pages_of(case_of(fp4_mla.declare(1, ring=16 + rewind).model, Topology(), Topology(), tokens=128), "context")
        for rewind in (0, 3)
    ]
    refusal = check_compatible(*sides)
    assert refusal is not None and refusal.code == RING_LENGTH_DIFFERS
    assert "mla_hp_tail" in refusal.reason and "[16]" in refusal.reason and "[19]" in refusal.reason


# ---- what is drawn


def test_every_combination_of_numbers_is_a_model() -> None:
    build_samples("fp4_mla", 3_000)


def test_the_simplest_model_has_a_tail_and_no_fallback_layer() -> None:
    groups = find_kind("fp4_mla").decode((0,) * 4, Surroundings(2, tokens_per_block=2, prompt=2)).model.groups
    assert [(group.name, group.layers) for group in groups] == [("kv", (0, 1)), ("tail", (0, 1))]
    assert [buffer.role for buffer in groups[0].buffers] == ["key", "key_block_scale", "mla_v_scale"]


@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("number", range(fp4_mla.FALLBACKS))
def test_some_layer_is_always_quantized(number: int, layers: int) -> None:
    numbers = (0, 0, number, 0)
    groups = find_kind("fp4_mla").decode(numbers, Surroundings(layers, tokens_per_block=2, prompt=5)).model.groups
    held = [set(group.layers) for group in groups if group.name != "tail"]
    assert held[0] and set().union(*held) == set(range(layers)) and sum(map(len, held)) == layers
    assert groups[1].layers == groups[0].layers


def _fallback(case: Case) -> LayerSet:
    return next((LayerSet.of(group.layers) for group in case.model.groups if group.name == "fallback"), LayerSet())


def _window(case: Case) -> int:
    return next(group.window for group in case.model.groups if group.name == "tail")  # type: ignore[return-value]


def _left(case: Case) -> set[int]:
    """Blocks that the window of the tails has left, by request."""
    return {max(0, request.prompt + 1 - _window(case)) // case.context.tokens_per_block for request in case.requests}


def _whole_stage(case: Case, fallback: bool) -> bool:
    """Whether a stage of the sender holds fallback layers alone, or none beside another that does."""
    topology = case.context.topology
    stages = [set(topology.stage_layers(stage)) for stage in range(topology.pp)]
    return any(stage and (stage <= set(_fallback(case))) is fallback for stage in stages) and len(stages) > 1


def _shapes(case: Case) -> tuple[Shape, Shape]:
    return Shape.of(case.context.topology), Shape.of(case.generation.topology)


SHAPES = {
    "fallback layers": lambda case: len(_fallback(case)) > 0,
    "fallback layers between others": lambda case: 0 < len(_fallback(case)) < max(_fallback(case)) + 1,
    "a stage of fallback layers alone": lambda case: _whole_stage(case, True) and len(_fallback(case)) > 0,
    "values kept transposed": lambda case: len(case.model.groups[0].buffers) == 4,
    "values not kept transposed": lambda case: len(case.model.groups[0].buffers) == 3,
    "the window has left no block": lambda case: _left(case) == {0},
    "the window has left one block": lambda case: 1 in _left(case),
    "the window has left two blocks": lambda case: 2 in _left(case),
    "the window has left blocks of one request and none of another": lambda case: {0} < _left(case),
    "a tail within the last block": lambda case: _window(case) < case.context.tokens_per_block,
    "election among replicas": lambda case: _shapes(case)[0].tensor > _shapes(case)[1].tensor,
    "key of the election": lambda case: (
        _shapes(case)[0].tensor > 1 and any(request.generation_dp for request in case.requests)
    ),
    "Helix": lambda case: case.generation.topology.cp > 1,
    "uneven stages": lambda case: len(set(case.generation.topology.stages)) > 1,
    "reversed layers": lambda case: bool(case.context.layer_order or case.generation.layer_order),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_is_drawn_several_times_in_300_cases(shape: str) -> None:
    assert sum(map(SHAPES[shape], drawn("fp4_mla"))) >= 3


def test_drawn_models_are_small_but_not_trivial() -> None:
    cases = drawn("fp4_mla")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512 and max(map(bytes_by_rank, cases)) < 4_096


SPLIT = ({"tp": 4}, {"tp": 2, "cp": 4})


def test_known_differences_of_a_large_deployment_are_told_of_a_small_one() -> None:
    """Blocks of 128 tokens on 24 layers and 12 ranks: small only if pools have hardly more slots than blocks."""
    case = deployment(K3, *SPLIT, prompt=4096)
    checked = check_case(case, [Mapping(), make("suffix")])
    (settled,) = checked.settled
    assert checked.passed and list(settled.accepted) == ["suffix-strided-from-its-start"]
    small = settled.told_of
    assert small is not None and small.context.topology == case.context.topology
    counts = {pool.count for side in SIDES for table in lay_out(small, side).tables for pool in table.pools}
    assert counts == {3, 21}


def test_a_window_longer_than_any_prompt_keeps_no_small_one_from_being_found() -> None:
    declaration = fp4_mla.declare(4, fallback=[3])
    case = deployment(declaration.model, *SPLIT, prompt=60_100, tokens_per_block=128, native=declaration.native)
    (settled,) = check_case(case, [Mapping(), make("suffix")]).settled
    assert settled.open.identical and settled.told_of is not None
    assert settled.told_of.requests[0].prompt < 5_000


def test_as_few_blocks_are_taken_as_many_ranks_need() -> None:
    case = deployment(K3, {"tp": 16}, {"tp": 8, "cp": 2}, prompt=4096)
    (settled,) = check_case(case, [Mapping(), make("suffix")]).settled
    assert settled.open.identical and settled.told_of is not None
