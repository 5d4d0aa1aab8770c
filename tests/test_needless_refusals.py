"""What a subject serves rightly, no subject of its encoding may refuse: no code and no reason excuses that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from differential.managers.tables import gather_facts
from differential.subjects.registry import find_subject
from oracle.model.case import Case
from oracle.model.codec import from_plain
from oracle.model.encodings import BLOCK_LOST, CODES, ENCODINGS, Encoding
from oracle.model.upgrades import SCHEMA
from oracle.model.writes import Refusal, Writes
from oracle.truth.elements import truth_of
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind
from strategies.cases import cases

NOT_KNOWN = "no_such_reason"


def plan_of(case: Case, encoding: Encoding) -> Writes | Refusal:
    return find_subject(f"mapping:{encoding}").plan(case, gather_facts(case))


def refusing(plan: Writes, request: int, code: str) -> Writes:
    """The plan without what it sends of a request, which it refuses."""
    segments = tuple(each for each in plan.segments if each.request != request)
    return replace(plan, segments=segments, refusals=(*plan.refusals, Refusal(code, "needless", request)))


def excused(case: Case, plan: Writes, request: int, encoding: Encoding) -> list[str]:
    """Codes with which the request could be refused without a violation."""
    codes = [BLOCK_LOST, NOT_KNOWN, *(code for code, (by, _) in CODES.items() if encoding in by)]
    found = []
    for code in codes:
        verdict = judge(case, refusing(plan, request, code), encoding=encoding)
        if Kind.FALSE_REFUSAL not in verdict.counts:
            found.append(code)
    return found


@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(max_examples=400, deadline=None)
@given(case=cases())
def test_what_is_served_rightly_cannot_be_refused(encoding: Encoding, case: Case) -> None:
    plan = plan_of(case, encoding)
    if isinstance(plan, Refusal):
        return
    assert judge(case, plan, encoding=encoding)
    refused = {refusal.request for refusal in plan.refusals}
    for request in set(range(len(case.requests))) - refused:
        assert excused(case, plan, request, encoding) == []


def case_of(groups: list[dict], context: dict, request: dict, layers: int = 1, **more: object) -> Case:
    """One rank sends to one, or to as many as ``more`` says; blocks of two tokens."""
    side = {"tp": 1, "stages": [layers], "tokens_per_block": 2}
    instances = {"context": {**side, **context}, "generation": {**side, **more.pop("generation", {})}}  # type: ignore[dict-item]
    model = {"layers": layers, "groups": groups, **more}
    return from_plain({"schema": SCHEMA, "model": model, **instances, "requests": [{"content": 0, **request}]})


NOT_SENT = {
    "draft layers that the sender lacks, which has scratch": case_of(
        [
            {"name": "local", "window": 1, "buffers": ["key @ 0 : T D(1) ; 8"]},
            {"name": "full", "buffers": ["key @ 1 : T D(1) ; 8"]},
        ],
        {"stages": [1], "without": [{"roles": ["key"], "layers": "1"}], "scratch": 0},
        {"prompt": 1},
        layers=2,
        draft="1",
    ),
    "a window that is rebuilt, and a sender beyond the prompt": case_of(
        [
            {"name": "local", "window": 1, "buffers": ["swa @ 0 : T D(1) ; 8 ; rebuilt@0 | send"]},
            {"name": "full", "buffers": ["global @ 0 : T D(1) ; 8"]},
        ],
        {"without": [{"roles": ["swa"], "layers": "0"}]},
        {"prompt": 1, "context": {"reached": 2}},
    ),
}


@pytest.mark.parametrize("name", NOT_SENT)
def test_a_block_of_which_nothing_moves_is_not_lost(name: str) -> None:
    case = NOT_SENT[name]
    plan = plan_of(case, "tables")
    assert isinstance(plan, Writes)
    assert not plan.refusals
    assert not truth_of(case).lost
    assert excused(case, plan, 0, "tables") == []
    for code in (BLOCK_LOST, NOT_KNOWN):
        assert judge_intervals(case, refusing(plan, 0, code)).counts == {Kind.FALSE_REFUSAL: 1}


KEY = [{"name": "full", "buffers": ["key @ 0 : T D(1) ; 8"]}]


@pytest.mark.parametrize(
    ("request_", "slices"),
    [
        ({"prompt": 2, "cuts": [1]}, False),
        ({"prompt": 8, "cuts": [2], "context": {"cached": 4}}, False),
        ({"prompt": 8, "cuts": [1, 4], "context": {"cached": 4}}, False),
        ({"prompt": 8, "cuts": [2]}, True),
        ({"prompt": 8, "cuts": [1, 4], "context": {"cached": 1}}, True),
        ({"prompt": 8, "cuts": [5], "context": {"cached": 4}}, True),
    ],
)
def test_cuts_that_send_nothing_of_their_own_are_no_chunks(request_: dict, slices: bool) -> None:
    """A request with context parallelism may be refused for its chunks where more than one slice is sent."""
    case = case_of(KEY, {}, request_, generation={"cp": 2})
    assert (len(gather_facts(case).chunks[0]) > 1) == slices
    plan = plan_of(case, "tables")
    assert isinstance(plan, Writes)
    assert bool(plan.refusals) == slices
    if not slices:
        assert excused(case, plan, 0, "tables") == []
