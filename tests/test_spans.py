"""Runs of slots with ordinals: what two of them have in common (spec: blocks, 3.1, 3.2, 3.4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.managers import anchors
from differential.managers.spans import (
    Disagreement,
    Inexpressible,
    Span,
    count_below,
    drop_below,
    drop_from,
    intersect,
    take_stride,
)


def span(start: int, slots: list[int], stride: int = 1, tails: list[int] | None = None) -> Span:
    return Span(start, np.array(slots, dtype=np.int64), stride, np.array(tails or [], dtype=np.int64))


def pairs(source: Span, destination: Span) -> list[tuple[int, int]]:
    found = intersect(source, destination)
    return list(zip(found.source.tolist(), found.destination.tolist(), strict=True))


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (span(0, [10, 11, 12]), span(0, [20, 21, 22]), [(10, 20), (11, 21), (12, 22)]),
        (span(0, [10, 11, 12, 13, 14]), span(2, [20, 21, 22]), [(12, 20), (13, 21), (14, 22)]),
        (span(1, [10, 11, 12]), span(0, [20, 21, 22, 23]), [(10, 21), (11, 22), (12, 23)]),
        (span(1, [10, 11, 12]), span(2, [20, 21]), [(11, 20), (12, 21)]),
        (span(0, [10, 11, 12]), span(3, [20, 21, 22]), []),
        (span(0, [10, 11, 12, 13]), span(2, [20, 21, 22]), [(12, 20), (13, 21)]),
    ],
)
def test_two_runs_meet_where_their_ordinals_do(
    source: Span, destination: Span, expected: list[tuple[int, int]]
) -> None:
    assert pairs(source, destination) == expected
    # Swapping the sides swaps the pairs.
    assert pairs(destination, source) == [(there, here) for here, there in expected]


def test_what_is_asked_for_is_told_beside_what_is_paired() -> None:
    found = intersect(span(1, [10, 11, 12]), span(0, [20, 21, 22, 23]))
    assert found.asked.tolist() == [0, 1, 2, 3] and found.ordinals.tolist() == [1, 2, 3]


@st.composite
def spans(draw: st.DrawFn, stride: int) -> Span:
    start, count = draw(st.integers(0, 12)), draw(st.integers(0, 6))
    base = draw(st.sampled_from([100, 500]))
    return span(start, [base + 7 * number % 31 for number in range(count)], stride)


def as_map(of: Span) -> dict[int, int]:
    return dict(zip(of.ordinals.tolist(), of.slots.tolist(), strict=True))


@given(st.data(), st.integers(1, 4))
def test_pairs_are_those_of_equal_ordinals(data: st.DataObject, stride: int) -> None:
    source, destination = data.draw(spans(stride)), data.draw(spans(stride))
    ours, theirs = as_map(source), as_map(destination)
    assert pairs(source, destination) == [(ours[o], theirs[o]) for o in sorted(ours.keys() & theirs.keys())]


@given(st.data(), st.integers(1, 4), st.integers(0, 20), st.integers(0, 20))
def test_cutting_a_run_leaves_what_is_there_at_its_ordinals(
    data: st.DataObject, stride: int, first: int, end: int
) -> None:
    whole = data.draw(spans(stride))
    cut = drop_from(drop_below(whole, first), end)
    assert as_map(cut) == {ordinal: slot for ordinal, slot in as_map(whole).items() if first <= ordinal < end}
    # The phase is kept, also of nothing.
    assert cut.stride == stride and (cut.start - whole.start) % stride == 0


@given(st.data(), st.integers(1, 4), st.integers(0, 3))
def test_a_whole_list_is_strided_by_ordinal(data: st.DataObject, stride: int, phase: int) -> None:
    whole = data.draw(spans(1))
    taken = take_stride(whole, phase % stride, stride)
    assert as_map(taken) == {
        ordinal: slot for ordinal, slot in as_map(whole).items() if ordinal % stride == phase % stride
    }


@given(st.integers(0, 30), st.integers(1, 5), st.integers(0, 4))
def test_local_counts_are_of_the_ranks_own_blocks(ordinal: int, stride: int, phase: int) -> None:
    phase %= stride
    assert count_below(ordinal, phase, stride) == sum(k % stride == phase for k in range(ordinal))


def test_runs_of_another_phase_share_nothing_and_of_another_stride_have_no_common_index() -> None:
    assert pairs(span(0, [1, 2], 2), span(1, [3, 4], 2)) == []
    with pytest.raises(Disagreement, match="stride 1 and 2"):
        intersect(span(0, [1, 2]), span(0, [3], 2))


def test_the_sender_of_a_context_parallel_receiver_strides_its_list() -> None:
    # X6: four blocks are cached; rank 1 of 3 asks for 4 and 7.
    found = anchors.align(span(0, list(range(100, 108))), span(4, [204, 207], 3))
    assert list(zip(found.source.tolist(), found.destination.tolist(), strict=True)) == [(104, 204), (107, 207)]
    # And the other way round: a receiver of one of several context-parallel senders.
    found = anchors.align(span(1, [101, 104, 107], 3), span(2, list(range(202, 208))))
    assert list(zip(found.source.tolist(), found.destination.tolist(), strict=True)) == [(104, 204), (107, 207)]
    assert found.asked.tolist() == [4, 7]


# ---- beam tails


def test_tails_pair_in_order_behind_the_blocks() -> None:
    # X5: two beams differ; two blocks are cached.
    found = anchors.align(span(0, list(range(8)), tails=[91, 92]), span(2, list(range(22, 28)), tails=[81, 82]))
    assert found.ordinals.tolist() == [2, 3, 4, 5, 6, 7]
    assert found.tails.tolist() == [[91, 81], [92, 82]]


def test_tails_do_not_go_where_no_block_of_the_first_beam_goes() -> None:
    assert not len(anchors.align(span(0, [1], tails=[9]), span(1, [2], tails=[8])).tails)


def test_unequal_numbers_of_tails_have_no_pairs() -> None:
    with pytest.raises(Inexpressible) as no:
        anchors.align(span(0, [1], tails=[9]), span(0, [2]))
    assert no.value.code == "tail_counts_differ"
    # With nothing to send nobody asks.
    assert not len(anchors.align(span(0, []), span(0, [2], tails=[8])).ordinals)
