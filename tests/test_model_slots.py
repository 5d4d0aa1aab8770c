"""Blocks of one content share a running number, and the affine rule gives each number a slot of its own."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.model.buffers import Model
from oracle.model.case import Case, Content, Request, SideState, Slots
from oracle.model.sides import lay_out
from oracle.model.slots import block_count, content_spans, number_blocks, slot_count
from tests.declared import (
    assert_impossible,
    buffer,
    case_with,
    instance_of,
    key_value,
    paged,
    payload,
    state,
    tokens,
)

DENSE = Model(1, (paged("full", *key_value([0], 2, 4, bits=8)),))
SHARED = Model(
    3,
    (
        paged("full", *key_value([0], 2, 4, bits=8)),
        paged("window", *key_value([1], 2, 4, bits=8), window=5),
        state("state", buffer("ssm", [2], payload(6))),
    ),
)
"""Two paged groups draw slots from one pool group."""


@st.composite
def content_trees(draw: st.DrawFn) -> tuple[Content, ...]:
    nodes = [Content()]
    for index in range(1, draw(st.integers(1, 4))):
        parent = draw(st.integers(-1, index - 1))
        nodes.append(Content(parent, draw(st.integers(0, 10)) if parent >= 0 else 0))
    return tuple(nodes)


@st.composite
def shared_cases(draw: st.DrawFn) -> Case:
    """A few requests of a few contents, tokens a block that divide nothing, any affine rule, two ranks a side."""
    contents = draw(content_trees())
    requests = []
    for _ in range(draw(st.integers(1, 3))):
        prompt = draw(st.integers(1, 14))
        cached = draw(st.integers(0, prompt))
        requests.append(Request(draw(st.integers(0, len(contents) - 1)), prompt, generation=SideState(cached)))
    model = draw(st.sampled_from([DENSE, SHARED]))
    instance = instance_of(tp=2, stages=(model.layers,), tokens_per_block=draw(st.integers(1, 5)))
    slots = Slots(draw(st.integers(1, 60)), draw(st.integers(0, 20)))
    return case_with(model, instance, requests=tuple(requests), contents=contents, slots=slots)


def content_of_token(contents: tuple[Content, ...], content: int, token: int) -> int:
    """The node of the prefix tree whose own token this is."""
    while token < contents[content].length:
        content = contents[content].parent
    return content


def identities(case: Case, side: str, group: int) -> list[list[object]]:
    """What each block is, by request and ordinal: equal identities are one block."""
    own = count()
    if not case.model.groups[group].is_paged:
        return [[("state", next(own))] for _ in case.requests]
    size = case.side(side).tokens_per_block
    found: list[list[object]] = []
    for request in case.requests:
        known = request.prompt if side == "context" else request.generation.cached
        row: list[object] = []
        for ordinal in range(-(-request.prompt // size)):
            last = (ordinal + 1) * size - 1
            if last < known:
                row.append((content_of_token(case.contents, request.content, last), ordinal))
            else:
                row.append(("own", next(own)))
        found.append(row)
    return found


@given(content_trees(), st.integers(1, 14), st.data())
def test_spans_name_the_content_of_every_token(contents: tuple[Content, ...], length: int, data: st.DataObject) -> None:
    content = data.draw(st.integers(0, len(contents) - 1))
    named = [node for node, first, end in content_spans(contents, content, length) for _ in range(first, end)]
    assert named == [content_of_token(contents, content, token) for token in range(length)]


@pytest.mark.parametrize("side", ["context", "generation"])
@given(case=shared_cases())
def test_blocks_have_one_number_where_and_only_where_they_are_one_block(case: Case, side: str) -> None:
    for group in range(len(case.model.groups)):
        used, numbers = number_blocks(case, side, group)
        flat = [number for row in numbers for number in row.tolist()]
        what = [identity for row in identities(case, side, group) for identity in row]
        assert sorted(set(flat)) == list(range(used))
        assert len(set(zip(flat, what, strict=True))) == len(set(what)) == used


def test_a_shared_prefix_is_one_set_of_blocks_on_the_context_side() -> None:
    contents = (Content(), Content(0, 6))
    requests = (Request(0, 8), Request(1, 8))
    case = case_with(DENSE, instance_of(tokens_per_block=2), requests=requests, contents=contents)
    used, (first, second) = number_blocks(case, "context", 0)
    assert used == 5
    assert first.tolist() == [0, 1, 2, 3]
    assert second.tolist() == [0, 1, 2, 4]


def test_a_block_belongs_to_the_content_of_its_last_token() -> None:
    contents = (Content(), Content(0, 3))
    case = case_with(DENSE, instance_of(tokens_per_block=2), requests=(Request(0, 4), Request(1, 4)), contents=contents)
    assert [row.tolist() for row in number_blocks(case, "context", 0)[1]] == [[0, 1], [0, 2]]


def test_a_block_that_is_not_full_is_never_shared() -> None:
    case = case_with(
        DENSE, instance_of(tokens_per_block=2), requests=(Request(0, 3), Request(0, 3)), contents=(Content(),)
    )
    assert [row.tolist() for row in number_blocks(case, "context", 0)[1]] == [[0, 1], [0, 2]]


def test_the_generation_side_shares_only_the_whole_blocks_that_a_request_has_cached() -> None:
    requests = tuple(Request(0, 8, generation=SideState(cached)) for cached in (8, 5, 0))
    case = case_with(DENSE, instance_of(tokens_per_block=2), requests=requests, contents=(Content(),))
    used, rows = number_blocks(case, "generation", 0)
    assert [row.tolist() for row in rows] == [[0, 1, 2, 3], [0, 1, 4, 5], [6, 7, 8, 9]]
    assert used == 10


def test_a_group_may_be_as_long_as_another_number_of_the_request() -> None:
    model = Model(1, (paged("cross", buffer("key", [0], tokens(), payload(4)), length="encoder"),))
    requests = (Request(0, 2, lengths=(("encoder", 7),)), Request(1, 9, lengths=(("encoder", 0),)))
    case = case_with(model, instance_of(tokens_per_block=2), requests=requests)
    assert [len(row) for row in number_blocks(case, "context", 0)[1]] == [4, 0]
    assert [block_count(request, "encoder", 2) for request in requests] == [4, 0]
    assert [block_count(request, "prompt", 2) for request in requests] == [1, 5]


@given(st.integers(0, 200), st.integers(1, 5000))
def test_the_number_of_slots_is_the_smallest_prime_of_thrice_the_blocks_that_leaves_mul_whole(
    blocks: int, mul: int
) -> None:
    def fits(number: int) -> bool:
        prime = number > 1 and all(number % divisor for divisor in range(2, number))
        return prime and number >= 3 * blocks and mul % number != 0

    assert slot_count(blocks, mul) == next(number for number in count() if fits(number))


@pytest.mark.parametrize("side", ["context", "generation"])
@given(case=shared_cases())
def test_each_block_has_a_slot_of_its_own_on_each_rank(case: Case, side: str) -> None:
    laid = lay_out(case, side)
    for table, slots in zip(laid.tables, laid.slots, strict=True):
        taken: dict[tuple[int, int], object] = {}
        for group, rows in slots.items():
            pools = {table.pools[entry.pool] for entry in table.entries if entry.group == group}
            (pool_group,) = {pool.pool_group for pool in pools}
            for row, what in zip(rows, identities(case, side, group), strict=True):
                assert len(row) == len(what)
                for slot, identity in zip(row.tolist(), what, strict=True):
                    assert 0 <= slot < min(pool.count for pool in pools)
                    assert taken.setdefault((pool_group, slot), (group, identity)) == (group, identity)
        assert len(set(taken.values())) == len(taken)


@given(case=shared_cases())
def test_slots_follow_the_affine_rule_over_all_groups_of_the_pool_group(case: Case) -> None:
    laid = lay_out(case, "context")
    rule = case.slots
    for rank, (table, slots) in enumerate(zip(laid.tables, laid.slots, strict=True)):
        before: dict[int, int] = {}
        for group, rows in slots.items():
            pool = next(table.pools[entry.pool] for entry in table.entries if entry.group == group)
            used, numbers = number_blocks(case, "context", group)
            first = before.get(pool.pool_group, 0)
            before[pool.pool_group] = first + used
            for row, own in zip(rows, numbers, strict=True):
                expected = [(rule.mul * (first + int(k) + 1) + rule.add + 11 * rank) % pool.count for k in own]
                assert row.tolist() == expected


@given(case=shared_cases())
def test_pools_have_room_for_thrice_the_blocks_of_their_pool_group(case: Case) -> None:
    for side in ("context", "generation"):
        for table in lay_out(case, side).tables:
            used: dict[int, int] = {}
            for group in table.groups():
                pool = next(table.pools[entry.pool] for entry in table.entries if entry.group == group)
                used[pool.pool_group] = used.get(pool.pool_group, 0) + number_blocks(case, side, group)[0]
            assert {pool.count for pool in table.pools} == {
                slot_count(used[pool.pool_group], case.slots.mul) for pool in table.pools
            }


def test_ranks_start_eleven_slots_apart() -> None:
    case = case_with(DENSE, instance_of(tp=2, tokens_per_block=2), prompt=20)
    first, second = (slots[0][0] for slots in lay_out(case, "context").slots)
    assert np.array_equal(second, (first + 11) % 31)


@pytest.mark.parametrize(
    ("slots", "value", "blocks"),
    [
        (Slots(counts=(("full", 3),)), (1, 3), 4),
        (Slots(mul=3, counts=(("full", 6),)), (3, 6), 4),
    ],
)
def test_a_rule_that_cannot_give_distinct_slots_is_refused(slots: Slots, value: tuple[int, int], blocks: int) -> None:
    case = case_with(DENSE, instance_of(tokens_per_block=2), prompt=8, slots=slots)
    accepted = f"the affine rule must give {blocks} blocks distinct slots of the pool"
    assert_impossible(lambda: lay_out(case, "context"), "context slots of full", value, accepted)


def test_groups_that_share_a_pool_group_need_slots_for_both() -> None:
    slots = Slots(counts=(("full", 7),))
    case = case_with(SHARED, instance_of(stages=(3,), tokens_per_block=2), prompt=8, slots=slots)
    accepted = "the affine rule must give 8 blocks distinct slots of the pool"
    assert_impossible(lambda: lay_out(case, "context"), "context slots of window", (1, 7), accepted)
