"""Who holds which index of an axis: the predicates against the rules of the field, written out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.counts import count_indices
from oracle.model.errors import InvalidCase
from oracle.model.topology import Topology
from oracle.truth.holders import held_indices, holds, seat
from tests.declared import channels, heads


def shares(axis: Axis, ranks: int) -> list[list[int]]:
    return [held_indices(axis, (rank, ranks)).tolist() for rank in range(ranks)]


@pytest.mark.parametrize(
    ("count", "ranks", "expected"),
    [
        (4, 1, [[0, 1, 2, 3]]),
        (4, 2, [[0, 1], [2, 3]]),
        (4, 4, [[0], [1], [2], [3]]),
        (2, 4, [[0], [0], [1], [1]]),
        (1, 3, [[0], [0], [0]]),
        (2, 8, [[0], [0], [0], [0], [1], [1], [1], [1]]),
        # Neither divides: ranges of ceil(6/4) = 2 heads from floor(6r/4), which overlap.
        (6, 4, [[0, 1], [1, 2], [3, 4], [4, 5]]),
        (3, 4, [[0], [0], [1], [2]]),
        (3, 2, [[0, 1], [1, 2]]),
        (2, 3, [[0], [0], [1]]),
    ],
)
def test_heads_are_ceil_shares_from_a_floor(count: int, ranks: int, expected: list[list[int]]) -> None:
    assert shares(heads(count), ranks) == expected


@pytest.mark.parametrize(
    ("count", "ranks", "expected"),
    [
        (6, 4, [[0], [1, 2], [3], [4, 5]]),
        (5, 2, [[0, 1], [2, 3, 4]]),
        (2, 4, [[0], [0], [1], [1]]),
        (4, 2, [[0, 1], [2, 3]]),
    ],
)
def test_floor_shares_are_disjoint_and_uneven(count: int, ranks: int, expected: list[list[int]]) -> None:
    assert shares(heads(count, Split.FLOOR), ranks) == expected


def test_even_shares_are_equal_runs() -> None:
    assert shares(heads(6, Split.EVEN), 3) == [[0, 1], [2, 3], [4, 5]]


def test_cyclic_shares_take_every_nth_index() -> None:
    assert shares(heads(5, Split.CYCLIC), 2) == [[0, 2, 4], [1, 3]]
    assert shares(heads(2, Split.CYCLIC), 3) == [[0], [1], []]


def test_an_axis_without_a_split_is_whole_on_every_rank() -> None:
    assert shares(heads(3, Split.ALL), 2) == [[0, 1, 2], [0, 1, 2]]


def test_unequal_sections_are_split_each_on_its_own() -> None:
    # 8 + 4 + 4 channels over two ranks. A flat split would give rank 1 the channels 8..15.
    assert shares(channels(8, 4, 4), 2) == [[0, 1, 2, 3, 8, 9, 12, 13], [4, 5, 6, 7, 10, 11, 14, 15]]


def test_a_section_may_be_replicated_beside_one_that_is_split() -> None:
    # Mamba-2 with one group: x is split, B and C are on every rank.
    sections = (Section("x", 8), Section("B", 2, Split.ALL), Section("C", 2, Split.ALL))
    axis = Axis("C", grid=Grid.TPCP, sections=sections)
    assert shares(axis, 2) == [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 8, 9, 10, 11]]


def test_the_tensor_grid_ignores_the_context_parallel_rank() -> None:
    topology = Topology(tp=2, cp=3)
    assert [seat(topology, rank, Grid.TP) for rank in topology.ranks()] == [(0, 2)] * 3 + [(1, 2)] * 3


def test_in_the_whole_grid_the_context_parallel_rank_counts_fastest() -> None:
    topology = Topology(tp=2, cp=2)
    assert [seat(topology, rank, Grid.TPCP) for rank in topology.ranks()] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    # Peers in the order (cp 0, tp 0), (cp 0, tp 1), (cp 1, tp 0), (cp 1, tp 1) of a sender with tp 2: each sender's
    # half of the state is cut once more, by the context-parallel rank.
    order = [topology.rank(topology.number(0, tp, cp)) for cp in (0, 1) for tp in (0, 1)]
    positions = [seat(topology, rank, Grid.TPCP)[0] for rank in order]
    assert [position // 2 for position in positions] == [0, 1, 0, 1]
    assert [position % 2 for position in positions] == [0, 0, 1, 1]


def test_under_attention_data_parallelism_every_rank_holds_everything() -> None:
    topology = Topology(tp=4, attention_dp=True)
    for rank in topology.ranks():
        for grid in Grid:
            assert held_indices(heads(6), seat(topology, rank, grid)).tolist() == list(range(6))


def test_pipeline_stages_share_no_axis() -> None:
    topology = Topology(tp=2, stages=(1, 1))
    assert [seat(topology, rank, Grid.TP)[0] for rank in topology.ranks()] == [0, 1, 0, 1]


AXES = st.one_of(
    st.builds(heads, st.integers(1, 13), st.sampled_from(Split)),
    st.lists(st.tuples(st.integers(1, 13), st.sampled_from(Split)), min_size=1, max_size=3).map(
        lambda parts: Axis("C", sections=tuple(Section(f"s{n}", *part) for n, part in enumerate(parts)))
    ),
)


@settings(max_examples=300, deadline=None)
@given(AXES, st.integers(1, 9))
def test_counts_for_packing_are_the_numbers_of_indices_held(axis: Axis, ranks: int) -> None:
    for rank in range(ranks):
        try:
            count = count_indices(axis, rank, ranks)
        except InvalidCase:
            assert any(s.split is Split.EVEN and s.size % ranks for s in axis.sections or [axis])
            continue
        held = held_indices(axis, (rank, ranks)).tolist()
        assert count == len(held) == len(set(held))
        assert held == sorted(held)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 24), st.sampled_from(Split), st.integers(1, 24))
def test_every_index_has_a_holder_and_disjoint_splits_have_one(size: int, split: Split, ranks: int) -> None:
    if split is Split.EVEN and size % ranks:
        return
    for index in range(size):
        holders = sum(holds(split, size, index, (rank, ranks)) for rank in range(ranks))
        assert holders >= 1
        if split in (Split.EVEN, Split.CYCLIC) or (split is Split.FLOOR and ranks <= size):
            assert holders == 1
        if split is Split.ALL:
            assert holders == ranks
        if split is Split.HEADS and size % ranks == 0:
            assert holders == 1
        if split is Split.HEADS and ranks % size == 0:
            assert holders == ranks // size
