"""The packing rules lay out every recorded scenario byte for byte as its recording has it."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.model.axes import Split
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from tests.golden import SIDES, Scenario, case_of, scenarios

ALL = scenarios()
IDS = [scenario["id"] for scenario in ALL]
CONTRADICTS_ITSELF = {("g307", "gen")}
"""Declares elements of one byte and records regions of two-byte ones: 2 heads x 4 tokens x 4 dims are 32 B, not 64."""


def described(table: PageTable, names: list[str]) -> dict[str, list[tuple[int, ...]]]:
    """A page table in the terms of the recording: one row a pool, one row an entry."""
    group_of = {entry.pool: entry.group for entry in table.entries}
    return {
        "pools": [
            (number, group_of[number], pool.slot_bytes, pool.slot_stride, pool.count, table.pool_extent(number))
            for number, pool in enumerate(table.pools)
        ],
        "entries": sorted(
            (entry.pool, entry.group, entry.layer, names.index(entry.role), entry.offset, entry.nbytes)
            for entry in table.entries
        ),
    }


def recorded(layout: Scenario) -> dict[str, list[tuple[int, ...]]]:
    return {
        "pools": [tuple(row) for row in layout["pools"]],
        "entries": sorted(tuple(row) for row in layout["entries"]),
    }


@pytest.mark.parametrize("scenario", ALL, ids=IDS)
def test_page_tables_are_the_recorded_layouts(scenario: Scenario) -> None:
    case = case_of(scenario)
    for side, name in SIDES.items():
        tables = lay_out(case, name).tables
        assert len(tables) == len(scenario["ranks"][side])
        if (scenario["id"], side) in CONTRADICTS_ITSELF:
            continue
        for rank, stage, *_ in scenario["ranks"][side]:
            expected = recorded(scenario["layouts"][side][str(stage)])
            assert described(tables[rank], scenario["model"]["buffers"]) == expected, (name, rank)


def test_the_layout_recorded_for_narrower_elements_is_that_of_the_wider_ones() -> None:
    (scenario,) = [scenario for scenario in ALL if scenario["id"] == "g307"]
    assert scenario["gen"]["elem_bytes"] == 1
    assert recorded(scenario["layouts"]["gen"]["0"]) == recorded(scenario["layouts"]["ctx"]["0"])
    assert [entry[-1] for entry in recorded(scenario["layouts"]["gen"]["0"])["entries"]] == [64] * 4
    (table,) = lay_out(case_of(scenario), "generation").tables
    assert [(entry.offset, entry.nbytes) for entry in table.entries] == [(0, 32), (32, 32), (64, 32), (96, 32)]


@pytest.mark.parametrize("scenario", ALL, ids=IDS)
def test_ranks_have_the_recorded_coordinates(scenario: Scenario) -> None:
    case = case_of(scenario)
    for side, name in SIDES.items():
        topology = case.side(name).topology
        coordinates = [(rank.number, rank.pp, rank.tp, rank.cp) for rank in topology.ranks()]
        assert coordinates == [tuple(row[:4]) for row in scenario["ranks"][side]]
        data_parallel = [rank.tp if topology.attention_dp else 0 for rank in topology.ranks()]
        assert data_parallel == [row[4] for row in scenario["ranks"][side]]


@pytest.mark.parametrize("scenario", ALL, ids=IDS)
def test_slots_are_the_recorded_lists_and_no_others(scenario: Scenario) -> None:
    case = case_of(scenario)
    for side, name in SIDES.items():
        for rank, groups in enumerate(lay_out(case, name).slots):
            listed = scenario["blocks"][side].get(str(rank), {})
            assert set(map(int, listed)) <= set(groups)
            for group, (slots,) in groups.items():
                ordinals, expected = listed.get(str(group), ([], []))
                held = np.flatnonzero(slots >= 0)
                assert held.tolist() == ordinals, (name, rank, group)
                assert slots[held].tolist() == expected, (name, rank, group)


@pytest.mark.parametrize("scenario", ALL, ids=IDS)
def test_heads_and_tensor_ranks_divide_so_that_every_head_split_gives_the_recorded_shares(scenario: Scenario) -> None:
    case = case_of(scenario)
    for group in case.model.groups:
        for buffer in group.buffers:
            for axis in buffer.parts[0].axes:
                for name in SIDES.values() if axis.split is Split.HEADS else ():
                    topology = case.side(name).topology
                    ranks = 1 if topology.attention_dp else topology.tp
                    assert axis.size % ranks == 0 or ranks % axis.size == 0
