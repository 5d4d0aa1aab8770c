"""The closed-form judge says of every plan what the enumerating one says: outcome, counts and violations."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome, Verdict
from strategies.cases import cases
from tests.golden import Scenario, case_of, scenarios, writes_of
from tests.interval_cases import KINDS, bytes_of, kind_cases, planned
from tests.reference import plan_of, read, right_rows
from tests.run_mutants import MUTATIONS, mutant
from tests.small_cases import group, small_cases

MODES = tuple(product(("optional", "due"), ("paired", "own")))
"""padding, election"""
MANY = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
ENUMERABLE = 3 << 20
"""bytes of memory above which a drawn case of a published kind takes too long to enumerate here"""
QUIET = {"deadline": None, "suppress_health_check": MANY}


def agreed(case: Case, plan: Writes | Refusal, padding: str, election: str) -> Verdict:
    """The verdict of both judges, which must be one."""
    options = {"padding": padding, "election": election}
    enumerated, closed = judge(case, plan, **options), judge_intervals(case, plan, **options)
    assert closed.counts == enumerated.counts
    for one, other in zip(closed.violations, enumerated.violations, strict=True):
        assert one == other
    assert closed == enumerated
    return enumerated


@settings(max_examples=25, **QUIET)
@given(small_cases())
def test_right_plans_and_their_absence(case: Case) -> None:
    reference = read(case)
    for padding, election in MODES:
        for optional in (True, False):
            agreed(case, plan_of(right_rows(case, reference, optional=optional), reference), padding, election)
        agreed(case, Writes(), padding, election)


@settings(max_examples=40, **QUIET)
@given(small_cases(), st.booleans(), st.randoms(use_true_random=False))
def test_buffers_that_are_native_only(case: Case, kept: bool, random: Random) -> None:
    every = f"0..{case.model.layers - 1}"
    items = (
        f"tokens @ {every} : D(3) ; 8 ; request ; first_local",
        f"ids @ {every} : D(1) ; 32 ; request ; first_local",
    )
    aux = group(*items, name="aux", state=True, native_only=True)
    case = replace(case, model=replace(case.model, groups=(*case.model.groups, aux)))
    last = len(case.model.groups) - 1
    reference = read(case)
    plan = plan_of(right_rows(case, reference), reference)
    brought = sum(segment.nbytes for segment in plan.segments if segment.group == last)
    if not kept:
        plan = replace(plan, segments=tuple(segment for segment in plan.segments if segment.group != last))
    for padding, election in MODES:
        verdict = agreed(case, plan, padding, election)
        if verdict.outcome is Outcome.PASS:
            assert kept or not brought or election == "paired"
    assume(plan.run_count)
    agreed(case, mutant(random.choice(MUTATIONS), case, plan, random), *random.choice(MODES))


@settings(max_examples=40, **QUIET)
@given(small_cases(), st.integers(0, 2))
def test_refusals(case: Case, number: int) -> None:
    plan = planned(case)
    request = number % len(case.requests)
    segments = plan if isinstance(plan, Writes) else Writes()
    for padding, election in MODES:
        for whose in (None, request % len(case.requests)):
            refusal = Refusal("no", "it cannot be", whose)
            agreed(case, refusal, padding, election)
            agreed(case, Writes(segments.pairs, segments.segments, (refusal,)), padding, election)


@settings(max_examples=120, **QUIET)
@given(cases(), st.randoms(use_true_random=False))
def test_drawn_cases(case: Case, random: Random) -> None:
    plan = planned(case)
    for padding, election in MODES:
        agreed(case, plan, padding, election)
    assume(isinstance(plan, Writes) and plan.run_count)
    agreed(case, mutant(random.choice(MUTATIONS), case, plan, random), *random.choice(MODES))


@pytest.mark.parametrize("kind", KINDS)
def test_published_kinds(kind: str) -> None:
    counted: list[int] = []

    @settings(max_examples=12, database=None, **QUIET)
    @given(kind_cases((kind,)), st.randoms(use_true_random=False))
    def all_features(case: Case, random: Random) -> None:
        assume(bytes_of(case) <= ENUMERABLE)
        plan = planned(case)
        verdict = agreed(case, plan, *random.choice(MODES))
        counted.append(verdict.nbytes)
        if isinstance(plan, Writes) and plan.run_count:
            for name in random.sample(MUTATIONS, 3):
                agreed(case, mutant(name, case, plan, random), *random.choice(MODES))

    all_features()
    assert any(counted)


RECORDED = [
    pytest.param(scenario, result, id=f"{scenario['id']}-{number}")
    for scenario in scenarios()
    for number, result in enumerate(scenario["results"])
]


@pytest.mark.parametrize(("scenario", "result"), RECORDED)
def test_recorded_plans(scenario: Scenario, result: Scenario) -> None:
    case = case_of(scenario)
    verdict = agreed(case, writes_of(scenario, result, case), "due", "own")
    if result["status"] == "ok":
        assert (verdict.outcome is Outcome.PASS) == result["complete"]


def test_recorded_plans_that_are_wrong_are_among_them() -> None:
    found = set()
    for scenario in scenarios():
        case = case_of(scenario)
        for result in scenario["results"]:
            if result["status"] == "ok" and not result["complete"]:
                found |= judge_intervals(case, writes_of(scenario, result, case), padding="due", election="own").kinds
    assert {Kind.MISSING, Kind.WRONG_ELEMENT, Kind.STRAY, Kind.OUT_OF_BOUNDS} <= found
