"""What receivers ask for reaches senders over the wire as it was; a bad record reaches nobody and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from differential.managers.facts import BlockTable, Facts
from differential.managers.holdings import holdings_of
from differential.managers.spans import Span
from differential.managers.suffix import Suffix
from differential.managers.wire import RequestInfo, WireTrouble, check, decode, encode
from differential.managers.wire.exchange import expected_of, info_of, lists_of
from differential.subjects.mapping import Mapping
from differential.subjects.mapping.encoded import EncodedBlocks
from oracle.model.case import SIDES, Case, Request, SideState
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from tests import block_definitions as by_definition
from tests.encoded_lists import ANCHORS, RIGHT, SUFFIX, TABLES, How, Told, ToldLists, refused
from tests.encoding_states import STATES
from tests.small_cases import case_of, group, model_of
from tests.test_states_worked import state_case
from tests.wire_infos import ARRAYS, pack_map, unpack_map

each_encoding = pytest.mark.parametrize("how", RIGHT, ids=repr)


def asked(lists: ToldLists, rank: int, request: int, side: str = "generation") -> dict[int, Told]:
    """All lists of a rank. Raises ``Inexpressible``."""
    groups = lists.groups()
    return {number: lists.tell(side, rank, request, number) for number in groups}


def alike(one: Told, other: Told) -> bool:
    """Whether two lists say the same; where an empty one begins says nothing."""
    if isinstance(one, BlockTable) and isinstance(other, BlockTable):
        return (one.first, one.stride, one.slots.tolist()) == (other.first, other.stride, other.slots.tolist())
    if isinstance(one, Span) and isinstance(other, Span):
        both = [(each.start, each.stride, each.slots.tolist(), each.tails.tolist()) for each in (one, other)]
        return both[0] == both[1]
    assert isinstance(one, Suffix) and isinstance(other, Suffix)
    sizes = [(each.end, each.beams, each.phase, each.stride, each.slots.tolist()) for each in (one, other)]
    return sizes[0] == sizes[1]


def receive(record: bytes, lists: ToldLists, rank: int, request: int, source: int | None) -> RequestInfo:
    """What a sender does with a record before anything else."""
    offered = None if source is None else asked(lists, source, request, "context")
    info = decode(record, lists.how.encoding)
    check(info, expected_of(lists.case, rank, request, offered=offered))
    return info


@each_encoding
@settings(max_examples=150, deadline=None)
@given(case=STATES)
def test_lists_arrive_as_they_were_made(how: How, case: Case) -> None:
    """Property G1, for what managers produce."""
    lists = ToldLists(case, how)
    for rank in lists.ranks("generation"):
        for request in lists.requests():
            if any(lists.told("generation", rank, request, number) is None for number in lists.groups()):
                continue
            made = asked(lists, rank, request)
            info = info_of(case, rank, request, made)
            check(info, expected_of(case, rank, request))
            arrived = decode(encode(info), how.encoding)
            assert arrived == info
            read = lists_of(arrived, case, rank, request)
            assert read.keys() == made.keys()
            assert all(alike(made[number], read[number]) for number in made)


@each_encoding
def test_state_goes_as_the_one_slot_that_it_has_and_other_lengths_as_long_as_they_are(how: How) -> None:
    cross = group("cross @ 0 : T D(1) ; 8", name="cross", length="encoder")
    model = model_of(group("key @ 0 : T D(1) ; 8"), group("ssm @ 0 : P(2) ; 8", name="state", state=True), cross)
    case = case_of(model, size=4, requests=(Request(0, 5, lengths=(("encoder", 11),)),))
    lists = ToldLists(case, how)
    state = lists.facts.generation[0].blocks[0, 1]
    made = {0: lists.tell("generation", 0, 0, 0), 1: state, 2: lists.tell("generation", 0, 0, 2)}
    info = info_of(case, 0, 0, made)
    check(info, expected_of(case, 0, 0, offered=made))
    assert [len(slots) for slots in info.block_ids_per_layer_groups] == [2, 1, 3]
    read = lists_of(decode(encode(info), how.encoding), case, 0, 0)
    assert all(alike(made[number], read[number]) for number in made)


def test_lists_of_another_rank_or_of_two_encodings_make_no_info() -> None:
    tables, runs = (asked(ToldLists(CASE, how), 0, 0) for how in (TABLES, ANCHORS))
    with pytest.raises(InvalidCase, match=r"lists = \[0\] is not possible: rank 0 has the groups \[0, 1\]"):
        info_of(CASE, 0, 0, {0: tables[0]})
    with pytest.raises(InvalidCase, match=r"lists = \['BlockTable', 'Span'\] .* expected lists of one encoding"):
        info_of(CASE, 0, 0, {0: tables[0], 1: runs[1]})


# ---- the plan


def over_the_wire(lists: ToldLists, rank: int, request: int) -> dict[int, Told]:
    """The lists of a receiver as all of its senders read them."""
    case = lists.case
    record = encode(info_of(case, rank, request, asked(lists, rank, request)))
    info = decode(record, lists.how.encoding)
    for source in lists.ranks("context"):
        ours, theirs = case.context.topology, case.generation.topology
        if ours.cp > 1 and theirs.cp > 1 and ours.rank(source).cp != theirs.rank(rank).cp:
            continue  # it is sent to the senders that have any of its blocks
        told = [lists.told("context", source, request, number) for number in lists.groups()]
        if None not in told:
            receive(record, lists, rank, request, source)
    return lists_of(info, case, rank, request)


@contextmanager
def asks_over_the_wire(lists: ToldLists) -> Iterator[None]:
    """Within, senders read what a receiver's record says instead of the list that it made."""

    def ask(self: EncodedBlocks, rank: int, number: int) -> Any:
        return over_the_wire(lists, rank, self.number)[number]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EncodedBlocks, "_ask", ask)
        yield


def wired_plan(case: Case, how: How) -> Writes:
    """The plan with everything that receivers say sent as records."""
    lists = ToldLists(case, how)
    facts = lists.facts
    if how.lists is None:
        ranks = [
            replace(each, blocks=dict(each.blocks) | _tables(lists, rank)) for rank, each in enumerate(facts.generation)
        ]
        facts = Facts(facts.context, tuple(ranks), facts.chunks)
    with asks_over_the_wire(lists):
        plan = Mapping(how.encoding, lists=how.lists).plan(case, facts)
    assert not isinstance(plan, Refusal)
    return plan


def _tables(lists: ToldLists, rank: int) -> dict[tuple[int, int], BlockTable]:
    found: dict[tuple[int, int], BlockTable] = {}
    for request in lists.requests():
        for number, table in over_the_wire(lists, rank, request).items():
            assert isinstance(table, BlockTable)
            found[request, number] = table
    return found


def rows_of(plan: Writes) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in plan.columns().values()), strict=True))


@each_encoding
@settings(max_examples=100, deadline=None)
@given(case=STATES)
def test_a_plan_from_records_is_the_plan_from_lists(how: How, case: Case) -> None:
    plan = how.plan(case)
    try:
        wired = wired_plan(case, how)
    except WireTrouble as trouble:
        # The wire refuses first what the consumer refuses: unequal tails, and a sender that has less than it should.
        assert trouble.rule in ("W11", "W13") and refused(plan)
        return
    assert (rows_of(wired), wired.pairs) == (rows_of(plan), plan.pairs)
    # A record has the lists of all groups, so of several reasons another one may come first.
    assert refused(wired).keys() == refused(plan).keys()
    for request, code in refused(wired).items():
        assert code in {refused(plan)[request], *by_definition.cannot_say(case, how.encoding, request)}


# ---- bad records


def snapshot(case: Case, how: How) -> tuple[object, ...]:
    """All that a record could change: slots, tables, managers' lists, and the plan that comes of them."""
    lists, plan = ToldLists(case, how), how.plan(case)
    layouts = [lay_out(case, side) for side in SIDES]
    held = [
        getattr(holdings_of(case).listed(side, rank, request, number), name, None)
        for side in SIDES
        for rank in lists.ranks(side)
        for request in lists.requests()
        for number in lists.groups()
        for name in ("ids", "own", "removed", "slots", "parked")
    ]
    return (
        [slots.tolist() for side in layouts for rank in side.slots for each in rank.values() for slots in each],
        [each.tolist() if isinstance(each, np.ndarray) else each for each in held],
        [
            each.slots.tolist()
            for ranks in (lists.facts.context, lists.facts.generation)
            for rank in ranks
            for each in rank.blocks.values()
        ],
        rows_of(plan),
        plan.refusals,
    )


TWO = model_of(group("key @ 0 : T D(1) ; 8"), group("near @ 0 : T D(1) ; 8", name="near", window=6))
CASE = case_of(TWO, prompts=14, size=4)
HELIX = state_case(14, 4, cp=2)
OTHER_LENGTH = case_of(TWO, prompts=14, size=4, context_side={"tokens_per_block": 2})


def first(info: RequestInfo, *slots: int) -> dict[str, Any]:
    """A change of the first array."""
    return {ARRAYS: (np.array(slots, dtype=np.int64), *info.block_ids_per_layer_groups[1:])}


def entries(info: RequestInfo) -> list[int]:
    return info.block_ids_per_layer_groups[0].tolist()


BAD: list[tuple[str, How, Case, Callable[[RequestInfo], dict[str, Any]]]] = [
    ("W2", ANCHORS, CASE, lambda info: {"first_ordinals": (0,)}),
    ("W3", TABLES, CASE, lambda info: {ARRAYS: info.block_ids_per_layer_groups[:1]}),
    ("W3", SUFFIX, CASE, lambda info: {ARRAYS: (*info.block_ids_per_layer_groups, np.zeros(0, dtype=np.int64))}),
    ("W5", TABLES, CASE, lambda info: first(info, *entries(info)[:-1])),
    ("W5", TABLES, CASE, lambda info: first(info, *entries(info), -1)),
    ("W6", ANCHORS, CASE, lambda info: {"first_ordinals": (1, info.first_ordinals[1])}),  # type: ignore[attr-defined]
    ("W6", ANCHORS, CASE, lambda info: first(info) | {"first_ordinals": (1, info.first_ordinals[1])}),  # type: ignore[attr-defined]
    ("W8", TABLES, CASE, lambda info: first(info, -2, *entries(info)[1:])),
    ("W8", ANCHORS, CASE, lambda info: first(info, 10_000, *entries(info)[1:])),
    ("W8", SUFFIX, CASE, lambda info: first(info, -1, *entries(info)[1:])),
    ("W9", TABLES, CASE, lambda info: first(info, entries(info)[1], *entries(info)[1:])),
    ("W9", SUFFIX, CASE, lambda info: first(info, int(info.block_ids_per_layer_groups[1][0]), *entries(info)[1:])),
    ("W10", TABLES, CASE, lambda info: {"dst_start_token": 2}),
    ("W10", SUFFIX, CASE, lambda info: {"dst_start_token": 5}),
    ("W13", SUFFIX, CASE, lambda info: first(info, *entries(info), 1)),
]


@pytest.mark.parametrize(
    ("rule", "how", "case", "spoil"), BAD, ids=lambda each: str(each) if not callable(each) else ""
)
def test_a_bad_record_of_a_case_is_refused_and_changes_nothing(
    rule: str, how: How, case: Case, spoil: Callable[[RequestInfo], dict[str, Any]]
) -> None:
    lists = ToldLists(case, how)
    before = snapshot(case, how)
    info = info_of(case, 0, 0, asked(lists, 0, 0))
    record = encode(info)
    assert receive(record, lists, 0, 0, 0) == info
    # As bytes: not every mistake can be written by who checks what it writes.
    fields = unpack_map(record)
    for name, value in spoil(info).items():
        fields[name] = [slots.tobytes() for slots in value] if name == ARRAYS else value
    with pytest.raises(WireTrouble) as caught:
        receive(pack_map(list(fields.items())), lists, 0, 0, 0)
    assert caught.value.rule == rule
    assert snapshot(case, how) == before


@each_encoding
def test_a_cases_record_cut_off_anywhere_or_with_a_field_twice_is_no_info(how: How) -> None:
    """Property G3, and W1 and W4, for a record of a case."""
    lists = ToldLists(CASE, how)
    before = snapshot(CASE, how)
    record = encode(info_of(CASE, 0, 0, asked(lists, 0, 0)))
    pairs = list(unpack_map(record).items())
    bad = [record[:length] for length in range(len(record))]
    bad += [pack_map([*pairs, pair]) for pair in pairs]
    bad += [pack_map(pairs[:number] + pairs[number + 1 :]) for number in range(len(pairs))]
    bad += [pack_map([*pairs[:3], (ARRAYS, [raw[:-1] for raw in dict(pairs)[ARRAYS]]), *pairs[4:]])]
    for each in bad:
        with pytest.raises(WireTrouble):
            receive(each, lists, 0, 0, 0)
    assert snapshot(CASE, how) == before


def test_a_cases_record_without_anchors_or_with_part_of_a_slot_is_refused_by_its_rule() -> None:
    """W1 and W4."""
    lists = ToldLists(CASE, ANCHORS)
    fields = unpack_map(encode(info_of(CASE, 0, 0, asked(lists, 0, 0))))
    without = {name: value for name, value in fields.items() if name != "first_ordinals"}
    short = fields | {ARRAYS: [raw[:-1] for raw in fields[ARRAYS]]}
    for rule, wrong in (("W1", without), ("W4", short)):
        with pytest.raises(WireTrouble) as caught:
            receive(pack_map(list(wrong.items())), lists, 0, 0, 0)
        assert caught.value.rule == rule


def test_unequal_numbers_of_tails_are_refused_on_receipt_and_in_the_plan() -> None:
    """W11."""
    states = {"context": SideState(tails=2), "generation": SideState(tails=1)}
    case = state_case(7, 4, managers=("v1", "v1"), beams=3, **states)  # type: ignore[arg-type]
    lists = ToldLists(case, ANCHORS)
    info = info_of(case, 0, 0, asked(lists, 0, 0))
    check(info, expected_of(case, 0, 0))
    with pytest.raises(WireTrouble, match="expected 2 beam tails behind 2 blocks, not 1") as caught:
        check(info, expected_of(case, 0, 0, offered=asked(lists, 0, 0, "context")))
    assert caught.value.rule == "W11"
    assert list(refused(ANCHORS.plan(case)).values()) == ["tail_counts_differ"]


def test_other_block_lengths_are_refused_on_either_side() -> None:
    """W14. A plan refuses them too."""
    with pytest.raises(WireTrouble) as caught:
        check(info_of(CASE, 0, 0, asked(ToldLists(CASE, TABLES), 0, 0)), expected_of(OTHER_LENGTH, 0, 0))
    assert caught.value.rule == "W14"
    assert [each.code for each in TABLES.plan(OTHER_LENGTH).refusals] == ["tokens_per_block_differ"]


@each_encoding
def test_a_context_parallel_receiver_gets_no_slices(how: How) -> None:
    """W7."""
    case = state_case(14, 4, cp=2, cuts=(8,))
    lists = ToldLists(case, how)
    info = info_of(case, 1, 0, asked(lists, 1, 0))
    check(info, expected_of(case, 1, 0))
    with pytest.raises(WireTrouble) as caught:
        check(info, expected_of(case, 1, 0, chunk=lists.facts.chunks[0][0]))
    assert caught.value.rule == "W7" and caught.value.field == "token_range"


def test_an_anchor_of_a_context_parallel_receiver_counts_its_own_blocks() -> None:
    """W7: who did not agree on that takes it for the number of a block of the prompt, and refuses."""
    case = state_case(30, 4, cp=3, generation=SideState(16))
    lists = ToldLists(case, ANCHORS)
    info = info_of(case, 1, 0, asked(lists, 1, 0))
    assert info.first_ordinals == (1,)  # type: ignore[attr-defined]
    check(info, expected_of(case, 1, 0))
    with pytest.raises(WireTrouble) as caught:
        check(info, replace(expected_of(case, 1, 0), counts_own_blocks=False))
    assert caught.value.rule == "W7"


@each_encoding
def test_each_slice_of_a_case_runs_forward(how: How) -> None:
    """W12: what a case says of its slices is right; one turned round is refused."""
    case = state_case(18, 4, cuts=(9, 13))
    lists = ToldLists(case, how)
    info = info_of(case, 0, 0, asked(lists, 0, 0))
    ranges = []
    for chunk in lists.facts.chunks[0]:
        expected = expected_of(case, 0, 0, chunk=chunk)
        check(info, expected)
        ranges.append(expected.token_range)
        with pytest.raises(WireTrouble) as caught:
            check(info, replace(expected, token_range=expected.token_range[::-1]))  # type: ignore[index]
        assert caught.value.rule == "W12"
    assert ranges == [(0, 8), (8, 12), (12, 18)]
