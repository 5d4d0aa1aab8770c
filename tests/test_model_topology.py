"""Ranks are numbered (pp*TP + tp)*CP + cp, and stages hold consecutive layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.model.topology import Rank, Topology
from tests.declared import assert_impossible

WHOLE = "expected a whole number of at least"
IMPOSSIBLE: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: Topology(0), "tp", 0, f"{WHOLE} 1"),
    (lambda: Topology(-2), "tp", -2, f"{WHOLE} 1"),
    (lambda: Topology(True), "tp", True, f"{WHOLE} 1"),
    (lambda: Topology(cp=0), "cp", 0, f"{WHOLE} 1"),
    (lambda: Topology(stages=()), "stages", (), "expected at least one pipeline stage"),
    (lambda: Topology(stages=(2, -1)), "stages", -1, f"{WHOLE} 0"),
    (lambda: Topology(attention_dp=1), "attention_dp", 1, "expected true or false"),  # type: ignore[arg-type]
    (lambda: Topology(2, (1, 1), 2).rank(8), "rank", 8, "this instance has ranks 0..7"),
    (lambda: Topology().rank(-1), "rank", -1, "this instance has ranks 0..0"),
]


@pytest.mark.parametrize(("build", "argument", "value", "accepted"), IMPOSSIBLE)
def test_an_impossible_grid_says_why(build: Callable[[], object], argument: str, value: object, accepted: str) -> None:
    assert_impossible(build, argument, value, accepted)


def test_context_ranks_are_innermost_and_stages_outermost() -> None:
    topology = Topology(tp=2, stages=(1, 1), cp=3)
    assert [(rank.pp, rank.tp, rank.cp) for rank in topology.ranks()] == [
        (pp, tp, cp) for pp in range(2) for tp in range(2) for cp in range(3)
    ]
    assert topology.rank(10) == Rank(10, 1, 1, 1)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_a_rank_number_and_its_coordinates_are_inverse(tp: int, pp: int, cp: int) -> None:
    topology = Topology(tp, (1,) * pp, cp)
    ranks = topology.ranks()
    assert [rank.number for rank in ranks] == list(range(tp * pp * cp))
    assert [topology.number(rank.pp, rank.tp, rank.cp) for rank in ranks] == list(range(topology.size))


def test_stages_share_out_all_layers_in_order_and_may_be_empty() -> None:
    topology = Topology(stages=(2, 0, 3))
    assert [list(topology.stage_layers(stage)) for stage in range(3)] == [[0, 1], [], [2, 3, 4]]
    assert topology.pp == 3


def test_two_stages_of_deepseek_v3_hold_31_and_30_layers() -> None:
    topology = Topology(stages=(31, 30))
    assert topology.stage_layers(0) == range(31)
    assert topology.stage_layers(1) == range(31, 61)


def test_attention_data_parallel_ranks_are_the_tensor_ranks() -> None:
    assert Topology(tp=4).data_parallel == 1
    assert Topology(tp=4, attention_dp=True).data_parallel == 4
