"""Gemma-4: two head counts under one tensor split, and what a sender makes of them that knows only one."""

from __future__ import annotations

from itertools import product
from statistics import median

import pytest

from differential.ledger import check_case, settle
from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.deployments import deployment
from strategies.kinds import gemma4
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of
from tests.ledger_cases import compared, subjects


def sizes_of(table: PageTable) -> list[set[int]]:
    """Bytes of a buffer of each group."""
    return [{entry.nbytes for entry in table.entries if entry.group == group} for group in table.groups()]


# ---- at the published size (spec: kinds, base K/V and published shapes)


@pytest.mark.parametrize(
    ("tp", "local", "full"),
    [(1, 16 * 256, 4 * 512), (2, 8 * 256, 2 * 512), (4, 4 * 256, 512), (8, 2 * 256, 512), (16, 256, 512)],
)
def test_a_buffer_of_a_windowed_layer_is_larger_equal_or_smaller_by_tensor_size(tp: int, local: int, full: int) -> None:
    """Blocks of 32 tokens, two bytes an element. Full heads repeat from tp 8 on: at tp 8 the buffers are one size."""
    (table, *_) = deployed("gemma-4-31b", tp=tp)
    assert sizes_of(table) == [{local * 64}, {full * 64}]
    assert pools_of(table, 0) == [(100 * local * 64, 100)]
    assert pools_of(table, 1) == [(20 * full * 64, 20)]
    assert [pool.pool_group for pool in table.pools] == [0, 1]


def test_every_sixth_layer_is_full_and_stores_key_and_value_though_they_are_equal() -> None:
    local, full = deployment("gemma-4-31b", {}, {}, prompt=1).model.groups
    assert (local.window, full.window) == (1024, None)
    assert full.layers == tuple(range(5, 60, 6)) and len(local.layers) == 50
    assert [buffer.role for buffer in full.buffers] == ["key", "value"]


@pytest.mark.parametrize(("tp", "own_tp"), [(1, 4), (4, 2), (2, 1), (16, 16)])
@pytest.mark.parametrize("prompt", [200, 2_000])
def test_both_senders_agree_while_the_heads_of_all_layers_share_out_in_proportion(
    tp: int, own_tp: int, prompt: int
) -> None:
    checked = check_case(deployment("gemma-4-31b", {"tp": tp}, {"tp": own_tp}, prompt=prompt), subjects("native"))
    assert checked.passed and checked.settled[0].identical


@pytest.mark.parametrize(("tp", "own_tp"), [(4, 8), (8, 4), (1, 8), (16, 2)])
def test_the_legacy_sender_refuses_where_full_heads_repeat_on_one_side(tp: int, own_tp: int) -> None:
    checked = check_case(deployment("gemma-4-31b", {"tp": tp}, {"tp": own_tp}, prompt=200), subjects("native"))
    assert checked.passed and list(checked.settled[0].accepted) == ["first-head-count-cuts"]
    assert checked.result.verdicts["mapping"] and not checked.result.verdicts["mapping"].refusals


# ---- one head count for all layers (spec: legacy sender, 7.6)


def two_layers(heads: tuple[int, int], tp: int, own_tp: int, *, dp: int | None = None, layout: str = "HND") -> Case:
    """A windowed layer and a full one; ``dp``: the generation side has attention DP, the request on this rank."""
    declared = gemma4.declare(2, [0], 2, (heads[0], 1), (heads[1], 1), 16)
    sides = (
        Instance(Topology(tp, (2,)), 2, layout),
        Instance(Topology(own_tp, (2,), attention_dp=dp is not None), 2, layout),
    )
    return Case(declared.model, *sides, (Request(0, 3, 0, dp or 0),), native=declared.native)


HEADS = (1, 2, 3, 4, 6)


@pytest.mark.parametrize("heads", list(product(HEADS, HEADS)))
def test_all_that_follows_from_one_head_count_is_known(heads: tuple[int, int]) -> None:
    for tp, own_tp in product((1, 2, 3, 4, 6), repeat=2):
        for dp in {None, own_tp - 1} if own_tp > 1 else {None}:
            for layout in ("HND", "NHD"):
                checked = check_case(two_layers(heads, tp, own_tp, dp=dp, layout=layout), subjects("native"))
                assert checked.passed, (tp, own_tp, dp, layout, checked.settled[0].open.lines())


def test_the_copies_of_heads_are_counted_by_those_of_the_first_layer() -> None:
    """Ranks of the second stage report two heads and the receiver one: it seems that every head is there twice."""
    declared = gemma4.declare(2, [0], 9, (1, 1), (2, 1), 8)
    sides = Instance(Topology(1, (1, 1))), Instance(Topology(2, (2,), attention_dp=True))
    for dp, missing in ((0, 0), (1, 2)):
        case = Case(declared.model, *sides, (Request(0, 1, 0, dp),), native=declared.native)
        settled = settle(case, compared(case))
        if not missing:
            assert [each.code for found in settled.accepted.values() for each in found] == ["head_bytes_differ"]
            continue
        assert list(settled.accepted) == ["first-head-count-elects"] and settled.open.identical
        found = settled.accepted["first-head-count-elects"]
        assert {(each.layer, each.second_senders) for each in found} == {(1, ())} and len(found) == missing


# ---- what is drawn


def test_every_number_builds_and_cases_stay_small() -> None:
    build_samples("gemma4", 3_000)
    cases = drawn("gemma4")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512


def heads_of(case: Case) -> tuple[int, int]:
    local, full = (group.buffers[0].parts[0].axes[0].size for group in case.model.groups)
    return local, full


def test_drawn_cases_have_more_fewer_and_equally_many_heads_on_windowed_layers() -> None:
    heads = [heads_of(case) for case in drawn("gemma4")]
    assert all(sum(relation) >= 20 for relation in zip(*((a > b, a == b, a < b) for a, b in heads), strict=True))


def test_drawn_cases_repeat_heads_of_one_sort_of_layers_alone() -> None:
    found = 0
    for case in drawn("gemma4"):
        tp = max(1 if side.topology.attention_dp else side.topology.tp for side in (case.context, case.generation))
        found += min(heads_of(case)) < tp <= max(heads_of(case))
    assert found >= 30


def test_drawn_cases_reach_the_same_size_of_a_buffer_on_one_side_alone() -> None:
    found = set()
    for case in drawn("gemma4"):
        sizes = [sizes_of(lay_out(case, side).tables[0]) for side in ("context", "generation")]
        found.add(tuple(len(groups) == 2 and groups[0] == groups[1] for groups in sizes))
    assert found == {(True, True), (True, False), (False, True), (False, False)}


def test_the_legacy_sender_serves_a_third_of_the_drawn_cases() -> None:
    served = [check_case(case, subjects("native")) for case in drawn("gemma4", 100)]
    assert all(each.passed for each in served)
    assert sum(not each.result.verdicts["native"].refusals for each in served) > 30
