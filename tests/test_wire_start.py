"""A record's start masks what lies before it: the sender that reads the record sends nothing of that.

Spec: blocks, 2.1, 2.4 and 5. The start is a token of the whole prompt, whatever rank of several it is told by.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.managers.facts import BlockTable
from differential.managers.spans import Inexpressible, Span
from differential.managers.suffix import Suffix, Suffixes
from differential.managers.tables import mask_head
from differential.managers.wire import RequestInfo, WireTrouble, check, decode, encode
from differential.managers.wire.exchange import expected_of, info_of, lists_of
from oracle.model.case import Case, Request, SideState
from oracle.model.errors import InvalidCase
from tests import test_wire_of_cases
from tests.encoded_lists import ANCHORS, SUFFIX, TABLES, How, Pairs, Told, ToldLists, moves_of, slot_of
from tests.encoding_states import STATES
from tests.laws_of_pairs import meetings
from tests.small_cases import case_of, group, model_of
from tests.test_states_worked import state_case
from tests.test_wire_of_cases import alike, asked, wired_plan

each_masked = pytest.mark.parametrize("how", [TABLES, SUFFIX], ids=repr)


def with_start(info: RequestInfo, start: int | None) -> RequestInfo:
    return replace(info, dst_start_token=start)  # type: ignore[call-arg]


def read(lists: ToldLists, rank: int, request: int, start: int | None) -> dict[int, Told]:
    """The lists of a receiver that starts at token ``start``, as its senders read them."""
    case = lists.case
    info = with_start(info_of(case, rank, request, asked(lists, rank, request)), start)
    check(info, expected_of(case, rank, request))
    arrived = decode(encode(info), lists.how.encoding)
    found = lists_of(arrived, case, rank, request)
    assert arrived == info
    return found


def pairs_from(lists: ToldLists, start: int | None, rank: int = 0) -> tuple[list[int], int]:
    """(ordinals that go to a rank of request 0, how many tails), of one source; slots are those of the ordinals."""
    case = lists.case
    blocks, tails = lists.align(lists.tell("context", 0, 0, 0), read(lists, rank, 0, start)[0], 0, 0)
    there, here = (
        {slot: ordinal for ordinal, slot in slot_of(case, side, which, 0, 0).items()}
        for side, which in (("context", 0), ("generation", rank))
    )
    ordinals = [there[source] for source, _ in blocks]
    assert ordinals == [here[destination] for _, destination in blocks]
    return ordinals, len(tails)


# ---- by hand


@each_masked
@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (None, [0, 1, 2, 3, 4]),
        (0, [0, 1, 2, 3, 4]),
        (4, [1, 2, 3, 4]),
        (12, [3, 4]),
        (16, [4]),
        (20, []),  # a prompt that is cached whole
        (4000, []),
        ((1 << 63) - 4, []),
    ],
)
def test_a_sender_starts_where_its_receiver_does(how: How, start: int | None, expected: list[int]) -> None:
    # Five blocks of four tokens.
    assert pairs_from(ToldLists(state_case(20, 4), how), start) == (expected, 0)


@each_masked
def test_the_partial_last_block_is_left_by_a_start_at_it(how: How) -> None:
    # Blocks 0 to 4, the last of two tokens. A start behind it, at token 20, leaves nothing.
    lists = ToldLists(state_case(18, 4), how)
    assert pairs_from(lists, 16) == ([4], 0)
    assert pairs_from(lists, 20) == ([], 0)


@each_masked
@pytest.mark.parametrize(("start", "expected"), [(None, [2, 3, 4]), (4, [2, 3, 4]), (8, [2, 3, 4]), (12, [3, 4])])
def test_the_later_of_a_start_and_of_what_is_missing_counts(how: How, start: int | None, expected: list[int]) -> None:
    # Ten of 18 tokens are cached, so blocks 2 to 4 are asked for.
    lists = ToldLists(state_case(18, 4, generation=SideState(10)), how)
    assert info_of(lists.case, 0, 0, asked(lists, 0, 0)).dst_start_token is None  # type: ignore[attr-defined]
    assert pairs_from(lists, start) == (expected, 0)


@each_masked
@pytest.mark.parametrize(("start", "expected"), [(4, [3, 4]), (12, [3, 4]), (16, [4])])
def test_the_later_of_a_start_and_of_a_window_counts(how: How, start: int, expected: list[int]) -> None:
    # Blocks of four: of 20 tokens a window of 8 reaches back to token 13, in block 3.
    assert pairs_from(ToldLists(state_case(20, 4, 8), how), start) == (expected, 0)


@each_masked
@pytest.mark.parametrize(("start", "expected"), [(8, [4]), (12, [4]), (16, [4]), (20, [])])
def test_a_start_counts_for_a_receiver_that_keeps_more_than_its_sender(
    how: How, start: int, expected: list[int]
) -> None:
    # X4: the sender lists block 4 alone, the receiver blocks 3 and 4.
    assert pairs_from(ToldLists(state_case(20, 4, 4, reserve=(0, 4)), how), start) == (expected, 0)


@each_masked
@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (12, [[3, 6], [4, 7], [5]]),
        (16, [[6], [4, 7], [5]]),
        (24, [[6], [7], []]),
        (32, [[], [], []]),
    ],
)
def test_context_parallel_ranks_start_at_the_same_block_and_keep_their_phase(
    how: How, start: int, expected: list[list[int]]
) -> None:
    # X6: eight blocks on three ranks. Sixteen tokens are two blocks of rank 0, one of each other; never four.
    lists = ToldLists(state_case(30, 4, cp=3), how)
    assert [pairs_from(lists, start, rank)[0] for rank in range(3)] == expected
    for rank in range(3):
        told = read(lists, rank, 0, start)[0]
        placed = SUFFIX.lists.place(told) if isinstance(told, Suffix) else told  # type: ignore[union-attr]
        first = placed.first if isinstance(placed, BlockTable) else placed.start  # type: ignore[union-attr]
        assert (first % 3, placed.stride) == (rank, 3)  # type: ignore[union-attr]


@pytest.mark.parametrize(("start", "expected"), [(None, [0, 1]), (0, [0, 1]), (4, [1]), (8, [])])
def test_beam_tails_go_with_the_last_block(start: int | None, expected: list[int]) -> None:
    # Two blocks and two tails of three beams: masked to [1], the list is still told apart from its tails.
    states = {"context": SideState(tails=2), "generation": SideState(tails=2)}
    case = state_case(7, 4, managers=("v1", "v1"), beams=3, **states)  # type: ignore[arg-type]
    assert pairs_from(ToldLists(case, SUFFIX), start) == (expected, 2 if expected else 0)
    assert pairs_from(ToldLists(case, TABLES), start) == (expected, 0)


@each_masked
def test_neither_state_nor_another_length_than_the_prompts_is_masked(how: How) -> None:
    cross = group("cross @ 0 : T D(1) ; 8", name="cross", length="encoder")
    model = model_of(group("key @ 0 : T D(1) ; 8"), group("ssm @ 0 : P(2) ; 8", name="state", state=True), cross)
    case = case_of(model, size=4, requests=(Request(0, 5, lengths=(("encoder", 11),)),))
    lists = ToldLists(case, how)
    state = lists.facts.generation[0].blocks[0, 1]
    made = {0: lists.tell("generation", 0, 0, 0), 1: state, 2: lists.tell("generation", 0, 0, 2)}
    found = lists_of(with_start(info_of(case, 0, 0, made), 8), case, 0, 0)
    assert lists.slots(found[0]) == {}
    assert all(alike(found[number], made[number]) for number in (1, 2))


def test_masking_a_table_leaves_the_table_that_it_was_read_from() -> None:
    table = BlockTable(1, 3, np.array([7, 8, 9]))
    assert [mask_head(table, start).slots.tolist() for start in (0, 1, 2, 4, 5, 8)] == [
        [7, 8, 9],
        [7, 8, 9],
        [-1, 8, 9],
        [-1, 8, 9],
        [-1, -1, 9],
        [-1, -1, -1],
    ]
    assert table.slots.tolist() == [7, 8, 9]


@each_masked
@pytest.mark.parametrize("start", [1, 10, 21, 4001])
def test_a_start_inside_a_block_is_refused_wherever_it_lies(how: How, start: int) -> None:
    with pytest.raises(WireTrouble) as caught:
        read(ToldLists(state_case(20, 4), how), 0, 0, start)
    assert caught.value.rule == "W10"


def test_anchors_say_their_starts_themselves() -> None:
    lists = ToldLists(state_case(20, 4, generation=SideState(12)), ANCHORS)
    info = info_of(lists.case, 0, 0, asked(lists, 0, 0))
    assert info.first_ordinals == (3,) and not hasattr(info, "dst_start_token")  # type: ignore[attr-defined]


# ---- suffix lists that were told a start


TWO = case_of(
    model_of(
        group("key @ 0 : T D(1) ; 8"),
        group("near @ 0 : T D(1) ; 8", name="near", window=6),
        group("cross @ 0 : T D(1) ; 8", name="cross", length="encoder"),
    ),
    size=4,
    requests=(Request(0, 14, lengths=(("encoder", 11),)),),
)


def test_a_suffix_list_keeps_its_start_over_the_wire() -> None:
    lists = ToldLists(TWO, SUFFIX)
    once = read(lists, 0, 0, 8)
    assert [told.start for told in once.values()] == [2, 2, 0]  # type: ignore[union-attr]
    again = info_of(TWO, 0, 0, once)  # type: ignore[arg-type]
    assert again == with_start(info_of(TWO, 0, 0, asked(lists, 0, 0)), 8)
    twice = lists_of(decode(encode(again), "suffix"), TWO, 0, 0)
    assert [told.start for told in twice.values()] == [2, 2, 0]  # type: ignore[union-attr]


@pytest.mark.parametrize("starts", [(2, 0, 0), (0, 2, 0), (1, 2, 0), (2, 2, 2), (0, 0, 2)])
def test_suffix_lists_of_different_starts_make_no_record(starts: tuple[int, ...]) -> None:
    lists = asked(ToldLists(TWO, SUFFIX), 0, 0)
    told = {number: replace(each, start=starts[number]) for number, each in lists.items()}  # type: ignore[call-arg]
    with pytest.raises(InvalidCase, match=r"lists = \{0: .* expected the start of each group to be .* one for all"):
        info_of(TWO, 0, 0, told)  # type: ignore[arg-type]


# ---- for every state


def aligned(lists: ToldLists, source: Told, destination: Told, request: int, number: int) -> tuple[Pairs, Pairs] | None:
    try:
        return lists.align(source, destination, request, number)
    except Inexpressible:
        return None


@each_masked
@settings(max_examples=150, deadline=None)
@given(case=STATES, block=st.integers(0, 11))
def test_masking_drops_the_pairs_of_what_lies_before_the_start_and_no_others(how: How, case: Case, block: int) -> None:
    lists = ToldLists(case, how)
    masked: dict[tuple[int, int], dict[int, Told]] = {}
    for source, rank, request, number, ours, theirs in meetings(lists):
        if any(lists.told("generation", rank, request, each) is None for each in lists.groups()):
            continue
        whole = aligned(lists, ours, theirs, request, number)
        if (rank, request) not in masked:
            masked[rank, request] = read(lists, rank, request, block * case.generation.tokens_per_block)
        found = aligned(lists, ours, masked[rank, request][number], request, number)
        if whole is None:
            continue  # unequal tails, of which masking may leave none
        ordinals = {slot: ordinal for ordinal, slot in slot_of(case, "context", source, request, number).items()}
        left = [pair for pair in whole[0] if ordinals[pair[0]] >= block]
        assert found == (left, whole[1] if left else [])


@each_masked
@pytest.mark.parametrize("block", range(7))
@pytest.mark.parametrize(
    "case",
    [
        state_case(18, 4, context=SideState(6), generation=SideState(5), cuts=(9, 13)),  # X1
        state_case(20, 4, 8, cuts=(9,), managers=("v1", "v2")),
        state_case(30, 4, cp=3, managers=("v2", "v1")),
    ],
    ids=["chunks", "window", "helix"],
)
def test_a_plan_from_records_with_a_start_moves_what_lies_behind_it(
    how: How, block: int, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = moves_of(case, how.plan(case))
    monkeypatch.setattr(test_wire_of_cases, "info_of", lambda *told: with_start(info_of(*told), 4 * block))
    plan = wired_plan(case, how)
    assert not plan.refusals
    assert any(whole.values())
    assert moves_of(case, plan) == {
        key: [move for move in moves if move[2] >= block]  # type: ignore[operator]
        for key, moves in whole.items()
    }


# ---- wrong readers


class StartRaised(Suffixes):
    """The start is raised, and no entry dropped."""

    def mask_head(self, span: Span, start: int) -> Span:
        return replace(span, start=max(span.start, start)) if len(span.slots) else span


class OwnBlocksCounted(Suffixes):
    """A block of the prompt is taken for one of the rank's own."""

    def mask_head(self, span: Span, start: int) -> Span:
        return super().mask_head(span, start * span.stride)


class NotMasked(Suffixes):
    def mask_head(self, span: Span, start: int) -> Span:
        return span


@pytest.mark.parametrize(
    "wrong", [StartRaised(), OwnBlocksCounted(), NotMasked()], ids=lambda each: type(each).__name__
)
def test_a_reader_that_masks_wrongly_moves_other_blocks(wrong: Suffixes) -> None:
    case = state_case(30, 4, cp=3)
    right, other = ToldLists(case, SUFFIX), ToldLists(case, replace(SUFFIX, lists=wrong))
    told = read(right, 1, 0, 12)[0]
    source = right.tell("context", 0, 0, 0)
    assert right.align(source, told, 0, 0) != other.align(source, told, 0, 0)
