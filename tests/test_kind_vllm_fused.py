"""vLLM's K/V: [all keys | all values | scales] in one region of a block, heads shared out by floor."""

from __future__ import annotations

from statistics import median

import pytest

from oracle.model.axes import Split
from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.pages import Entry
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.kinds import find_kind
from strategies.kinds.vllm_fused import NVFP4, PER_TOKEN_HEAD, declare
from tests.kind_cases import build_samples, bytes_by_rank, drawn


def entries(bits: int, scales: str, *, tp: int = 1, heads: int = 8, tokens: int = 16) -> list[list[Entry]]:
    """The entries of each rank of one layer, 128 elements a head."""
    model = declare(1, heads, 128, bits, scales=scales).model
    side = Instance(Topology(tp, (1,)), tokens, "NHD")
    tables = lay_out(Case(model, side, side, (Request(0, 1),)), "context").tables
    return [list(table.entries) for table in tables]


# ---- the region of a block (spec: kinds, vLLM)


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_values_follow_the_keys_of_a_block_at_a_constant_stride(tp: int) -> None:
    for held in entries(16, "", tp=tp):
        share = 8 // tp * 16 * 128 * 2
        assert [(e.role, e.offset, e.nbytes) for e in held] == [("key", 0, share), ("value", share, share)]


@pytest.mark.parametrize(("bits", "data"), [(8, 16 * 8 * 128), (4, 16 * 8 * 64)])
def test_scales_per_token_and_head_take_eight_bytes_a_token_and_head_after_the_values(bits: int, data: int) -> None:
    (held,) = entries(bits, PER_TOKEN_HEAD)
    assert [e.role for e in held] == ["key", "value", "key_scale", "value_scale"]
    assert [e.nbytes for e in held] == [data, data, 16 * 8 * 4, 16 * 8 * 4]
    assert sum(e.nbytes for e in held[2:]) == 4 * 2 * 16 * 8
    assert held[2].offset == 2 * data


def test_an_nvfp4_row_holds_half_a_byte_an_element_and_then_its_scales() -> None:
    (held,) = entries(4, NVFP4)
    assert [(e.role, e.nbytes) for e in held] == [("key", 16 * 8 * 72), ("value", 16 * 8 * 72)]
    (key, _) = declare(1, 8, 128, 4, scales=NVFP4).model.groups[0].buffers
    sections = key.parts[0].axes[-1].sections
    assert [(section.name, section.size) for section in sections] == [("data", 64), ("scale", 8)]


def test_six_heads_on_four_ranks_are_one_two_one_and_two() -> None:
    sizes = [held[0].nbytes // (16 * 128 * 2) for held in entries(16, "", tp=4, heads=6)]
    assert sizes == [1, 2, 1, 2]


def test_two_heads_on_four_ranks_are_one_each() -> None:
    sizes = [held[0].nbytes // (16 * 128 * 2) for held in entries(16, "", tp=4, heads=2)]
    assert sizes == [1, 1, 1, 1]


# ---- small ones


def test_every_combination_of_numbers_builds() -> None:
    build_samples("vllm_fused", 1_500)


def test_there_is_no_legacy_rule() -> None:
    assert find_kind("vllm_fused").published == ()
    assert all(case.native is None for case in drawn("vllm_fused"))


def roles(case: Case) -> set[str]:
    return {buffer.role for buffer in case.model.groups[0].buffers}


def head_counts(case: Case) -> list[tuple[int, int]]:
    """(heads, tensor ranks) of either side."""
    (heads,) = {
        axis.size
        for buffer in case.model.groups[0].buffers
        for axis in buffer.parts[0].axes
        if axis.split is Split.FLOOR
    }
    topologies = [side.topology for side in (case.context, case.generation)]
    return [(heads, 1 if topology.attention_dp else topology.tp) for topology in topologies]


REACHED = {
    "scales per token and head": lambda case: "key_scale" in roles(case),
    "rows with scales": lambda case: bool(case.model.groups[0].buffers[0].parts[0].axes[-1].sections),
    "neither": lambda case: "key_scale" not in roles(case) and case.model.groups[0].buffers[0].parts[0].bits == 16,
    "key and value of unequal width": lambda case: (
        len({buffer.parts[0].axes[-1].size for buffer in case.model.groups[0].buffers[:2]}) == 2
    ),
    "uneven shares": lambda case: any(heads > ranks and heads % ranks for heads, ranks in head_counts(case)),
    "a head on several ranks": lambda case: any(heads < ranks for heads, ranks in head_counts(case)),
    "two layouts": lambda case: case.context.layout != case.generation.layout,
    "four bits": lambda case: any(buffer.parts[0].bits == 4 for buffer in case.model.groups[0].buffers),
}


@pytest.mark.parametrize("name", REACHED)
def test_what_fused_pages_are_there_for_is_drawn(name: str) -> None:
    assert sum(map(REACHED[name], drawn("vllm_fused"))) >= 5


def test_small_models_stay_small() -> None:
    cases = drawn("vllm_fused")
    assert median(case.model.layers for case in cases) >= 2
    assert max(map(bytes_by_rank, cases)) < 8_000
