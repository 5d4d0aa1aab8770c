"""Who hears from whom: by rank pair, never by buffer (spec: mapping, contract)."""

from __future__ import annotations

import pytest

from differential.subjects.mapping import Refused, fan
from differential.subjects.mapping.pairing import overlapping_stages, paired_ranks, ranks_of
from differential.subjects.mapping.refusals import FAN_UNDEFINED
from oracle.model.case import Request
from oracle.model.errors import InvalidCase
from oracle.model.topology import Topology
from tests.mapping_cases import case_of, keys_only, plan_of


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (1, 1, [[0]]),
        (1, 4, [[0], [0], [0], [0]]),
        (2, 4, [[0], [0], [1], [1]]),
        (2, 6, [[0], [0], [0], [1], [1], [1]]),
        (4, 4, [[0], [1], [2], [3]]),
        (4, 2, [[0, 1], [2, 3]]),
        (6, 2, [[0, 1, 2], [3, 4, 5]]),
        (4, 1, [[0, 1, 2, 3]]),
    ],
)
def test_a_destination_pairs_with_one_coarser_or_with_consecutive_finer_ranks(source, destination, expected) -> None:
    assert [list(fan(source, destination, rank)) for rank in range(destination)] == expected


@pytest.mark.parametrize(("source", "destination"), [(2, 3), (3, 2), (4, 6), (6, 4)])
def test_sizes_of_which_neither_divides_the_other_are_refused(source: int, destination: int) -> None:
    with pytest.raises(Refused) as caught:
        fan(source, destination, 0)
    assert caught.value.refusal.code == FAN_UNDEFINED
    assert f"{source} source ranks and {destination} destination ranks" in str(caught.value)


def test_a_rank_outside_its_dimension_is_no_rank() -> None:
    with pytest.raises(InvalidCase, match=r"destination_rank = 2 is not possible: expected 0\.\.1"):
        fan(4, 2, 2)


def test_stages_pair_where_they_have_a_layer_in_common() -> None:
    assert overlapping_stages((3,), (2, 1)) == ((0,), (0,))
    assert overlapping_stages((2, 2), (1, 2, 1)) == ((0,), (0, 1), (1,))
    assert overlapping_stages((33, 28), (31, 30)) == ((0,), (0, 1))


def test_an_empty_stage_pairs_with_nobody() -> None:
    assert overlapping_stages((0, 3, 0), (1, 0, 2)) == ((1,), (), (1,))


def test_helix_receivers_pair_along_tensor_and_context_parallelism() -> None:
    # tp 4 to tp 2 x cp 2: receiver 3 (tp 1, cp 1) hears from the two context ranks of its half.
    source, destination = Topology(4), Topology(2, (1,), 2)
    assert [paired_ranks(source, destination, number) for number in range(4)] == [(0, 1), (0, 1), (2, 3), (2, 3)]


def test_attention_data_parallelism_leaves_one_tensor_rank_that_the_request_chooses() -> None:
    group, whole = Topology(4, (1,), attention_dp=True), Topology(2, (1,))
    assert [paired_ranks(group, whole, number, 3) for number in range(2)] == [(3,), (3,)]
    assert paired_ranks(whole, group, 2) == (0, 1)
    assert ranks_of(Topology(4, (1, 1), attention_dp=True), 2) == (2, 6)


def test_candidates_of_several_stages_come_in_rank_order() -> None:
    assert paired_ranks(Topology(2, (1, 1)), Topology(1, (2,)), 0) == (0, 1, 2, 3)


def test_pairs_without_a_byte_are_listed() -> None:
    # One block of two context-parallel receivers, and keys that one of four sources carries alone.
    writes = plan_of(case_of(keys_only(1), Topology(4), Topology(2, (1,), 2)))
    assert [(pair.source, pair.destination) for pair in writes.pairs] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 2),
        (2, 3),
        (3, 3),
    ]
    assert {(segment.source_rank, segment.destination_rank) for segment in writes.segments} == {(0, 0), (2, 2)}


def test_each_request_has_the_pairs_of_its_own_data_parallel_ranks() -> None:
    both = Topology(2, (1,), attention_dp=True)
    case = case_of(keys_only(1), both, both, Request(0, 2, 0, 1), Request(1, 2, 1, 1))
    pairs = [(pair.request, pair.source, pair.destination) for pair in plan_of(case).pairs]
    assert pairs == [(0, 0, 1), (1, 1, 1)]
