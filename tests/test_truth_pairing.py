"""Which source ranks a destination hears from: overlap of shares, which is the published table where one is given."""

from __future__ import annotations

import pytest

from oracle.model.topology import Topology
from oracle.truth.pairing import overlap, paired_sources, pairs
from tests.small_cases import topology


def fan(sources: int, destinations: int, rank: int) -> list[int]:
    """The published table along one dimension: the coarser side's rank meets consecutive ranks of the finer side."""
    if sources <= destinations:
        return [rank // (destinations // sources)]
    ratio = sources // destinations
    return list(range(rank * ratio, rank * ratio + ratio))


@pytest.mark.parametrize(
    ("sources", "destinations"),
    [(s, d) for s in range(1, 17) for d in range(1, 17) if max(s, d) % min(s, d) == 0],
)
def test_overlap_is_the_published_table_where_one_size_divides_the_other(sources: int, destinations: int) -> None:
    for rank in range(destinations):
        heard = [s for s in range(sources) if overlap(s, sources, rank, destinations)]
        assert heard == fan(sources, destinations, rank)


def test_where_neither_size_divides_the_other_shares_that_touch_do_not_overlap() -> None:
    # thirds against halves: the middle third meets both halves, the outer ones one each
    assert [[s for s in range(3) if overlap(s, 3, d, 2)] for d in range(2)] == [[0, 1], [1, 2]]
    assert [[s for s in range(2) if overlap(s, 2, d, 3)] for d in range(3)] == [[0], [0, 1], [1]]


def heard(context: str, generation: str, context_dp: int = 0, generation_dp: int = 0, layers: int = 1) -> dict:
    return paired_sources(topology(context, layers), topology(generation, layers), context_dp, generation_dp)


def test_tensor_ranks_pair_by_their_shares() -> None:
    assert heard("tp4", "tp2") == {0: (0, 1), 1: (2, 3)}
    assert heard("tp1", "tp4") == {0: (0,), 1: (0,), 2: (0,), 3: (0,)}


def test_stages_pair_where_their_layers_intersect() -> None:
    # layers 0-1, 2 | 0, 1-2
    assert heard("tp1 pp2+1", "tp1 pp1+2", layers=3) == {0: (0,), 1: (0, 1)}


def test_an_empty_stage_hears_from_nobody_and_nobody_hears_from_it() -> None:
    assert heard("tp1 pp0+2", "tp1 pp1+0+1", layers=2) == {0: (1,), 1: (), 2: (1,)}


def test_a_whole_sender_pairs_with_every_context_parallel_rank() -> None:
    assert heard("tp4", "tp2 cp2") == {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}


def test_context_parallel_ranks_pair_by_their_shares_as_tensor_ranks_do() -> None:
    assert heard("tp1 cp2", "tp1 cp4") == {0: (0,), 1: (0,), 2: (1,), 3: (1,)}


def test_under_attention_dp_only_the_ranks_of_the_request_pair() -> None:
    assert heard("tp4", "tp2 dp", generation_dp=1) == {1: (0, 1, 2, 3)}
    assert heard("tp2 dp", "tp2", context_dp=1) == {0: (1,), 1: (1,)}
    assert heard("tp2 dp pp1+1", "tp2 dp", 1, 0, layers=2) == {0: (1, 3)}


def test_pairs_are_in_order_of_source_and_destination() -> None:
    found = pairs(Topology(2, (1,)), Topology(4, (1,)), 0, 0)
    assert found == ((0, 0), (0, 1), (1, 2), (1, 3))
