"""NVFP4 K/V: codes of 4 bits and their scales are split alike, by two units of a share in one group."""

from __future__ import annotations

from statistics import median

import pytest

from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from oracle.model.case import Case, Request
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.model.writes import Writes
from strategies.deployments import deployment
from strategies.kinds import nvfp4
from tests.kind_cases import build_samples, bytes_by_rank, drawn, pools_of, roles_of, share_a_pool
from tests.ledger_cases import subjects

ROLES = "key", "value", "key_block_scale", "value_block_scale"


def llama(context: dict[str, object], generation: dict[str, object], prompt: int = 100, layout: str = "HND") -> Case:
    """Llama-3 70B with 4-bit keys and values: 80 layers, 8 heads of 128."""
    declared = nvfp4.declare(80, 8, 128)
    return deployment(declared.model, context, generation, prompt=prompt, native=declared.native, layout=layout)


def table_of(tp: int) -> PageTable:
    return lay_out(llama({"tp": tp}, {}), "context").tables[0]


@pytest.mark.parametrize(("tp", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_scales_have_an_eighth_of_the_bytes_and_a_pool_of_their_own(tp: int, heads: int) -> None:
    table = table_of(tp)
    sizes = {entry.role: entry.nbytes for entry in table.entries}
    data, scales = heads * 32 * 128 // 2, heads * 32 * 128 // 16
    assert sizes == {"key": data, "value": data, "key_block_scale": scales, "value_block_scale": scales}
    assert pools_of(table) == [(160 * data, 160), (160 * scales, 160)]
    assert roles_of(table) == [set(ROLES[:2]), set(ROLES[2:])]


def test_data_and_scales_have_one_block_index_and_two_bases() -> None:
    """Both pools are of one pool group: a slot number means the same block in each."""
    table = table_of(2)
    assert [pool.pool_group for pool in table.pools] == [0, 0]
    case = llama({"tp": 2}, {"tp": 4})
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes) and len(plan.segments) == 2 * 4
    slots: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for part in plan.segments:
        numbers = part.source_bases // table.pools[part.source_pool].slot_stride
        slots.setdefault((part.source_rank, part.destination_rank), set()).add(tuple(numbers.tolist()))
    assert len(slots) == 4 and all(len(found) == 1 for found in slots.values())


def test_two_units_of_a_head_are_cut_in_one_group() -> None:
    case = llama({"tp": 1}, {"tp": 8}, prompt=32)
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    widths = {part.source_pool: set(part.runs[:, 2].tolist()) for part in plan.segments}
    assert widths == {0: {32 * 64}, 1: {32 * 8}}
    token_major = llama({"tp": 1}, {"tp": 8}, prompt=32, layout="NHD")
    plan = Mapping().plan(token_major, gather_facts(token_major))
    assert isinstance(plan, Writes)
    assert {part.source_pool: set(part.runs[:, 2].tolist()) for part in plan.segments} == {0: {64}, 1: {8}}


@pytest.mark.parametrize(("tp", "own_tp"), [(1, 8), (16, 2), (8, 16)])
@pytest.mark.parametrize("layout", ["HND", "NHD"])
def test_the_legacy_sender_cuts_scales_by_their_own_unit(tp: int, own_tp: int, layout: str) -> None:
    checked = check_case(llama({"tp": tp}, {"tp": own_tp}, layout=layout), subjects("native"))
    assert checked.passed and checked.settled[0].identical


@pytest.mark.parametrize("dim", [1, 15])
def test_a_head_of_an_odd_number_of_codes_is_refused(dim: int) -> None:
    with pytest.raises(InvalidCase, match="the innermost stored row must be whole bytes"):
        nvfp4.declare(1, 1, dim)


def test_scales_of_a_value_as_large_as_the_key_stand_beside_it_and_arrive() -> None:
    declared = nvfp4.declare(2, 4, 16, 128)
    sides = (Instance(Topology(tp, (2,)), 2, "HND") for tp in (2, 4))
    case = Case(declared.model, *sides, (Request(0, 3),), native=declared.native)
    assert share_a_pool(lay_out(case, "context").tables[0], "key", "value_block_scale")
    assert check_case(case, subjects("native", "native:suffix")).passed


# ---- what is drawn


def test_every_number_builds_and_cases_stay_small() -> None:
    build_samples("nvfp4", 2_000)
    cases = drawn("nvfp4")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 2_048


def test_drawn_cases_reach_unlike_widths_duplicates_and_both_layouts() -> None:
    cases = drawn("nvfp4")
    dims = [
        {buffer.role: buffer.parts[0].axes[-1].size for group in case.model.groups for buffer in group.buffers}
        for case in cases
    ]
    assert all(sizes[role] == sizes[f"{role}_block_scale"] * 16 for sizes in dims for role in ("key", "value"))
    assert {sizes["key"] for sizes in dims} == {16, 32, 48}
    assert sum(sizes["key"] != sizes["value"] for sizes in dims) >= 10
    assert sum(bool(share_a_pool(lay_out(c, "context").tables[0], "key", "value_block_scale")) for c in cases) >= 1
