"""Windows, both managers, beams, prefix reuse and chunks in the numbers of the block specification."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.managers.chunks import chunks_of
from differential.managers.extents import stale_blocks
from differential.managers.holdings import Holdings
from differential.managers.tables import RIGHT as RIGHT_TABLES
from differential.managers.v1 import BlockList, removed_blocks
from differential.managers.v2 import HOLE, PageList, stale_range
from oracle.model.case import Case, Request, SideState
from oracle.truth.holding import held_blocks
from tests.block_moves import ENCODED, moves, plan_of, verdict_of
from tests.encoded_lists import ANCHORS, RIGHT, SUFFIX, TABLES, ToldLists
from tests.encoding_laws import law_C1, law_C3
from tests.small_cases import case_of
from tests.test_block_examples import said
from tests.test_states_worked import due, same, state_case

V1 = ("v1", "v1")


def listed(case: Case, side: str = "context", rank: int = 0) -> BlockList | PageList:
    return Holdings(case).listed(side, rank, 0, 0)


# ---- 1.2: staleness


@pytest.mark.parametrize(
    ("tokens", "window", "size", "stale"),
    [
        (8, 1, 4, 2),  # nothing is live
        (32, 16, 8, 2),
        (1150, 133, 128, 7),
        (156_800, 128, 128, 1224),
        (156_800, 131, 128, 1223),
        (32, 13, 4, 5),
        (8, 9, 4, 0),  # a window of the prompt and a token more
        (8, 8, 4, 0),  # a window of the prompt
        (8, 8, 1, 1),  # the same, one token a block: the first is out of reach
        (131_072, 4096, 64, 1984),
    ],
)
def test_the_first_block_that_a_window_reaches(tokens: int, window: int, size: int, stale: int) -> None:
    assert stale_blocks(tokens, window, size) == stale == stale_range(tokens, window, 0, size)[1]
    # By definition: its blocks are those that have no token from the oldest that is seen on.
    oldest = tokens - window + 1
    assert stale == sum(1 for block in range(-(-tokens // size)) if block * size + size - 1 < oldest)


@given(st.integers(1, 8), st.integers(1, 40), st.integers(1, 60))
def test_without_the_one_more_a_block_too_many_is_kept_just_where_it_fills_a_block(
    size: int, prompt: int, window: int
) -> None:
    stale, without = (max(0, (prompt + more - window) // size) for more in (1, 0))
    assert stale_blocks(prompt, window, size) == stale
    assert stale - without == (prompt + 1 - window > 0 and (prompt + 1 - window) % size == 0)


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("managers", [("v2", "v2"), V1, ("v1", "v2")])
def test_full_attention_is_the_same_said_without_a_window_or_with_one_as_long_as_anything(
    managers: tuple[str, str], name: str
) -> None:
    # One manager says that a group is unwindowed by none, the other by the largest window there is.
    states = {"context": SideState(6, extra=3, drafts=2), "generation": SideState(10)}
    for cuts in ((), (9, 13)):
        plain = moves(state_case(18, 4, cuts=cuts, managers=managers, **states), name)  # type: ignore[arg-type]
        for window in (22, 4096):
            assert moves(state_case(18, 4, window, cuts=cuts, managers=managers, **states), name) == plain  # type: ignore[arg-type]
    assert plain == same(2, 3, 4)


@pytest.mark.parametrize("managers", [("v2", "v2"), V1])
def test_a_window_of_the_prompt_cuts_where_a_block_is_a_token(managers: tuple[str, str]) -> None:
    # Decision: what counts is whether a block is out of reach, never whether the window is below the prompt.
    case = state_case(8, 1, 8, cuts=(4,), managers=managers)
    for how in RIGHT:
        law_C1(case, how)
    assert [each[0] for each in _chunked(case)] == [1] * 7
    assert moves(case, "mapping") == same(*range(1, 8))
    larger = state_case(8, 2, 8, cuts=(4,), managers=managers)
    assert [each[0] for each in _chunked(larger)] == [0, 0, 1, 1]


def _chunked(case: Case) -> list[tuple[int, object]]:
    plan = plan_of(case, "mapping")
    return [(segment.chunk, base) for segment in plan.segments for base in segment.source_bases.tolist()]


# ---- 1.3 and 1.4: managers


def test_v1_allocates_a_prompt_whole_and_sends_only_what_its_window_reaches() -> None:
    case = state_case(131_072, 64, 4096, managers=V1)
    found = listed(case)
    assert isinstance(found, BlockList)
    assert (found.own, found.removed) == (2048, 0)
    told = ToldLists(case, ANCHORS).tell("context", 0, 0, 0)
    assert len(told.slots) == 64
    table = ToldLists(case, TABLES).tell("context", 0, 0, 0)
    assert int((table.slots != HOLE).sum()) == 64


@pytest.mark.parametrize(("most", "removed"), [(1150, 0), (1151, 7), (1156, 7), (1157, 8), (1284, 8), (1285, 9)])
def test_the_counter_goes_on_with_each_block_that_leaves(most: int, removed: int) -> None:
    assert removed_blocks(1150, most, 133, 128) == removed
    # A token more and the counter is where the window of the prompt is.
    assert removed_blocks(1150, 1151, 133, 128) == stale_blocks(1150, 133, 128)
    assert RIGHT_TABLES.first_listed(1150, most, 133, 128) == max(7, removed)


def test_what_was_detached_stays_listed_and_is_never_named() -> None:
    # I6: block 1 would still be within the prompt's window; its id is somebody else's by now.
    case = state_case(10, 4, 5, context=SideState(reached=13), managers=("v1", "v2"))
    found = listed(case)
    assert isinstance(found, BlockList)
    assert (len(found.ids), found.removed, stale_blocks(10, 5, 4)) == (4, 2, 1)
    assert said(case, ANCHORS, "context") == ([102], 2)
    assert said(case, SUFFIX, "context") == [102]
    assert said(case, TABLES, "context") == [-1, -1, 102]


def test_a_prefix_that_v2_matched_is_held_from_its_window_on() -> None:
    # What was matched lies before the prompt's end, so the window of that decides.
    case = state_case(32, 4, 8, context=SideState(cached=16))
    assert held_blocks(case, "context", 0, 0).tolist() == [False] * 6 + [True] * 2


# ---- 1.5: beams


@pytest.mark.parametrize(
    ("prompt", "beams", "tails", "packed"), [(11, 3, 1, 4), (3, 4, 0, 1), (3, 4, 3, 4), (11, 2, 1, 4)]
)
def test_only_last_blocks_that_differ_are_packed_behind_the_first_beam(
    prompt: int, beams: int, tails: int, packed: int
) -> None:
    state = SideState(tails=tails)
    case = state_case(prompt, 4, context=state, generation=state, managers=V1, beams=beams)
    found = listed(case)
    assert isinstance(found, BlockList)
    assert (len(found.ids), found.own) == (packed, packed - tails)
    assert len(set(found.ids)) == packed


def test_tails_of_the_block_behind_the_prompt_are_none_of_its_own() -> None:
    # 8 tokens fill their blocks; after the first token each beam has a block of its own behind them.
    state = SideState(reached=9, tails=2)
    case = state_case(8, 4, context=state, generation=state, managers=V1, beams=3)
    assert said(case, ANCHORS, "context") == ([100, 101], 0)
    for name in ENCODED:
        assert moves(case, name) == same(0, 1) and verdict_of(case, name)


# ---- 1.6: prefix reuse


@pytest.mark.parametrize(
    ("prompt", "cached", "expected"),
    [(16, 0, [0, 1, 2, 3]), (16, 3, [0, 1, 2, 3]), (16, 4, [1, 2, 3]), (16, 15, [3]), (16, 16, []), (15, 15, [3])],
)
@pytest.mark.parametrize("name", ENCODED)
def test_a_block_that_is_not_wholly_cached_is_asked_for(
    prompt: int, cached: int, expected: list[int], name: str
) -> None:
    # Also where all of a prompt is cached whose last block is not full.
    case = state_case(prompt, 4, generation=SideState(cached))
    assert due(case) == expected
    assert moves(case, name) == same(*expected)
    assert verdict_of(case, name) and plan_of(case, name).pairs


def test_what_the_sender_had_cached_is_sent_all_the_same() -> None:
    for name in ENCODED:
        assert moves(state_case(16, 4, context=SideState(12)), name) == same(0, 1, 2, 3)


# ---- 1.7 and 3.3: chunks


@pytest.mark.parametrize(
    ("prompt", "cuts", "reused", "expected"),
    [
        (18, (9, 13), 6, [(0, 2, False), (2, 3, False), (3, 5, True)]),
        (18, (), 0, [(0, 5, True)]),
        (10, (9,), 0, [(0, 2, False), (2, 3, True)]),
        (10, (1, 2, 3), 0, [(0, 3, True)]),  # several cuts in one block: no slice of their own
        (8, (4,), 8, [(0, 2, True)]),
        (8, (6,), 5, [(0, 1, False), (1, 2, True)]),
        (9, (8,), 0, [(0, 2, False), (2, 3, True)]),
    ],
)
def test_boundaries_of_slices_are_rounded_down_but_the_last(
    prompt: int, cuts: tuple[int, ...], reused: int, expected: list[tuple[int, int, bool]]
) -> None:
    found = chunks_of(Request(0, prompt, cuts=cuts, context=SideState(reused)), 4)
    assert [(each.first, each.end, each.last) for each in found] == expected


@given(st.integers(1, 8), st.integers(1, 64), st.sets(st.integers(1, 63), max_size=6), st.integers(0, 64))
def test_slices_tile_the_prompt_for_every_cut(size: int, prompt: int, cuts: set[int], reused: int) -> None:
    state = SideState(min(reused, prompt))
    request = Request(0, prompt, cuts=tuple(sorted(cut for cut in cuts if cut < prompt)), context=state)
    found = chunks_of(request, size)
    assert [block for each in found for block in range(each.first, each.end)] == list(range(-(-prompt // size)))
    assert all(each.first < each.end for each in found)
    law_C3(case_of("key @ 0 : T D(1) ; 8", size=size, requests=(request,)), TABLES)
