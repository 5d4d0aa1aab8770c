"""Sparse latent attention: an index key as a page footer, whole on every rank, on the layers that own an indexer."""

from __future__ import annotations

from functools import cache
from itertools import product
from statistics import median

import numpy as np
import pytest

from differential.runner import run_case
from differential.subjects.mapping import Mapping
from oracle.model.buffers import Model
from oracle.model.case import Case
from oracle.model.counts import buffer_bytes
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import dsa, find_kind, find_model
from strategies.kinds.protocol import Surroundings
from strategies.topologies import Shape
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, is_coalesced, pools_of, roles_of

V32, FP4_INDEX, RECORDS = "deepseek-v3.2", "deepseek-v3.2-fp4-index", "deepseek-v3.2-records"

# ---- at the published size (spec: kinds, index key of DSA; opaque token records)


@pytest.mark.parametrize(
    ("model", "bits", "tokens", "key", "index"),
    [
        (V32, 16, 32, 1152, 132),
        (V32, 8, 32, 576, 132),
        (FP4_INDEX, 16, 32, 1152, 68),
        (FP4_INDEX, 8, 32, 576, 68),
        (RECORDS, 8, 64, 656, 132),
    ],
)
@pytest.mark.parametrize("tp", [1, 4])
def test_a_token_takes_its_latent_and_its_index_row_on_every_tensor_rank(
    model: str, bits: int, tokens: int, key: int, index: int, tp: int
) -> None:
    tables = deployed(model, element_bits=bits, tp=tp)
    assert len(tables) == tp
    for table in tables:
        assert pools_of(table) == [(62 * tokens * key, 62), (62 * tokens * index, 62)]
        assert roles_of(table) == [{"key"}, {"index_key"}]
        assert len({pool.pool_group for pool in table.pools}) == 1


def test_two_stages_hold_31_and_30_layers_and_the_second_an_mtp_layer() -> None:
    tables = deployed(V32, pp=2)
    layers = [sorted({entry.layer for entry in table.entries}) for table in tables]
    assert [(held[0], held[-1], len(held)) for held in layers] == [(0, 30, 31), (31, 61, 31)]
    assert find_model(V32)[1].declare().extra == 1


def test_the_index_width_does_not_follow_the_width_of_the_latent() -> None:
    sizes = [
        {entry.nbytes for entry in deployed(V32, element_bits=bits)[0].entries if entry.role == "index_key"}
        for bits in (16, 8)
    ]
    assert sizes[0] == sizes[1] == {32 * 132}


def test_scales_stand_after_all_data_rows_of_the_block() -> None:
    case = deployment(V32, {}, {}, prompt=1)
    buffer = next(each for each in case.model.groups[0].buffers if each.role == "index_key")
    data, scales = buffer.parts
    assert [part.axes[-1].size for part in (data, scales)] == [128, 4] and not buffer.sub_rows
    assert buffer_bytes(buffer, case.context, case.context.topology.rank(0)) == 32 * 128 + 32 * 4


def test_records_have_blocks_of_64_tokens_alone() -> None:
    assert find_model(RECORDS)[1].tokens_per_block == (64,)


@pytest.mark.parametrize("model", [V32, FP4_INDEX, RECORDS])
def test_each_rank_receives_the_whole_page_once_from_the_elected_rank(model: str) -> None:
    case = deployment(model, {"tp": 4}, {"tp": 2, "dp": True}, prompt=[100, 130])
    result = run_case(case, [Mapping()])
    assert result.verdicts["mapping"] and not result.verdicts["mapping"].refusals
    segments = result.plans["mapping"].segments
    # The second request is on the second attention-DP rank of the receiver, so the second replica sends it.
    assert {(each.request, each.source_rank, each.destination_rank) for each in segments} == {(0, 0, 0), (1, 1, 1)}


# ---- what is drawn


def test_every_combination_of_numbers_is_a_model() -> None:
    build_samples("dsa", 3_000)


def test_the_simplest_model_has_a_latent_of_one_element_and_an_index_key_on_each_layer() -> None:
    (group,) = find_kind("dsa").decode((0,) * 4, Surroundings()).model.groups
    assert [(buffer.role, str(buffer.layers)) for buffer in group.buffers] == [("key", "0"), ("index_key", "0")]
    assert group.buffers[0].parts[0].axes[-1].size == 1


def test_an_mtp_layer_has_an_indexer_where_the_layer_before_it_has_one() -> None:
    owners = []
    for number in range(dsa.OWNERS):
        model = find_kind("dsa").decode((0, 0, number, 5), Surroundings(3)).model
        owners.append(tuple(model.groups[0].buffers[1].layers))
    assert owners == [(0, 1, 2, 3), (0,), (0, 2, 3), (0,), (1, 2, 3), (0, 1), (2, 3)]


def _owners(case: Case) -> tuple[int, ...]:
    return tuple(case.model.groups[0].buffers[1].layers)


def _shapes(case: Case) -> tuple[Shape, Shape]:
    return Shape.of(case.context.topology), Shape.of(case.generation.topology)


def _is_record(case: Case) -> bool:
    return case.model.groups[0].buffers[0].parts[0].axes[-1].name == "B"


SHAPES = {
    "some layers share an indexer": lambda case: len(_owners(case)) < case.model.layers,
    "owners with a gap": lambda case: np.ptp(_owners(case)) >= len(_owners(case)),
    "opaque records": _is_record,
    "records across attention DP": lambda case: _is_record(case) and case.generation.topology.attention_dp,
    "latents of 8 bits": lambda case: not _is_record(case) and case.model.groups[0].buffers[0].parts[0].bits == 8,
    "index key coalesced with the latent": lambda case: is_coalesced(case, "context", "key", "index_key") is True,
    "MTP layer": lambda case: case.model in _with_mtp(),
    "a stage without index key": lambda case: any(
        table.entries and all(entry.role != "index_key" for entry in table.entries)
        for side in ("context", "generation")
        for table in lay_out(case, side).tables
    ),
    "the owner's place in the pool differs by side": lambda case: (
        case.context.topology.stages != case.generation.topology.stages and len(_owners(case)) < case.model.layers
    ),
    "election among replicas": lambda case: _shapes(case)[0].tensor > _shapes(case)[1].tensor,
    "Helix": lambda case: case.generation.topology.cp > 1,
    "uneven stages": lambda case: len(set(case.generation.topology.stages)) > 1,
    "partial last block": lambda case: any(request.prompt % case.context.tokens_per_block for request in case.requests),
}


@cache
def _with_mtp() -> frozenset[Model]:
    kind = find_kind("dsa")
    fewest, most = kind.layers
    return frozenset(
        kind.decode((*numbers, 5), Surroundings(layers)).model
        for layers in range(fewest, most + 1)
        for numbers in product(*map(range, kind.bounds[:3]))
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_is_drawn_several_times_in_300_cases(shape: str) -> None:
    assert sum(map(SHAPES[shape], drawn("dsa"))) >= 3


def test_drawn_models_are_small_but_not_trivial() -> None:
    cases = drawn("dsa")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 256 and max(map(bytes_by_rank, cases)) < 2_048
