"""The worked examples of the block specification, with their corrections, through all three encodings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle.model.case import PLAIN, Case, Request, SideState, SlotList
from oracle.truth.blocks import DUE, OPTIONAL, block_classes, resident_blocks
from oracle.truth.holding import held_blocks
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind
from tests.block_moves import ENCODED, chunked_moves, codes_of, moves, plan_of, verdict_of
from tests.small_cases import case_of, group

KEY = "key @ 0 : T D(1) ; 8"
V1 = {"manager": "v1"}


def state_case(
    prompt: int,
    size: int,
    window: int | None = None,
    *,
    context: SideState = PLAIN,
    generation: SideState = PLAIN,
    managers: tuple[str, str] = ("v2", "v2"),
    reserve: tuple[int, int] = (0, 0),
    cp: int = 1,
    sinks: int = 0,
    cuts: tuple[int, ...] = (),
    beams: int = 1,
    more: tuple[dict[str, object], dict[str, object]] = ({}, {}),
    **options: object,
) -> Case:
    sides = [
        {"manager": manager, "reserve": (("kv", kept),) if kept else (), **own}
        for manager, kept, own in zip(managers, reserve, more, strict=True)
    ]
    return case_of(
        group(KEY, window=window, sinks=sinks),
        "tp1",
        f"tp1 cp{cp}",
        size=size,
        requests=(Request(0, prompt, cuts=cuts, context=context, generation=generation, beams=beams),),
        context_side=sides[0],
        generation_side=sides[1],
        **options,  # type: ignore[arg-type]
    )


def due(case: Case) -> list[int]:
    return np.flatnonzero(block_classes(case, 0, 0) == DUE).tolist()


def optional(case: Case) -> list[int]:
    return np.flatnonzero(block_classes(case, 0, 0) == OPTIONAL).tolist()


def same(*ordinals: int) -> list[tuple[int, int]]:
    return [(ordinal, ordinal) for ordinal in ordinals]


@pytest.mark.parametrize("name", ENCODED)
def test_x1_chunks_and_reuse_on_both_sides(name: str) -> None:
    case = state_case(18, 4, cuts=(9, 13), context=SideState(6), generation=SideState(10))
    assert chunked_moves(case, name) == [(1, (2, 2)), (2, (3, 3)), (2, (4, 4))]
    assert moves(state_case(18, 4, context=SideState(6), generation=SideState(10)), name) == same(2, 3, 4)
    assert verdict_of(case, name)


@pytest.mark.parametrize("name", ENCODED)
def test_x2_a_receivers_scratch_block_is_not_taken_for_a_prompt_block(name: str) -> None:
    case = state_case(32, 8, 16, generation=SideState(extra=2, drafts=2))
    assert moves(case, name) == same(2, 3)
    assert verdict_of(case, name)


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize(("prompt", "size", "window", "most", "lost"), [(1150, 128, 133, 1157, 7), (10, 4, 5, 13, 1)])
def test_x3_a_counter_ahead_of_the_window_loses_a_due_block_and_is_refused(
    prompt: int, size: int, window: int, most: int, lost: int, name: str
) -> None:
    state = SideState(extra=5, reached=most)
    case = state_case(prompt, size, window, context=state, managers=("v1", "v2"))
    assert lost in due(case) and not held_blocks(case, "context", 0, 0)[lost]
    assert codes_of(case, name) == ["block_lost"]
    assert verdict_of(case, name)
    # With a reserve for the tokens added nothing is lost.
    kept = state_case(prompt, size, window, context=state, managers=("v1", "v2"), reserve=(most - prompt, 0))
    assert moves(kept, name) == same(*due(kept))
    assert verdict_of(kept, name)


@pytest.mark.parametrize("name", ENCODED)
def test_x4_a_wider_receiver_gets_what_there_is(name: str) -> None:
    case = state_case(20, 4, 4, reserve=(0, 4))
    assert (due(case), optional(case)) == ([4], [3])
    assert moves(case, name) == same(4)
    assert verdict_of(case, name)


def test_x5_beam_tails_go_with_the_last_block_or_not_at_all() -> None:
    # 63 tokens: the last block has room for the beams' own tokens; two of four beams differ in it.
    case = state_case(
        63,
        8,
        context=SideState(tails=2),
        generation=SideState(cached=16, tails=2),
        managers=("v1", "v1"),
        beams=4,
    )
    prompt = same(2, 3, 4, 5, 6, 7)
    assert moves(case, "mapping:tables") == prompt
    assert moves(case, "mapping:anchors") == [*prompt, (("tail", 0),) * 2, (("tail", 1),) * 2]
    assert codes_of(case, "mapping:suffix") == ["tails_not_told_apart"]
    assert all(verdict_of(case, name) for name in ENCODED)


@pytest.mark.parametrize("name", ENCODED)
def test_x6_helix_with_reuse_counts_the_blocks_of_a_rank(name: str) -> None:
    case = state_case(30, 4, cp=3, generation=SideState(16))
    assert [moves(case, name, rank=rank) for rank in range(3)] == [same(6), same(4, 7), same(5)]
    assert verdict_of(case, name)


@pytest.mark.parametrize("name", ENCODED)
def test_x8_a_windowed_group_waits_for_the_last_slice_and_look_ahead_shifts_nothing(name: str) -> None:
    ahead = ({"look_ahead": 2}, {})
    windowed = state_case(32, 4, 8, cuts=(16,), more=ahead)
    assert chunked_moves(windowed, name) == [(1, pair) for pair in same(6, 7)]
    full = state_case(32, 4, cuts=(16,), more=ahead)
    assert chunked_moves(full, name) == [(number // 4, pair) for number, pair in enumerate(same(*range(8)))]
    assert verdict_of(windowed, name) and verdict_of(full, name)


def test_x9_only_tables_can_say_sinks_in_front_of_a_gap() -> None:
    case = state_case(32, 8, 16, sinks=4)
    assert moves(case, "mapping:tables") == same(0, 2, 3)
    for name in ENCODED[1:]:
        assert codes_of(case, name) == ["sinks_before_a_gap"]
        assert verdict_of(case, name)
    # All blocks are sinks, and still the window begins behind the first: an anchor would walk over it.
    tight = state_case(16, 8, 9, sinks=1)
    assert due(tight) == [0, 1]
    assert codes_of(tight, "mapping:anchors") == ["sinks_before_a_gap"]
    # Nothing has left the window: there is no gap, and no reason to refuse.
    whole = state_case(16, 8, 17, sinks=1)
    assert all(moves(whole, name) == same(0, 1) for name in ENCODED)


@pytest.mark.parametrize("name", ENCODED)
def test_x10_where_nothing_is_live_nothing_moves(name: str) -> None:
    case = state_case(8, 4, 1)
    assert moves(case, name) == []
    assert plan_of(case, name).pairs and verdict_of(case, name)


# ---- the table of what the implicit encoding got wrong: whoever does it right gets "truth"


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (state_case(32, 8, 16, context=SideState(extra=2, drafts=2)), same(2, 3)),
        (state_case(32, 8, 16, context=SideState(reached=33), managers=("v1", "v1")), same(2, 3)),
        (state_case(31, 8, 16, context=SideState(extra=1, drafts=2)), same(2, 3)),
        (state_case(31, 8, 16, generation=SideState(extra=1, drafts=2)), same(2, 3)),
        (state_case(8, 4, 4, managers=("v1", "v2")), same(1)),
        (state_case(156_800, 128, 128, reserve=(0, 3)), same(1224)),
        (state_case(10, 4, 5, context=SideState(drafts=3), managers=("v1", "v2"), reserve=(2, 0)), same(1, 2)),
        (state_case(32, 4, 8, cuts=(16,), more=({"look_ahead": 2}, {})), same(6, 7)),
    ],
    ids=["I1", "I2", "I3 sender", "I3 receiver", "I4", "I5", "I6", "I10"],
)
def test_right_encodings_give_the_truth_where_the_implicit_one_went_wrong(
    case: Case, expected: list[tuple[int, int]], name: str
) -> None:
    assert moves(case, name) == expected
    assert verdict_of(case, name)


def test_i7_unequal_lists_with_equal_tails() -> None:
    case = state_case(
        7,
        4,
        context=SideState(tails=1),
        generation=SideState(cached=4, tails=1),
        managers=("v1", "v1"),
        beams=3,
    )
    assert moves(case, "mapping:anchors") == [(1, 1), (("tail", 0), ("tail", 0))]
    assert codes_of(case, "mapping:suffix") == ["tails_not_told_apart"]
    assert all(verdict_of(case, name) for name in ENCODED)


@pytest.mark.parametrize(("name", "served"), list(zip(ENCODED, (True, False, True), strict=True)))
def test_i8_helix_with_a_window_is_an_intersection_that_anchors_do_not_know(name: str, served: bool) -> None:
    case = state_case(32, 4, 13, cp=2)
    if served:
        assert moves(case, name, rank=1) == same(5, 7)
    else:
        assert codes_of(case, name) == ["window_with_context_parallelism"]
    assert verdict_of(case, name)


@pytest.mark.parametrize("name", ENCODED)
def test_i9_reuse_on_a_helix_rank_skips_its_own_blocks_only(name: str) -> None:
    case = state_case(32, 4, cp=2, generation=SideState(8))
    assert moves(case, name, rank=1) == same(3, 5, 7)
    assert verdict_of(case, name)


# ---- decisions


@pytest.mark.parametrize("name", ENCODED)
def test_v1_sends_only_the_window_though_it_still_holds_the_whole_prompt(name: str) -> None:
    case = state_case(32, 4, 8, managers=("v1", "v1"))
    assert held_blocks(case, "context", 0, 0).all()
    assert moves(case, name) == same(6, 7)


@pytest.mark.parametrize("name", ENCODED)
def test_a_rewind_gives_no_block_back(name: str) -> None:
    case = state_case(10, 4, 5, context=SideState(reached=13), managers=("v1", "v1"))
    assert held_blocks(case, "context", 0, 0).tolist() == [False, False, True]
    assert codes_of(case, name) == ["block_lost"]


def test_extra_tokens_that_a_manager_reports_decide_nothing() -> None:
    plain = state_case(31, 8, 16)
    for reported in (1, 2, 40):
        case = state_case(31, 8, 16, context=SideState(extra=reported), generation=SideState(extra=reported + 1))
        for name in ENCODED:
            assert moves(case, name) == moves(plain, name)


@pytest.mark.parametrize("name", ENCODED)
def test_a_receivers_own_token_is_a_block_past_the_prompt(name: str) -> None:
    case = state_case(8, 4, generation=SideState(drafts=1))
    assert moves(case, name) == same(0, 1)
    assert verdict_of(case, name)


def test_helix_ranks_without_a_block_complete_with_nothing() -> None:
    case = state_case(4, 4, cp=3)
    for name in ENCODED:
        assert [moves(case, name, rank=rank) for rank in range(3)] == [same(0), [], []]
        assert verdict_of(case, name)


def test_chunks_with_context_parallelism_are_refused_in_every_encoding() -> None:
    case = state_case(16, 4, cp=2, cuts=(8,))
    for name in ENCODED:
        assert codes_of(case, name) == ["chunks_with_context_parallelism"]
        assert verdict_of(case, name)


def test_unequal_numbers_of_tails_are_refused_by_who_carries_tails() -> None:
    case = state_case(7, 4, context=SideState(tails=2), generation=SideState(tails=1), managers=("v1", "v1"), beams=3)
    assert moves(case, "mapping:tables") == same(0, 1)
    assert codes_of(case, "mapping:anchors") == ["tail_counts_differ"]
    assert all(verdict_of(case, name) for name in ENCODED)


@pytest.mark.parametrize("name", ENCODED[1:])
def test_tails_are_told_apart_where_every_beam_has_one(name: str) -> None:
    case = state_case(7, 4, context=SideState(tails=2), generation=SideState(tails=2), managers=("v1", "v1"), beams=3)
    assert moves(case, name) == [*same(0, 1), (("tail", 0),) * 2, (("tail", 1),) * 2]
    assert verdict_of(case, name)


def test_a_tail_written_for_another_one_is_a_wrong_element_where_tails_may_arrive() -> None:
    case = state_case(7, 4, context=SideState(tails=2), generation=SideState(tails=2), managers=("v1", "v1"), beams=3)
    plan = plan_of(case, "mapping:anchors")
    (segment,) = plan.segments
    turned = segment.destination_bases.copy()
    turned[-2:] = turned[:-3:-1]
    wrong = replace(plan, segments=(replace(segment, destination_bases=turned),))
    # Three of four rows are of the prompt, which all beams share; the last is each beam's own.
    assert judge(case, wrong, encoding="anchors").counts == {Kind.WRONG_ELEMENT: 2}
    assert judge(case, plan, encoding="tables").counts == {Kind.STRAY: 8}


def test_a_hole_inside_a_given_list_is_nothing_for_a_run() -> None:
    rows = (SlotList("generation", 0, "kv", 0, (5, -1, 2)),)
    case = state_case(12, 4, tables=rows)
    assert moves(case, "mapping:tables") == same(0, 2)
    for name in ENCODED[1:]:
        assert codes_of(case, name) == ["hole_in_a_list"]
        assert verdict_of(case, name)
    front = state_case(12, 4, tables=(SlotList("generation", 0, "kv", 0, (-1, 5, 2)),))
    for name in ENCODED:
        assert moves(front, name) == same(1, 2)


def test_scratch_that_reaches_into_the_window_loses_blocks() -> None:
    # Room for 4 tokens more than a rewind may take back: the window of those lies 4 tokens further on.
    case = state_case(16, 4, 5, context=SideState(drafts=8), more=({"scratch": 0}, {}))
    assert held_blocks(case, "context", 0, 0).tolist() == [False, False, False, False]
    assert due(case) == [3]
    for name in ENCODED:
        assert codes_of(case, name) == ["block_lost"]
        assert verdict_of(case, name)
    whole = state_case(16, 4, 5, context=SideState(drafts=8), more=({"scratch": 8}, {}))
    assert all(moves(whole, name) == same(3) for name in ENCODED)


def test_a_receiver_does_not_take_what_it_has_let_go_of() -> None:
    # The fifth token of its own uses its reserve up: block 0 is no longer there to be written.
    case = state_case(8, 4, 5, generation=SideState(drafts=5), managers=("v1", "v1"), reserve=(4, 4))
    assert (due(case), optional(case)) == ([1], [])
    assert optional(state_case(8, 4, 5, managers=("v1", "v1"), reserve=(4, 4))) == [0]
    slots = np.arange(2)
    assert resident_blocks(case, 0, 0, slots).tolist() == [True, True]
    for name in ENCODED:
        assert moves(case, name) == same(1)
        assert verdict_of(case, name)
