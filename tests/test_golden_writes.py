"""Recorded fragments become runs of one region each, without a byte more or less."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from oracle.model.sides import lay_out
from oracle.model.writes import Pair, Refusal
from tests.golden import Scenario, case_of, scenarios, writes_of

RESULTS = [(scenario, result) for scenario in scenarios() for result in scenario["results"]]
PLANNED = [
    pytest.param(scenario, result, id=f"{scenario['id']}-{'-'.join(result['generations'])}")
    for scenario, result in RESULTS
    if result["status"] == "ok"
]


def recorded(identity: str, generation: str) -> tuple[Scenario, Scenario]:
    """The scenario of this id and what this generation of the sender did with it."""
    ((scenario, result),) = [
        (scenario, result)
        for scenario, result in RESULTS
        if scenario["id"] == identity and generation in result["generations"]
    ]
    return scenario, result


@pytest.mark.parametrize(("scenario", "result"), PLANNED)
def test_cutting_recorded_runs_into_regions_changes_no_byte(scenario: Scenario, result: Scenario) -> None:
    case = case_of(scenario)
    writes = writes_of(scenario, result, case)
    assert writes.nbytes == result["bytes"]
    keys = ("src_rank", "dst_rank", "src_pool", "dst_pool", "src_offset", "dst_offset", "nbytes")
    columns = writes.columns()
    moved: Counter[tuple[int, ...]] = Counter()
    for *ranks, source, destination, nbytes in zip(*(columns[key].tolist() for key in keys), strict=True):
        moved.update((*ranks, source + byte, destination + byte) for byte in range(nbytes))
    recorded: Counter[tuple[int, ...]] = Counter()
    for *ranks, source, destination, nbytes in result["fragments"]:
        recorded.update((*ranks, source + byte, destination + byte) for byte in range(nbytes))
    assert moved == recorded


@pytest.mark.parametrize(("scenario", "result"), PLANNED)
def test_each_cut_run_starts_in_one_region_on_both_sides_and_leaves_it_only_with_the_pool(
    scenario: Scenario, result: Scenario
) -> None:
    case = case_of(scenario)
    columns = writes_of(scenario, result, case).columns()
    for side, prefix in (("context", "src"), ("generation", "dst")):
        tables = lay_out(case, side).tables
        ranks, pools, offsets = (columns[f"{prefix}_{name}"] for name in ("rank", "pool", "offset"))
        for rank, pool, offset, nbytes in zip(ranks, pools, offsets, columns["nbytes"], strict=True):
            table = tables[rank]
            stride = table.pools[pool].slot_stride
            inside = [
                start + entry.nbytes
                for entry in table.entries
                if entry.pool == pool
                for start in (np.arange(table.pools[pool].count) * stride + entry.offset).tolist()
                if start <= offset < start + entry.nbytes
            ]
            assert len(inside) == 1
            assert offset + nbytes <= inside[0] or inside[0] == table.pool_extent(pool)


def test_a_recorded_refusal_is_a_plan_that_refuses_the_instances() -> None:
    scenario, result = recorded("g305", "main")
    writes = writes_of(scenario, result, case_of(scenario))
    assert writes.refusals == (Refusal("shard_counts_not_divisible", "recorded"),)
    assert not writes.segments
    assert not writes.pairs


def test_a_rank_that_is_asked_and_does_not_exist_is_a_pair_of_the_receiver_alone() -> None:
    scenario, result = recorded("g301", "main")
    assert writes_of(scenario, result, case_of(scenario)).pairs == (
        Pair(0, 0, 0, "both"),
        Pair(0, 1, 1, "both"),
        Pair(0, 2, 2, "receiver"),
    )


def test_a_receiver_that_is_expected_and_does_not_exist_is_a_pair_of_the_sender_alone() -> None:
    scenario, result = recorded("g000", "main")
    result = result | {"pair_asymmetry": {"receiver_only": [], "sender_only": [[0, 1]]}}
    assert writes_of(scenario, result, case_of(scenario)).pairs == (Pair(0, 0, 0, "both"), Pair(0, 0, 1, "sender"))


def test_the_run_past_the_end_of_a_pool_overshoots_it_by_eight_bytes() -> None:
    scenario, result = recorded("g299", "main")
    case = case_of(scenario)
    columns = writes_of(scenario, result, case).columns()
    table = lay_out(case, "context").tables[1]
    over = columns["src_offset"] + columns["nbytes"] - table.pool_extent(0)
    assert over.max() == 8
    assert (over > 0).sum() == 1
