"""Gated delta net hybrids: key and value heads of different number, sections in the order of queries, keys, values."""

from __future__ import annotations

from statistics import median

import pytest

from oracle.model.case import Case
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import find_kind
from strategies.kinds.protocol import Surroundings
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of
from tests.recurrent_cases import REACHED, buffer_of, cuts_inside_a_group, one_rank, section_bytes, shapes, sizes

NEXT = "qwen3-next-80b"

# ---- at the published size (spec: kinds, published shapes)


def test_every_fourth_of_48_layers_is_attention() -> None:
    state, kv = deployment(NEXT, {}, {}, prompt=1).model.groups
    assert kv.layers == tuple(range(3, 48, 4))
    assert sorted((*state.layers, *kv.layers)) == list(range(48))


def test_a_layer_keeps_2_mib_of_state_and_49152_bytes_of_convolution() -> None:
    table = one_rank(NEXT)
    assert sizes(table) == {
        "ssm_state": {2 * 2**20},
        "conv_state": {49_152},
        "key": {32 * 2 * 256 * 2},
        "value": {32 * 2 * 256 * 2},
    }
    assert pools_of(table, 0) == [(36 * 2 * 2**20, 36), (36 * 49_152, 36)]
    assert pools_of(table, 1) == [(24 * 32_768, 24)]


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_sections_are_queries_keys_and_the_wider_values(tp: int) -> None:
    case = deployment(NEXT, {"tp": tp}, {}, prompt=1)
    assert section_bytes(case, "conv_state", tp) == tuple(width * 6 // tp for width in (2_048, 2_048, 4_096))
    assert {size for table in lay_out(case, "context").tables for size in sizes(table)["ssm_state"]} == {2**21 // tp}


def test_context_parallel_ranks_share_the_state_and_not_the_heads() -> None:
    tables = deployed(NEXT, tp=2, cp=2)
    assert {size for table in tables for size in sizes(table)["ssm_state"]} == {2**21 // 4}
    assert {size for table in tables for size in sizes(table)["key"]} == {32_768 // 2}


def test_under_attention_dp_each_rank_holds_the_whole_state() -> None:
    assert [sizes(table)["conv_state"] for table in deployed(NEXT, tp=4, dp=True)] == [{49_152}] * 4


# ---- what is drawn


def test_every_combination_of_numbers_is_a_model() -> None:
    build_samples("gdn", 3_000)


def test_the_simplest_model_is_a_recurrent_layer_and_an_attention_layer() -> None:
    state, kv = find_kind("gdn").decode((0,) * 8, Surroundings(2)).model.groups
    assert (state.layers, kv.layers) == ((0,), (1,))
    assert [(each.name, each.size) for each in state.buffers[1].parts[0].axes[0].sections] == [
        ("q", 1),
        ("k", 1),
        ("v", 2),
    ]


def _sections(case: Case) -> list[int]:
    return [section.size for section in buffer_of(case, "conv_state").parts[0].axes[0].sections]


SHAPES = REACHED | {
    "values wider than keys": lambda case: _sections(case)[2] > _sections(case)[1],
    "values narrower than keys": lambda case: _sections(case)[2] < _sections(case)[1],
    "shares that end inside a key head": lambda case: any(
        cuts_inside_a_group(case, "conv_state", "k", heads)
        for heads in (1, 2, 3, 4)
        if _sections(case)[1] == heads * buffer_of(case, "ssm_state").parts[0].axes[2].size
    ),
    "heads on several ranks": lambda case: any(
        buffer_of(case, "key").parts[0].axes[0].size < shape.tensor for shape in shapes(case)
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_is_drawn_several_times_in_300_cases(shape: str) -> None:
    assert sum(map(SHAPES[shape], drawn("gdn"))) >= 3


def test_drawn_models_are_small_but_not_trivial() -> None:
    cases = drawn("gdn")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512 and max(map(bytes_by_rank, cases)) < 16_384
