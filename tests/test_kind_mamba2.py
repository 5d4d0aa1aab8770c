"""Mamba-2 hybrids: unequal sections, state over the TP×CP grid, layers without any buffer."""

from __future__ import annotations

from statistics import median

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from oracle.model.axes import Split
from oracle.model.case import Case
from oracle.model.sides import lay_out
from oracle.model.writes import Writes
from strategies.deployments import deployment
from strategies.kinds import find_kind
from strategies.kinds.protocol import Surroundings
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of, roles_of
from tests.recurrent_cases import REACHED, buffer_of, cuts_inside_a_group, one_rank, section_bytes, shapes, sizes

H_8B, SUPER = "nemotron-h-8b", "nemotron-3-super-120b"

# ---- at the published sizes (spec: kinds, Mamba-2 and published shapes)


@pytest.mark.parametrize(("model", "recurrent", "attention", "layers"), [(H_8B, 24, 4, 52), (SUPER, 40, 8 + 1, 88 + 2)])
def test_the_layer_map_has_as_many_layers_of_each_kind(model: str, recurrent: int, attention: int, layers: int) -> None:
    case = deployment(model, {}, {}, prompt=1)
    state, kv = case.model.groups
    assert case.model.layers == layers
    assert (len(state.layers), len(kv.layers)) == (recurrent, attention)
    assert not set(state.layers) & set(kv.layers)


def test_attention_stands_where_the_configs_say() -> None:
    assert deployment(H_8B, {}, {}, prompt=1).model.groups[1].layers == (7, 18, 29, 40)
    layers = deployment(SUPER, {}, {}, prompt=1).model.groups[1].layers
    assert layers == (7, 16, 25, 36, 47, 58, 69, 78, 88)


@pytest.mark.parametrize("model", [H_8B, SUPER])
def test_a_layer_keeps_4_mib_of_state_and_61440_bytes_of_convolution(model: str) -> None:
    assert {role: size for role, size in sizes(one_rank(model)).items() if role.endswith("_state")} == {
        "ssm_state": {4 * 2**20},
        "conv_state": {61_440},
    }


def test_state_and_convolution_are_two_pools_of_one_pool_group_and_keys_and_values_of_another() -> None:
    table = one_rank(H_8B)
    assert pools_of(table, 0) == [(24 * 4 * 2**20, 24), (24 * 61_440, 24)]
    assert pools_of(table, 1) == [(8 * 8 * 32 * 128 * 2, 8)]
    assert roles_of(table, 0) == [{"ssm_state"}, {"conv_state"}]
    assert [pool.pool_group for pool in table.pools] == [0, 0, 1]


@pytest.mark.parametrize("tp", [1, 2, 8, 16])
def test_each_section_is_cut_on_its_own_even_inside_a_group(tp: int) -> None:
    case = deployment(H_8B, {"tp": tp}, {}, prompt=1)
    assert section_bytes(case, "conv_state", tp) == tuple(width * 3 * 2 // tp for width in (8_192, 1_024, 1_024))
    assert cuts_inside_a_group(case, "conv_state", "B", 8) is (tp == 16)


def test_two_heads_on_four_ranks_are_duplicated_and_state_is_not() -> None:
    tables = deployed(SUPER, tp=4)
    assert [sizes(table)["key"] for table in tables] == [{32 * 128 * 2}] * 4
    assert [sizes(table)["ssm_state"] for table in tables] == [{2**20}] * 4


def test_the_draft_layers_stand_on_the_last_stage_and_one_of_them_is_attention() -> None:
    first, last = deployed(SUPER, pp=2)
    assert pools_of(first, 0)[0][1] + pools_of(last, 0)[0][1] == 40
    assert 88 not in {entry.layer for entry in first.entries} and 88 in {entry.layer for entry in last.entries}
    assert 89 not in {entry.layer for entry in last.entries}


def test_a_stage_can_be_without_attention_or_without_anything() -> None:
    both, rest, state, nothing = deployed(H_8B, pp=[8, 42, 1, 1])
    assert set(sizes(both)) == set(sizes(rest)) == {"ssm_state", "conv_state", "key", "value"}
    assert set(sizes(state)) == {"ssm_state", "conv_state"}
    assert not nothing.entries and not nothing.pools


def test_a_convolution_between_unequal_grids_takes_a_run_for_each_section() -> None:
    case = deployment(H_8B, {"tp": 2}, {"tp": 4}, prompt=1)
    facts = gather_facts(case)
    plan = Mapping().plan(case, facts)
    assert isinstance(plan, Writes)
    pool = next(entry.pool for entry in facts.context[0].table.entries if entry.role == "conv_state")
    runs = [segment.runs for segment in plan.segments if segment.group == 0 and segment.source_pool == pool]
    assert [len(each) for each in runs] == [3 * 24] * 4
    assert sorted(set(runs[0][:, 2].tolist())) == [1_024 * 6 // 4, 8_192 * 6 // 4]


# ---- what is drawn


def test_every_combination_of_numbers_is_a_model_that_both_sides_can_lay_out() -> None:
    build_samples("mamba2", 3_000)
    for case in drawn("mamba2"):
        assert all(len(lay_out(case, side).tables) for side in ("context", "generation"))


def test_the_simplest_model_is_a_recurrent_layer_and_an_attention_layer() -> None:
    declaration = find_kind("mamba2").decode((0,) * 8, Surroundings(2))
    state, kv = declaration.model.groups
    assert (state.layers, kv.layers) == ((0,), (1,))
    assert [buffer.role for buffer in (*state.buffers, *kv.buffers)] == ["ssm_state", "conv_state", "key", "value"]
    assert [axis.size for axis in state.buffers[0].parts[0].axes] == [1, 2, 1]
    assert [section.size for section in state.buffers[1].parts[0].axes[0].sections] == [2, 1, 1]


def _sections(case: Case) -> list[tuple[int, Split]]:
    return [(section.size, section.split) for section in buffer_of(case, "conv_state").parts[0].axes[0].sections]


SHAPES = REACHED | {
    "layers without buffers": lambda case: (
        case.model.layers > len(case.model.groups[0].layers) + len(case.model.groups[1].layers)
    ),
    "one group that every rank holds whole, between unequal grids": lambda case: (
        [split for _, split in _sections(case)] == [Split.EVEN, Split.ALL, Split.ALL]
        and shapes(case)[0].whole != shapes(case)[1].whole
    ),
    "unequal sections": lambda case: _sections(case)[0][0] != _sections(case)[1][0],
    "shares that end inside a group": lambda case: any(
        cuts_inside_a_group(case, "conv_state", "B", groups)
        for groups in (1, 2, 3, 4)
        if _sections(case)[1][0] == groups * buffer_of(case, "ssm_state").parts[0].axes[2].size
    ),
    "heads on several ranks": lambda case: any(
        buffer_of(case, "key").parts[0].axes[0].size < shape.tensor for shape in shapes(case)
    ),
    "state and convolution of other widths": lambda case: (
        buffer_of(case, "ssm_state").parts[0].bits == buffer_of(case, "conv_state").parts[0].bits
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_is_drawn_several_times_in_300_cases(shape: str) -> None:
    assert sum(map(SHAPES[shape], drawn("mamba2"))) >= 3


def test_drawn_models_are_small_but_not_trivial() -> None:
    cases = drawn("mamba2")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512 and max(map(bytes_by_rank, cases)) < 16_384
