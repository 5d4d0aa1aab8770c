"""Explicit tables and slots stand in for derived ones, and what lies outside its pool is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oracle.model.buffers import Model
from oracle.model.case import Case, Request, SlotList, Slots
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from tests.declared import (
    assert_impossible,
    buffer,
    case_with,
    instance_of,
    key_value,
    paged,
    payload,
    small_case,
    state,
)

TWO = Model(2, (paged("a", *key_value([0], 1, 4, bits=8)), state("s", buffer("ssm", [1], payload(6)))))
PADDED = PageTable((Pool(64, 9, slot_stride=80),), (Entry(0, 0, 0, "value", 8, 16), Entry(0, 0, 0, "key", 40, 16)))
"""An explicit table of the small case: V before K, with room around them."""


def rows(*lists: tuple[str, int, str, int, tuple[int, ...]]) -> tuple[SlotList, ...]:
    return tuple(SlotList(*row) for row in lists)


def listed(case: Case, side: str) -> list[dict[int, list[list[int]]]]:
    return [
        {group: [row.tolist() for row in found] for group, found in rank.items()} for rank in lay_out(case, side).slots
    ]


def test_every_rank_of_a_side_has_a_table_and_slots() -> None:
    case = case_with(TWO, instance_of(tp=2, stages=(1, 1)), instance_of(stages=(2,)), prompt=3)
    context, generation = lay_out(case, "context"), lay_out(case, "generation")
    assert [table.groups() for table in context.tables] == [(0,), (0,), (1,), (1,)]
    assert [sorted(slots) for slots in context.slots] == [[0], [0], [1], [1]]
    assert [sorted(slots) for slots in generation.slots] == [[0, 1]]


def test_an_explicit_table_replaces_that_of_its_rank_alone() -> None:
    case = small_case()
    halved = PageTable((Pool(64, 9, slot_stride=80),), (Entry(0, 0, 0, "value", 8, 8), Entry(0, 0, 0, "key", 40, 8)))
    two = replace(case, context=instance_of(tp=2, tokens_per_block=2, page_tables=((1, halved),)))
    derived, given = lay_out(two, "context").tables
    assert given == halved
    assert derived != halved
    assert derived == lay_out(replace(two, context=instance_of(tp=2, tokens_per_block=2)), "context").tables[0]


def test_slots_of_an_explicit_table_follow_its_own_number_of_slots() -> None:
    case = small_case(slots=Slots(mul=4, add=3))
    given = replace(case, context=replace(case.context, page_tables=((0, PADDED),)))
    assert listed(given, "context") == [{0: [[(4 * 1 + 3) % 9, (4 * 2 + 3) % 9]]}]


def test_groups_of_an_explicit_table_that_share_a_pool_group_share_its_numbers() -> None:
    model = Model(2, (paged("a", *key_value([0], 1, 4, bits=8)), paged("w", *key_value([1], 1, 4, bits=8), window=9)))
    entries = tuple(
        Entry(group, group, group, role, 4 * n, 4) for group in (0, 1) for n, role in enumerate(("key", "value"))
    )
    shared = PageTable((Pool(8, 7), Pool(8, 7)), entries)
    apart = PageTable((Pool(8, 7), Pool(8, 7, pool_group=1)), entries)
    case = case_with(model, instance_of(stages=(2,)), prompt=3)
    found = [
        listed(replace(case, context=replace(case.context, page_tables=((0, table),))), "context")[0]
        for table in (shared, apart)
    ]
    assert found == [{0: [[1, 2, 3]], 1: [[4, 5, 6]]}, {0: [[1, 2, 3]], 1: [[1, 2, 3]]}]


def test_the_smallest_pool_of_a_pool_group_bounds_its_slots() -> None:
    entries = (Entry(0, 0, 0, "key", 0, 16), Entry(0, 1, 0, "value", 0, 16))
    table = PageTable((Pool(16, 7), Pool(16, 5)), entries)
    case = small_case(slots=Slots(add=3))
    given = replace(case, context=replace(case.context, page_tables=((0, table),)))
    assert listed(given, "context") == [{0: [[4, 0]]}]


KEY, VALUE = Entry(0, 0, 0, "key", 0, 16), Entry(0, 0, 0, "value", 16, 16)


@pytest.mark.parametrize(
    ("pool", "entries", "argument", "value", "accepted"),
    [
        (
            Pool(32, 5),
            (KEY, Entry(1, 0, 0, "key", 16, 16)),
            "",
            (1, 0, "key"),
            "the rank holds no such (group, layer, role)",
        ),
        (
            Pool(32, 5),
            (KEY, Entry(0, 0, 3, "value", 16, 16)),
            "",
            (0, 3, "value"),
            "the rank holds no such (group, layer, role)",
        ),
        (Pool(32, 5), (KEY,), "", (0, 0, "value"), "expected an entry for each buffer"),
        (
            Pool(32, 5),
            (KEY, Entry(0, 0, 0, "value", 16, 8)),
            ".nbytes of (0, 0, 'value')",
            8,
            "the rank stores 16 B of it",
        ),
        (
            Pool(16, 5, layer_stride=48),
            (KEY, Entry(0, 0, 0, "value", 48, 16)),
            ".pools[0].layer_stride",
            48,
            "expected at least the bytes of its 5 slots, 80",
        ),
    ],
)
def test_an_explicit_table_holds_what_the_rank_stores(
    pool: Pool, entries: tuple[Entry, ...], argument: str, value: object, accepted: str
) -> None:
    case = small_case()
    given = replace(case, context=replace(case.context, page_tables=((0, PageTable((pool,), entries)),)))
    assert_impossible(lambda: lay_out(given, "context"), f"context.page_tables.0{argument}", value, accepted)


def test_a_listed_group_is_one_of_its_ranks_stage() -> None:
    case = case_with(TWO, instance_of(stages=(1, 1)), tables=rows(("context", 0, "s", 0, (1,))))
    accepted = "the stage of this rank holds no layer of the group"
    assert_impossible(lambda: lay_out(case, "context"), "tables.context.0", "s", accepted)


def test_two_different_blocks_never_lie_in_one_slot() -> None:
    case = small_case(prompt=3, tables=rows(("generation", 0, "attention", 0, (2, 2))))
    accepted = "another block has this slot already (block 1)"
    assert_impossible(lambda: lay_out(case, "generation"), "tables.generation.0.attention[0]", 2, accepted)


def test_a_group_of_an_explicit_table_draws_slots_from_one_pool_group() -> None:
    entries = (Entry(0, 0, 0, "key", 0, 16), Entry(0, 1, 0, "value", 0, 16))
    table = PageTable((Pool(16, 5), Pool(16, 5, pool_group=1)), entries)
    case = small_case()
    given = replace(case, context=replace(case.context, page_tables=((0, table),)))
    accepted = "a group draws slots from one pool group"
    assert_impossible(lambda: lay_out(given, "context"), "page_tables.pool_group", [0, 1], accepted)


def test_listed_slots_lie_by_ordinal_and_the_rest_has_none() -> None:
    case = small_case(prompt=7, tables=rows(("generation", 0, "attention", 0, (-1, 4, 2))))
    assert listed(case, "generation") == [{0: [[-1, 4, 2, -1]]}]


def test_a_side_with_lists_holds_nothing_that_is_not_listed() -> None:
    case = case_with(
        TWO,
        instance_of(tp=2, stages=(2,)),
        requests=(Request(0, 2), Request(1, 1)),
        tables=rows(*(("context", rank, *what) for rank in (0, 1) for what in (("a", 0, (3,)), ("s", 1, (1,))))),
    )
    assert listed(case, "context") == [{0: [[3, -1], [-1]], 1: [[-1], [1]]}] * 2
    assert all(
        slot >= 0 for slots in listed(case, "generation") for row in slots.values() for one in row for slot in one
    )


def listed_on(topology: Topology, *lists: tuple[int, tuple[int, ...]]) -> Case:
    """The small case with another context topology and these lists of (rank, slots) there."""
    case = small_case()
    given = rows(*(("context", rank, "attention", 0, slots) for rank, slots in lists))
    return replace(case, context=replace(case.context, topology=topology), tables=given)


def test_all_ranks_of_a_side_hold_the_same_blocks() -> None:
    case = listed_on(Topology(2), (0, (3, 1)), (1, (3,)))
    accepted = "another rank of the side has a slot for this block"
    assert_impossible(lambda: lay_out(case, "context"), "tables.context.1.attention[0]", 1, accepted)


def test_a_list_is_of_a_request_that_is_on_the_rank() -> None:
    case = listed_on(Topology(2, attention_dp=True), (1, (3,)))
    accepted = "the request is on another attention data-parallel rank"
    assert_impossible(lambda: lay_out(case, "context"), "tables.context.1.attention", 0, accepted)


def test_a_context_parallel_rank_lists_the_blocks_it_owns() -> None:
    case = listed_on(Topology(cp=2), (1, (3,)))
    assert_impossible(
        lambda: lay_out(case, "context"), "tables.context.1.attention[0]", 0, "rank 1 owns blocks 1 mod 2"
    )


def test_listed_slots_may_break_the_affine_rule() -> None:
    slots = Slots(mul=3, counts=(("attention", 3),))
    tables = rows(("context", 0, "attention", 0, (2, 0)))
    assert listed(small_case(slots=slots, tables=tables), "context") == [{0: [[2, 0]]}]


def test_given_counts_are_the_slots_of_the_pool() -> None:
    case = small_case(slots=Slots(counts=(("attention", 4),)))
    assert [pool.count for pool in lay_out(case, "context").tables[0].pools] == [4]


@pytest.mark.parametrize(
    ("slots", "value", "accepted"),
    [
        ((7, 1), 7, "the pool has slots 0..6"),
        ((0, 9), 9, "the pool has slots 0..6"),
        ((0, 1, 2), 3, "the request has 2 blocks of this group"),
    ],
)
def test_a_listed_slot_lies_in_its_pool_and_belongs_to_a_block(
    slots: tuple[int, ...], value: int, accepted: str
) -> None:
    case = small_case(tables=rows(("context", 0, "attention", 0, slots)))
    assert_impossible(lambda: lay_out(case, "context"), "tables.context.0.attention[0]", value, accepted)
