"""Auxiliary buffers: what the legacy sender brings of them, what is judged of that, and what passes over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from differential.compare import compare
from differential.compare.large import compare_outlines
from differential.engines.host import HostEngine
from differential.engines.memory import carry, compare_memory
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from differential.subjects.native import auxiliary, election, make
from differential.subjects.native.rank_info import RankInfo
from oracle.model.buffers import LayerGroup, Model
from oracle.model.case import Case, Native, Request, SlotList, Slots
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from oracle.model.pages import Entry
from oracle.model.writes import Refusal, Segment, Writes
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome, Verdict
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, group, model_of

INDEXED = Native((("all", "indexed"),))
BYTES = 3 + 10
"""of the two items of one request"""
AUX = 1
"""index of the auxiliary group in the model of ``served``"""


def items(layers: int, **options: object) -> LayerGroup:
    """First tokens of 3 bytes and logits of 10, in pools of their own."""
    every = f"0..{layers - 1}"
    texts = (
        f"tokens @ {every} : D(3) ; 8 ; request ; first_local",
        f"logits @ {every} : V(5) ; 16 ; request ; first_local",
    )
    return group(*texts, name="aux", state=True, native_only=True, **options)


def keys(layers: int) -> LayerGroup:
    every = f"0..{layers - 1}"
    return group(f"key @ {every} : H(4).heads T D(2) ; 8", f"value @ {every} : H(4).heads T D(2) ; 8")


def served(context: str, generation: str, layers: int = 2, *, auxiliary_too: bool = True, **options: object) -> Case:
    groups = (keys(layers), items(layers)) if auxiliary_too else (keys(layers),)
    options = {"prompts": 8, "native": INDEXED, **options}
    return case_of(model_of(*groups, layers=layers), context, generation, **options)


def planned(case: Case, options: str = "") -> Writes:
    plan = make(options).plan(case, gather_facts(case))
    assert isinstance(plan, Writes), plan
    assert not plan.refusals, plan.refusals
    return plan


def mapped(case: Case) -> Writes:
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes), plan
    return plan


def apart(case: Case, plan: Writes) -> list[Segment]:
    return [each for each in plan.segments if case.model.groups[each.group].native_only]


def senders(case: Case, plan: Writes) -> list[tuple[int, int]]:
    """(source, destination), one for each time that all items are brought."""
    counted: Counter[tuple[int, int]] = Counter()
    for segment in apart(case, plan):
        counted[segment.source_rank, segment.destination_rank] += segment.nbytes
    assert all(nbytes % BYTES == 0 for nbytes in counted.values())
    return sorted(pair for pair, nbytes in counted.items() for _ in range(nbytes // BYTES))


def agreed(case: Case, plan: Writes | Refusal, which: str) -> Verdict:
    """The verdict of both judges, which must be one."""
    enumerated, closed = (each(case, plan, election=which) for each in (judge, judge_intervals))
    assert closed == enumerated
    return enumerated


def without_items(case: Case, plan: Writes) -> Writes:
    kept = tuple(each for each in plan.segments if not case.model.groups[each.group].native_only)
    return replace(plan, segments=kept)


# ---- what the legacy sender brings


def test_whole_items_go_from_slot_to_slot_as_worked_out() -> None:
    """Source slot 2, destination slot 4: tokens 2·3 to 4·3, logits 2·10 to 4·10."""
    lists = [SlotList("context", rank, "aux", 0, (2,)) for rank in range(4)]
    lists += [SlotList("generation", rank, "aux", 0, (4,)) for rank in range(2)]
    case = case_of(
        model_of(items(1)),
        "tp4",
        "tp2",
        native=INDEXED,
        slots=Slots(counts=(("aux", 5),)),
        tables=tuple(lists),
    )
    rows = [
        (each.source_rank, each.destination_rank, int(source + run[0]), int(target + run[1]), int(run[2]))
        for each in planned(case).segments
        for source, target in zip(each.source_bases, each.destination_bases, strict=True)
        for run in each.runs
    ]
    assert sorted(rows) == [(0, 0, 6, 12, 3), (0, 0, 20, 40, 10), (2, 1, 6, 12, 3), (2, 1, 20, 40, 10)]


WORKED = {
    "tp4 to tp2: the first of each two": ("tp4", "tp2", 2, {}, [(0, 0), (2, 1)]),
    "tp2 to tp4: the one that the receiver is paired with": ("tp2", "tp4", 2, {}, [(0, 0), (0, 1), (1, 2), (1, 3)]),
    "pp 2+1 to pp 1+2: the last stage meets both and hears from the first": (
        "tp1 pp2+1",
        "tp1 pp1+2",
        3,
        {},
        [(0, 0), (0, 1)],
    ),
    "pp 1+2 to pp 2+1": ("tp1 pp1+2", "tp1 pp2+1", 3, {}, [(0, 0), (1, 1)]),
    "pp 1+1+1 to pp 1+2, tp2 each: rank = pp * 2 + tp": (
        "tp2 pp1+1+1",
        "tp2 pp1+2",
        3,
        {},
        [(0, 0), (1, 1), (2, 2), (3, 3)],
    ),
    "an empty stage is never the first": ("tp1 pp1+0+1", "tp1", 2, {}, [(0, 0)]),
    "an empty receiver has no copy": ("tp1", "tp1 pp1+0+1", 2, {}, [(0, 0), (0, 2)]),
    "Helix: each context-parallel receiver has its own": ("tp2", "tp1 cp2", 2, {}, [(0, 0), (0, 1)]),
    "Helix with tensor ranks: rank = tp * 2 + cp": ("tp4", "tp2 cp2", 2, {}, [(0, 0), (0, 1), (2, 2), (2, 3)]),
    "attention DP on both sides": ("tp2 dp", "tp2 dp", 2, {"context_dp": 1, "generation_dp": 0}, [(1, 0)]),
    "attention DP on the context side": ("tp2 dp", "tp4", 2, {"context_dp": 1}, [(1, n) for n in range(4)]),
    "attention DP on the generation side": ("tp4", "tp2 dp", 2, {"generation_dp": 1}, [(0, 1)]),
}


@pytest.mark.parametrize("name", WORKED)
def test_who_brings_them_as_worked_out(name: str) -> None:
    context, generation, layers, ranks, expected = WORKED[name]
    case = served(context, generation, layers, requests=(Request(0, 8, **ranks),))
    if "empty" in name:
        # Both are paired by counts alone; heads of an empty stage crash, so there are only the items.
        case = case_of(model_of(items(layers), layers=layers), context, generation, native=INDEXED)
    assert senders(case, planned(case)) == expected


def test_the_rank_of_attention_dp_turns_replicated_state_but_not_items() -> None:
    state = group("ple @ 0..1 : D(2) ; 8", name="ple", state=True)
    native = Native((("all", "indexed"), ("ple", "replicated")))
    for home in (0, 1):
        case = served("tp2", "tp2 dp", requests=(Request(0, 8, generation_dp=home),), native=native)
        case = replace(case, model=Model(2, (*case.model.groups, state)))
        plan = planned(case)
        assert senders(case, plan) == [(0, home)]
        assert {each.source_rank for each in plan.segments if each.group == 2} == {home}


def test_context_parallel_senders_each_bring_them_and_the_judge_counts_the_rest_as_duplicates() -> None:
    for size in (2, 4):
        case = case_of(model_of(items(2), layers=2), f"tp1 cp{size}", "tp1", native=INDEXED)
        plan = planned(case)
        assert senders(case, plan) == [(source, 0) for source in range(size)]
        verdict = agreed(case, plan, "own")
        assert verdict.counts == {Kind.DUPLICATE: (size - 1) * BYTES}


def test_items_are_as_long_as_on_the_sender() -> None:
    """Even where the receiver's are shorter, and only those that both publish."""
    own = {(1, "tokens"): Entry(1, 2, 0, "tokens", 8, 5), (1, "logits"): Entry(1, 1, 0, "logits", 0, 10)}
    peer = {(1, "tokens"): Entry(1, 4, 3, "tokens", 16, 3)}
    ((place, run),) = auxiliary.item_runs(own, peer)
    assert (place, run.tolist()) == ((1, 1, 2, 4), [[8, 16, 5]])


def test_chunks_are_served_and_items_come_with_the_last() -> None:
    case = served("tp2", "tp1", requests=(Request(0, 8, cuts=(2, 4)),))
    plan = planned(case)
    assert {each.chunk for each in apart(case, plan)} == {2}
    assert agreed(case, plan, "own").outcome is Outcome.PASS


def test_every_request_has_its_own() -> None:
    case = served("tp2", "tp2", prompts=(8, 3, 5))
    assert senders(case, planned(case)) == [(0, 0)] * 3 + [(1, 1)] * 3
    assert agreed(case, planned(case), "own").outcome is Outcome.PASS


@pytest.mark.parametrize("options", ["", "suffix", "suffix,no-helix"])
def test_both_generations_bring_them(options: str) -> None:
    case = served("tp4 pp1+1", "tp2")
    assert senders(case, planned(case, options)) == [(0, 0), (2, 1)]


# ---- what is judged

SIDES = [f"tp{tp} {pp}{dp}" for tp, pp, dp in product((1, 2, 4), ("pp2", "pp1+1"), ("", " dp"))]
RECEIVERS = SIDES + [f"tp{tp} {pp} cp2" for tp, pp in product((1, 2, 4), ("pp2", "pp1+1"))]


@pytest.mark.parametrize(("context", "generation"), list(product(SIDES, RECEIVERS)))
def test_every_receiver_rank_has_them_once(context: str, generation: str) -> None:
    """And nothing else of the plans, of their verdicts and of their comparison depends on them."""
    homes = [1 if "dp" in side and "tp1" not in side else 0 for side in (context, generation)]
    request = Request(0, 8, context_dp=homes[0], generation_dp=homes[1])
    case = served(context, generation, requests=(request,))
    plain = served(context, generation, requests=(request,), auxiliary_too=False)
    native, mapping = planned(case), mapped(case)
    receivers = [
        rank.number
        for rank in case.generation.topology.ranks()
        if "dp" not in generation or rank.tp == request.generation_dp
    ]
    assert [destination for _, destination in sorted(senders(case, native), key=lambda pair: pair[1])] == receivers
    assert agreed(case, native, "own").outcome is Outcome.PASS
    missing = agreed(case, without_items(case, native), "own")
    assert missing.counts == {Kind.MISSING: BYTES * len(receivers)}
    assert agreed(case, mapping, "paired").outcome is Outcome.PASS
    assert not apart(case, mapping)
    assert same_plan(mapping, mapped(plain))
    assert same_plan(without_items(case, native), planned(plain))
    names = ("mapping", "native")
    assert compare(case, mapping, native, names=names) == compare(plain, mapping, planned(plain), names=names)
    assert not compare_outlines(case, gather_facts(case), mapping, native, names=names).bytes


def same_plan(one: Writes, other: Writes) -> bool:
    return (one.pairs, one.refusals, list(map(told, one.segments))) == (
        other.pairs,
        other.refusals,
        list(map(told, other.segments)),
    )


def told(segment: Segment) -> tuple[object, ...]:
    arrays = segment.source_bases, segment.destination_bases, segment.runs
    names = "request", "chunk", "group", "source_rank", "destination_rank", "source_pool", "destination_pool"
    return (*(getattr(segment, name) for name in names), *(array.tolist() for array in arrays))


def test_a_sender_that_elects_as_the_mapping_does_may_bring_them_but_rightly() -> None:
    case = served("tp2", "tp2")
    assert agreed(case, plan_of(right_rows(case, read(case)), read(case)), "paired").outcome is Outcome.PASS
    native = planned(case)
    assert agreed(case, native, "paired").outcome is Outcome.PASS
    twice = replace(native, segments=(*native.segments, *apart(case, native)))
    wrong = replace(
        native,
        segments=tuple(
            replace(each, source_bases=(each.source_bases + 1)) if each.group == AUX else each
            for each in native.segments
        ),
    )
    for which in ("paired", "own"):
        assert agreed(case, twice, which).counts == {Kind.DUPLICATE: 2 * BYTES}
        assert agreed(case, wrong, which).counts[Kind.WRONG_ELEMENT]


def test_of_a_refused_request_none_is_due() -> None:
    case = served("tp2", "tp2", prompts=(8, 3))
    plan = planned(case)
    kept = tuple(each for each in plan.segments if each.request == 0)
    pairs = tuple(pair for pair in plan.pairs if pair.request == 0)
    refused = Writes(pairs, kept, (Refusal("no", "it cannot be", 1),))
    for which in ("paired", "own"):
        assert set(agreed(case, refused, which).counts) == {Kind.FALSE_REFUSAL}


def test_items_that_nobody_holds_make_no_pair_unservable() -> None:
    """The context side has no slot of them: a refusal is false all the same, and only the legacy sender lacks them."""
    base = served("tp2", "tp2", slots=Slots(counts=(("kv", 13), ("aux", 5))))
    lists = [SlotList("context", rank, "kv", 0, (0, 1, 2, 3)) for rank in (0, 1)]
    case = replace(base, tables=tuple(lists + [SlotList("context", rank, "aux", 0, (-1,)) for rank in (0, 1)]))
    for which in ("paired", "own"):
        assert set(agreed(case, Refusal("no", "it cannot be"), which).counts) == {Kind.FALSE_REFUSAL}
    assert agreed(case, mapped(case), "paired").outcome is Outcome.PASS
    assert agreed(case, planned(case), "own").counts == {Kind.MISSING: 2 * BYTES}


def test_items_that_no_paired_rank_holds_fail_no_plan_that_leaves_them_out() -> None:
    """Of a draft layer's stage that hears from nobody, and of sides that cut blocks differently."""
    drafting = Model(3, (group("key @ 0..1 : T D(2) ; 8"), items(3)), draft=LayerSet((2,)))
    every = {"without": (Without(("key",), LayerSet((2,))),)}
    alone = case_of(drafting, "tp1 pp2", "tp1 pp2+1", native=INDEXED, context_side=every)
    cut = case_of(model_of(items(1)), "tp1", "tp1", native=INDEXED, generation_side={"tokens_per_block": 4})
    for case in (alone, cut):
        assert agreed(case, mapped(case), "paired").outcome is Outcome.PASS
    assert agreed(alone, planned(alone), "own").counts == {Kind.MISSING: BYTES}


def everyone(own: RankInfo, peer: RankInfo) -> bool:
    return True


def any_stage(own: RankInfo, peer: RankInfo) -> bool:
    return own.tensor_rank % max(1, own.shape.group_size // peer.shape.group_size) == 0


def rank_0_alone(own: RankInfo, peer: RankInfo) -> bool:
    return own.tensor_rank == 0 and own.rank.pp == 0


def by_heads(own: RankInfo, peer: RankInfo) -> bool:
    return election.sends_heads(own, peer) and own.rank.pp == 0


@pytest.mark.parametrize(
    ("mutant", "context", "generation", "kind"),
    [
        (everyone, "tp4", "tp2", Kind.DUPLICATE),
        (everyone, "tp1 pp1+1", "tp1", Kind.DUPLICATE),
        (any_stage, "tp2 pp1+1", "tp2", Kind.DUPLICATE),
        (rank_0_alone, "tp2", "tp2", Kind.MISSING),
        (rank_0_alone, "tp1 pp1+1", "tp1 pp1+1", Kind.MISSING),
        (by_heads, "tp4", "tp2", Kind.DUPLICATE),
    ],
)
def test_a_mutated_election_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: Callable[..., bool], context: str, generation: str, kind: Kind
) -> None:
    case = served(context, generation)
    assert agreed(case, planned(case), "own").outcome is Outcome.PASS
    monkeypatch.setattr(auxiliary, "sends_items", mutant)
    assert set(agreed(case, planned(case), "own").counts) == {kind}


def test_an_election_turned_by_the_data_parallel_rank_delivers_all_and_is_told_by_the_worked_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auxiliary, "sends_items", lambda own, peer: election.sends_replicated(own, peer))
    case = served("tp4", "tp2 dp", requests=(Request(0, 8, generation_dp=1),))
    assert agreed(case, planned(case), "own").outcome is Outcome.PASS
    assert senders(case, planned(case)) == [(1, 1)] != WORKED["attention DP on the generation side"][4]


# ---- real memory, and the whole way of a case


def test_memory_is_judged_as_plans_are() -> None:
    case, engine = served("tp4", "tp2"), HostEngine()
    native, mapping = planned(case), mapped(case)
    bare = without_items(case, native)
    brought = carry(case, native, engine, election="own")
    assert brought.verdict.outcome is Outcome.PASS
    assert carry(case, bare, engine, election="own").verdict.counts == {Kind.MISSING: 2 * BYTES}
    left_out = carry(case, mapping, engine, election="paired")
    assert left_out.verdict.outcome is Outcome.PASS
    assert brought.landing is not None and left_out.landing is not None
    assert (brought.landing.words != left_out.landing.words).any()
    assert compare_memory(left_out.landing, brought.landing) is None


def test_both_subjects_pass_on_the_whole_way() -> None:
    result = run_case(served("tp4", "tp2"), [Mapping(), make()], engine=HostEngine())
    assert result.passed
    assert not result.memory_differs


def test_a_verdict_is_not_passed_on_to_a_sender_that_has_more_to_bring() -> None:
    """Two equal plans: the one that leaves items out is right for the mapping and wrong for the legacy sender."""

    class Forgetful:
        name, election = "forgetful", "own"

        def plan(self, case: Case, facts: object) -> Writes:
            return mapped(case)

    result = run_case(served("tp4", "tp2"), [Mapping(), Forgetful()])
    assert result.alike == {"forgetful": "mapping"}
    assert result.verdicts["mapping"].outcome is Outcome.PASS
    assert result.verdicts["forgetful"].counts == {Kind.MISSING: 2 * BYTES}
