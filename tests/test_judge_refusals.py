"""Which refusals the judge calls right: what has no paired holder, what policy allows, what the source lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from oracle.model.buffers import GroupKind, LayerGroup, Model
from oracle.model.case import Case, Request, SlotList
from oracle.model.encodings import CODES, ENCODINGS
from oracle.model.errors import InvalidCase
from oracle.model.writes import Pair, Refusal, Segment, Writes
from oracle.truth.elements import truth_of
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from oracle.truth.servable import policy_reasons
from oracle.truth.verdict import Kind, Outcome
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, group, small_cases

MHA = "key @ 0 : H(2).heads T D(1) ; 8"
MLA = "key @ 0 : T D(2) ; 8"


def right_plan(case: Case) -> Writes:
    reference = read(case)
    return plan_of(right_rows(case, reference), reference)


@settings(max_examples=60, deadline=None)
@given(small_cases())
def test_a_refusal_passes_where_and_only_where_a_due_index_has_no_paired_holder(case: Case) -> None:
    sizes = [
        (
            1 if case.context.topology.attention_dp else case.context.topology.tp,
            1 if case.generation.topology.attention_dp else case.generation.topology.tp,
        ),
        (case.context.topology.cp, case.generation.topology.cp),
    ]
    policy = any(max(pair) % min(pair) for pair in sizes)
    verdict = judge(case, Refusal("no", "it cannot be"))
    if truth_of(case).unserved or policy:
        assert verdict.outcome is Outcome.PASS
        assert verdict.reason == "the instances: no (it cannot be)"
    else:
        assert verdict.counts == {Kind.FALSE_REFUSAL: 1}


def test_a_refusal_of_a_servable_pair_is_false() -> None:
    verdict = judge(case_of(MHA, "tp2", "tp1"), Refusal("tp", "sizes differ"))
    assert verdict.counts == {Kind.FALSE_REFUSAL: 1}
    assert verdict.violations[0].refusal == Refusal("tp", "sizes differ")


@pytest.mark.parametrize(
    ("heads", "context", "generation", "served"),
    [
        (6, "tp4", "tp2", True),  # 2 heads each from 0, 1, 3, 4 to 3 each from 0, 3
        (3, "tp4", "tp2", False),  # head 1 is on source rank 2 alone, and due on destination 0
        (2, "tp3", "tp6", False),
        (8, "tp8", "tp2", True),
        (2, "tp8", "tp4", True),
    ],
)
def test_uneven_heads_are_served_where_every_due_head_has_a_paired_holder(
    heads: int, context: str, generation: str, served: bool
) -> None:
    case = case_of(f"key @ 0 : H({heads}).heads T D(1) ; 8", context, generation)
    assert bool(judge(case, right_plan(case))) == served
    assert bool(judge(case, Refusal("heads", "no holder"))) != served


@pytest.mark.parametrize(
    ("context", "generation", "served"),
    [("tp2 cp2", "tp4 cp2", True), ("tp1 cp2", "tp1 cp4", False), ("tp1", "tp1 cp2", True), ("tp1 cp2", "tp1", True)],
)
def test_context_parallel_pairs_are_decided_over_a_whole_period(context: str, generation: str, served: bool) -> None:
    for prompt in (1, 2, 16):
        case = case_of(MLA, context, generation, prompts=prompt)
        assert bool(judge(case, right_plan(case))) == served
        assert bool(judge(case, Refusal("cp", "no holder"))) != served


def test_state_over_grids_that_do_not_divide_is_served_where_tp_does() -> None:
    # 24 heads, tp 4 to tp 2 x cp 3: quarters to sixths; tp pairs halves, cp pairs all.
    case = case_of(group("ssm @ 0 : H(24).even@TPCP ; 8", state=True), "tp4", "tp2 cp3")
    assert judge(case, right_plan(case))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"generation_side": {"tokens_per_block": 4}}, "tokens per block differ: 2 and 4"),
        ({"generation_side": {"element_bits": (("key", 16),)}}, "elements of key are 8 and 16 bits wide"),
    ],
)
def test_sides_that_cut_bytes_differently_are_rightly_refused_and_never_rightly_served(
    options: dict[str, object], why: str
) -> None:
    case = case_of(MLA, prompts=4, **options)  # type: ignore[arg-type]
    assert why in policy_reasons(case)
    assert judge(case, Refusal("differ", "sizes"))
    bases = np.array([0])
    runs = np.array([[0, 0, 4]])
    plan = Writes((Pair(0, 0, 0),), (Segment(0, 0, 0, 0, 0, 0, 0, bases, bases, runs),))
    assert not judge(case, plan)


def test_sizes_that_do_not_divide_and_cp_with_attention_dp_may_be_refused() -> None:
    for context, generation in (("tp2", "tp3"), ("tp1", "tp2 cp2 dp")):
        assert judge(case_of(MLA, context, generation), Refusal("policy", "not defined"))


def lost_in(requests: int) -> Case:
    """The first block of the first request is lost; the other requests have all of theirs."""
    lists = ((-1, 2), (3, 4), (5, 6))[:requests]
    tables = tuple(SlotList("context", 0, "kv", number, slots) for number, slots in enumerate(lists))
    return case_of(MLA, prompts=[4] * requests, tables=tables)


def spoiled(*, request: int = 0, group: int = 0, nbytes: int = 1) -> Segment:
    zero = np.zeros(1, dtype=np.int64)
    return Segment(request, 0, group, 0, 0, 0, 0, zero, zero, np.array([[0, 0, nbytes]]))


@pytest.mark.parametrize(
    ("plan", "argument", "value"),
    [
        (Writes((Pair(1, 0, 0),)), "pairs[0].request", 1),
        (Writes(segments=(spoiled(request=1),)), "segments[0].request", 1),
        (Writes(segments=(spoiled(request=-1),)), "segments[0].request", -1),
        (Writes(segments=(spoiled(group=7),)), "segments[0].group", 7),
        (Writes(segments=(spoiled(nbytes=-1),)), "segments.runs", -1),
        (Writes(refusals=(Refusal("no", "because", 2),)), "refusals.request", 2),
    ],
)
def test_a_plan_of_what_the_case_does_not_have_is_named(plan: Writes, argument: str, value: int) -> None:
    with pytest.raises(InvalidCase) as trouble:
        judge(case_of(MLA), plan)
    assert (trouble.value.argument, trouble.value.value) == (argument, value)


def test_a_group_of_no_length_holds_nothing() -> None:
    case = case_of(MLA)
    encoder = LayerGroup("cross", GroupKind.PAGED, case.model.groups[0].buffers, length="encoder")
    case = replace(case, model=Model(1, (encoder,)), requests=(Request(0, 2, lengths=(("encoder", 0),)),))
    assert judge(case, Writes((Pair(0, 0, 0),)))


def test_a_refused_request_that_is_written_all_the_same_is_stray_for_one_as_for_many() -> None:
    for many in (1, 2):
        case = lost_in(many)
        refused = replace(right_plan(case), refusals=(Refusal("lost", "block 0 is gone", 0),))
        own = [segment for segment in refused.segments if segment.request == 0]
        assert own and judge(case, refused).counts == {Kind.STRAY: sum(segment.nbytes for segment in own)}


def test_a_lost_block_refuses_its_request_and_no_other() -> None:
    case = lost_in(2)
    plan = right_plan(case)
    plan = replace(
        plan,
        pairs=tuple(pair for pair in plan.pairs if pair.request == 1),
        segments=tuple(segment for segment in plan.segments if segment.request == 1),
    )
    lost = Refusal("lost", "block 0 is gone", 0)
    assert judge(case, replace(plan, refusals=(lost,)))
    missing = {Kind.MISSING: 8, Kind.FALSE_REFUSAL: 1}
    assert judge(case, Refusal("lost", "block 0 is gone", 1)).counts == missing
    assert judge(case, Refusal("lost", "block 0 is gone")).kinds == {Kind.FALSE_REFUSAL}
    assert judge(case, replace(plan, segments=(), refusals=(lost,))).counts == {Kind.MISSING: 8}


def test_nothing_of_a_refused_request_is_written() -> None:
    case = lost_in(2)
    plan = right_plan(case)
    pairs = tuple(pair for pair in plan.pairs if pair.request == 1)
    verdict = judge(case, replace(plan, pairs=pairs, refusals=(Refusal("lost", "block 0 is gone", 0),)))
    assert verdict.counts == {Kind.STRAY: 4}


def test_a_lost_block_never_refuses_the_pair_of_instances() -> None:
    assert judge(lost_in(1), Refusal("lost", "block 0 is gone")).kinds == {Kind.FALSE_REFUSAL}
    assert judge(lost_in(1), Refusal("lost", "block 0 is gone", 0))


def test_a_known_code_must_be_true_of_a_request_that_lost_a_block() -> None:
    assert judge(lost_in(1), Refusal("block_lost", "block 0 is gone", 0))
    for encoding in ENCODINGS:
        for code in CODES:
            verdict = judge(lost_in(1), Refusal(code, "there are none", 0), encoding=encoding)
            assert verdict.kinds == {Kind.FALSE_REFUSAL}, (encoding, code)
    chunked = case_of(MLA, "tp1", "tp1 cp2", requests=(Request(0, 6, cuts=(2,)),))
    assert judge(chunked, Refusal("chunks_with_context_parallelism", "two", 0))
    assert not judge(chunked, Refusal("block_lost", "none is", 0))


def test_chunks_of_a_context_parallel_transfer_may_be_refused_or_served() -> None:
    case = case_of(MLA, "tp1", "tp1 cp2", requests=(Request(0, 6, cuts=(2,)),))
    assert judge(case, Refusal("chunks_with_context_parallel", "not supported", 0))
    assert judge(case, right_plan(case))
    whole = replace(case, requests=(Request(0, 6),))
    assert not judge(whole, Refusal("chunks_with_context_parallel", "not supported", 0))


def test_a_refusal_is_judged_whatever_the_length_of_the_prompt() -> None:
    for prompt in (1, 2, 13):
        case = case_of(MLA, "tp1 cp3", "tp1 cp4", requests=(Request(0, prompt),))
        assert judge(case, Refusal("fan_undefined", "3 and 4"))


def test_offsets_beyond_any_memory_are_named() -> None:
    with pytest.raises(InvalidCase) as trouble:
        judge(case_of(MLA), Writes(segments=(spoiled(nbytes=1 << 62),)))
    assert (trouble.value.argument, trouble.value.value) == ("segments.runs", 1 << 62)


def test_what_does_not_move_may_be_cut_differently() -> None:
    other = group("key @ 0 : T D(4) ; 8", "n @ 0 : T D(4) ; 8 ; never")
    case = case_of(other)
    case = replace(case, context=replace(case.context, element_bits=(("n", 16),)))
    assert judge(case, right_plan(case))
    assert judge(case, Refusal("no", "because")).kinds == {Kind.FALSE_REFUSAL}
    whole = group("ssm @ 0 : D(4) ; 8", state=True)
    case = case_of(whole)
    case = replace(case, context=replace(case.context, tokens_per_block=1))
    assert case.generation.tokens_per_block != 1
    assert judge(case, right_plan(case))
    assert judge_intervals(case, right_plan(case))


def test_what_moves_is_cut_alike_or_may_be_refused() -> None:
    case = case_of(MLA)
    for context in (
        replace(case.context, tokens_per_block=1),
        replace(case.context, element_bits=(("key", 16),)),
    ):
        assert judge(replace(case, context=context), Refusal("no", "they are cut differently"))
