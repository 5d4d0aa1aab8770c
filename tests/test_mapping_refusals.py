"""What is refused, with which code, and what must not be."""

from __future__ import annotations

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping, Pages, check_compatible, map_buffers
from differential.subjects.mapping.refusals import (
    AXES_DIFFER,
    BLOCK_LOST,
    BUFFER_MISSING,
    CONTEXT_PARALLEL_WITH_ATTENTION_DP,
    ELEMENT_WIDTH_DIFFERS,
    FAN_UNDEFINED,
    GROUP_KIND_DIFFERS,
    REGION_TOO_SMALL,
    RING_LENGTH_DIFFERS,
    SECTIONS_DIFFER,
    SUB_PAGES_DIFFER,
    TOKENS_PER_BLOCK_DIFFER,
    UNSERVABLE_INDEX,
    Refused,
)
from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, Model, Move, MoveState, Part
from oracle.model.case import Case, Request, SideState, SlotList
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.pages import Entry, PageTable, Pool
from oracle.model.topology import Topology
from oracle.model.writes import Refusal, Writes
from tests.mapping_cases import (
    TOKENS,
    buffer,
    case_of,
    heads,
    keys_only,
    paged,
    pages_of,
    payload,
    plan_of,
    ranks_of_case,
    refusal_of,
    sections,
    state,
)


def test_three_heads_from_four_ranks_to_two_leave_head_1_to_nobody_paired() -> None:
    # Sources hold heads 0, 0, 1, 2; receiver 0 needs 0 and 1 and hears from sources 0 and 1.
    refusal = refusal_of(case_of(keys_only(3), Topology(4), Topology(2)))
    assert refusal == Refusal(
        UNSERVABLE_INDEX,
        "key of layer 0, H=1, is due on generation rank 0, paired with context ranks [0, 1]: none of them holds it",
    )


def test_two_heads_from_three_ranks_to_six_are_refused() -> None:
    # Sources hold heads 0, 0, 1; receiver 3 needs head 1 and hears from source 1.
    refusal = refusal_of(case_of(keys_only(2), Topology(3), Topology(6)))
    assert refusal.code == UNSERVABLE_INDEX and "H=1, is due on generation rank 3" in refusal.reason


def test_a_later_part_that_is_held_does_not_hide_one_that_is_not() -> None:
    footer = Buffer("footer", LayerSet((0,)), (Part((TOKENS, heads(3)), 8), Part((TOKENS,), 8)))
    refusal = refusal_of(case_of(Model(1, (paged(footer),)), Topology(4), Topology(2)))
    assert refusal.code == UNSERVABLE_INDEX and "footer of layer 0, H=1," in refusal.reason


@pytest.mark.parametrize(("heads_", "source", "destination"), [(6, 4, 2), (3, 3, 1), (2, 2, 8), (8, 4, 2), (2, 8, 4)])
def test_what_paired_ranks_hold_is_served(heads_: int, source: int, destination: int) -> None:
    assert plan_of(case_of(keys_only(heads_), Topology(source), Topology(destination))).nbytes > 0


def test_split_axes_whose_corners_nobody_holds_are_refused() -> None:
    axes = (heads(2, Split.EVEN), Axis("C", 2, Split.EVEN, Grid.TP))
    refusal = refusal_of(case_of(Model(1, (state(buffer("x", "0", *axes)),)), Topology(2), Topology(1)))
    assert refusal.code == UNSERVABLE_INDEX and "H=0, C=1," in refusal.reason


@pytest.mark.parametrize(
    ("source", "destination", "dimension"),
    [
        (Topology(2), Topology(3), "tp"),
        (Topology(3), Topology(2), "tp"),
        (Topology(1, (1,), 2), Topology(1, (1,), 3), "cp"),
    ],
)
def test_sizes_without_a_fan_are_refused_even_if_nothing_is_split(source, destination, dimension) -> None:
    model = Model(1, (paged(buffer("key", "0", TOKENS, payload(4))),))
    refusal = refusal_of(case_of(model, source, destination))
    assert refusal.code == FAN_UNDEFINED and refusal.reason.startswith(f"along {dimension}: ")


def test_attention_data_parallelism_has_one_tensor_rank_to_fan() -> None:
    assert plan_of(case_of(keys_only(2), Topology(2, (1,), 1, True), Topology(3))).nbytes == 3 * 2


@pytest.mark.parametrize("side", ["context", "generation"])
def test_context_parallelism_and_attention_data_parallelism_exclude_each_other(side: str) -> None:
    both = Topology(2, (1,), 2, attention_dp=True)
    sides = (both, Topology(2)) if side == "context" else (Topology(2), both)
    refusal = refusal_of(case_of(keys_only(2), *sides))
    assert refusal == Refusal(CONTEXT_PARALLEL_WITH_ATTENTION_DP, f"the {side} side has cp = 2 and attention DP 2")


def test_equal_context_parallelism_is_served_without_state_and_refused_with_it() -> None:
    sides = (Topology(2, (1,), 2), Topology(4, (1,), 2))
    plan_of(case_of(keys_only(4), *sides))
    with_state = Model(1, (*keys_only(4).groups, state(buffer("ssm", "0", heads(8, Split.EVEN, Grid.TPCP)))))
    refusal = refusal_of(case_of(with_state, *sides))
    # Receiver 1 (tp 0, cp 1) is part 1 of 8; its paired source, rank 1, is part 1 of 4 and holds heads 2 and 3.
    assert refusal.code == UNSERVABLE_INDEX and "ssm of layer 0, H=1, is due on generation rank 1" in refusal.reason


@pytest.mark.parametrize(("source", "destination"), [(2, 4), (4, 2)])
@pytest.mark.parametrize("prompt", [1, 8])
def test_unequal_context_parallelism_is_refused_whatever_the_prompt(source: int, destination: int, prompt: int) -> None:
    sides = (Topology(1, (1,), source), Topology(1, (1,), destination))
    case = case_of(keys_only(1), *sides, Request(0, prompt), tokens=1)
    assert refusal_of(case).code == UNSERVABLE_INDEX


def test_unequal_context_parallelism_is_served_where_only_state_moves() -> None:
    model = Model(1, (state(buffer("ssm", "0", heads(4, Split.EVEN, Grid.TPCP))),))
    assert plan_of(case_of(model, Topology(1, (1,), 2), Topology(1, (1,), 4))).nbytes == 4


def test_tokens_per_block_must_agree() -> None:
    case = Case(keys_only(1), Instance(tokens_per_block=4), Instance(tokens_per_block=8), (Request(0, 8),))
    reason = "tokens per block: 4 on the context side, 8 on the generation side"
    assert refusal_of(case) == Refusal(TOKENS_PER_BLOCK_DIFFER, reason)


def test_tokens_per_block_do_not_matter_to_state() -> None:
    model = Model(1, (state(buffer("ssm", "0", payload(4))),))
    plan_of(Case(model, Instance(tokens_per_block=4), Instance(tokens_per_block=8), (Request(0, 8),)))


def test_element_widths_must_agree() -> None:
    case = case_of(keys_only(1), Topology(), Topology(), generation={"element_bits": (("key", 16),)})
    reason = "element bits of key in group full: [8] on the context side, [16] on the generation side"
    assert refusal_of(case) == Refusal(ELEMENT_WIDTH_DIFFERS, reason)


def test_the_width_of_what_does_not_move_may_differ() -> None:
    own = buffer("scratch", "0", TOKENS, moves=(Move(MoveState.NEVER),))
    model = Model(1, (paged(buffer("key", "0", TOKENS, payload(3)), own),))
    assert plan_of(case_of(model, Topology(), Topology(), generation={"element_bits": (("scratch", 16),)})).nbytes == 6


def keys(*axes: Axis, **others: object) -> Model:
    return Model(1, (paged(buffer("key", "0", *axes, **others)),))


@pytest.mark.parametrize(
    ("code", "source", "destination", "values"),
    [
        (RING_LENGTH_DIFFERS, keys(payload(17, "R"), payload(2)), keys(payload(18, "R"), payload(2)), "[17] .* [18]"),
        (AXES_DIFFER, keys(TOKENS, payload(2)), keys(TOKENS, payload(4)), "'D', 2, 0.* 'D', 4, 0"),
        (AXES_DIFFER, keys(TOKENS, heads(2)), keys(TOKENS, heads(2, Split.ALL)), "heads@TP .* all@TP"),
        (
            SECTIONS_DIFFER,
            Model(1, (state(buffer("conv", "0", sections(("x", 4, Split.EVEN), ("B", 2, Split.ALL)))),)),
            Model(1, (state(buffer("conv", "0", sections(("x", 2, Split.EVEN), ("B", 4, Split.ALL)))),)),
            "'x': '4.even'.* 'x': '2.even'",
        ),
        (SUB_PAGES_DIFFER, keys(TOKENS, sub_rows=2), keys(TOKENS), "2 rows.* 0 rows"),
        (ELEMENT_WIDTH_DIFFERS, keys(TOKENS, bits=8), keys(TOKENS, bits=16), "[8] .* [16]"),
        (GROUP_KIND_DIFFERS, keys(payload(4)), Model(1, (state(buffer("key", "0", payload(4))),)), "paged .* state"),
        (BUFFER_MISSING, keys(TOKENS), Model(1, (paged(buffer("value", "0", TOKENS)),)), "declared .* missing"),
    ],
)
def test_two_declarations_must_agree_on_what_moves(code: str, source: Model, destination: Model, values: str) -> None:
    sides = []
    for model, side in ((source, "context"), (destination, "generation")):
        sides.append(pages_of(case_of(model, Topology(), Topology(), tokens=4), side))
    refusal = check_compatible(*sides)
    assert refusal is not None and refusal.code == code
    before, after = values.split(".* ")
    assert before.strip() in refusal.reason and after in refusal.reason.split("on the context side")[1]
    assert check_compatible(sides[0], sides[0]) is None


def test_an_optional_buffer_may_be_declared_on_one_side_only() -> None:
    optional = buffer("window", "0", TOKENS, moves=(Move(MoveState.OPTIONAL, None, (), "either"),))
    more = Model(1, (paged(*keys_only(1).groups[0].buffers, optional),))
    sides = [pages_of(case_of(model, Topology(), Topology()), "context") for model in (keys_only(1), more)]
    assert check_compatible(*sides) is None and check_compatible(*reversed(sides)) is None


def test_the_order_of_heads_and_tokens_may_differ_in_declarations() -> None:
    sides = [
        pages_of(case_of(keys_only(4, order=order), Topology(), Topology()), side)
        for order, side in (("HND", "context"), ("NHD", "generation"))
    ]
    assert check_compatible(*sides) is None


def explicit(entries: tuple[Entry, ...]) -> Case:
    """Keys and values of one layer, the context side's page table given as ``entries``."""
    model = Model(1, (paged(buffer("key", "0", TOKENS), buffer("value", "0", TOKENS)),))
    table = PageTable((Pool(16, 5),), entries)
    return case_of(model, Topology(), Topology(), context={"page_tables": ((0, table),)})


@pytest.mark.parametrize(
    ("entry", "code", "reason"),
    [
        (None, BUFFER_MISSING, "page table of rank 0: value of layer 0 in group full has no region"),
        (
            Entry(0, 0, 0, "value", 8, 1),
            REGION_TOO_SMALL,
            "page table of rank 0: value of layer 0 in group full has 1 B, its share takes 2 B",
        ),
    ],
)
@pytest.mark.parametrize("given", ["context", "generation"])
def test_an_explicit_page_table_must_hold_the_share_of_all_that_moves(given, entry, code, reason) -> None:
    right = explicit((Entry(0, 0, 0, "key", 0, 2), Entry(0, 0, 0, "value", 8, 2)))
    wrong = PageTable((Pool(16, 5),), (Entry(0, 0, 0, "key", 0, 2), *([entry] if entry else [])))
    whole, torn = (Pages(right.model, right.context, (table,)) for table in (right.context.page_tables[0][1], wrong))
    assert check_compatible(whole, whole) is None
    sides = (torn, whole) if given == "context" else (whole, torn)
    assert check_compatible(*sides) == Refusal(code, reason)


def test_an_explicit_page_table_says_where_buffers_lie() -> None:
    writes = plan_of(explicit((Entry(0, 0, 0, "key", 8, 2), Entry(0, 0, 0, "value", 3, 2))))
    assert [segment.runs.tolist() for segment in writes.segments] == [[[8, 0, 2], [3, 2, 2]]]


def test_map_buffers_raises_what_no_plan_can_serve() -> None:
    context, generation = ranks_of_case(case_of(keys_only(1), Topology(2), Topology(3)))
    with pytest.raises(Refused, match="the instances: fan_undefined"):
        map_buffers(context[0], generation[0], key=0)


def lose(case: Case, group: str, *slots: tuple[int, ...], side: str = "context") -> Case:
    """``case`` with the slots of rank 0, 1, ... of request 0 given, -1 for a block that is gone."""
    lists = tuple(SlotList(side, rank, group, 0, given) for rank, given in enumerate(slots))
    return Case(case.model, case.context, case.generation, case.requests, tables=lists)


def present(case: Case, *slots: tuple[int, ...]) -> Case:
    """``case`` whose context managers hand over these lists of request 0, rank by rank, whatever the ranks hold."""
    lists = tuple(SlotList("context", rank, "full", 0, given) for rank, given in enumerate(slots))
    return Case(case.model, case.context, case.generation, case.requests, presented=lists)


def refusals(case: Case) -> tuple[Refusal, ...]:
    writes = Mapping().plan(case, gather_facts(case))
    assert isinstance(writes, Writes)
    return writes.refusals


def test_a_request_that_lost_a_due_block_is_refused_alone() -> None:
    case = case_of(keys_only(1), Topology(), Topology(), Request(0, 6), Request(1, 4))
    lists = (SlotList("context", 0, "full", 0, (0, -1, 2)), SlotList("context", 0, "full", 1, (3, 4)))
    writes = plan_of(Case(case.model, case.context, case.generation, case.requests, tables=lists))
    (refusal,) = writes.refusals
    assert (refusal.code, refusal.request) == (BLOCK_LOST, 0)
    assert refusal.reason.startswith("generation rank 0 lists block 1 of group full, paired context ranks [0] lost it")
    assert {segment.request for segment in writes.segments} == {1}
    assert {pair.request for pair in writes.pairs} == {0, 1}


def test_a_lost_block_that_the_receiver_has_already_is_not_missed() -> None:
    case = case_of(keys_only(1), Topology(), Topology(), Request(0, 6, generation=SideState(4)))
    assert refusals(lose(case, "full", (-1, -1, 2))) == ()


def test_a_block_that_another_replica_still_has_is_sent_by_it() -> None:
    model = Model(1, (paged(buffer("key", "0", TOKENS)),))
    case = present(case_of(model, Topology(2), Topology(), Request(0, 6)), (0, -1, 2), (3, 4, -1))
    found = sorted((s.source_rank, *s.source_bases.tolist()) for s in plan_of(case).segments)
    assert refusals(case) == () and found == [(0, 0), (0, 4), (1, 8)]


def test_a_share_that_no_other_rank_has_is_lost_with_its_block() -> None:
    (refusal,) = refusals(present(case_of(keys_only(2), Topology(2), Topology(), Request(0, 4)), (0, 1), (2, -1)))
    assert refusal.code == BLOCK_LOST and "key of layer 0, H=1," in refusal.reason


def windowed(window: int, sinks: int = 0) -> Model:
    return Model(1, (paged(buffer("key", "0", TOKENS), window=window, sinks=sinks),))


# Blocks, correction 1: X4 is served (T=4 P=20, windows 4 and 8: only block 4 is due), X3 in small is refused.
def test_a_block_that_only_the_receiver_s_reserve_reaches_may_be_lost() -> None:
    wider = {"reserve": (("full", 4),)}
    case = case_of(windowed(4), Topology(), Topology(), Request(0, 20), tokens=4, generation=wider)
    writes = plan_of(case)
    assert writes.refusals == () and writes.nbytes == 4


def test_a_block_that_the_sender_dropped_too_early_is_lost() -> None:
    case = case_of(windowed(5), Topology(), Topology(), Request(0, 10), tokens=4)
    (refusal,) = refusals(lose(case, "full", (-1, -1, 2)))
    assert refusal.code == BLOCK_LOST and "block 1 of group full" in refusal.reason


def test_a_lost_sink_is_a_lost_block() -> None:
    case = case_of(windowed(16, sinks=4), Topology(), Topology(), Request(0, 32), tokens=8)
    assert refusals(lose(case, "full", (0, -1, 2, 3))) == ()
    (refusal,) = refusals(lose(case, "full", (-1, -1, 2, 3)))
    assert "block 0 of group full" in refusal.reason


def test_a_source_without_a_state_slot_is_refused() -> None:
    model = Model(1, (state(buffer("ssm", "0", payload(4))),))
    (refusal,) = refusals(lose(case_of(model, Topology(), Topology()), "state", (-1,)))
    assert refusal.code == BLOCK_LOST and "the state of group state" in refusal.reason


def test_pages_need_a_table_for_every_rank() -> None:
    case = case_of(keys_only(1), Topology(2), Topology())
    with pytest.raises(ValueError, match="expected one page table for each of 2 ranks"):
        Pages(case.model, case.context, ())


def test_a_part_more_is_another_axis_set() -> None:
    two = Buffer("key", LayerSet((0,)), (Part((TOKENS,), 8), Part((TOKENS, payload(2)), 8)))
    sides = [
        pages_of(case_of(model, Topology(), Topology()), side)
        for model, side in ((keys(TOKENS), "context"), (Model(1, (paged(two),)), "generation"))
    ]
    refusal = check_compatible(*sides)
    assert refusal is not None and refusal.code == AXES_DIFFER
