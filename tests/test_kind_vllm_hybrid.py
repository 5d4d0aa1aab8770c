"""vLLM's hybrids: one region of recurrent state a layer, padded until all groups have one page size."""

from __future__ import annotations

from statistics import median

import pytest

from differential.runner import run_case
from differential.subjects.mapping import Mapping
from oracle.model.case import SIDES, Case, Request
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.kinds.vllm_hybrid import Shape, declare, page_bytes, state_bytes
from tests.kind_cases import build_samples, bytes_by_rank, drawn

CONV = ["conv_state_x", "conv_state_b", "conv_state_c"]
NEMOTRON: Shape = ((8192, 1024, 1024), 3, (128, 64, 128))
"""Nemotron-H 8B (spec: kinds, published shapes)."""
QWEN: Shape = ((4096, 2048, 2048), 3, (32, 128, 128))
"""Qwen3-Next 80B, value before query and key."""


def table_of(mask: str, shape: Shape, heads: int, dim: int, tokens_per_block: int, pad: int, tp: int = 1) -> PageTable:
    model = declare(mask, heads, dim, 16, shape, pad).model
    instance = Instance(Topology(tp, (len(mask),)), tokens_per_block, "NHD")
    return lay_out(Case(model, instance, instance, (Request(0, 1),)), "context").tables[0]


def regions(table: PageTable) -> dict[int, set[tuple[int, int]]]:
    """(bytes of a slot, layers in it) of the pools of each group."""
    found: dict[int, set[tuple[int, int]]] = {}
    for pool, what in enumerate(table.pools):
        for group in {entry.group for entry in table.entries if entry.pool == pool}:
            layers = {entry.layer for entry in table.entries if (entry.pool, entry.group) == (pool, group)}
            found.setdefault(group, set()).add((what.slot_bytes, len(layers)))
    return found


def page_sizes(table: PageTable) -> set[int]:
    """Bytes of a page of one layer, over all groups."""
    return {size // layers for pools in regions(table).values() for size, layers in pools}


# ---- at a published size


@pytest.mark.parametrize(("shape", "conv", "ssm"), [(NEMOTRON, 61_440, 4 << 20), (QWEN, 49_152, 2 << 20)])
def test_the_region_of_a_layer_is_its_convolution_and_ssm_state(shape: Shape, conv: int, ssm: int) -> None:
    assert state_bytes(shape) == conv + ssm
    assert state_bytes(shape, 8) == (conv + ssm) // 8


@pytest.mark.parametrize("tp", [1, 8])
def test_a_block_of_attention_is_raised_to_the_state_and_the_state_padded_to_it(tp: int) -> None:
    # 8 heads of 128 in BF16 are 4096 bytes a token: 1039 hold the state exactly, and a block is a multiple of 16.
    page = page_bytes(8, 128, 16, 1040, tp)
    assert page - state_bytes(NEMOTRON, tp) == 4_096 // tp
    assert page_bytes(8, 128, 16, 1039, tp) == state_bytes(NEMOTRON, tp)
    table = table_of("SASA", NEMOTRON, 8, 128, 1040, page, tp)
    assert page_sizes(table) == {page} and page * tp == 4_259_840
    assert len(table.pools) == 1  # as many layers of either group: one pool for both


def test_a_page_holds_the_parts_of_the_convolution_and_then_the_ssm_state() -> None:
    table = table_of("SA", NEMOTRON, 8, 128, 1040, 4_259_840)
    state = [(entry.role, entry.offset, entry.nbytes) for entry in table.entries if entry.group == 1]
    assert state == [
        ("conv_state_x", 0, 49_152),
        ("conv_state_b", 49_152, 6_144),
        ("conv_state_c", 55_296, 6_144),
        ("ssm_state", 61_440, 4 << 20),
    ]
    half = 4_259_840 // 2
    assert [(e.role, e.offset) for e in table.entries if e.group == 0] == [("key", 0), ("value", half)]


# ---- small ones


def test_every_combination_of_numbers_builds() -> None:
    build_samples("vllm_hybrid", 1_500)


def plain(case: Case) -> bool:
    """Packed by the rule of vLLM, with elements and blocks alike on both sides."""
    sides = case.context, case.generation
    return (
        not any(side.packing or side.element_bits for side in sides)
        and len({side.tokens_per_block for side in sides}) == 1
    )


def one_page_size(case: Case, side: str) -> bool:
    tables = [table for table in lay_out(case, side).tables if len({entry.group for entry in table.entries}) == 2]
    return plain(case) and bool(tables) and all(len(page_sizes(table)) == 1 for table in tables)


REACHED = {
    "one page size on a side": lambda case: any(one_page_size(case, side) for side in SIDES),
    "one page size on both sides": lambda case: all(one_page_size(case, side) for side in SIDES),
    "one page size on one side only": lambda case: (
        plain(case) and one_page_size(case, "context") != one_page_size(case, "generation")
    ),
    "state and attention in one pool": lambda case: any(
        len({entry.group for entry in table.entries if entry.pool == pool}) == 2
        for side in SIDES
        for table in lay_out(case, side).tables
        for pool in range(len(table.pools))
    ),
    "padding": lambda case: (
        plain(case)
        and any(
            sum(entry.nbytes for entry in table.entries if entry.group == 1)
            < sum(pool.slot_bytes for pool in {table.pools[e.pool] for e in table.entries if e.group == 1})
            for table in lay_out(case, "context").tables
        )
    ),
    "state cut by ranks": lambda case: case.context.topology.tp != case.generation.topology.tp,
    "uneven heads": lambda case: any(
        buffer.parts[0].axes[0].size % side.topology.tp and not side.topology.attention_dp
        for buffer in case.model.groups[0].buffers
        for side in (case.context, case.generation)
    ),
    "a stage without state": lambda case: any(
        {entry.group for entry in table.entries} == {0} for table in lay_out(case, "context").tables
    ),
}


@pytest.mark.parametrize("name", REACHED)
def test_what_hybrids_are_there_for_is_drawn(name: str) -> None:
    assert sum(map(REACHED[name], drawn("vllm_hybrid"))) >= 5


def test_small_models_stay_small_and_have_no_context_parallelism() -> None:
    cases = drawn("vllm_hybrid")
    assert median(case.model.layers for case in cases) >= 2
    assert max(map(bytes_by_rank, cases)) < 8_000
    assert {side.topology.cp for case in cases for side in (case.context, case.generation)} == {1}


def test_no_byte_of_the_padding_is_written() -> None:
    shape: Shape = ((4, 2, 2), 1, (2, 1, 1))
    model = declare("SA", 2, 2, 16, shape, 64).model
    sides = [Instance(Topology(tp, (2,)), 4, "NHD") for tp in (1, 2)]
    case = Case(model, *sides, (Request(0, 4),))
    verdict = run_case(case, [Mapping()]).verdicts["mapping"]
    assert verdict and verdict.nbytes == state_bytes(shape) + 2 * 2 * 4 * 2 * 2
