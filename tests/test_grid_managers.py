"""Each manager of the grid is what its name says, on every split that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from differential.grid import FURTHER, UPSTREAM, grid_cells, managers_of, prompts_of
from oracle.model.buffers import Buffer, LayerGroup, Model, MoveState
from oracle.model.case import SIDES, Case
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from strategies.topologies import Shape
from tests.kind_cases import pools_of, share_a_pool


@cache
def cases_of(manager: str) -> tuple[Case, ...]:
    (own,) = [each for each in managers_of("all") if each.name == manager]
    found = tuple(cell.case for cell in grid_cells("all", [own.kind]) if cell.manager == manager and cell.case)
    assert len(found) in (25, 49, 63)
    return found


def model_of(manager: str) -> Model:
    (model,) = {case.model for case in cases_of(manager)}
    return model


def sides_of(manager: str) -> Iterator[tuple[Case, str]]:
    """Each different side of the manager's cells once."""
    seen: set[object] = set()
    for case in cases_of(manager):
        for side in SIDES:
            instance = case.side(side)
            if instance not in seen:
                seen.add(instance)
                yield case, side


def tables_of(manager: str) -> Iterator[tuple[Shape, int, PageTable]]:
    """(split, stage, page table) of each rank of each different side."""
    for case, side in sides_of(manager):
        topology = case.side(side).topology
        for rank in topology.ranks():
            yield Shape.of(topology), rank.pp, lay_out(case, side).tables[rank.number]


def buffers_of(manager: str) -> dict[str, Buffer]:
    """The buffers by role; of several of one role the first."""
    found: dict[str, Buffer] = {}
    for group in model_of(manager).groups:
        for buffer in group.buffers:
            found.setdefault(buffer.role, buffer)
    return found


def heads_of(manager: str) -> int:
    return next(axis.size for axis in buffers_of(manager)["key"].parts[0].axes if axis.name == "H")


def pool_groups(table: PageTable) -> dict[int, set[int]]:
    """The pool groups of each layer group that the rank holds."""
    return {
        group: {table.pools[entry.pool].pool_group for entry in table.entries if entry.group == group}
        for group in table.groups()
    }


def windowed(model: Model) -> LayerGroup:
    return next(group for group in model.groups if group.window is not None)


def test_mha_has_heads_of_its_own_on_every_rank_and_gqa_has_them_twice() -> None:
    widest = max(shape.tp for shape, _, _ in tables_of("MHA"))
    assert widest == 4
    assert heads_of("MHA") % widest == 0 and heads_of("MHA") > widest
    assert heads_of("GQA, also with duplicated heads") == widest // 2
    assert heads_of("uneven PP") == widest


def test_mla_keeps_one_latent_a_token_on_every_rank_alike() -> None:
    assert list(buffers_of("MLA")) == ["key"]
    assert not any(axis.is_split for axis in buffers_of("MLA")["key"].parts[0].axes)
    assert len({pools_of(table)[0][0] for shape, _, table in tables_of("MLA") if shape.pp == 1}) == 1


@pytest.mark.parametrize(("manager", "count"), [("VSWA, separate groups", 2), ("VSWA, shared pool group", 1)])
def test_vswa_has_two_groups_on_every_rank_in_one_pool_group_or_in_two(manager: str, count: int) -> None:
    for _, _, table in tables_of(manager):
        groups = pool_groups(table)
        assert len(groups) == 2 and len(set.union(*groups.values())) == count


def test_gemma_4_has_unlike_heads_in_two_groups_that_one_split_makes_equally_wide() -> None:
    sizes = [group.buffers[0].parts[0].axes[0].size for group in model_of("Gemma-4").groups]
    assert sizes == [4, 1]
    shared = {(shape.tensor, len(set.union(*pool_groups(table).values()))) for shape, _, table in tables_of("Gemma-4")}
    assert shared == {(1, 2), (2, 2), (4, 1)}


@pytest.mark.parametrize(
    "manager", [each.name for each in UPSTREAM if each.kind in ("vswa", "fp4_mla", "csa2", "deepseek_v4")]
)
def test_windows_have_left_a_block_and_kept_one_of_every_prompt(manager: str) -> None:
    (own,) = [each for each in UPSTREAM if each.name == manager]
    for prompt in prompts_of(own.tokens_per_block):
        gone = (prompt + 1 - windowed(model_of(manager)).window) // own.tokens_per_block
        assert 0 < gone < -(-prompt // own.tokens_per_block)


def test_uneven_stages_are_uneven_in_two_ways() -> None:
    stages = {case.side(side).topology.stages for case, side in sides_of("uneven PP")}
    assert stages == {(3,), (2, 1), (1, 2)}
    assert all(
        case.context.topology.stages != case.generation.topology.stages
        for case in cases_of("uneven PP")
        if len(case.context.topology.stages) == len(case.generation.topology.stages) == 2
    )


@pytest.mark.parametrize("layout", ["HND", "NHD"])
def test_the_index_key_of_m3_shares_a_pool_by_its_size_alone(layout: str) -> None:
    separate, coalesced = (f"MiniMax M3, index key {how}, {layout}" for how in ("separate", "coalesced"))
    assert {share_a_pool(table, "key", "index_key") for _, _, table in tables_of(separate)} == {False}
    met = {(shape.tensor, share_a_pool(table, "key", "index_key")) for shape, _, table in tables_of(coalesced)}
    assert met == {(1, False), (2, True), (4, True)}
    for case, side in (*sides_of(separate), *sides_of(coalesced)):
        assert case.side(side).layout == layout and not case.side(side).packing


def test_the_layers_of_m3_are_uneven_where_the_index_key_is_coalesced() -> None:
    index = buffers_of("MiniMax M3, index key coalesced, HND")["index_key"]
    assert index.layers.ids == (1, 2, 3)
    for shape, _, table in tables_of("MiniMax M3, index key coalesced, HND"):
        if shape == Shape(2):
            assert [(entry.layer, entry.role) for entry in sorted(table.entries, key=lambda each: each.offset)][:5] == [
                (0, "key"),
                (0, "value"),
                (1, "key"),
                (1, "value"),
                (1, "index_key"),
            ]


def held(manager: str) -> dict[tuple[int, int], set[str]]:
    """The names of the groups on each (number of stages, stage)."""
    model = model_of(manager)
    return {
        (shape.pp, stage): {model.groups[group].name for group in table.groups()}
        for shape, stage, table in tables_of(manager)
    }


def test_mamba_has_state_and_attention_on_every_stage_or_no_attention_on_the_first() -> None:
    both = {"state", "kv"}
    assert held("Mamba V2") == {(1, 0): both, (2, 0): both, (2, 1): both}
    assert held("Mamba V2, no attention on a stage") == {(1, 0): both, (2, 0): {"state"}, (2, 1): both}


def test_the_state_of_mamba_is_in_sections_that_each_rank_of_the_grid_has_a_share_of() -> None:
    conv = buffers_of("Mamba V2")["conv_state"].parts[0].axes[0]
    assert [section.name for section in conv.sections] == ["x", "B", "C"]
    assert len({section.size for section in conv.sections}) == 2
    whole = next(table for shape, _, table in tables_of("Mamba V2") if shape == Shape())
    for shape, _, table in tables_of("Mamba V2"):
        if shape.pp == 1:
            state = [pool // shape.whole for pool, _ in pools_of(whole)]
            assert [pool for pool, _ in pools_of(table)] == state


def test_qwen4_exp_has_an_embedding_on_one_layer_and_positions_on_the_first_attention_layer_of_a_stage() -> None:
    first: dict[tuple[int, int], tuple[set[int], set[int]]] = {}
    for shape, stage, table in tables_of("Qwen4Exp with PLE"):
        roles = [
            {entry.layer for entry in table.entries if entry.role == role}
            for role in ("qsa_index_position", "ple_conv_state")
        ]
        first[shape.pp, stage] = roles[0], roles[1]
    assert first == {(1, 0): ({3}, {1}), (2, 0): ({3}, {1}), (2, 1): ({7}, set())}
    assert buffers_of("Qwen4Exp with PLE")["ple_ngram_context"].layers.ids == (1,)


def moves(manager: str, state: MoveState) -> set[str]:
    return {
        buffer.role
        for group in model_of(manager).groups
        for buffer in group.buffers
        if any(buffer.move_on(layer).state is state for layer in buffer.layers)
    }


def test_fp4_latents_have_a_ring_and_a_fallback_and_what_is_derived() -> None:
    model = model_of("FP4 MLA")
    assert [group.name for group in model.groups] == ["kv", "tail", "fallback"]
    assert moves("FP4 MLA", MoveState.DERIVED) == {"mla_v_scale", "mla_v_packed"}
    ring = buffers_of("FP4 MLA")["mla_hp_tail"]
    assert [axis.name for axis in ring.parts[0].axes] == ["R", "D"] and ring.ids == (2, 1)
    assert buffers_of("FP4 MLA")["key"].parts[0].bits == 4 and buffers_of("FP4 MLA")["key"].ids == (2, 0)


def test_csa2_takes_no_stages_and_no_context_parallelism_and_replays_its_decoder_or_not() -> None:
    assert {(shape.pp, shape.cp) for shape, _, _ in tables_of("CSA2")} == {(1, 1)}
    cache = buffers_of("CSA2")["csa2_global"]
    assert cache.alias is not None and len(buffers_of("CSA2")["csa2_index"].parts) == 2
    assert len(cases_of("CSA2")) == len(cases_of("CSA2 with replay")) == 25
    assert not moves("CSA2", MoveState.REBUILT) and moves("CSA2 with replay", MoveState.REBUILT) == {"csa2_swa"}
    assert all(case.context.without and not case.generation.without for case in cases_of("CSA2 with replay"))


def test_deepseek_v4_keeps_its_layers_in_three_retentions_and_a_coarse_row_a_block() -> None:
    model = model_of("DeepSeek-V4")
    assert [group.window for group in model.groups] == [8, None, 4]
    roles = [{buffer.role for buffer in group.buffers} for group in model.groups]
    assert "swa" in roles[0] and "compressor_kv" in roles[0] & roles[2]
    assert "indexer_compress" in roles[1] and "indexer_compressor_kv" in roles[2]
    (own,) = [each for each in UPSTREAM if each.name == "DeepSeek-V4"]
    assert max(buffer.tokens_per_row for buffer in model.groups[1].buffers) == own.tokens_per_block
    assert {shape.pp for shape, _, _ in tables_of("DeepSeek-V4")} == {1, 2}


OF_THE_REST: dict[str, Callable[[str], bool]] = {
    "FP8 keys and values": lambda name: {buffer.parts[0].bits for buffer in buffers_of(name).values()} == {8},
    "NVFP4 with block scales": lambda name: (
        buffers_of(name)["key"].parts[0].bits == 4 and "key_block_scale" in buffers_of(name)
    ),
    "cross attention": lambda name: {group.length for group in model_of(name).groups} == {"prompt", "encoder"},
    "MTP layer in the target's manager": lambda name: len(model_of(name).groups) == 1 and last_stages(name) == {5, 3},
    "EAGLE-3 layer of other heads": lambda name: (
        len({axis.size for each in model_of(name).groups[0].buffers for axis in each.parts[0].axes if axis.is_split})
        == 2
    ),
    "draft model apart": lambda name: {group.domain for group in model_of(name).groups} == {"", "draft"},
    "draft model on the receiver alone": lambda name: all(
        sum(case.context.topology.stages) + 2 == sum(case.generation.topology.stages) for case in cases_of(name)
    ),
    "DSA": lambda name: (
        len(buffers_of(name)["index_key"].parts) == 2 and len(buffers_of(name)["index_key"].layers) == 3
    ),
    "gated delta net": lambda name: sections_of(name)[0] == sections_of(name)[1] != sections_of(name)[2],
    "KDA": lambda name: len(set(sections_of(name))) == 1 and heads_are_split(name),
    "KDA, replicated": lambda name: len(set(sections_of(name))) == 1 and not heads_are_split(name),
    "vLLM, keys and values in one region": lambda name: fused(name) == {"page"},
    "vLLM, state padded to the page": lambda name: (
        fused(name) == {"page"}
        and all(buffer.placement.pad for buffer in model_of(name).groups[1].buffers)
        and not model_of(name).groups[1].is_paged
    ),
    "vLLM, DeepSeek-V4 with aligned pages": lambda name: all(
        buffer.placement.align for group in model_of(name).groups for buffer in group.buffers
    ),
}


def fused(manager: str) -> set[str]:
    return {buffer.placement.fused for group in model_of(manager).groups for buffer in group.buffers}


def last_stages(manager: str) -> set[int]:
    return {case.side(side).topology.stages[-1] for case, side in sides_of(manager)}


def sections_of(manager: str) -> list[int]:
    return [section.size for section in buffers_of(manager)["conv_state"].parts[0].axes[0].sections]


def heads_are_split(manager: str) -> bool:
    return buffers_of(manager)["ssm_state"].parts[0].axes[0].is_split


@pytest.mark.parametrize("manager", OF_THE_REST)
def test_managers_beyond_are_what_they_say(manager: str) -> None:
    assert OF_THE_REST[manager](manager)


def test_every_named_manager_is_held_to_its_name() -> None:
    held_here = {*OF_THE_REST, "Gemma-4", "CSA2 with replay"}
    assert {each.name for each in FURTHER} == held_here
