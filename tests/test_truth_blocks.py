"""Which block is due, optional or forbidden: the worked rows of the block specification, with their corrections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.model.case import Case, Content, Request, SideState, SlotList
from oracle.model.writes import Refusal
from oracle.truth.blocks import DUE, FORBIDDEN, OPTIONAL, block_classes
from oracle.truth.elements import truth_of
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, group

KEY = "key @ 0 : T D(1) ; 8"


def windowed(
    prompt: int, size: int, window: int | None, *, sinks: int = 0, cached: int = 0, reserve: int = 0, **options: object
) -> Case:
    """One layer of one byte a token; ``reserve`` is the receiver's."""
    return case_of(
        group(KEY, window=window, sinks=sinks),
        size=size,
        requests=(Request(0, prompt, generation=SideState(cached)),),
        generation_side={"reserve": (("kv", reserve),)},
        **options,
    )


def ordinals(case: Case, what: int, request: int = 0) -> list[int]:
    return np.flatnonzero(block_classes(case, request, 0) == what).tolist()


def due_on_ranks(case: Case) -> dict[int, list[int]]:
    """Rank -> due ordinals, read back from the memory of the destination."""
    truth = truth_of(case)
    found = {}
    for rank, lists in enumerate(truth.generation.side.slots):
        pool = truth.generation.side.tables[rank].pools[0]
        starts = truth.generation.starts[rank][0] + lists[0][0] * pool.slot_stride
        found[rank] = np.flatnonzero(truth.klass[starts] == DUE).tolist()
    return found


@pytest.mark.parametrize(
    ("prompt", "size", "window", "first"),
    [
        (32, 8, 16, 2),  # floor(17 / 8)
        (8, 4, 1, 2),  # nothing is live: the window of the next token is itself
        (8, 1, 8, 1),  # a window as long as the prompt, one token a block: the next token needs the room
        (8, 2, 8, 0),  # the same with two tokens a block
        (8, 2, 9, 0),
        (15, 8, 8, 1),  # prompt + 1 - window is a multiple of the block: without the + 1 it would be 0
        (14, 8, 8, 0),
        (255, 128, 128, 1),
        (257, 128, 128, 1),
        (255, 128, 131, 0),
        (257, 128, 131, 0),
        (1150, 128, 133, 7),
        (10, 4, 5, 1),
        (156_800, 128, 128, 1224),
        (156_800, 128, 131, 1223),
    ],
)
def test_the_first_due_block_is_the_first_that_the_next_token_sees(
    prompt: int, size: int, window: int, first: int
) -> None:
    case = windowed(prompt, size, window)
    assert ordinals(case, DUE) == list(range(first, -(-prompt // size)))
    assert ordinals(case, OPTIONAL) == []


def test_without_a_window_every_block_is_due() -> None:
    assert ordinals(windowed(9, 4, None), DUE) == [0, 1, 2]


def test_the_live_blocks_of_a_windowed_prompt() -> None:
    assert ordinals(windowed(32, 8, 16), DUE) == [2, 3]


def test_a_block_within_the_receivers_reserve_is_optional() -> None:
    # Window 4 on both sides, the receiver keeps 4 tokens more: ordinal 3 may arrive, and nothing has to bring it.
    case = windowed(20, 4, 4, reserve=4)
    assert (ordinals(case, DUE), ordinals(case, OPTIONAL), ordinals(case, FORBIDDEN)) == ([4], [3], [0, 1, 2])
    reference = read(case)
    for optional in (False, True):
        assert judge(case, plan_of(right_rows(case, reference, optional=optional), reference))


def test_a_wider_window_of_the_receiver_alone_needs_no_block_that_the_source_dropped() -> None:
    # 1225 blocks of 128; with a window of 128 the first live block is 1224, with 131 it is 1223.
    case = windowed(156_800, 128, 128, reserve=3)
    assert (ordinals(case, DUE), ordinals(case, OPTIONAL)) == ([1224], [1223])


def test_sinks_stay_due_in_front_of_the_window() -> None:
    assert ordinals(windowed(32, 8, 16, sinks=4), DUE) == [0, 2, 3]
    assert ordinals(windowed(32, 8, 16, sinks=9), DUE) == [0, 1, 2, 3]
    assert ordinals(windowed(16, 8, 9, sinks=1), DUE) == [0, 1]


def test_nothing_is_due_where_nothing_is_live() -> None:
    case = windowed(8, 4, 1)
    assert ordinals(case, FORBIDDEN) == [0, 1]
    reference = read(case)
    assert right_rows(case, reference) == []
    assert judge(case, plan_of([], reference))


@pytest.mark.parametrize(
    ("prompt", "cached", "due"),
    [
        (18, 10, [2, 3, 4]),  # half of block 2 is cached: it is sent whole
        (18, 8, [2, 3, 4]),
        (18, 7, [1, 2, 3, 4]),
        (16, 16, []),  # all of it is there already
        (18, 18, [4]),  # so it is here, but the last block is not full: it is asked for again
        (18, 0, [0, 1, 2, 3, 4]),
    ],
)
def test_whole_cached_blocks_are_not_due(prompt: int, cached: int, due: list[int]) -> None:
    case = windowed(prompt, 4, None, cached=cached)
    assert ordinals(case, DUE) == due
    assert ordinals(case, OPTIONAL) == []


def test_a_cached_sink_is_not_due() -> None:
    assert ordinals(windowed(32, 8, 16, sinks=4, cached=8), DUE) == [2, 3]


def test_context_parallel_receivers_own_every_nth_block_of_the_whole_prompt() -> None:
    assert due_on_ranks(windowed(20, 4, None, generation="tp1 cp2")) == {0: [0, 2, 4], 1: [1, 3]}
    assert due_on_ranks(windowed(20, 4, None, cached=8, generation="tp1 cp2")) == {0: [2, 4], 1: [3]}
    assert due_on_ranks(windowed(30, 4, None, cached=16, generation="tp1 cp3")) == {0: [6], 1: [4, 7], 2: [5]}


def test_a_window_with_context_parallelism_counts_on_the_whole_prompt() -> None:
    # 8 blocks, the first live one is 5; rank 1 of 2 owns 1, 3, 5, 7.
    assert due_on_ranks(windowed(32, 4, 13, generation="tp1 cp2"))[1] == [5, 7]


def test_a_receiver_that_owns_no_block_completes_with_nothing() -> None:
    case = windowed(4, 4, None, generation="tp1 cp2")
    assert due_on_ranks(case) == {0: [0], 1: []}
    reference = read(case)
    verdict = judge(case, plan_of(right_rows(case, reference), reference))
    assert verdict.outcome is Outcome.PASS
    assert (verdict.nbytes, verdict.pairs) == (4, 2)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 64), st.integers(0, 12), st.integers(0, 9), st.data())
def test_classes_follow_the_closed_form(
    prompt: int, size: int, window: int, sinks: int, reserve: int, data: st.DataObject
) -> None:
    cached = data.draw(st.integers(0, prompt))
    case = windowed(prompt, size, window, sinks=sinks, cached=cached, reserve=reserve)
    first, first_kept = (max(0, (prompt + 1 - wide) // size) for wide in (window, window + reserve))
    sink_blocks = -(-sinks // size)
    for ordinal, found in enumerate(block_classes(case, 0, 0).tolist()):
        if ordinal < cached // size:
            assert found == FORBIDDEN
        elif ordinal < sink_blocks or ordinal >= first:
            assert found == DUE
        else:
            assert found == (OPTIONAL if ordinal >= first_kept else FORBIDDEN)


# ---- a due block that the source has lost


def lost(prompt: int, size: int, window: int, held: list[int]) -> Case:
    """The source holds the blocks ``held`` and has lost the others."""
    blocks = -(-prompt // size)
    slots = tuple(ordinal if ordinal in held else -1 for ordinal in range(blocks))
    return windowed(prompt, size, window, tables=(SlotList("context", 0, "kv", 0, slots),))


@pytest.mark.parametrize(
    ("case", "ordinal"),
    [(lost(1150, 128, 133, [8]), 7), (lost(10, 4, 5, [2]), 1)],
    ids=["1150 tokens", "10 tokens"],
)
def test_a_lost_due_block_has_one_right_answer_a_refusal(case: Case, ordinal: int) -> None:
    assert ordinal in ordinals(case, DUE)
    assert judge(case, Refusal("lost", "the block left the cache", 0))
    reference = read(case)
    verdict = judge(case, plan_of(right_rows(case, reference), reference))
    assert verdict.kinds == {Kind.MISSING}
    assert {(v.ordinal, v.note) for v in verdict.violations} == {(ordinal, "the source no longer holds this block")}


def test_a_lost_block_beyond_the_window_is_no_reason_to_refuse() -> None:
    case = lost(10, 4, 5, [1, 2])
    assert judge(case, Refusal("lost", "block 0 left the cache", 0)).kinds == {Kind.FALSE_REFUSAL}
    reference = read(case)
    assert judge(case, plan_of(right_rows(case, reference), reference))


def test_the_slot_of_a_lost_block_is_a_stale_source() -> None:
    case = lost(10, 4, 5, [2])
    reference = read(case)
    rows = right_rows(case, reference)
    rows += [[0, 0, 0, 0, 0, 0, 0, 4 + token, place, 1] for token, place in enumerate(missing_places(case, 1))]
    verdict = judge(case, plan_of(rows, reference))
    assert verdict.counts == {Kind.STALE_SOURCE: 4, Kind.WRONG_ELEMENT: 4}


def missing_places(case: Case, ordinal: int) -> list[int]:
    """The bytes of a block in the receiver's pool."""
    side = truth_of(case).generation.side
    size = case.generation.tokens_per_block
    start = int(side.slots[0][0][0][ordinal]) * size
    return list(range(start, start + size))


# ---- the prefix tree


def source_ids(case: Case, request: int) -> list[list[int]]:
    """Ids of the bytes of each of the request's blocks on the source, one rank, one byte a token."""
    truth = truth_of(case)
    side = truth.context.side
    start = truth.context.starts[0][0]
    stride = side.tables[0].pools[0].slot_stride
    return [
        truth.source[start + slot * stride : start + (slot + 1) * stride].tolist()
        for slot in side.slots[0][0][request].tolist()
    ]


def sharing(prompts: list[int], contents: list[Content], owners: list[int]) -> Case:
    requests = tuple(Request(owner, prompt) for owner, prompt in zip(owners, prompts, strict=True))
    return case_of(KEY, size=4, requests=requests, contents=tuple(contents))


def test_a_shared_block_is_the_same_bytes_in_both_requests() -> None:
    # The second request repeats 8 tokens of the first: two whole blocks.
    case = sharing([12, 12], [Content(), Content(0, 8)], [0, 1])
    first, second = source_ids(case, 0), source_ids(case, 1)
    assert first[:2] == second[:2]
    assert not set(first[2]) & set(second[2])
    slots = truth_of(case).context.side.slots[0][0]
    assert slots[0][:2].tolist() == slots[1][:2].tolist()
    assert slots[0][2] != slots[1][2]


def test_a_block_shared_in_part_has_the_shared_tokens_and_its_own() -> None:
    case = sharing([8, 8], [Content(), Content(0, 6)], [0, 1])
    first, second = source_ids(case, 0), source_ids(case, 1)
    assert first[0] == second[0]
    assert first[1][:2] == second[1][:2]
    assert not set(first[1][2:]) & set(second[1][2:])
    slots = truth_of(case).context.side.slots[0][0]
    assert slots[0][1] != slots[1][1]


def test_a_grandchild_shares_no_more_than_its_parent_does() -> None:
    # The child repeats 4 tokens of the root, the grandchild 6 of the child: 4 of the root, 2 of the child's own.
    case = sharing([8, 8, 8], [Content(), Content(0, 4), Content(1, 6)], [0, 1, 2])
    root, child, grandchild = (source_ids(case, request) for request in range(3))
    assert root[0] == child[0] == grandchild[0]
    assert not set(root[1]) & set(child[1])
    assert child[1][:2] == grandchild[1][:2]
    assert not set(child[1][2:]) & set(grandchild[1][2:])


def test_rows_past_the_prompt_belong_to_the_request() -> None:
    # One content, two prompts of 6 tokens: the six are alike, the two rows after them are each request's own.
    case = sharing([6, 6], [Content()], [0, 0])
    first, second = source_ids(case, 0), source_ids(case, 1)
    assert first[0] == second[0]
    assert first[1][:2] == second[1][:2]
    assert not set(first[1][2:]) & set(second[1][2:])


def test_a_prompt_that_ends_inside_another_ones_block_has_the_tokens_that_it_has() -> None:
    case = sharing([8, 6], [Content()], [0, 0])
    first, second = source_ids(case, 0), source_ids(case, 1)
    assert first[1][:2] == second[1][:2]
    assert not set(first[1][2:]) & set(second[1][2:])
    reference = read(case)
    assert judge(case, plan_of(right_rows(case, reference), reference))


def test_a_row_of_several_tokens_has_the_content_of_its_last_one() -> None:
    # Rows of two tokens; the second request repeats 3 tokens: its second row is its own.
    requests = (Request(0, 4), Request(1, 4))
    case = case_of("key @ 0 : T(2) D(1) ; 8", size=4, requests=requests, contents=(Content(), Content(0, 3)))
    (first,), (second,) = source_ids(case, 0), source_ids(case, 1)
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_state_belongs_to_its_request() -> None:
    requests = (Request(0, 4), Request(0, 4))
    case = case_of(group("ssm @ 0 : H(2) ; 8", state=True), requests=requests, contents=(Content(),))
    assert not set(source_ids(case, 0)[0]) & set(source_ids(case, 1)[0])


def test_what_the_receiver_has_cached_is_shared_between_requests_and_never_written() -> None:
    requests = tuple(Request(0, 8, generation=SideState(4)) for _ in range(2))
    case = case_of(KEY, size=4, requests=requests, contents=(Content(),))
    slots = truth_of(case).generation.side.slots[0][0]
    assert slots[0][0] == slots[1][0]
    assert slots[0][1] != slots[1][1]
    assert due_on_ranks(case)[0] == [1]


def test_blocks_of_a_length_of_their_own_belong_to_the_request() -> None:
    # Contents speak of prompts: two requests of one content have encoder blocks of their own.
    requests = tuple(Request(0, 1, lengths=(("encoder", 3),)) for _ in range(2))
    case = case_of(group(KEY, length="encoder"), size=2, requests=requests, contents=(Content(),))
    assert ordinals(case, DUE, 0) == ordinals(case, DUE, 1) == [0, 1]
    first, second = source_ids(case, 0), source_ids(case, 1)
    assert not {number for block in first for number in block} & {number for block in second for number in block}
    reference = read(case)
    assert judge(case, plan_of(right_rows(case, reference), reference))
