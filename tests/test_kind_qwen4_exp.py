"""Qwen4Exp: one layer of the state group has two more buffers, and one buffer of attention is the request's."""

from __future__ import annotations

from statistics import median

import pytest

from differential.ledger import check_case
from differential.subjects.registry import find_subject
from oracle.model.buffers import Move
from oracle.model.case import SIDES, Case
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import find_kind
from strategies.kinds.protocol import Surroundings
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, is_coalesced, pools_of, roles_of
from tests.kind_cases import share_a_pool as share
from tests.recurrent_cases import REACHED, STATE, buffer_of, group_of, one_rank, section_bytes, shapes, sizes

FLASH = "qwen3.8-flash-next"
POSITION, EMBEDDING = "qsa_index_position", ("ple_conv_state", "ple_ngram_context")

# ---- at the published size (spec: kinds, Qwen4Exp)


def test_every_buffer_has_its_published_bytes() -> None:
    assert sizes(one_rank(FLASH)) == {
        "ssm_state": {3_145_728},
        "conv_state": {61_440},
        "ple_conv_state": {184_320},
        "ple_ngram_context": {16},
        "key": {2 * 32 * 512},
        "value": {2 * 32 * 512},
        "index_key": {32 * 256},
        POSITION: {32 * 12},
    }


def test_36_layers_are_recurrent_12_attention_and_the_embedding_is_on_layer_1() -> None:
    table = one_rank(FLASH)
    layers = {role: [entry.layer for entry in table.entries if entry.role == role] for role in sizes(table)}
    assert sorted(set(layers["key"])) == list(range(3, 48, 4)) == layers["index_key"]
    assert len(layers["ssm_state"]) == len(layers["conv_state"]) == 36
    assert [layers[role] for role in EMBEDDING] == [[1], [1]]
    assert layers[POSITION] == [3]


def test_one_layer_of_the_state_group_has_two_more_buffers_in_pools_of_their_own() -> None:
    table = one_rank(FLASH)
    assert pools_of(table, 0) == [(36 * 3_145_728, 36), (36 * 61_440, 36), (184_320, 1), (16, 1)]
    assert roles_of(table, 0) == [{"ssm_state"}, {"conv_state"}, {"ple_conv_state"}, {"ple_ngram_context"}]


def test_the_positions_lie_on_the_first_attention_layer_of_each_stage() -> None:
    tables = deployed(FLASH, pp=[3, 8, 37])
    held = [[entry.layer for entry in table.entries if entry.role == POSITION] for table in tables]
    assert held == [[], [3], [11]]


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_state_is_shared_out_and_embedding_index_and_positions_are_whole_on_every_rank(tp: int) -> None:
    for table in deployed(FLASH, tp=tp):
        found = sizes(table)
        assert found["ssm_state"] == {3_145_728 // tp}
        assert found["conv_state"] == {61_440 // tp}
        assert (found["ple_conv_state"], found["ple_ngram_context"]) == ({184_320}, {16})
        assert (found["index_key"], found[POSITION]) == ({8_192}, {384})
        assert found["key"] == {32 * 512 * max(1, 2 // tp)}


def test_sections_are_2048_2048_and_6144_channels() -> None:
    case = deployment(FLASH, {}, {}, prompt=1)
    assert section_bytes(case, "conv_state", 1) == (2_048 * 6, 2_048 * 6, 6_144 * 6)


@pytest.mark.parametrize(
    ("bits", "tp", "together"), [(16, 1, False), (16, 2, False), (8, 1, False), (8, 2, True), (8, 4, True)]
)
def test_eight_bit_keys_of_one_head_share_the_pool_of_the_index_key(bits: int, tp: int, together: bool) -> None:
    for table in deployed(FLASH, element_bits=bits, tp=tp):
        assert share(table, "key", "index_key") is together


def test_the_receiver_whose_stage_begins_at_another_attention_layer_gets_its_positions_from_the_mapping_alone() -> None:
    case = deployment(FLASH, {}, {"pp": 2}, prompt=40)
    checked = check_case(case, [find_subject(name) for name in ("mapping", "native")])
    assert checked.result.verdicts["mapping"] and checked.passed
    assert list(checked.settled[0].accepted) == ["request-wide-buffer-by-layer"]
    found = checked.settled[0].accepted["request-wide-buffer-by-layer"]
    assert {(each.destination, each.role) for each in found} == {(1, POSITION)}


def test_a_helix_rank_whose_partner_is_not_elected_gets_the_embedding_from_the_mapping_alone() -> None:
    case = deployment(FLASH, {"tp": 2}, {"cp": 2}, prompt=40)
    checked = check_case(case, [find_subject(name) for name in ("mapping", "native")])
    assert checked.result.verdicts["mapping"] and checked.passed
    assert list(checked.settled[0].accepted) == ["replicated-state-under-helix"]
    found = checked.settled[0].accepted["replicated-state-under-helix"]
    assert {(each.destination, each.role) for each in found} == {(1, role) for role in EMBEDDING}


# ---- what is drawn


def test_every_combination_of_numbers_is_a_model() -> None:
    build_samples("qwen4_exp", 3_000)


def test_the_simplest_model_has_every_buffer_and_all_of_them_move() -> None:
    state, kv = find_kind("qwen4_exp").decode((0,) * 8, Surroundings(2)).model.groups
    assert [buffer.role for buffer in state.buffers] == ["ssm_state", "conv_state", *EMBEDDING]
    assert [buffer.role for buffer in kv.buffers] == ["key", "value", "index_key", POSITION]
    assert all(buffer.moves == (Move(),) for buffer in (*state.buffers, *kv.buffers))
    assert kv.buffers[-1].request_scope and kv.buffers[-1].first_local


def _stage_roles(case: Case) -> list[set[str]]:
    return [{entry.role for entry in table.entries} for side in SIDES for table in lay_out(case, side).tables]


def _first_attention(case: Case, side: str) -> set[int]:
    return {e.layer for table in lay_out(case, side).tables for e in table.entries if e.role == POSITION}


SHAPES = REACHED | {
    "embedding on a stage without attention": lambda case: any(
        EMBEDDING[0] in roles and "key" not in roles for roles in _stage_roles(case)
    ),
    "state without embedding": lambda case: any(
        "ssm_state" in roles and EMBEDDING[0] not in roles for roles in _stage_roles(case)
    ),
    "embedding not on the first recurrent layer": lambda case: (
        buffer_of(case, EMBEDDING[0]).layers.ids[0] != case.model.groups[group_of(case, STATE)].layers[0]
    ),
    "context before the convolution": lambda case: case.model.groups[0].buffers[2].role == EMBEDDING[1],
    "both buffers of the embedding in one pool": lambda case: is_coalesced(case, "context", *EMBEDDING) is True,
    "positions on several layers of one side": lambda case: len(_first_attention(case, "generation")) > 1,
    "positions under other layers on the two sides": lambda case: bool(
        _first_attention(case, "generation") - _first_attention(case, "context")
    ),
    "index key in the pool of the keys on one side": lambda case: (
        {is_coalesced(case, side, "key", "index_key") for side in SIDES} == {True, False}
    ),
    "replicated state under Helix": lambda case: (
        case.generation.topology.cp > 1 and shapes(case)[0].tensor > shapes(case)[1].tensor
    ),
    "positions in the pool of the index key": lambda case: is_coalesced(case, "context", "index_key", POSITION) is True,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_is_drawn_several_times_in_300_cases(shape: str) -> None:
    assert sum(map(SHAPES[shape], drawn("qwen4_exp"))) >= 3


def test_drawn_models_are_small_but_not_trivial() -> None:
    cases = drawn("qwen4_exp")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 768 and max(map(bytes_by_rank, cases)) < 16_384
