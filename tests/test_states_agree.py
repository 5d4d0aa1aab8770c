"""States of both managers through three encodings: right plans pass, in both judges and in memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from differential.engines.host import HostEngine
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.registry import find_subject
from oracle.model.case import Case
from oracle.model.codec import decode, encode
from oracle.model.encodings import CODES, ENCODINGS
from oracle.model.writes import Refusal, Writes
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from tests.small_cases import case_of
from tests.state_cases import stated_cases

SUBJECTS = [find_subject(f"mapping:{encoding}") for encoding in ENCODINGS]


@settings(max_examples=150, deadline=None)
@given(stated_cases())
def test_every_encoding_plans_right_or_rightly_refuses_and_the_judges_agree(case: Case) -> None:
    assert decode(encode(case)) == case
    facts = gather_facts(case)
    for subject in SUBJECTS:
        plan = subject.plan(case, facts)
        verdict = judge(case, plan, encoding=subject.encoding)
        assert verdict, (subject.name, verdict.violations)
        assert judge_intervals(case, plan, encoding=subject.encoding) == verdict


@settings(max_examples=150, deadline=None)
@given(stated_cases())
def test_what_two_encodings_can_say_they_say_alike(case: Case) -> None:
    # Property B6: but for beam tails, which tables do not carry.
    facts = gather_facts(case)
    plans = [subject.plan(case, facts) for subject in SUBJECTS]
    if not all(isinstance(plan, Writes) for plan in plans):
        return
    for request, asked in enumerate(case.requests):
        if asked.beams > 1 or any(each.request == request for plan in plans for each in plan.refusals):
            continue
        runs = [sorted(zip(*(column.tolist() for column in plan.columns().values()), strict=True)) for plan in plans]
        first, *others = [[row for row in rows if row[0] == request] for rows in runs]
        assert all(rows == first for rows in others)


@settings(max_examples=40, deadline=None)
@given(stated_cases())
def test_a_plan_of_any_encoding_lands_as_it_is_judged(case: Case) -> None:
    result = run_case(case, SUBJECTS, engine=HostEngine())
    assert result.failure() is None


@settings(max_examples=150, deadline=None)
@given(stated_cases())
def test_a_refusal_of_an_encoding_is_right_for_that_encoding_alone(case: Case) -> None:
    facts = gather_facts(case)
    for subject in SUBJECTS:
        plan = subject.plan(case, facts)
        for refusal in plan.refusals if isinstance(plan, Writes) else ():
            if refusal.code not in CODES:
                continue
            assert subject.encoding in CODES[refusal.code][0]
            for encoding in ENCODINGS:
                alone = Writes(refusals=(refusal,))
                false = any(each.refusal == refusal for each in judge(case, alone, encoding=encoding).violations)
                # Nor does a block that the request lost make it right for another one.
                assert false == (encoding not in CODES[refusal.code][0])


@pytest.mark.parametrize("code", CODES)
def test_no_code_excuses_a_case_without_its_condition(code: str) -> None:
    case = case_of("key @ 0 : T D(1) ; 8")
    for encoding in ENCODINGS:
        assert not judge(case, Writes(refusals=(Refusal(code, "", 0),)), encoding=encoding)
