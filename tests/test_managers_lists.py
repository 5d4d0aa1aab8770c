"""What cache managers list: ids with a counter and a translation, or pages with holes (spec: blocks, 1 and 4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.managers.holdings import Holdings, holdings_of
from differential.managers.tables import gather_facts
from differential.managers.v1 import BlockList, OnHost, Translation, UnknownBlock, WindowNotNamed, removed_blocks
from differential.managers.v2 import HOLE, PageList, make_holes, scratch_range, stale_range
from oracle.model.case import Case, Request, SideState, SlotList
from oracle.model.sides import lay_out
from tests.encoding_laws import law_F5
from tests.small_cases import case_of, group, model_of

KEY = "key @ 0 : T D(1) ; 8"
V1 = {"manager": "v1"}


def held(case: Case, side: str = "context", rank: int = 0, request: int = 0, group: int = 0) -> BlockList | PageList:
    return Holdings(case).listed(side, rank, request, group)


# ---- staleness


@pytest.mark.parametrize(
    ("history", "window", "size", "stale"),
    [
        (32, 16, 8, (0, 2)),
        (8, 1, 4, (0, 2)),
        (1150, 133, 128, (0, 7)),
        (1156, 133, 128, (0, 8)),
        (15, 8, 8, (0, 1)),  # without the + 1 it would be none
        (8, 8, 1, (0, 1)),  # a window as long as the history, one token a block
        (8, 8, 2, (0, 0)),
        (8, None, 4, (0, 0)),
    ],
)
def test_blocks_are_stale_that_the_next_token_does_not_see(
    history: int, window: int | None, size: int, stale: tuple[int, int]
) -> None:
    assert stale_range(history, window, 0, size) == stale


@given(st.integers(0, 200), st.integers(1, 60), st.integers(1, 9))
def test_staleness_never_goes_back_and_grows_by_a_block_at_most(history: int, window: int, size: int) -> None:
    now, then = (stale_range(tokens, window, 0, size)[1] for tokens in (history, history + 1))
    assert now <= then <= now + 1
    assert then * size <= history + 2 - window or then == 0


def test_sinks_stand_before_what_is_stale() -> None:
    assert stale_range(32, 16, 4, 8) == (1, 2)
    assert stale_range(32, 16, 30, 8) == (4, 4)
    assert stale_range(3, 1, 30, 8) == (1, 1)  # no more sinks than there are blocks


@pytest.mark.parametrize(
    ("history", "capacity", "rewind", "window", "size", "expected"),
    [(0, 32, 0, 16, 8, (0, 2)), (0, 34, 2, 16, 8, (0, 2)), (8, 32, 0, 8, 4, (2, 6))],
)
def test_scratch_takes_what_will_be_stale_before_it_is_read(
    history: int, capacity: int, rewind: int, window: int, size: int, expected: tuple[int, int]
) -> None:
    assert scratch_range(history, capacity, rewind, window, 0, size) == expected
    assert scratch_range(history, capacity, None, window, 0, size) == (0, 0)
    assert scratch_range(history, capacity, rewind, None, 0, size) == (0, 0)


# ---- V1


@given(st.integers(1, 40), st.integers(0, 60), st.integers(1, 30), st.integers(1, 8))
def test_the_counter_has_a_closed_form(prompt: int, added: int, window: int, size: int) -> None:
    counter = 0
    for tokens in range(prompt + 1, prompt + added + 1):
        while tokens - counter * size >= window + size:
            counter += 1
    assert removed_blocks(prompt, prompt + added, window, size) == counter
    if added == 1:
        assert counter == stale_range(prompt, window, 0, size)[1]
    assert removed_blocks(prompt, prompt + added, None, size) == 0


def test_a_v1_list_goes_on_behind_what_was_detached_and_behind_the_prompt() -> None:
    # P=1150, 9 blocks; with 1157 tokens 10 are listed and 8 of them have left.
    request = Request(0, 1150, context=SideState(extra=5, reached=1157))
    case = case_of(group(KEY, window=133), size=128, requests=(request,), context_side=V1)
    found = held(case)
    assert isinstance(found, BlockList)
    assert (len(found.ids), found.own, found.removed) == (10, 10, 8)
    assert removed_blocks(1150, 1157, 133, 128) == 8 and stale_range(1150, 133, 0, 128)[1] == 7
    table = gather_facts(case).context[0].blocks[0, 0]
    assert np.flatnonzero(table.slots >= 0).tolist() == [8]


def test_a_v1_list_packs_beam_tails_behind_the_first_beam() -> None:
    request = Request(0, 7, beams=4, context=SideState(tails=2), generation=SideState(tails=3))
    case = case_of(KEY, size=4, requests=(request,), sides=V1)
    found = held(case)
    assert isinstance(found, BlockList)
    assert (len(found.ids), found.own, len(set(found.ids))) == (4, 2, 4)


def test_a_context_parallel_rank_lists_its_own_blocks() -> None:
    case = case_of(
        KEY, generation="tp1 cp3", size=4, requests=(Request(0, 30, generation=SideState(drafts=3)),), sides=V1
    )
    lists = [held(case, "generation", rank) for rank in range(3)]
    whole = held(case)
    assert isinstance(whole, BlockList)
    # 9 blocks with the drafts: 0 3 6, 1 4 7, 2 5 8. Ids are the side's own.
    assert [each.own for each in lists if isinstance(each, BlockList)] == [3, 3, 3]


def test_ids_say_nothing_of_slots_and_are_a_windows_own() -> None:
    near = group("near @ 0 : T D(1) ; 8", name="near", window=5)
    case = case_of(model_of(group(KEY), near), prompts=(9, 9), size=4, sides=V1)
    holdings = holdings_of(case)
    slots = lay_out(case, "context").slots[0]
    translation = holdings.translation("context", 0)
    for window, name in enumerate(("kv", "near")):
        for request in range(2):
            found = holdings.listed("context", 0, request, window)
            assert isinstance(found, BlockList)
            assert translation.translate(found.ids, name).tolist() == slots[window][request].tolist()
    first, second = (holdings.listed("context", 0, 0, window) for window in (0, 1))
    assert isinstance(first, BlockList) and isinstance(second, BlockList)
    assert first.ids == second.ids
    assert translation.translate(first.ids, "kv").tolist() != translation.translate(second.ids, "near").tolist()


# ---- translation


def test_translation_keeps_order_and_length() -> None:
    known = Translation(["a"], {"a": {4: 0, 5: 3, 6: 1}})
    assert known.translate([6, 4, 5, 4], "a").tolist() == [1, 0, 3, 0]
    assert known.translate([], "a").tolist() == []


def test_a_block_on_the_host_fails_the_whole_translation() -> None:
    known = Translation(["a"], {"a": {0: None, 4: 0}})
    with pytest.raises(OnHost, match="block 0 of window 'a' is on the host"):
        known.translate([4, 0], "a")
    assert known.translate([4], "a").tolist() == [0]


def test_an_id_or_a_window_that_there_is_not_is_no_slot() -> None:
    known = Translation([16], {16: {1: 1}})
    with pytest.raises(UnknownBlock, match="block 2 is not one of window 16"):
        known.translate([2], 16)
    with pytest.raises(UnknownBlock, match="window = 8 is not possible"):
        known.translate([1], 8)


@given(st.lists(st.sampled_from([16, 128, 4096]), min_size=1, max_size=4))
def test_how_often_a_window_is_named_says_nothing(windows: list[int]) -> None:
    """Property F5."""
    law_F5(windows)


def test_the_window_may_be_left_out_where_there_is_one() -> None:
    # How often a window is named does not count, only how many differ.
    assert Translation([4096, 4096], {4096: {1: 7}}).translate([1]).tolist() == [7]
    with pytest.raises(WindowNotNamed, match="expected one of"):
        Translation([4096, 128], {4096: {1: 7}, 128: {1: 8}}).translate([1])


# ---- V2


def test_v2_pages_have_holes_where_the_window_left_and_go_on_behind_the_prompt() -> None:
    request = Request(0, 32, context=SideState(drafts=2))
    found = held(case_of(group(KEY, window=16), size=8, requests=(request,)))
    assert isinstance(found, PageList)
    assert (found.slots == HOLE).tolist() == [True, True, False, False, False]
    assert len(found.compact()) == 3 and found.left_behind == 2


def test_a_raised_history_leaves_more_behind() -> None:
    case = case_of(group(KEY, window=5), size=4, requests=(Request(0, 10, context=SideState(reached=13)),))
    found = held(case)
    assert isinstance(found, PageList)
    assert (found.slots == HOLE).tolist() == [True, True, False, False]
    # Every hole below the prompt's end is stale; nothing else is.
    assert found.stale == stale_range(13, 5, 0, 4) == (0, 2)


def test_parked_pages_are_holes_whatever_slot_they_have() -> None:
    pages = PageList(np.array([7, 8, 9]), parked=(1,))
    assert pages.slots.tolist() == [7, 8, 9]
    assert pages.usable().tolist() == [7, HOLE, 9] and pages.compact().tolist() == [7, 9]


def test_holes_do_not_change_the_slots_that_they_are_made_of() -> None:
    slots = np.array([1, 2, 3])
    assert make_holes(slots, (0, 0), (2, 1)) is slots
    assert make_holes(slots, (0, 1)).tolist() == [HOLE, 2, 3] and slots.tolist() == [1, 2, 3]


def test_a_slice_sees_what_there_was_room_for_by_then() -> None:
    case = case_of(KEY, size=4, requests=(Request(0, 32, cuts=(16,)),), context_side={"look_ahead": 2})
    first, last = gather_facts(case).chunks[0]
    assert (first.first, first.end, first.capacity, last.capacity) == (0, 4, 24, 32)
    listed = Holdings(case).listed_at(first, 0, 0, 0)
    assert isinstance(listed, PageList)
    assert len(listed.slots) == 6


def test_given_and_presented_lists_stand_for_the_managers_own() -> None:
    rows = (SlotList("context", 0, "kv", 0, (5, -1, 2)),)
    case = case_of(KEY, prompts=9, size=4, tables=rows)
    found = held(case)
    assert isinstance(found, PageList)
    assert found.given and found.slots.tolist() == [5, -1, 2]
    case = case_of(
        KEY, generation="tp1 cp2", prompts=9, size=4, presented=(SlotList("generation", 1, "kv", 0, (0, 6, 0)),)
    )
    found = held(case, "generation", 1)
    assert isinstance(found, PageList)
    assert found.given and found.slots.tolist() == [6]


# ---- where spare blocks lie


def test_spare_blocks_have_slots_of_their_own_behind_those_of_prompts() -> None:
    requests = (
        Request(0, 7, context=SideState(drafts=5), generation=SideState(drafts=2)),
        Request(1, 4, context=SideState(reached=5)),
    )
    case = case_of(KEY, size=4, requests=requests)
    plain = case_of(KEY, prompts=(7, 4), size=4)
    for side, beyond in (("context", (1, 1)), ("generation", (1, 0))):
        layout = lay_out(case, side)
        taken = [slot for slots in layout.slots[0][0] for slot in slots.tolist()]
        spare = [layout.spare_slots(0, 0, request)[0].tolist() for request in range(2)]
        assert [len(slots) for slots in spare] == list(beyond)
        everything = taken + [slot for slots in spare for slot in slots]
        assert len(set(everything)) == len(everything)
        assert max(everything) < layout.tables[0].pools[0].count
        # Without states nothing is spare, and slots are where they were.
        assert not lay_out(plain, side).spare
