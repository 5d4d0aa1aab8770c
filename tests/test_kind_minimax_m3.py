"""MiniMax M3: the index key coalesces with K/V by accident of size, on one side and not on the other."""

from __future__ import annotations

from statistics import median

import pytest

from differential.ledger import check_case, settle
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.buffers import MoveState
from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.deployments import deployment
from strategies.kinds import find_kind, minimax_m3
from strategies.kinds.protocol import Declaration, Surroundings
from strategies.topologies import Shape
from tests.kind_cases import (
    build_samples,
    bytes_by_rank,
    deployed,
    drawn,
    is_coalesced,
    pools_of,
    roles_of,
    share_a_pool,
)
from tests.ledger_cases import compared

K_I = "key", "index_key"
PLAIN, FP8_INDEX = "minimax-m3", "minimax-m3-fp8-index"

# ---- at the published size (spec: kinds, MiniMax M3)

PACKED = [
    # model, K/V bits, tp, (slot bytes, members) of each pool
    (PLAIN, 16, 1, [(120 * 131_072, 120), (57 * 32_768, 57)]),
    (PLAIN, 16, 2, [(120 * 65_536, 120), (57 * 32_768, 57)]),
    (PLAIN, 16, 4, [(177 * 32_768, 177)]),
    (PLAIN, 16, 8, [(177 * 32_768, 177)]),
    (PLAIN, 8, 1, [(120 * 65_536, 120), (57 * 32_768, 57)]),
    (PLAIN, 8, 2, [(177 * 32_768, 177)]),
    (PLAIN, 8, 4, [(120 * 16_384, 120), (57 * 32_768, 57)]),
    (FP8_INDEX, 8, 2, [(120 * 32_768, 120), (57 * 16_384, 57)]),
    (FP8_INDEX, 8, 4, [(177 * 16_384, 177)]),
    (PLAIN, 4, 1, [(177 * 32_768, 177), (120 * 4_096, 120)]),
    (PLAIN, 4, 2, [(120 * 16_384, 120), (57 * 32_768, 57), (120 * 2_048, 120)]),
]


@pytest.mark.parametrize(("model", "bits", "tp", "pools"), PACKED)
def test_the_index_key_is_coalesced_by_tensor_size_and_width_alone(
    model: str, bits: int, tp: int, pools: list[tuple[int, int]]
) -> None:
    (table, *others) = deployed(model, element_bits=bits, tp=tp)
    assert pools_of(table) == sorted(pools, reverse=True)
    assert {tuple(pools_of(other)) for other in others} <= {tuple(pools_of(table))}
    assert share_a_pool(table, *K_I) is (len(pools) == (2 if bits == 4 else 1))
    assert len({pool.pool_group for pool in table.pools}) == 1


def test_dense_layers_hold_two_buffers_and_sparse_ones_three_which_makes_the_stride_uneven() -> None:
    (table, *_) = deployed(PLAIN, tp=4)
    offsets = {(entry.layer, entry.role): entry.offset // 32_768 for entry in table.entries}
    assert [offsets[layer, "key"] for layer in range(6)] == [0, 2, 4, 6, 9, 12]
    assert [offsets[3, role] for role in ("key", "value", "index_key")] == [6, 7, 8]
    assert [layer for layer in range(60) if (layer, "index_key") not in offsets] == [0, 1, 2]


def test_data_coalesced_with_the_index_key_leave_their_scales_in_a_pool_of_their_own() -> None:
    (table,) = deployed(PLAIN, element_bits=4)
    assert roles_of(table) == [{"key", "value", "index_key"}, {"key_block_scale", "value_block_scale"}]


def test_a_stage_of_dense_layers_alone_holds_no_index_key() -> None:
    first, second = deployed(PLAIN, pp=[3, 57])
    assert roles_of(first) == [{"key", "value"}]
    assert pools_of(second) == [(114 * 131_072, 114), (57 * 32_768, 57)]


@pytest.mark.parametrize("layout", ["HND", "NHD"])
@pytest.mark.parametrize(("tp", "own_tp"), [(4, 1), (1, 4), (2, 8), (8, 2)])
def test_what_is_coalesced_on_one_side_and_separate_on_the_other_arrives(tp: int, own_tp: int, layout: str) -> None:
    case = deployment(PLAIN, {"tp": tp}, {"tp": own_tp}, prompt=200, layout=layout)
    assert is_coalesced(case, "context", *K_I) is (tp >= 4)
    assert is_coalesced(case, "generation", *K_I) is (own_tp >= 4)
    verdict = run_case(case, [Mapping()]).verdicts["mapping"]
    assert verdict and not verdict.refusals


# ---- declarations


def small(**options: object) -> Declaration:
    arguments: dict[str, object] = {"heads": 4, "dim": 2, "bits": 16, "sparse": (1, 2), "index_dim": 2}
    return minimax_m3.declare(3, **{**arguments, "index_bits": 16, **options})  # type: ignore[arg-type]


def buffers_of(declaration: Declaration) -> dict[tuple[str, int], object]:
    (group,) = declaration.model.groups
    return {(buffer.role, layer): buffer for buffer in group.buffers for layer in buffer.layers}


def test_draft_layers_have_heads_of_their_own_and_no_index_key() -> None:
    declaration = small(draft=1, draft_heads=2)
    found = buffers_of(declaration)
    assert (declaration.model.layers, declaration.extra, str(declaration.model.draft)) == (4, 1, "3")
    assert [found["key", layer].parts[0].axes[0].size for layer in range(4)] == [4, 4, 4, 2]
    assert [layer for role, layer in found if role == "index_key"] == [1, 2]


def test_the_value_of_the_indexer_never_moves_and_stands_outside_the_pools_of_the_others() -> None:
    declaration = small(index_value=True)
    value = buffers_of(declaration)["index_value", 1]
    assert value.move_on(1).state is MoveState.NEVER and value.placement.own
    assert declaration.native.ignored == ("index_value",)


def test_four_bit_drafts_have_scales_too() -> None:
    found = buffers_of(small(bits=4, dim=8, scaled=4, draft=1))
    assert {role for role, layer in found if layer == 3} == {"key", "value", "key_block_scale", "value_block_scale"}


def test_a_draft_as_wide_as_scales_joins_their_view_and_the_legacy_sender_refuses_to_cut_heads() -> None:
    declaration = minimax_m3.declare(1, 4, 4, 4, (0,), 1, 8, scaled=4, draft=1, draft_heads=2)
    sides = (
        Instance(Topology(2, (2,)), packing=(("full", "interleaved"),)),
        Instance(Topology(1, (2,))),
    )
    case = Case(declaration.model, *sides, (Request(0, 1),), native=declaration.native)
    assert roles_of(lay_out(case, "generation").tables[0])[1] >= {"key", "key_block_scale"}
    comparison = compared(case)
    assert [each.code for each in comparison.refusals] == ["buffer_counts_differ"]
    assert list(settle(case, comparison).accepted) == ["other-roles-on-a-layer-of-a-view"]


@pytest.mark.parametrize(("index_dim", "coalesced"), [(3, True), (4, False)])
def test_heads_that_run_past_theirs_reach_the_index_key_only_where_it_stands_beside_them(
    index_dim: int, coalesced: bool
) -> None:
    """Six heads from tp 3 to tp 2: the legacy sender counts a shift that is one head too large."""
    declaration = minimax_m3.declare(1, 6, 1, 8, (0,), index_dim, 8)
    sides = (Instance(Topology(tp, (1,)), layout="HND") for tp in (3, 2))
    case = Case(declaration.model, *sides, (Request(0, 1),), native=declaration.native)
    checked = check_case(case, [Mapping(), make("")])
    roles = {violation.role for violation in checked.result.verdicts["native"].violations}
    assert is_coalesced(case, "generation", *K_I) is coalesced
    assert ("index_key" in roles) is coalesced and "value" in roles
    assert checked.passed


# ---- what is drawn


def test_every_combination_of_numbers_is_a_model() -> None:
    build_samples("minimax_m3", 3_000)


def test_the_simplest_model_has_one_head_beside_an_index_key_of_its_width() -> None:
    (group,) = find_kind("minimax_m3").decode((0,) * 6, Surroundings()).model.groups
    assert [buffer.role for buffer in group.buffers] == ["key", "value", "index_key"]
    assert {axis.size for buffer in group.buffers for axis in buffer.parts[0].axes if axis.name != "T"} == {1}


def _axis(case: Case, role: str, name: str) -> int:
    (buffer, *_) = [each for each in case.model.groups[0].buffers if each.role == role]
    return next(axis.size for axis in buffer.parts[0].axes if axis.name == name)


def _bits(case: Case, role: str) -> int:
    return next(each.parts[0].bits for each in case.model.groups[0].buffers if each.role == role)


def _indexed(case: Case) -> tuple[int, ...]:
    (buffer,) = [each for each in case.model.groups[0].buffers if each.role == "index_key"]
    return tuple(buffer.layers)


def _shapes(case: Case) -> tuple[Shape, Shape]:
    return Shape.of(case.context.topology), Shape.of(case.generation.topology)


def _tables(case: Case, side: str) -> list[set[str]]:
    return [{entry.role for entry in table.entries} for table in lay_out(case, side).tables]


SHAPES = {
    "coalesced at the sender alone": lambda case: (
        is_coalesced(case, "context", *K_I) is True and is_coalesced(case, "generation", *K_I) is False
    ),
    "coalesced at the receiver alone": lambda case: (
        is_coalesced(case, "context", *K_I) is False and is_coalesced(case, "generation", *K_I) is True
    ),
    "coalesced on both sides": lambda case: (
        is_coalesced(case, "context", *K_I) is True and is_coalesced(case, "generation", *K_I) is True
    ),
    "separate on both sides": lambda case: (
        is_coalesced(case, "context", *K_I) is False and is_coalesced(case, "generation", *K_I) is False
    ),
    "coalesced at one side, token-major": lambda case: (
        case.context.layout == case.generation.layout == "NHD"
        and {is_coalesced(case, side, *K_I) for side in ("context", "generation")} == {True, False}
    ),
    "heads on several ranks": lambda case: any(_axis(case, "key", "H") < shape.tensor for shape in _shapes(case)),
    "uneven heads": lambda case: any(
        _axis(case, "key", "H") % shape.tensor and shape.tensor % _axis(case, "key", "H") for shape in _shapes(case)
    ),
    "election among replicas": lambda case: _shapes(case)[0].tensor > _shapes(case)[1].tensor,
    "key of the election": lambda case: (
        _shapes(case)[0].tensor > 1 and any(request.generation_dp for request in case.requests)
    ),
    "Helix": lambda case: case.generation.topology.cp > 1,
    "scales": lambda case: _bits(case, "key") == 4,
    "index key narrower than K/V elements": lambda case: (_bits(case, "key"), _bits(case, "index_key")) == (16, 8),
    "index key wider than K/V elements": lambda case: (_bits(case, "key"), _bits(case, "index_key")) == (8, 16),
    "dense layer first": lambda case: _indexed(case)[0] > 0,
    "dense layers between sparse ones": lambda case: (
        len(_indexed(case)) > 1 and _indexed(case) != tuple(range(_indexed(case)[0], _indexed(case)[-1] + 1))
    ),
    "a stage without index key": lambda case: any(
        roles and "index_key" not in roles for roles in _tables(case, "context")
    ),
    "uneven stages": lambda case: len(set(case.generation.topology.stages)) > 1,
    "index value": lambda case: any(buffer.role == "index_value" for buffer in case.model.groups[0].buffers),
    "draft with other heads": lambda case: (
        len({buffer.parts[0].axes[0].size for buffer in case.model.groups[0].buffers if buffer.role == "key"}) > 1
    ),
    "draft with the same heads": lambda case: (
        [buffer.parts[0].axes[0].size for buffer in case.model.groups[0].buffers if buffer.role == "key"]
        == [_axis(case, "key", "H")] * 2
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_is_drawn_several_times_in_300_cases(shape: str) -> None:
    assert sum(map(SHAPES[shape], drawn("minimax_m3"))) >= 3


def test_drawn_models_are_small_but_not_trivial() -> None:
    cases = drawn("minimax_m3")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512 and max(map(bytes_by_rank, cases)) < 8_192
