"""The judge reaches the recorded verdict on every recorded plan of the legacy sender, byte for byte."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome
from tests.golden import Scenario, case_of, scenarios, writes_of

KINDS = {
    "missing": Kind.MISSING,
    "double": Kind.DUPLICATE,
    "wrong": Kind.WRONG_ELEMENT,
    "stray": Kind.STRAY,
    "out_of_range": Kind.OUT_OF_BOUNDS,
}
PLANNED = [
    pytest.param(scenario, result, id=f"{scenario['id']}-{'-'.join(result['generations'])}")
    for scenario in scenarios()
    for result in scenario["results"]
    if result["status"] == "ok"
]
COMPLETE = [planned for planned in PLANNED if planned.values[1]["complete"]]
PLACED = ("missing", "wrong", "stray", "double")
"""Kinds that the recording places in a buffer; bytes past a pool's end lie in none."""


def unheld_source_bytes(scenario: Scenario, result: Scenario) -> int:
    """Bytes read from source slots that hold none of the listed blocks: the recording has no word for them."""
    stages = {rank: str(stage) for rank, stage, *_ in scenario["ranks"]["ctx"]}
    total = 0
    for source, _, pool, _, start, _, nbytes in result["fragments"]:
        _, group, slot_bytes, stride, count, extent = scenario["layouts"]["ctx"][stages[source]]["pools"][pool]
        held = set(scenario["blocks"]["ctx"][str(source)][str(group)][1])
        inside = range(start, min(start + nbytes, extent))
        total += sum(byte % (count * slot_bytes) // stride not in held for byte in inside)
    return total


@pytest.mark.parametrize(("scenario", "result"), PLANNED)
def test_the_judge_reaches_the_recorded_verdict(scenario: Scenario, result: Scenario) -> None:
    case = case_of(scenario)
    verdict = judge(case, writes_of(scenario, result, case), padding="due", election="own")
    check = result["check"]
    expected = {kind: check[name] for name, kind in KINDS.items() if check[name]}
    if unheld := unheld_source_bytes(scenario, result):
        expected[Kind.STALE_SOURCE] = unheld
    assert {kind: count for kind, count in verdict.counts.items() if count} == expected
    places: Counter[tuple[str, int, int, str]] = Counter()
    for violation in verdict.violations:
        for name in PLACED:
            if violation.kind is KINDS[name]:
                places[name, violation.destination, violation.group, violation.role] += violation.nbytes
    assert places == {tuple(row[:4]): row[4] for row in check.get("where", [])}
    assert result["complete"] is (verdict.outcome is Outcome.PASS)
    assert verdict.outcome is not Outcome.NOT_RUN


def test_only_heads_cut_past_their_buffer_read_slots_that_hold_no_block() -> None:
    # 3 of 6 heads a rank, cut for the second of three receivers: from head 2 on, two heads. The second one lies past
    # the buffer. Past the last buffer of slots 3 and 0 it lies in slots 4 and 1, which hold nothing: 2 x 8 bytes. Past
    # that of slot 7, the last one, it lies outside the pool.
    found = {
        scenario["id"]: unheld_source_bytes(scenario, result)
        for scenario in scenarios()
        for result in scenario["results"]
        if result["status"] == "ok" and unheld_source_bytes(scenario, result)
    }
    assert found == {"g299": 16}


@pytest.mark.parametrize(("scenario", "result"), COMPLETE)
def test_a_complete_plan_written_twice_is_duplicate_byte_for_byte(scenario: Scenario, result: Scenario) -> None:
    case = case_of(scenario)
    writes = writes_of(scenario, result, case)
    twice = replace(writes, segments=writes.segments * 2)
    assert judge(case, twice, padding="due", election="own").counts == {Kind.DUPLICATE: result["bytes"]}


@pytest.mark.parametrize(("scenario", "result"), COMPLETE)
def test_a_complete_plan_without_one_run_lacks_the_bytes_of_that_run(scenario: Scenario, result: Scenario) -> None:
    case = case_of(scenario)
    writes = writes_of(scenario, result, case)
    dropped = len(writes.segments) // 2
    short = replace(writes, segments=writes.segments[:dropped] + writes.segments[dropped + 1 :])
    verdict = judge(case, short, padding="due", election="own")
    assert verdict.counts == {Kind.MISSING: writes.segments[dropped].nbytes}
