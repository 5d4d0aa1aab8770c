"""Two plans compared: what counts as a difference, byte for byte, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.compare import (
    BOTH,
    FIRST,
    NEITHER,
    SECOND,
    ByteDifference,
    Comparison,
    PairDifference,
    RefusalDifference,
    compare,
)
from differential.faults import find_fault
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects import mapping, native
from differential.subjects.native import election as native_election
from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from oracle.model.writes import Pair, Refusal, Segment, Writes
from oracle.truth.elements import truth_of
from oracle.truth.judge import carried_bytes
from strategies.cases import cases
from tests.small_cases import case_of, group, model_of

MAPPING = mapping.Mapping()
KEY = "key @ 0 : H(2).heads T D(1) ; 8"
LATENT = "key @ 0 : T D(2) ; 8"


def planned(case: Case, subject: object = MAPPING) -> Writes:
    plan = subject.plan(case, gather_facts(case))  # type: ignore[attr-defined]
    assert isinstance(plan, Writes)
    return plan


def segment(source: int, destination: int, *runs: tuple[int, int, int], request: int = 0, pool: int = 0) -> Segment:
    """Runs given from the start of the pool."""
    base = np.zeros(1, dtype=np.int64)
    return Segment(request, 0, 0, source, destination, pool, pool, base, base, np.array(runs, dtype=np.int64))


def as_single_runs(plan: Writes, random: Random) -> Writes:
    """The same bytes: every run cut in two somewhere, one segment a run, in another order."""
    segments = []
    for each in plan.segments:
        for source, destination in zip(each.source_bases.tolist(), each.destination_bases.tolist(), strict=True):
            for offset, target, nbytes in each.runs.tolist():
                cut = random.randint(0, nbytes)
                for start, length in ((0, cut), (cut, nbytes - cut)):
                    run = source + offset + start, destination + target + start, length
                    ranks = each.source_rank, each.destination_rank
                    moved = segment(*ranks, run, request=each.request)
                    pools = {"source_pool": each.source_pool, "destination_pool": each.destination_pool}
                    segments.append(replace(moved, **pools))
    random.shuffle(segments)
    return replace(plan, segments=tuple(segments))


@given(cases(), st.randoms(use_true_random=False))
def test_order_and_cutting_of_runs_do_not_count(case: Case, random: Random) -> None:
    plan = MAPPING.plan(case, gather_facts(case))
    if isinstance(plan, Writes):
        assert compare(case, plan, as_single_runs(plan, random)).identical


def byte_pairs(case: Case, plan: Writes) -> dict[int, set[int]]:
    """By destination byte: the source bytes that a plan writes onto it; addresses are those of the oracle."""
    carried = carried_bytes(case, plan)
    found: dict[int, set[int]] = {}
    for source, destination in zip(carried.source.tolist(), carried.destination.tolist(), strict=True):
        found.setdefault(destination, set()).add(source)
    return found


def spoiled(plan: Writes, random: Random) -> Writes:
    """``plan`` with some runs left out, read elsewhere, or written twice; all inside their buffers."""
    segments = []
    for each in plan.segments:
        kept = each.runs.copy()
        for index in range(len(kept)):
            choice = random.randint(0, 5)
            if choice == 0 and kept[index, 2] > 1:
                kept[index, 2] -= 1
            elif choice == 1 and kept[index, 2] > 1:
                kept[index] += (1, 0, -1)
            elif choice == 2:
                kept[index, 2] = 0
        segments.append(replace(each, runs=kept))
        if random.random() < 0.2:
            segments.append(each)
    return replace(plan, segments=tuple(segments))


@given(cases(), st.randoms(use_true_random=False))
def test_exactly_the_bytes_with_other_sources_are_reported(case: Case, random: Random) -> None:
    plan = MAPPING.plan(case, gather_facts(case))
    if not isinstance(plan, Writes):
        return
    other = spoiled(plan, random)
    one, two = byte_pairs(case, plan), byte_pairs(case, other)
    unlike = {address for address in one.keys() | two.keys() if one.get(address) != two.get(address)}
    comparison = compare(case, plan, other)
    assert sum(each.nbytes for each in comparison.bytes) == len(unlike)
    assert comparison.identical == (not unlike)
    keys = {replace(each, nbytes=0, heads=None, tokens=None) for each in comparison.bytes}
    assert len(keys) == len(comparison.bytes)


@given(cases(), st.randoms(use_true_random=False))
def test_a_comparison_read_from_the_other_side_is_the_exchanged_one(case: Case, random: Random) -> None:
    plan = MAPPING.plan(case, gather_facts(case))
    if isinstance(plan, Writes):
        other = spoiled(plan, random)
        turned = compare(case, other, plan, names=("b", "a"))
        there = compare(case, plan, other, names=("a", "b"))
        assert there.exchanged().exchanged() == there
        assert (turned.first, turned.second) == ("b", "a")
        assert set(turned.bytes) == set(there.exchanged().bytes)


def test_a_run_that_is_left_out_names_buffer_block_heads_tokens_and_senders() -> None:
    case = case_of(KEY, "tp2", "tp1", prompts=3)
    plan = planned(case)
    kept = tuple(each for each in plan.segments if each.source_rank == 0)
    comparison = compare(case, plan, replace(plan, segments=kept))
    assert comparison.bytes == (
        ByteDifference(0, 0, 0, "key", 0, 2, (1,), (), FIRST, (1,), (0, 1), 0),
        ByteDifference(0, 0, 0, "key", 1, 1, (1,), (), FIRST, (1,), (2, 2), 0),
        ByteDifference(0, 0, 0, "key", 1, 1, (1,), (), BOTH, (1,), (3, 3), 0),
    ), comparison.lines()
    assert comparison.lines()[0] == (
        "rank 0, request 0, key of layer 0 in group 0, block 0, heads 1, tokens 0..1: "
        "2 B from rank 1 in first, from nobody in second; first is right"
    )


def test_rows_past_the_prompt_may_come_or_not_and_both_are_right() -> None:
    case = case_of(LATENT, prompts=1)
    plan = planned(case)
    short = Writes(plan.pairs, tuple(replace(s, runs=s.runs - (0, 0, 2)) for s in plan.segments))
    (only,) = compare(case, plan, short).bytes
    assert (only.right, only.tokens, only.nbytes) == (BOTH, (1, 1), 2)


def test_another_replica_is_a_difference_and_the_elected_one_is_right() -> None:
    case = case_of(LATENT, "tp2", "tp1")
    plan = planned(case)
    facts = gather_facts(case)
    slots = [facts.context[rank].blocks[0, 0].slots for rank in (0, 1)]
    stride = facts.context[1].table.pools[0].slot_stride
    from_other = tuple(replace(s, source_rank=1, source_bases=slots[1] * stride) for s in plan.segments)
    assert [s.source_rank for s in plan.segments] == [0]
    (only,) = compare(case, plan, replace(plan, segments=from_other)).bytes
    assert (only.first_senders, only.second_senders, only.right, only.nbytes) == ((0,), (1,), FIRST, 4)


def test_a_second_writer_of_the_right_bytes_makes_a_plan_wrong_there() -> None:
    case = case_of(LATENT, "tp2", "tp1")
    plan = planned(case)
    slots = gather_facts(case).context[1].blocks[0, 0].slots
    again = tuple(replace(s, source_rank=1, source_bases=slots * s.runs[0, 2]) for s in plan.segments)
    (only,) = compare(case, plan, replace(plan, segments=plan.segments + again)).bytes
    assert (only.first_senders, only.second_senders, only.right) == ((0,), (0, 1), FIRST)


def test_a_run_written_twice_from_one_place_is_no_difference_for_sets_of_bytes() -> None:
    case = case_of(LATENT)
    plan = planned(case)
    assert compare(case, plan, replace(plan, segments=plan.segments * 2)).identical


def test_bytes_where_nothing_is_due_are_told_by_where_they_lie() -> None:
    case = case_of(LATENT)
    plan = planned(case)
    used = int(plan.segments[0].destination_bases[0])
    free = (used + 4) % (gather_facts(case).generation[0].table.pools[0].count * 4)
    stray = Writes(plan.pairs, (*plan.segments, segment(0, 0, (0, free, 1))))
    (only,) = compare(case, plan, stray).bytes
    assert only == ByteDifference(0, 0, 0, "key", None, 1, (), (0,), FIRST)
    told = "rank 0, key of layer 0 in group 0: 1 B from nobody in a, from rank 0 in b; a is right"
    assert only.words(("a", "b")) == told


@pytest.mark.parametrize(("destination", "pool"), [(7, 0), (0, 3)])
def test_bytes_for_ranks_or_pools_that_do_not_exist_are_differences(destination: int, pool: int) -> None:
    case = case_of(LATENT)
    plan = planned(case)
    lost = replace(segment(0, destination, (0, 0, 3)), destination_pool=pool)
    (only,) = compare(case, plan, Writes(plan.pairs, (*plan.segments, lost))).bytes
    assert (only.destination, only.role, only.nbytes, only.right) == (destination, None, 3, FIRST)
    assert compare(case, Writes(plan.pairs, (lost,)), Writes(plan.pairs, (lost,))).identical


def test_two_wrong_plans_that_differ_are_both_called_wrong() -> None:
    case = case_of("key @ 0 : T D(3) ; 8", prompts=1, size=1)
    plan = planned(case)
    start = int(plan.segments[0].destination_bases[0])
    source = int(plan.segments[0].source_bases[0])
    one, two = (Writes(plan.pairs, (segment(0, 0, (source + shift, start, 1)),)) for shift in (1, 2))
    (only,) = compare(case, one, two).bytes
    assert only.right == NEITHER


def test_where_both_refuse_they_do_not_differ() -> None:
    case = case_of(LATENT, prompts=(1, 2))
    one, other = Refusal("a", "one reason"), Writes(refusals=(Refusal("b", "", 0), Refusal("c", "", 1)))
    assert compare(case, one, other).identical
    assert compare(case, other, one).identical


def test_a_refusal_of_one_side_is_a_difference_and_hides_only_its_request() -> None:
    case = case_of(LATENT, prompts=(1, 2))
    plan = planned(case)
    refusal = Refusal("code", "reason", 1)
    half = Writes(
        tuple(p for p in plan.pairs if p.request == 0), tuple(s for s in plan.segments if s.request == 0), (refusal,)
    )
    assert compare(case, half, plan) == Comparison(
        FIRST, SECOND, refusals=(RefusalDifference(FIRST, "code", "reason", 1),)
    )
    assert compare(case, plan, Writes(refusals=(refusal,))).bytes[0].request == 0
    whole = compare(case, plan, Refusal("code", "reason"), names=("one", "two"))
    assert whole.refusals == (RefusalDifference(SECOND, "code", "reason", None),)
    assert whole.lines() == ("two refuses the instances (code: reason), one serves",)
    assert not whole.bytes and not whole.pairs


def test_pairs_are_compared_apart_from_bytes() -> None:
    case = case_of(LATENT, "tp2", "tp1")
    plan = planned(case)
    fewer = replace(plan, pairs=(Pair(0, 0, 0), Pair(0, 5, 0, "receiver")))
    comparison = compare(case, plan, fewer)
    assert comparison.pairs == (PairDifference(0, 1, 0, "both", "no"), PairDifference(0, 5, 0, "no", "receiver"))
    assert not comparison.bytes
    assert comparison.lines()[1] == "request 0, ranks 5 to 0: first: not paired, second: seen by receiver"


def test_bytes_beyond_int32_of_a_plan_do_not_overlap_in_the_comparison() -> None:
    """Ranks that do not exist get addresses of their own, however many there are."""
    case = case_of(LATENT, "tp2", "tp2")
    size = truth_of(case).generation.size
    plans = [Writes(segments=(segment(0, rank, (0, 0, 1)),)) for rank in (5, 6)]
    comparison = compare(case, *plans)
    assert sorted(each.destination for each in comparison.bytes) == [5, 6]
    assert size < 1 << 20


# ---- elections

REPLICAS = [
    case_of(LATENT, "tp4", "tp1", prompts=3),
    case_of(KEY, "tp4", "tp1", prompts=2),
    case_of(KEY, "tp4", "tp2 dp", requests=(Request(0, 2, generation_dp=1),)),
    case_of(model_of(group(KEY, "index_key @ 0 : T D(3) ; 8")), "tp2", "tp1"),
]


def with_native(case: Case) -> Case:
    return replace(case, native=native_of(case))


def native_of(case: Case):  # type: ignore[no-untyped-def]
    from oracle.model.case import Native

    roles = {buffer.role for each in case.model.groups for buffer in each.buffers}
    return Native((("all", "indexed"), *((role, "replicated") for role in roles if role == "index_key")))


def delivers(case: Case, subject: object) -> bool:
    """Whether a plan alone brings every due byte, whoever sends it."""
    return run_case(case, [own_election(subject)]).passed


class own_election:
    """A subject whose choice of senders is not judged."""

    election = "own"

    def __init__(self, base: object) -> None:
        self.base = base
        self.name = base.name  # type: ignore[attr-defined]

    def plan(self, case: Case, facts: object) -> Writes | Refusal:
        return self.base.plan(case, facts)  # type: ignore[attr-defined]


def rotate_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    elect = mapping.election.elect.__wrapped__

    def elect_next(geometry: object, destination: object, holders: object, key: int) -> object:
        return elect(geometry, destination, holders, key + 1)

    monkeypatch.setattr(mapping.relation, "elect", elect_next)


def rotate_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        native_election,
        "_wins",
        lambda own, peer, candidates: candidates <= 1 or (own.tensor_rank + 1) % candidates == peer.dp % candidates,
    )


@pytest.mark.parametrize("case", [with_native(replace(case, kind="gqa")) for case in REPLICAS[1:]])
@pytest.mark.parametrize("rotate", [None, rotate_mapping, rotate_native])
def test_a_rotated_election_delivers_every_byte_and_only_the_comparison_sees_it(
    case: Case, rotate: Callable[[pytest.MonkeyPatch], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = tuple(replace(each, role="value") for each in case.model.groups[0].buffers[:1])
    case = replace(case, model=model_of(group_with(case, value)))
    mapping.clear_caches()
    if rotate is not None:
        rotate(monkeypatch)
    try:
        subjects = mapping.Mapping(), native.make()
        assert all(delivers(case, subject) for subject in subjects)
        comparison = compare(case, *(planned(case, subject) for subject in subjects))
    finally:
        mapping.clear_caches()
    assert comparison.identical == (rotate is None)
    assert rotate is None or all(each.first_senders != each.second_senders for each in comparison.bytes)


def group_with(case: Case, more: tuple[object, ...]):  # type: ignore[no-untyped-def]
    own = case.model.groups[0]
    return replace(own, buffers=(own.buffers[0], *more, *own.buffers[1:]))


@pytest.mark.parametrize("faulty", ["mapping", "native"])
def test_a_first_holder_election_in_either_subject_is_a_difference(faulty: str) -> None:
    case = Case(
        REPLICAS[0].model,
        Instance(Topology(2)),
        Instance(Topology(2, attention_dp=True)),
        (Request(0, 1, generation_dp=1),),
        native=native_of(REPLICAS[0]),
    )
    fault = find_fault("elect-first")
    subjects = [fault.wrap(s) if s.name == faulty else s for s in (MAPPING, native.make())]
    assert all(delivers(case, subject) for subject in subjects)
    comparison = compare(case, *(planned(case, subject) for subject in subjects), names=("mapping", "native"))
    assert {each.right for each in comparison.bytes} == {SECOND if faulty == "mapping" else FIRST}
