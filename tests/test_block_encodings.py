"""Two ways of saying blocks without a table, step by step, and what each step is for (spec: blocks, 2 and 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.managers import anchors, suffix
from differential.managers.extents import Extent
from differential.managers.spans import Aligned, Disagreement, Inexpressible, Span
from differential.managers.suffix import Suffix
from differential.managers.v1 import BlockList, OnHost, Translation
from differential.managers.v2 import HOLE, PageList


def same(ids: Sequence[int]) -> np.ndarray:
    return np.array(ids, dtype=np.int64)


def pages(*slots: int, stale: tuple[int, int] = (0, 0), **options: object) -> PageList:
    return PageList(same(slots), stale=stale, **options)  # type: ignore[arg-type]


def said(span: Span) -> tuple[list[int], int]:
    return span.slots.tolist(), span.start


def pairs(found: Aligned) -> list[tuple[int, int]]:
    return list(zip(found.source.tolist(), found.destination.tolist(), strict=True))


def aligned(source: Suffix, destination: Suffix, stale: int = 0, first: int = 0) -> list[tuple[int, int]]:
    return pairs(suffix.align(source, destination, stale, first))


# ---- producers


def test_x3_a_v1_list_loses_what_lies_behind_the_prompt_and_what_was_detached() -> None:
    listed = BlockList(tuple(range(200, 210)), 10, 8)
    assert said(anchors.build(listed, Extent(9, 7, reported=10), same)) == ([208], 8)
    assert suffix.build(listed, Extent(9, 7), same).slots.tolist() == [208]
    # The window trims what the counter has not removed yet.
    listed = replace(listed, removed=7)
    assert said(anchors.build(listed, Extent(9, 7), same)) == ([207, 208], 7)
    assert said(anchors.build(replace(listed, removed=0), Extent(9, 7), same)) == ([207, 208], 7)


def test_x2_v2_pages_are_cut_at_the_prompts_end_before_holes_are_closed() -> None:
    receiver = pages(HOLE, HOLE, 202, 203, 204, stale=(0, 2))
    assert said(anchors.build(receiver, Extent(4, 2, reported=5), same)) == ([202, 203], 2)
    assert suffix.build(receiver, Extent(4, 2), same).slots.tolist() == [202, 203]


def test_ids_are_translated_last_so_that_nobody_asks_for_a_block_that_left() -> None:
    known = Translation(["w"], {"w": {1: None, 2: 30, 3: 31, 4: None}})
    listed = BlockList((1, 2, 3, 4), 4, 1)  # 1 was detached and is on the host, 4 lies behind the prompt
    for build in (anchors.build, suffix.build):
        assert build(listed, Extent(3, 0), known.translate).slots.tolist() == [30, 31]
    with pytest.raises(OnHost):
        known.translate(listed.ids)


def test_a_list_that_does_not_reach_the_prompts_end_is_not_sent() -> None:
    with pytest.raises(Disagreement, match="2 blocks of the prompt are left, expected 3 behind 0 detached"):
        anchors.build(BlockList((1, 2), 2), Extent(3), same)


def test_what_a_receiver_has_is_not_asked_for() -> None:
    whole = pages(20, 21, 22, 23, 24)
    assert said(anchors.build(whole, Extent(5, cached=2), same)) == ([22, 23, 24], 2)
    assert suffix.build(whole, Extent(5, cached=2), same).slots.tolist() == [22, 23, 24]
    # More than the window left behind: the larger of the two counts.
    behind = pages(HOLE, HOLE, HOLE, 23, 24, stale=(0, 3))
    assert suffix.build(behind, Extent(5, 3, cached=2), same).slots.tolist() == [23, 24]
    assert suffix.build(behind, Extent(5, 3, cached=4), same).slots.tolist() == [24]
    # The counter is ahead of the window: what is cached counts from where the list begins.
    assert suffix.build(BlockList((1, 2, 3, 4, 5), 5, 3), Extent(5, 1, cached=4), same).slots.tolist() == [5]
    for extent in (Extent(5, cached=5), Extent(5, 5)):
        assert said(anchors.build(whole, extent, same)) == ([], 0)
        assert suffix.build(whole, extent, same).slots.tolist() == []


def test_tails_are_told_by_the_manager_and_never_by_the_beam_width() -> None:
    listed = BlockList((10, 11, 12, 90), 3)
    span = anchors.build(listed, Extent(3, beams=4), same)
    assert (said(span), span.tails.tolist()) == (([10, 11, 12], 0), [90])
    # A token of its own for each beam behind a prompt that fills its blocks: those are no tails of the prompt.
    beyond = anchors.build(BlockList((10, 11, 12, 90), 3), Extent(2, beams=2), same)
    assert (said(beyond), beyond.tails.tolist()) == (([10, 11], 0), [])


def test_i12_tails_are_split_off_before_a_list_is_strided() -> None:
    # Context-parallel ranks have one beam; a list of blocks and tails, strided whole, would take tails for blocks.
    own, tails = anchors.RIGHT.split_tails(BlockList((0, 1, 2, 3, 90), 4))
    assert (own[1::2], tails) == ((1, 3), (90,))
    assert BlockList((0, 1, 2, 3, 90), 4).ids[0::2] == (0, 2, 90)


@pytest.mark.parametrize("build", [anchors.build, suffix.build])
def test_sinks_in_front_of_a_gap_are_refused_before_anything_is_cut(build) -> None:  # type: ignore[no-untyped-def]
    for held, extent in [
        (pages(0, HOLE, 2, 3, stale=(1, 2)), Extent(4, 2, sinks=True)),
        (pages(0, HOLE, stale=(1, 2)), Extent(2, 2, sinks=True)),  # the last block is a hole: nothing would be sent
        (pages(0, 1, stale=(1, 1)), Extent(2, 1, sinks=True)),  # no hole: the trim would walk over the sink
    ]:
        with pytest.raises(Inexpressible) as no:
            build(held, extent, same)
        assert no.value.code == "sinks_before_a_gap"
    build(pages(0, 1, stale=(1, 1)), Extent(2, 0, sinks=True), same)


@pytest.mark.parametrize("build", [anchors.build, suffix.build])
def test_only_holes_that_the_window_or_scratch_explains_are_skipped(build) -> None:  # type: ignore[no-untyped-def]
    explained = pages(9, HOLE, 2, 3, stale=(0, 2))
    assert build(explained, Extent(4, 0), same).slots.tolist() == [2, 3]
    assert build(pages(9, HOLE, 2, 3, scratch=((1, 2),)), Extent(4, 0), same).slots.tolist() == [2, 3]
    for held in (pages(9, HOLE, 2, 3), pages(9, HOLE, 2, 3, stale=(0, 1)), pages(9, 1, 2)):
        with pytest.raises(Inexpressible) as no:
            build(held, Extent(4, 0), same)
        assert no.value.code == "hole_in_a_list"
    # A list that begins later has no hole inside.
    assert build(pages(HOLE, 1, 2, 3), Extent(4, 0), same).slots.tolist() == [1, 2, 3]


def test_parked_pages_are_never_sent() -> None:
    # Blocks 0 and 1 left the window and wait for their commit: their slot numbers may be of another level.
    held = pages(7, 8, 2, 3, stale=(0, 2), parked=(0, 1))
    assert said(anchors.build(held, Extent(4, 0), same)) == ([2, 3], 2)
    assert suffix.build(held, Extent(4, 0), same).slots.tolist() == [2, 3]


# ---- decode(encode(m)) == m


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9), st.integers(1, 3), st.data())
def test_a_run_without_holes_survives_both_encodings(
    blocks: int, stale: int, cached: int, stride: int, data: st.DataObject
) -> None:
    phase = data.draw(st.integers(0, stride - 1))
    extent = Extent(blocks, stale, cached, phase=phase, stride=stride)
    ordinals = list(range(phase, blocks, stride))
    held = pages(*[100 + 7 * o % 11 for o in ordinals])
    expected = {o: 100 + 7 * o % 11 for o in ordinals if o >= max(stale, cached)}
    span = anchors.build(held, extent, same)
    assert dict(zip(span.ordinals.tolist(), span.slots.tolist(), strict=True)) == expected
    placed = suffix.place(suffix.build(held, extent, same))
    assert dict(zip(placed.ordinals.tolist(), placed.slots.tolist(), strict=True)) == expected


def test_a_suffix_refuses_tails_that_its_length_cannot_tell_apart() -> None:
    full = suffix.build(BlockList((1, 2, 90, 91), 2), Extent(2, beams=3), same)
    placed = suffix.place(full)
    assert (placed.slots.tolist(), placed.tails.tolist()) == ([1, 2], [90, 91])
    for listed, extent in [
        (BlockList((1, 2, 90), 2), Extent(2, beams=3)),  # fewer tails than beams besides the first
        (BlockList((1, 2, 90), 2), Extent(2, cached=1, beams=2)),  # as short as a list without tails
    ]:
        with pytest.raises(Inexpressible) as no:
            suffix.build(listed, extent, same)
        assert no.value.code == "tails_not_told_apart"


# ---- consumers: each row is a state of the table of what went wrong, and the step that prevents it


def ending(slots: list[int], end: int, **options: int) -> Suffix:
    return Suffix(same(slots), end, **options)


def test_i4_a_clamp_drops_what_it_steps_over() -> None:
    assert aligned(ending([100, 101], 2), ending([201], 2), 1) == [(101, 201)]


def test_i5_a_receiver_that_keeps_more_gives_up_its_front() -> None:
    assert aligned(ending([10], 1225), ending([20, 21], 1225), 1224) == [(10, 21)]


def test_x4_the_same_with_small_numbers() -> None:
    assert aligned(ending([14], 5), ending([23, 24], 5), 4) == [(14, 24)]


def test_i8_local_lists_are_measured_against_local_counts() -> None:
    # The window begins at block 5; rank 1 of 2 has 1, 3, 5, 7, the receiver has asked from 3 on.
    source = ending([1, 3, 5, 7], 8, phase=1, stride=2)
    assert aligned(source, ending([23, 25, 27], 8, phase=1, stride=2), 5) == [(5, 25), (7, 27)]
    whole = ending(list(range(8)), 8)
    assert aligned(whole, ending([23, 25, 27], 8, phase=1, stride=2), 5) == [(5, 25), (7, 27)]


def test_i10_a_chunk_ends_where_it_ends_and_not_where_the_list_does() -> None:
    # A chunk of blocks 0..3, sent when there was room for 6.
    listed = pages(100, 101, 102, 103, 104, 105)
    offer = suffix.build_chunk(listed, Extent(8), 0, 4, same)
    assert aligned(offer, ending(list(range(20, 28)), 8)) == [(100, 20), (101, 21), (102, 22), (103, 23)]
    # The next one of blocks 4 and 5; the receiver has five blocks already.
    offer = suffix.build_chunk(pages(*range(100, 108)), Extent(8), 4, 6, same)
    assert aligned(offer, ending([25, 26, 27], 8), first=4) == [(105, 25)]
    span = anchors.build_chunk(listed, Extent(8), 0, 4, same)
    assert said(span) == ([100, 101, 102, 103], 0)
    with pytest.raises(Inexpressible, match="block 6 has no slot"):
        anchors.build_chunk(listed, Extent(8), 4, 8, same)
    with pytest.raises(Disagreement, match="6 blocks of the prompt are left, expected 8"):
        anchors.build_chunk(BlockList(tuple(range(6)), 6), Extent(8), 4, 8, same)
