"""The grid that upstream names: every cell is there, and what differs on it is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from differential.faults import find_fault
from differential.grid import MANAGERS, GridCell, GridRow, run_grid, upstream_grid
from differential.ledger import check_case, settle
from differential.runner import Outcome
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.buffers import MoveState
from oracle.model.case import Case
from oracle.model.topology import Topology
from strategies.kinds import find_kind
from strategies.topologies import NAMED_GRIDS, Shape
from tests.ledger_cases import among_paired_ranks, compared, receivers, roles, state_case, subjects

HERE = ["MHA", "GQA, also with duplicated heads", "MLA", "uneven PP"]
GAP = "replicated-state-under-helix"


def test_the_grid_has_16_managers_with_7_context_and_9_generation_topologies() -> None:
    cells = list(upstream_grid())
    managers = Counter(cell.manager for cell in cells)
    assert len(managers) == 16 and set(managers.values()) == {63}
    assert len({(cell.manager, cell.context) for cell in cells}) == 112
    assert len({cell.generation for cell in cells}) == 9
    assert len(set(map(str, cells))) == len(cells) == 1008


def test_managers_that_are_not_there_yet_are_named_with_the_reason() -> None:
    missing = Counter(cell.not_run for cell in upstream_grid() if cell.case is None)
    declared = {manager.kind for manager in MANAGERS if manager.name in HERE}
    assert declared == {"gqa", "mla"}
    assert missing["kind csa2 is not declared yet"] == missing["kind deepseek_v4 is not declared yet"] == 63
    assert missing["kind minimax_m3 is not declared yet"] == 4 * 63
    assert not any("gqa" in why or "mla is" in why.replace("fp4_mla", "") for why in missing)


def test_kinds_that_were_not_asked_for_do_not_run() -> None:
    cells = list(upstream_grid(["mla"]))
    assert {cell.manager for cell in cells if cell.case is not None} == {"MLA"}
    assert {cell.not_run for cell in cells if cell.manager == "MHA"} == {"kind gqa was not asked for"}


def test_cells_are_split_as_their_shapes_say_and_each_rank_that_may_hold_a_request_can() -> None:
    for cell in upstream_grid():
        if cell.case is None:
            continue
        assert Shape.of(cell.case.context.topology) == cell.context
        assert Shape.of(cell.case.generation.topology) == cell.generation
        last = cell.case.generation.topology.data_parallel - 1
        assert {request.generation_dp for request in cell.case.requests} == {0, last}


def test_the_named_cells_show_duplicated_heads_and_uneven_stages() -> None:
    by_name = {(cell.manager, cell.context, cell.generation): cell.case for cell in upstream_grid() if cell.case}
    gqa = by_name["GQA, also with duplicated heads", Shape(4), Shape(1)]
    assert gqa.model.groups[0].buffers[0].parts[0].axes[0].size < gqa.context.topology.tp
    uneven = by_name["uneven PP", Shape(pp=2), Shape(pp=2)]
    assert uneven.context.topology.stages != uneven.generation.topology.stages
    assert all(len(set(side.topology.stages)) == 2 for side in (uneven.context, uneven.generation))


@pytest.mark.parametrize("variant", ["native", "native:suffix"])
def test_mapping_and_native_differ_on_the_grid_in_known_ways_only(variant: str) -> None:
    report = run_grid(subjects(variant))
    assert report.passed and not report.failures, report.lines()
    ran = {row.manager: row for row in report.rows if not row.not_run}
    assert set(HERE) <= set(ran)
    for row in ran.values():
        (counts,) = row.compared.values()
        assert counts.total() == 63 and not counts["different"]
        assert all(row.served[name] + row.refused.get(name, Counter()).total() == 63 for name in ("mapping", variant))


def test_served_refused_and_not_run_are_counted_apart_with_their_reasons() -> None:
    report = run_grid(subjects("native:suffix,no-helix"), kinds=["mla"])
    lines = report.lines()
    assert "CSA2: 63 cells not run (kind csa2 is not declared yet)" in lines
    assert "MHA: 63 cells not run (kind gqa was not asked for)" in lines
    assert "  mapping: 63 served, 0 refused" in lines
    assert "  native:suffix,no-helix: 49 served, 14 refused (14 context_parallel_unsupported)" in lines
    assert "  mapping and native:suffix,no-helix: 49 identical, 14 accepted, 0 different" in lines
    assert "    accepted in 14 cells: any-context-parallelism" in lines
    assert report.passed


def test_a_grid_of_which_nothing_ran_does_not_pass() -> None:
    assert not run_grid(subjects(), kinds=[]).passed


def test_cells_that_fail_are_named() -> None:
    fault = find_fault("elect-first")
    report = run_grid([Mapping(), fault.wrap(make())], kinds=["mla"])
    failed = {(str(cell.context), str(cell.generation)) for cell, _ in report.failures}
    assert not report.passed and failed
    assert all("attention DP" in generation for _, generation in failed)
    assert any(line.startswith("  fails: MLA: tp 4 → tp 4 · attention DP") for line in report.lines())


def test_the_grid_tells_of_each_cell_before_it_runs() -> None:
    seen: list[GridCell] = []
    run_grid([], kinds=["mla"], watch=seen.append)
    assert len(seen) == 1008


def test_a_split_that_the_manager_does_not_take_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(find_kind("mla"), stages=False)
    cells = [cell for cell in upstream_grid([whole]) if cell.manager == "MLA"]
    refused = [cell for cell in cells if cell.refused]
    assert {cell for cell in cells if cell.context.pp > 1 or cell.generation.pp > 1} == set(refused)
    assert "kind mla takes none" in refused[0].refused
    row = GridRow("MLA")
    row.add(refused[0], subjects())
    assert row.refused["mapping"].total() == 1 and not row.served and not row.failures


def test_a_manager_without_a_model_of_its_own_takes_the_first_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = replace(next(m for m in MANAGERS if m.name == "MLA"), declare=None)
    monkeypatch.setattr("differential.grid.MANAGERS", (manager,))
    cells = list(upstream_grid(["mla"]))
    assert len(cells) == 63 and all(cell.case is not None for cell in cells)
    assert check_case(cells[-1].case, subjects("native")).passed  # type: ignore[arg-type]


# ---- recurrent state, whose kind is not declared yet, by hand on the same topologies


def state_on(context: Shape, generation: Shape) -> Case:
    last = tuple(shape.tp - 1 if shape.attention_dp else 0 for shape in (context, generation))
    halves = {1: (4,), 2: (2, 2)}
    return state_case(
        *(Topology(s.tp, halves[s.pp], s.cp, s.attention_dp) for s in (context, generation)), prompt=9, key=last
    )


def test_recurrent_state_differs_on_the_grid_in_the_helix_gap_alone_and_where_it_is_described() -> None:
    gaps = {}
    for grid in NAMED_GRIDS:
        case = state_on(grid.context, grid.generation)
        checked = check_case(case, subjects("native"))
        assert checked.passed, (str(grid), checked.open and checked.open[0].lines())
        assert checked.result.verdicts["mapping"].outcome is Outcome.PASS
        comparison = compared(case)
        assert roles(comparison) <= {"ple"} and not comparison.pairs and not comparison.refusals
        assert set(checked.settled[0].accepted) <= {GAP}
        if comparison.bytes:
            gaps[str(grid)] = receivers(comparison, "ple")
    assert gaps == {
        "tp 2 → cp 2": [1],
        "tp 4 → cp 2": [1],
        "tp 4 → tp 2 · cp 2": [1, 3],
        "tp 2 · pp 2 → cp 2": [1],
    }


def test_the_gap_is_gone_on_the_whole_grid_once_native_elects_among_paired_ranks() -> None:
    for grid in NAMED_GRIDS:
        case = state_on(grid.context, grid.generation)
        assert settle(case, compared(case, among_paired_ranks())).identical, str(grid)


def test_side_state_of_the_hand_declared_kind_moves() -> None:
    buffers = state_on(Shape(2), Shape(cp=2)).model.groups[1].buffers
    assert all(buffer.move_on(1).state is MoveState.SEND for buffer in buffers)
