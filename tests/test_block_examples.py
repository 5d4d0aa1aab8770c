"""The worked examples list by list: what each side tells in each encoding, in the numbers of the specification.

Blocks go by labels, a number for each side plus the ordinal; slots say nothing. What then moves, and that
it is judged right, is in ``tests/test_states_worked.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from differential.managers.anchors import RIGHT as RIGHT_ANCHORS
from differential.managers.extents import Extent
from differential.managers.facts import BlockTable
from differential.managers.holdings import Holdings
from differential.managers.spans import Inexpressible, Span
from differential.managers.suffix import Suffix
from differential.managers.v1 import BlockList, OnHost, Translation
from differential.managers.v2 import PageList, stale_range
from differential.managers.wire import WireTrouble, check
from differential.managers.wire.exchange import expected_of, info_of
from oracle.model.case import Case, Request, SideState, Slots
from tests.block_moves import block_names, chunked_moves, codes_of, moves, plan_of, verdict_of
from tests.encoded_lists import ANCHORS, SUFFIX, TABLES, How, Told, ToldLists
from tests.small_cases import case_of, group, model_of
from tests.test_states_worked import same, state_case

LABELS = {"context": 100, "generation": 200}
V1 = ("v1", "v1")


def labels(case: Case, side: str, slots: Sequence[int], rank: int = 0, number: int = 0) -> list[int | str]:
    """Slots as labels: blocks behind the prompt go on counting, tails are t1, t2, ..."""
    blocks = -(-case.requests[0].prompt // case.side(side).tokens_per_block)
    found: list[int | str] = []
    for slot in slots:
        name = -1 if slot < 0 else block_names(case, side, rank, 0, number)[slot]
        if isinstance(name, tuple):
            what, place = name
            name = LABELS[side] + blocks + place if what == "past" else f"t{place + 1}"
        elif slot >= 0:
            name = LABELS[side] + name  # type: ignore[operator]
        found.append(name)  # type: ignore[arg-type]
    return found


def said(case: Case, how: How, side: str, rank: int = 0, number: int = 0) -> object:
    """What one side tells: (labels, anchor), a list of labels, or a table of labels; tails behind them."""
    told: Told = ToldLists(case, how).tell(side, rank, 0, number)
    named = labels(case, side, told.slots.tolist(), rank, number)
    if isinstance(told, Span):
        return [*named, *labels(case, side, told.tails.tolist(), rank, number)], told.start
    assert isinstance(told, Suffix | BlockTable)
    return named


def positional(case: Case, side: str) -> list[int | str]:
    """What a V2 manager answers by position, before anything is cut."""
    held = Holdings(case).listed(side, 0, 0, 0)
    assert isinstance(held, PageList)
    return labels(case, side, held.slots.tolist())


def slices(case: Case) -> list[tuple[int, int, bool]]:
    return [(each.first, each.end, each.last) for each in TABLES.facts(case).chunks[0]]


# ---- X1 to X10


def test_x1_full_attention_with_reuse_and_chunks() -> None:
    case = state_case(18, 4, cuts=(9, 13), context=SideState(6), generation=SideState(10))
    assert said(case, ANCHORS, "context") == ([100, 101, 102, 103, 104], 0)
    assert said(case, ANCHORS, "generation") == ([202, 203, 204], 2)
    assert said(case, TABLES, "context") == [100, 101, 102, 103, 104]
    assert said(case, TABLES, "generation") == [-1, -1, 202, 203, 204]
    assert said(case, SUFFIX, "generation") == [202, 203, 204]
    # The first chunk sends nothing that the receiver lacks, and is sent all the same.
    assert slices(case) == [(0, 2, False), (2, 3, False), (3, 5, True)]


@pytest.mark.parametrize("manager", ["v1", "v2"])
def test_x2_window_and_a_draft_block_of_the_receiver(manager: str) -> None:
    case = state_case(32, 8, 16, generation=SideState(extra=2, drafts=2), managers=("v2", manager), reserve=(0, 1))
    tight = state_case(32, 8, 16, generation=SideState(extra=2, drafts=2))
    assert said(case, TABLES, "context") == [-1, -1, 102, 103]
    assert positional(tight, "generation") == [-1, -1, 202, 203, 204]
    for each in (case, tight):
        assert said(each, ANCHORS, "context") == ([102, 103], 2)
        assert said(each, ANCHORS, "generation") == ([202, 203], 2)
        assert said(each, SUFFIX, "generation") == [202, 203]
        assert said(each, TABLES, "generation") == [-1, -1, 202, 203]


def test_x3_a_counter_ahead_of_the_window() -> None:
    # Ten ids, one of them behind the prompt and eight detached.
    case = state_case(1150, 128, 133, context=SideState(extra=5, reached=1157), managers=("v1", "v2"))
    listed = Holdings(case).listed("context", 0, 0, 0)
    assert isinstance(listed, BlockList)
    assert (len(listed.ids), listed.removed, stale_range(1150, 133, 0, 128)) == (10, 8, (0, 7))
    assert said(case, ANCHORS, "context") == ([108], 8)
    assert said(case, TABLES, "context") == [*[-1] * 8, 108]
    assert said(case, SUFFIX, "context") == [108]
    assert said(case, ANCHORS, "generation") == ([207, 208], 7)
    # One token only has been added: the counter is where the window is.
    early = state_case(1150, 128, 133, context=SideState(extra=5, reached=1151), managers=("v1", "v2"))
    assert said(early, ANCHORS, "context") == ([107, 108], 7)
    # The small twin.
    twin = state_case(10, 4, 5, context=SideState(reached=13), managers=("v1", "v2"))
    assert said(twin, ANCHORS, "context") == ([102], 2) and said(twin, ANCHORS, "generation") == ([201, 202], 1)
    assert all(
        codes_of(each, name) == ["block_lost"] for each in (case, twin) for name in ("mapping:anchors", "mapping")
    )


def test_x3_only_the_block_that_is_left_is_translated() -> None:
    asked: list[Sequence[int]] = []

    def translate(ids: Sequence[int]) -> np.ndarray:
        asked.append(tuple(ids))
        return np.array(ids, dtype=np.int64)

    span = RIGHT_ANCHORS.build(BlockList(tuple(range(200, 210)), 10, 8), Extent(9, 7, reported=10), translate)
    assert (span.slots.tolist(), span.start) == ([208], 8)
    assert [ids for ids in asked if ids] == [(208,)]


def test_x4_a_receiver_with_a_wider_window() -> None:
    case = state_case(20, 4, 4, reserve=(0, 4))
    assert said(case, ANCHORS, "context") == ([104], 4)
    assert said(case, ANCHORS, "generation") == ([203, 204], 3)
    assert said(case, TABLES, "generation") == [-1, -1, -1, 203, 204]
    assert said(case, SUFFIX, "context") == [104] and said(case, SUFFIX, "generation") == [203, 204]


def test_x5_beams_whose_last_block_differs() -> None:
    case = state_case(63, 8, context=SideState(tails=2), generation=SideState(cached=16, tails=2), managers=V1, beams=4)
    assert said(case, ANCHORS, "context") == ([*range(100, 108), "t1", "t2"], 0)
    assert said(case, ANCHORS, "generation") == ([*range(202, 208), "t1", "t2"], 2)
    assert said(case, TABLES, "generation") == [-1, -1, *range(202, 208)]
    # Two tails of four beams: the length of the list cannot tell.
    with pytest.raises(Inexpressible, match="8 blocks and 2 tails of 4 beams look like another split"):
        said(case, SUFFIX, "context")
    short = state_case(7, 8, context=SideState(tails=1), generation=SideState(tails=1), managers=V1, beams=4)
    with pytest.raises(Inexpressible, match="1 block and 1 tail of 4 beams look like another split"):
        said(short, SUFFIX, "context")
    # A prompt that fills its blocks has none: the beams share them all.
    whole = state_case(64, 8, generation=SideState(cached=16), managers=V1, beams=4)
    assert said(whole, ANCHORS, "context") == ([*range(100, 108)], 0)


def test_x6_context_parallel_ranks_and_reuse() -> None:
    whole = state_case(30, 4, cp=3)
    assert [said(whole, TABLES, "generation", rank) for rank in range(3)] == [
        [200, 203, 206],
        [201, 204, 207],
        [202, 205],
    ]
    case = state_case(30, 4, cp=3, generation=SideState(16))
    assert [said(case, ANCHORS, "generation", rank) for rank in range(3)] == [([206], 6), ([204, 207], 4), ([205], 5)]
    assert [said(case, TABLES, "generation", rank) for rank in range(3)] == [[-1, -1, 206], [-1, 204, 207], [-1, 205]]
    assert [said(case, SUFFIX, "generation", rank) for rank in range(3)] == [[206], [204, 207], [205]]
    lists = ToldLists(case, ANCHORS)
    assert [lists.extent("generation", rank, 0, 0).local(4) for rank in range(3)] == [2, 1, 1]


def test_x7_offloaded_blocks_keep_their_ids_and_not_their_slots() -> None:
    # Four slots. a had ids 0..3; b came, and a went to the host: ids 4..7 have the slots now.
    window, extent = "w", Extent(4)
    b = Translation([window], {window: {0: None, 1: None, 2: None, 3: None, 4: 0, 5: 1, 6: 2, 7: 3}})
    span = RIGHT_ANCHORS.build(BlockList((4, 5, 6, 7), 4), extent, b.translate)
    assert (span.slots.tolist(), span.start) == ([0, 1, 2, 3], 0)
    with pytest.raises(OnHost, match="block 0 of window 'w' is on the host"):
        b.translate([0], window)
    with pytest.raises(OnHost):
        RIGHT_ANCHORS.build(BlockList((0, 1, 2, 3), 4), extent, b.translate)
    # a runs again: it was brought back wherever there was room.
    a = Translation([window], {window: {0: 2, 1: 0, 2: 3, 3: 1, 4: None, 5: None, 6: None, 7: None}})
    back = RIGHT_ANCHORS.build(BlockList((0, 1, 2, 3), 4), extent, a.translate)
    assert back.slots.tolist() == [2, 0, 3, 1]


def test_x7_an_id_taken_for_a_slot_lies_behind_the_pool_and_is_refused_on_the_wire() -> None:
    case = case_of("key @ 0 : T D(1) ; 8", prompts=64, size=16, slots=Slots(counts=(("kv", 4),)))
    lists = ToldLists(case, TABLES)
    right = {0: lists.tell("generation", 0, 0, 0)}
    check(info_of(case, 0, 0, right), expected_of(case, 0, 0))
    wrong = {0: BlockTable(0, 1, np.arange(4, 8))}
    with pytest.raises(WireTrouble, match="expected a slot below 4") as caught:
        check(info_of(case, 0, 0, wrong), expected_of(case, 0, 0))
    assert caught.value.rule == "W8"


def test_x8_a_look_ahead_shifts_no_block_of_an_early_chunk() -> None:
    near = group("near @ 0 : T D(1) ; 8", name="near", window=8)
    model = model_of(group("key @ 0 : T D(1) ; 8"), near)
    request = Request(0, 32, cuts=(16,))
    case = case_of(model, size=4, requests=(request,), context_side={"look_ahead": 2})
    assert stale_range(16, 8, 0, 4) == (0, 2)
    (early, last), lists = TABLES.facts(case).chunks[0], ToldLists(case, ANCHORS)
    assert (early.capacity, last.capacity) == (24, 32)
    assert slices(case) == [(0, 4, False), (4, 8, True)]
    # Unwindowed: the list of that moment has six blocks, of which four are the chunk's.
    held = lists.holdings.listed_at(early, 0, 0, 0)
    assert isinstance(held, PageList) and len(held.slots) == 6
    translate = lists.translate("context", 0, 0)
    for how, start in ((ANCHORS, (0,)), (SUFFIX, ())):
        assert how.lists is not None
        chunk = how.lists.build_chunk(held, lists.extent("context", 0, 0, 0), early.first, early.end, translate)
        assert labels(case, "context", chunk.slots.tolist()) == [100, 101, 102, 103]
        assert isinstance(chunk, Span | Suffix) and (not start or chunk.start == 0)  # type: ignore[union-attr]
    assert said(case, ANCHORS, "context", number=1) == ([106, 107], 6)
    for name in ("mapping", "mapping:anchors", "mapping:suffix"):
        assert chunked_moves(case, name) == [(ordinal // 4, (ordinal, ordinal)) for ordinal in range(8)]
        assert chunked_moves(case, name, group=1) == [(1, pair) for pair in same(6, 7)]
        assert verdict_of(case, name)


def test_x9_sinks_in_front_of_a_gap() -> None:
    case = state_case(32, 8, 16, sinks=4)
    assert stale_range(32, 16, 4, 8) == (1, 2)
    assert said(case, TABLES, "context") == [100, -1, 102, 103]
    assert positional(case, "context") == [100, -1, 102, 103]
    for how in (ANCHORS, SUFFIX):
        with pytest.raises(Inexpressible, match="sinks, and a window that begins at block 2"):
            said(case, how, "context")


def test_x10_nothing_is_live() -> None:
    for case in (state_case(8, 4, 1), state_case(8, 4, 1, cuts=(4,)), state_case(8, 4, 1, managers=V1)):
        for side in ("context", "generation"):
            assert said(case, ANCHORS, side) == ([], 0)
            assert said(case, TABLES, side) == [-1, -1]
            assert said(case, SUFFIX, side) == []
        # The last slice goes out with nothing in it, and the request completes.
        assert slices(case)[-1][2]
        for name in ("mapping", "mapping:anchors", "mapping:suffix"):
            assert moves(case, name) == [] and plan_of(case, name).pairs and verdict_of(case, name)
