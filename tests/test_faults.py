"""Planted faults: each is caught in its least case, hidden where it changes nothing, and gone when it is taken away."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, find, settings

from differential import faults
from differential.faults import Size, find_fault, find_minimum, names, size_of
from differential.managers.tables import gather_facts
from differential.runner import Kind, Verdict, run_case
from differential.subjects.mapping import Mapping
from differential.subjects.protocol import Subject
from oracle.model.buffers import Buffer, GroupKind, LayerGroup, Model
from oracle.model.case import Case, Request
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.notation import parse_buffer
from oracle.model.topology import Topology
from oracle.model.writes import COLUMNS, Refusal, Writes
from strategies.cases import cases

NAMES = ("drop-last-run", "elect-first", "heads-modulo", "hnd-as-nhd", "run-end-off-by-one", "skip-stage")
MAPPING = Mapping()


def attention(layers: int, heads: int, dim: int = 1) -> Model:
    """A key and a value a layer, head-major; 0 heads: one latent a token instead."""
    every = f"0..{layers - 1}"
    texts = (
        (f"key @ {every} : H({heads}).heads T D({dim}) ; 8", f"value @ {every} : H({heads}).heads T D({dim}) ; 8")
        if heads
        else (f"key @ {every} : T D({dim}) ; 8",)
    )
    buffers: tuple[Buffer, ...] = tuple(map(parse_buffer, texts))
    return Model(layers, (LayerGroup("kv", GroupKind.PAGED, buffers),))


def case_of(
    model: Model,
    context: Topology,
    generation: Topology,
    *,
    prompt: int = 2,
    key: int = 0,
    size: int = 2,
    layouts: tuple[str, str] = ("HND", "HND"),
) -> Case:
    return Case(
        model,
        Instance(context, size, layouts[0]),
        Instance(generation, size, layouts[1]),
        (Request(0, prompt, generation_dp=key),),
    )


def cuts(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    if stages == 1:
        yield (layers,)
        return
    for first in range(layers + 1):
        for rest in cuts(layers - first, stages - 1):
            yield first, *rest


def topologies(ranks: int, layers: int) -> list[Topology]:
    """All topologies of that many ranks."""
    return [
        Topology(tp, stages, cp, attention_dp)
        for tp, cp, pp in product(range(1, ranks + 1), repeat=3)
        if tp * cp * pp == ranks
        for stages in cuts(layers, pp)
        for attention_dp in (False, True)
        if not attention_dp or (tp > 1 and cp == 1)
    ]


def every_case(most: Size) -> Iterator[Case]:
    """Every case of at most this size in each number: one request, 0 to 3 heads, blocks of two tokens."""
    for layers, heads in product(range(1, most.layers + 1), range(4)):
        model = attention(layers, heads)
        for ranks in range(1, most.ranks):
            for context, size in product(topologies(ranks, layers), range(1, most.ranks - ranks + 1)):
                for generation in topologies(size, layers):
                    for layouts, prompt, key in product(
                        product(("HND", "NHD"), repeat=2) if heads else (("", ""),),
                        range(1, 2 * most.blocks + 1),
                        range(generation.data_parallel),
                    ):
                        yield case_of(model, context, generation, prompt=prompt, key=key, layouts=layouts)


@cache
def cases_up_to(most: Size) -> tuple[Case, ...]:
    return tuple(sorted(every_case(most), key=size_of))


SMALL = Size(3, 3, 2)
"""Cut of the brute force among cases of fewer ranks than a minimum: there, more layers or blocks are still less."""


def columns(plan: Writes | Refusal) -> object:
    """A plan as values that can be compared."""
    if isinstance(plan, Refusal):
        return plan
    return plan.pairs, plan.refusals, {name: values.tolist() for name, values in plan.columns().items()}


def plan_with(subject: Subject, case: Case) -> Writes | Refusal:
    return subject.plan(case, gather_facts(case))


def failure_of(name: str, case: Case) -> Verdict:
    verdict = find_fault(name).failure_in(case, MAPPING)
    assert verdict is not None
    return verdict


# The registry


def test_the_first_faults_are_there() -> None:
    assert set(NAMES) <= set(names())
    assert names() == sorted(names())


@pytest.mark.parametrize("name", names())
def test_a_fault_says_what_it_is(name: str) -> None:
    fault = find_fault(name)
    assert fault.name == name
    assert fault.description and not fault.description.endswith(".")
    assert fault.kinds and fault.kinds <= set(Kind)
    assert fault.minimum >= Size(2, 1, 1)
    assert not fault.report or re.fullmatch(r"B\d+ · [\w.-]+/[\w.-]+#\d+", fault.report)
    assert repr(fault) == f"the fault {name}: {fault.description}"


def test_an_unknown_fault_is_told_with_the_known_ones() -> None:
    with pytest.raises(InvalidCase) as told:
        find_fault("elect-last")
    assert str(told.value).startswith("fault = 'elect-last' is not possible: the faults are ")
    assert str(told.value).endswith("; did you mean elect-first?")
    assert all(name in str(told.value) for name in NAMES)


def test_a_fault_is_added_by_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "timing"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "too_late.py").write_text("FAULT = 'a fault'\n")
    monkeypatch.setattr(faults, "__path__", [*faults.__path__, str(tmp_path)])
    faults._modules.cache_clear()
    try:
        assert "too-late" in names()
        assert find_fault("too-late") == "a fault"
        (package / "elect_first.py").write_text("FAULT = 'another one'\n")
        faults._modules.cache_clear()
        with pytest.raises(ImportError, match="two faults have the name elect-first"):
            names()
    finally:
        monkeypatch.undo()
        faults._modules.cache_clear()
        for module in [name for name in sys.modules if name.startswith("differential.faults.timing")]:
            del sys.modules[module]


# Minima


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_minimum_is_the_least_of_all_small_cases(name: str) -> None:
    fault = find_fault(name)
    smaller = [case for case in cases_up_to(SMALL) if size_of(case) < fault.minimum]
    as_many_ranks = cases_up_to(Size(fault.minimum.ranks, fault.minimum.layers, fault.minimum.blocks))
    found = find_minimum(fault, (*smaller, *as_many_ranks), MAPPING)
    assert found is not None
    size, case = found
    assert size == fault.minimum
    assert run_case(case, [MAPPING]).passed
    assert failure_of(name, case).kinds & fault.kinds


def test_the_small_cases_reach_below_every_minimum() -> None:
    sizes = {size_of(case) for case in cases_up_to(SMALL)}
    assert sizes == {Size(*each) for each in product((2, 3), (1, 2, 3), (1, 2))}
    assert all(find_fault(name).minimum.ranks <= SMALL.ranks + 1 for name in NAMES)


def test_a_case_has_the_blocks_of_all_its_requests() -> None:
    case = replace(
        case_of(attention(2, 1), Topology(2, (1, 1)), Topology(1, (2,), 3)), requests=(Request(0, 3), Request(0, 2))
    )
    assert size_of(case) == Size(ranks=4 + 3, layers=2, blocks=2 + 1)


def test_a_minimum_is_none_where_a_fault_never_shows() -> None:
    assert find_minimum(find_fault("elect-first"), cases_up_to(SMALL), MAPPING) is None


# Faults and their subjects


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_changes_nothing_where_it_does_not_apply(name: str) -> None:
    fault = find_fault(name)
    spared = [case for case in cases_up_to(SMALL) if not fault.applies(case)]
    assert spared or name in ("drop-last-run", "run-end-off-by-one")
    for case in spared:
        assert columns(plan_with(fault.wrap(MAPPING), case)) == columns(plan_with(MAPPING, case))
        assert not fault.shows(case, MAPPING)


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_is_gone_when_its_wrapper_is(name: str) -> None:
    fault = find_fault(name)
    found = find_minimum(fault, cases_up_to(fault.minimum), MAPPING)
    assert found is not None
    case = found[1]
    before = columns(plan_with(MAPPING, case))
    faulty = fault.wrap(MAPPING)
    assert columns(plan_with(faulty, case)) != before
    assert columns(plan_with(MAPPING, case)) == columns(plan_with(Mapping(), case)) == before
    assert (faulty.name, faulty.election) == ("mapping", "paired")
    assert repr(faulty) == f"mapping with {name}"


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_proves_nothing_where_its_subject_is_wrong_already(name: str) -> None:
    fault = find_fault(name)
    found = find_minimum(fault, cases_up_to(fault.minimum), MAPPING)
    assert found is not None
    wrong = find_fault("run-end-off-by-one").wrap(MAPPING)
    assert not run_case(found[1], [wrong]).passed
    assert not fault.shows(found[1], wrong)


def test_other_violations_than_its_own_do_not_count() -> None:
    fault = find_fault("drop-last-run")
    case = case_of(attention(1, 2), Topology(), Topology(2))
    assert fault.shows(case, MAPPING)
    assert not replace(fault, kinds=frozenset({Kind.NOT_ELECTED})).shows(case, MAPPING)


def test_a_refusal_stays_a_refusal() -> None:
    # Three heads on four senders and two receivers: a due head is on unpaired ranks only.
    case = case_of(attention(1, 3), Topology(4), Topology(2))
    refusal = plan_with(MAPPING, case)
    assert isinstance(refusal, Refusal)
    for name in NAMES:
        assert plan_with(find_fault(name).wrap(MAPPING), case) == refusal
        assert not find_fault(name).shows(case, MAPPING)


# Each fault


def test_heads_modulo_swaps_the_inner_two_of_four_receivers() -> None:
    # Two heads, one sender, four receivers: they hold heads 0,0,1,1 and are given 0,1,0,1.
    verdict = failure_of("heads-modulo", case_of(attention(1, 2), Topology(), Topology(4)))
    assert verdict.kinds == {Kind.WRONG_ELEMENT}
    heads = {
        (violation.destination, dict(violation.due.indices)["H"], dict(violation.found.indices)["H"])
        for violation in verdict.violations
        if violation.due and violation.found
    }
    assert heads == {(1, 0, 1), (2, 1, 0)}


def test_heads_modulo_counts_among_the_heads_of_one_sender() -> None:
    # Four heads, two senders of two heads, eight receivers: 0,0,1,1 are given 0,1,0,1 and 2,2,3,3 are given 2,3,2,3.
    verdict = failure_of("heads-modulo", case_of(attention(1, 4), Topology(2), Topology(8)))
    assert {violation.destination for violation in verdict.violations} == {1, 2, 5, 6}


@pytest.mark.parametrize(("source", "destination"), [(1, 2), (4, 4), (2, 4), (4, 2), (8, 4)])
def test_heads_modulo_hides_where_a_sender_has_no_choice(source: int, destination: int) -> None:
    assert not find_fault("heads-modulo").shows(
        case_of(attention(1, 2), Topology(source), Topology(destination)), MAPPING
    )


def test_heads_taken_for_tokens_are_cut_in_the_wrong_places() -> None:
    # Four heads of two tokens lie as h0t0 h0t1 h1t0 ...: receiver 0 needs bytes 0..3 and gets 0,1,4,5 of each buffer.
    case = case_of(attention(1, 4), Topology(), Topology(2))
    plan = plan_with(find_fault("hnd-as-nhd").wrap(MAPPING), case)
    assert isinstance(plan, Writes)
    rows = {segment.destination_rank: segment.runs.tolist() for segment in plan.segments}
    assert rows[0] == [[0, 0, 2], [4, 2, 2], [8, 4, 2], [12, 6, 2]]
    assert rows[1] == [[2, 0, 2], [6, 2, 2], [10, 4, 2], [14, 6, 2]]
    # The first receiver's second row and the second receiver's first are wrong, in key and value.
    assert failure_of("hnd-as-nhd", case).counts == {Kind.WRONG_ELEMENT: 8}


@pytest.mark.parametrize(
    ("heads", "size", "ranks", "layouts"),
    [
        (4, 2, (1, 1), ("HND", "HND")),
        (2, 2, (2, 2), ("HND", "HND")),
        (1, 2, (1, 2), ("HND", "HND")),
        (4, 1, (1, 2), ("HND", "HND")),
        (4, 2, (1, 2), ("NHD", "NHD")),
    ],
    ids=["one rank a side", "one head a rank", "one head in all", "one token a block", "token-major"],
)
def test_heads_taken_for_tokens_hide_in_degenerate_cases(
    heads: int, size: int, ranks: tuple[int, int], layouts: tuple[str, str]
) -> None:
    case = case_of(attention(1, heads), *map(Topology, ranks), size=size, layouts=layouts)
    assert run_case(case, [find_fault("hnd-as-nhd").wrap(MAPPING)]).passed


def test_the_first_holder_sends_whatever_the_key() -> None:
    case = case_of(attention(1, 0), Topology(4), Topology(4, attention_dp=True), key=2)
    verdict = failure_of("elect-first", case)
    assert verdict.counts == {Kind.NOT_ELECTED: 2}
    (violation,) = verdict.violations
    assert (violation.source, violation.destination, violation.elected, violation.holders) == (0, 2, 2, (0, 1, 2, 3))


def test_electing_first_leaves_requests_of_key_0_alone() -> None:
    case = case_of(attention(1, 0), Topology(2), Topology(4, attention_dp=True))
    case = replace(case, requests=tuple(Request(0, 2, generation_dp=key) for key in range(4)))
    plan, faulty = plan_with(MAPPING, case), plan_with(find_fault("elect-first").wrap(MAPPING), case)
    assert isinstance(plan, Writes) and isinstance(faulty, Writes)

    def senders(writes: Writes) -> dict[tuple[int, int], int]:
        return {(segment.request, segment.destination_rank): segment.source_rank for segment in writes.segments}

    assert senders(plan) == {(0, 0): 0, (1, 1): 1, (2, 2): 0, (3, 3): 1}
    assert senders(faulty) == {(0, 0): 0, (1, 1): 0, (2, 2): 0, (3, 3): 0}
    assert set(faulty.pairs) == set(plan.pairs)
    for name in ("dst_rank", "dst_offset", "nbytes", "request"):
        assert sorted(faulty.columns()[name].tolist()) == sorted(plan.columns()[name].tolist())


def test_a_run_that_is_too_long_is_never_only_wrong() -> None:
    fault = find_fault("run-end-off-by-one")
    for case in cases_up_to(Size(3, 2, 1)):
        assert fault.shows(case, MAPPING) is bool(plan_with(MAPPING, case).segments)


def test_one_run_of_one_slot_is_dropped() -> None:
    # Two blocks and two runs in each, for the second of two receivers: the last run of the last block goes.
    case = case_of(attention(1, 2), Topology(), Topology(2), prompt=4)
    plan, faulty = plan_with(MAPPING, case), plan_with(find_fault("drop-last-run").wrap(MAPPING), case)
    assert isinstance(plan, Writes) and isinstance(faulty, Writes)
    whole, left = plan.columns(), faulty.columns()
    rows = [set(zip(*(each[name].tolist() for name in COLUMNS), strict=True)) for each in (whole, left)]
    last = tuple(int(whole[name][-1]) for name in COLUMNS)
    assert rows[0] - rows[1] == {last}
    assert rows[1] < rows[0]
    assert failure_of("drop-last-run", case).counts == {Kind.MISSING: last[-1]}
    hidden = case_of(attention(1, 0), Topology(), Topology(), prompt=2)
    assert run_case(hidden, [find_fault("drop-last-run").wrap(MAPPING)]).verdicts["mapping"].nbytes == 0


@pytest.mark.parametrize("uneven", ["context", "generation"])
def test_the_last_stage_of_an_uneven_cut_is_skipped(uneven: str) -> None:
    cut, whole = Topology(1, (1, 2, 0)), Topology(1, (3,))
    sides = (cut, whole) if uneven == "context" else (whole, cut)
    verdict = failure_of("skip-stage", case_of(attention(3, 1), *sides))
    assert verdict.kinds == {Kind.MISSING}
    # Two layers, key and value, one head of two tokens.
    assert verdict.counts == {Kind.MISSING: 8}
    assert {violation.layer for violation in verdict.violations if violation.nbytes} == {1, 2}
    assert any(violation.note == "the plan leaves out this pair" for violation in verdict.violations)


@pytest.mark.parametrize("stages", [(1, 1, 1), (3,), (0, 3)])
def test_even_cuts_keep_all_their_stages(stages: tuple[int, ...]) -> None:
    assert not find_fault("skip-stage").applies(case_of(attention(3, 1), Topology(1, stages), Topology(1, (3,))))


# Random cases


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_random_cases_find_it_and_shrink_to_its_minimum(name: str) -> None:
    fault = find_fault(name)
    excess = []
    for seed in range(2):
        case = find(
            cases(),
            lambda drawn: fault.shows(drawn, MAPPING),
            settings=settings(max_examples=1000, database=None, deadline=None, suppress_health_check=list(HealthCheck)),
            random=Random(seed),
        )
        excess.append(max(found - least for found, least in zip(size_of(case), fault.minimum, strict=True)))
    assert min(excess) <= 1, excess
