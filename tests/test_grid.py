"""The grid that upstream names: every cell is there, and what differs on it is known."""

from __future__ import annotations

from collections import Counter

import pytest

from differential.faults import find_fault
from differential.grid import FURTHER, GRIDS, UPSTREAM, GridCell, GridReport, grid_cells, managers_of, run_grid
from differential.grid.report import GridRow
from differential.ledger import check_case, settle
from differential.runner import Outcome
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.buffers import MoveState
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.topology import Topology
from strategies.kinds import find_kind, kinds
from strategies.topologies import NAMED_GRIDS, Shape
from tests.ledger_cases import among_paired_ranks, compared, receivers, roles, state_case, subjects

GAP = "replicated-state-under-helix"
ALL = managers_of("all")


def test_the_grid_has_16_managers_with_7_context_and_9_generation_topologies() -> None:
    cells = list(grid_cells("upstream"))
    managers = Counter(cell.manager for cell in cells)
    assert list(managers) == [manager.name for manager in UPSTREAM]
    assert len(managers) == 16 and set(managers.values()) == {63}
    assert len({(cell.manager, cell.context) for cell in cells}) == 112
    assert len({cell.generation for cell in cells}) == 9
    assert len(set(map(str, cells))) == len(cells) == 1008


def test_all_of_it_has_the_same_splits_of_every_kind() -> None:
    cells = list(grid_cells("all"))
    assert cells[:1008] == list(grid_cells("upstream"))
    assert {manager.kind for manager in ALL} == {kind.name for kind in kinds()}
    counts = Counter(cell.manager for cell in cells)
    assert len(counts) == len(ALL) >= len(UPSTREAM + FURTHER) and set(counts.values()) == {63}


def test_a_kind_that_no_manager_is_of_gets_one_by_its_first_small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("differential.grid.managers.FURTHER", ())
    added = {manager.kind: manager for manager in managers_of("all")[16:]}
    assert set(added) == {kind.name for kind in kinds()} - {manager.kind for manager in UPSTREAM}
    case = next(cell.case for cell in grid_cells("all", ["dsa"]) if cell.manager == "dsa")
    assert case is not None and case.kind == "dsa"
    assert {buffer.role for group in case.model.groups for buffer in group.buffers} == {"key", "index_key"}
    for manager in added.values():
        assert manager.tokens_per_block in find_kind(manager.kind).tokens_per_block


def test_a_grid_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidCase, match="grid = 'most' is not possible: expected one of upstream, all"):
        managers_of("most")


# 2 of 7 senders and 2 of 9 receivers have two stages, 2 of 9 receivers two context-parallel ranks.
TAKES_NO = {"csa2": {"pp": 28, "cp": 10}, "vllm_fused": {"cp": 14}, "vllm_hybrid": {"cp": 14}, "vllm_v4": {"cp": 14}}


@pytest.mark.parametrize("grid", GRIDS)
def test_every_cell_is_there_but_those_that_its_manager_refuses(grid: str) -> None:
    refused = Counter()
    for cell in grid_cells(grid):
        assert not cell.not_run
        if cell.case is None:
            refused[cell.manager, cell.refused] += 1
    assert refused == {
        (manager.name, f"{manager.kind} takes no {what}"): count
        for manager in managers_of(grid)
        for what, count in TAKES_NO.get(manager.kind, {}).items()
    }


def test_kinds_that_were_not_asked_for_do_not_run() -> None:
    cells = list(grid_cells("upstream", ["mla"]))
    assert {cell.manager for cell in cells if cell.case is not None} == {"MLA"}
    assert {cell.not_run for cell in cells if cell.manager == "MHA"} == {"kind gqa was not asked for"}


def test_cells_are_split_as_their_shapes_say_and_each_rank_that_may_hold_a_request_can() -> None:
    for cell in grid_cells("all"):
        if cell.case is None:
            continue
        assert Shape.of(cell.case.context.topology) == cell.context
        assert Shape.of(cell.case.generation.topology) == cell.generation
        for side in SIDES:
            last = cell.case.side(side).topology.data_parallel - 1
            assert {request.dp_rank(side) for request in cell.case.requests} == {0, last}


# What the rules of both say of the cells of each manager; all that is not named is served by both, alike.
# The legacy sender knows no window under Helix (2 of 9 receivers), looks for the attention of each stage (28 pairs have
# two stages on a side) and for a request-wide role by its layer (10 pairs that cut, 3 that elect on another stage).
WINDOWS = {"refused": {"helix_window": 14}, "accepted": {"helix-with-a-window": 14}}
KNOWN: dict[str, dict[str, dict[str, int]]] = {
    "VSWA, separate groups": WINDOWS,
    "VSWA, shared pool group": WINDOWS,
    "FP4 MLA": WINDOWS,
    "DeepSeek-V4": WINDOWS,
    "Mamba V2, no attention on a stage": {
        "refused": {"crash: division by zero": 28},
        "accepted": {"stage-without-attention": 28},
    },
    "Qwen4Exp with PLE": {"accepted": {GAP: 4, "request-wide-buffer-by-layer": 13}},
    # The sizes of a share agree where both grids of ranks have as many.
    "KDA, replicated": {
        "refused": {"state_sizes_differ": 63 - (4 * 4 + 2 * 3 + 1 * 2)},
        "accepted": {"whole-state-declared-as-shares": 39, "whole-state-from-the-grid-partner": 3},
    },
}
OF_UNLIKE_HEADS = {"Gemma-4", "EAGLE-3 layer of other heads"}
"""The legacy sender cuts a group by its first head count: by which entry it is known, its own tests say."""


def check(report: GridReport, variant: str) -> None:
    """Each row of ``report`` is what ``KNOWN`` says."""
    assert report.passed and not report.failures, report.lines()
    for row in report.rows:
        assert not row.not_run
        kind = next(manager.kind for manager in ALL if manager.name == row.manager)
        refused = sum(TAKES_NO.get(kind, {}).values())
        assert (row.served["mapping"], row.refused.get("mapping", Counter()).total()) == (63 - refused, refused)
        if row.left_out[variant]:
            assert row.left_out[variant] == 63 - refused and not row.compared
            continue
        known = KNOWN.get(row.manager, {})
        (counts,), (accepted,) = row.compared.values(), row.accepted.values()
        assert counts.total() == 63 - refused and not counts["different"]
        assert row.served[variant] + row.refused.get(variant, Counter()).total() == 63
        if variant == "native" and row.manager not in OF_UNLIKE_HEADS and not refused:
            assert row.refused.get(variant, Counter()) == known.get("refused", {}), row.manager
            assert accepted == known.get("accepted", {}), row.manager
            assert counts["identical"] == 63 - sum(known.get("accepted", {}).values()), row.manager


def test_the_whole_grid_is_served_or_refused_as_the_rules_say() -> None:
    check(run_grid(subjects("native"), "all"), "native")


def test_senders_that_list_suffixes_differ_on_the_grid_in_known_ways_only() -> None:
    check(run_grid(subjects("native:suffix")), "native:suffix")


def test_what_has_no_legacy_rule_is_not_compared_and_says_so() -> None:
    report = run_grid(subjects("native"), "all", kinds=["cross"])
    assert "  native: 63 not run (nothing is declared for it)" in report.lines()
    assert "  mapping: 63 served, 0 refused" in report.lines()
    assert report.passed


def test_served_refused_and_not_run_are_counted_apart_with_their_reasons() -> None:
    report = run_grid(subjects("native:suffix,no-helix"), kinds=["mla"])
    lines = report.lines()
    assert "CSA2: 63 cells not run (kind csa2 was not asked for)" in lines
    assert "MHA: 63 cells not run (kind gqa was not asked for)" in lines
    assert "  mapping: 63 served, 0 refused" in lines
    assert "  native:suffix,no-helix: 49 served, 14 refused (14 context_parallel_unsupported)" in lines
    assert "  mapping and native:suffix,no-helix: 49 identical, 14 accepted, 0 different" in lines
    assert "    accepted in 14 cells: any-context-parallelism" in lines
    assert report.passed


def test_a_split_that_the_manager_does_not_take_is_refused_with_its_reason() -> None:
    report = run_grid(subjects("native"), kinds=["csa2"])
    (row,) = [row for row in report.rows if row.served]
    assert row.served == {"mapping": 25, "native": 25}
    reason = "(10 csa2 takes no cp; 28 csa2 takes no pp)"
    assert [line.endswith(reason) for line in report.lines() if " 38 refused (" in line] == [True, True]


def test_a_grid_of_which_nothing_ran_does_not_pass() -> None:
    assert not run_grid(subjects(), kinds=[]).passed


def test_cells_that_fail_are_named() -> None:
    fault = find_fault("elect-first")
    report = run_grid([Mapping(), fault.wrap(make())], kinds=["mla"])
    failed = {(str(cell.context), str(cell.generation)) for cell, _ in report.failures}
    assert not report.passed and failed
    assert all("attention DP" in generation for _, generation in failed)
    assert any(line.startswith("  fails: MLA: tp 4 → tp 4 · attention DP") for line in report.lines())


def test_an_election_that_ignores_its_key_fails_on_every_manager_with_replicas() -> None:
    report = run_grid([find_fault("elect-first").wrap(Mapping())])
    broken = {(cell.manager, cell.context) for cell, _ in report.failures}
    # Those two split their heads on each of the splits.
    assert {manager for manager, _ in broken} == {manager.name for manager in UPSTREAM} - {"MHA", "uneven PP"}
    # With two stages on a side a request-wide buffer has replicas even where each is of one rank.
    assert all(context.tp > 1 or (manager, context.pp) == ("Qwen4Exp with PLE", 2) for manager, context in broken)


def test_the_grid_tells_of_each_cell_before_it_runs() -> None:
    seen: list[GridCell] = []
    run_grid([], kinds=["mla"], watch=seen.append)
    assert len(seen) == 1008


# ---- recurrent state declared by hand, on the same topologies: what differs in each byte


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


def test_one_cell_is_told_as_one() -> None:
    row = GridRow("few", 1, compared={("a", "b"): Counter()}, accepted={("a", "b"): Counter(["known"])})
    idle = GridRow("idle", 1, not_run=Counter(["not asked for"]))
    lines = GridReport("all", ("a", "b"), (row, idle)).lines()
    assert {"few: 1 cell", "    accepted in 1 cell: known", "idle: 1 cell not run (not asked for)"} <= set(lines)
