"""Somebody's own transfer on somebody's own memory is judged byte by byte."""

from __future__ import annotations

import doctest
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kvwitness
import kvwitness.memory
from differential.engines.memory import execute
from kvwitness import check_landed, check_memory, fill_memory, plane_count, planes, pool_sizes, read_memory
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal
from oracle.truth.explain import explain
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome
from tests.engine_mistakes import drop_the_last_run, swap_two_runs
from tests.memories import HOST, WIDE, mover, needs_torch, numpy_views, pools_of, right_plan, wide_case
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, small_cases

ROOT = Path(__file__).parent.parent
SEEN_IN_MEMORY = (Kind.OUT_OF_BOUNDS, Kind.STALE_SOURCE, Kind.STRAY, Kind.WRONG_ELEMENT, Kind.MISSING)


@pytest.fixture
def case() -> Case:
    return wide_case()


# What a check is


def test_a_right_transfer_passes(case: Case) -> None:
    memories = pools_of(case)
    verdict = check_memory(case, memories, mover(right_plan(case), memories))
    assert (verdict.outcome, verdict.nbytes, verdict.runs) == (Outcome.PASS, 1280, 0)
    assert explain(case, verdict) == "pass: 1,280 bytes, each in its place"


def test_the_transfer_runs_once_a_plane(case: Case) -> None:
    memories, runs = pools_of(case), []
    check_memory(case, memories, lambda: runs.append(bytes(memories["context"][0][0])))
    assert len(runs) == plane_count(case) == 2
    assert runs[0] != runs[1]
    # No byte stands for a digit of both planes, and none for an untouched byte.
    assert not set(runs[0]) & set(runs[1])
    assert max(runs[0] + runs[1]) < 254


def test_what_did_not_arrive_is_missing(case: Case) -> None:
    memories = pools_of(case)
    assert check_memory(case, memories, lambda: None).counts == {Kind.MISSING: 1280}


def test_a_loop_around_the_transfer_does_the_same(case: Case) -> None:
    memories = pools_of(case)
    passes = planes(case, memories)
    assert len(passes) == 2
    for plane in passes:
        assert plane in (0, 1)
        mover(right_plan(case), memories)()
    assert passes.verdict() == check_memory(case, memories, mover(right_plan(case), memories))


def test_a_loop_that_was_left_is_not_run(case: Case) -> None:
    memories = pools_of(case)
    passes = planes(case, memories)
    assert passes.verdict().reason == "plane 0 of 2 was not carried"
    for plane in passes:
        if plane == 1:
            break
    verdict = passes.verdict()
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_RUN, "plane 1 of 2 was not carried")


def test_what_a_transfer_raises_is_passed_on(case: Case) -> None:
    def broken() -> None:
        raise ConnectionError("the peer is gone")

    with pytest.raises(ConnectionError, match="the peer is gone"):
        check_memory(case, pools_of(case), broken)


def test_a_transfer_that_changes_the_source_fails(case: Case) -> None:
    memories = pools_of(case)
    right = mover(right_plan(case), memories)

    def transfer() -> None:
        right()
        memories["context"][0][0][5] = 250

    verdict = check_memory(case, memories, transfer)
    assert (verdict.outcome, verdict.counts) == (Outcome.FAIL, {})
    assert verdict.reason == ("the transfer changed 1 B of the source, the first at pool 0 slot 0 +5 of context rank 0")


def test_a_transfer_that_keeps_an_old_buffer_is_torn(case: Case) -> None:
    memories = pools_of(case)
    kept = [[bytearray(pool) for pool in rank] for rank in memories["context"]]
    plan = right_plan(case)

    def transfer() -> None:
        HOST.carry(plan, kept, memories["generation"])
        for rank, pools in enumerate(memories["context"]):
            for pool, memory in enumerate(pools):
                kept[rank][pool][:] = memory

    verdict = check_memory(case, memories, transfer)
    assert verdict.counts == {Kind.TORN: 1280}


def test_a_small_case_can_be_judged_as_it_stands(case: Case) -> None:
    small = case_of("key @ 0 : H(2).heads T D(2) ; 8", "tp1", "tp2")
    memories = pools_of(small)
    fill_memory(small, memories)
    mover(right_plan(small), memories)()
    assert check_memory(small, memories)
    memories["generation"][0][0][:] = bytes(len(memories["generation"][0][0]))
    assert not check_memory(small, memories)
    with pytest.raises(InvalidCase) as told:
        check_memory(case, pools_of(case))
    assert (
        str(told.value) == "transfer = None is not possible: this case has 2 planes: give the transfer, or use planes"
    )


# The plan's fault or the transfer's


def test_with_a_plan_the_verdict_says_whose_fault_it_is(case: Case) -> None:
    memories, plan = pools_of(case), right_plan(case)
    assert check_memory(case, memories, mover(plan, memories), writes=plan).runs == plan.run_count
    carelessly = check_memory(case, memories, mover(drop_the_last_run(plan), memories), writes=plan)
    assert carelessly.reason == (
        "the transfer did not carry the plan out: 160 B of the destination are not what it brings"
    )
    assert carelessly.violations[0].note == "the plan brings the right byte here: it was carried out wrongly"
    wrong = swap_two_runs(plan)
    faithfully = check_memory(case, memories, mover(wrong, memories), writes=wrong)
    assert faithfully.counts == {Kind.WRONG_ELEMENT: 320}
    assert faithfully.reason == "the transfer carried the plan out as it is: the plan is wrong"
    told = explain(case, faithfully)
    assert told.startswith(
        "fail: wrong element 320 bytes; 1,280 bytes in 8 runs over 0 pairs\nthe transfer carried the plan out as it is"
    )


def test_a_refused_request_must_not_arrive_and_refused_instances_are_not_run(case: Case) -> None:
    memories = pools_of(case)
    plan = right_plan(case)
    refused = replace(plan, segments=(), refusals=(Refusal("gone", "its block was lost", 0),))
    assert check_memory(case, memories, lambda: None, writes=refused)
    assert check_memory(case, memories, mover(plan, memories), writes=refused).counts == {Kind.STRAY: 1280}
    verdict = check_memory(case, memories, lambda: None, writes=Refusal("fan", "3 and 2"))
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_RUN, "the plan refuses the instances")


def test_padding_may_be_demanded() -> None:
    case = case_of(WIDE, prompts=1)
    reference = read(case)
    plan = plan_of(right_rows(case, reference, optional=False), reference)
    memories = pools_of(case)
    assert check_memory(case, memories, mover(plan, memories))
    assert check_memory(case, memories, mover(plan, memories), padding="due").counts == {Kind.MISSING: 320}
    with pytest.raises(InvalidCase, match="padding = 'some' is not possible"):
        check_memory(case, memories, mover(plan, memories), padding="some")  # type: ignore[arg-type]


# Several processes


def test_each_process_may_fill_and_read_what_it_owns(case: Case) -> None:
    memories = pools_of(case)
    parts = [
        {"context": {0: memories["context"][0]}},
        *({"generation": {rank: memories["generation"][rank]}} for rank in (0, 1)),
    ]
    landed = []
    for plane in range(plane_count(case)):
        for part in parts:
            fill_memory(case, part, plane)
        mover(right_plan(case), memories)()
        landed += [pickle.loads(pickle.dumps(read_memory(case, part, plane))) for part in parts]
    assert check_landed(case, landed) == check_memory(case, memories, mover(right_plan(case), memories))
    assert check_landed(case, [each for each in landed if each.held[0][0] == "generation"])
    for missing, reason in (
        (1, "plane 0 of 2 was not read from generation rank 0 pool 0"),
        (5, "plane 1 of 2 was not read from generation rank 1 pool 0"),
    ):
        verdict = check_landed(case, landed[:missing] + landed[missing + 1 :])
        assert (verdict.outcome, verdict.reason) == (Outcome.NOT_RUN, reason)
    with pytest.raises(InvalidCase) as told:
        check_landed(case, [*landed, landed[4]])
    assert str(told.value) == (
        "landed = 'plane 1 of generation rank 0 pool 0' is not possible: expected each memory once a plane"
    )


def test_what_was_not_read_in_every_pass_is_not_judged(case: Case) -> None:
    memories = pools_of(case, lambda extent: bytearray(extent + 32))
    inside = {side: [[memoryview(pool)[16:-16] for pool in rank] for rank in memories[side]] for side in SIDES}
    landed = []
    for plane, (given_, guard) in enumerate([(memories, 16), (inside, 0)]):
        fill_memory(case, given_, plane, guard=guard)
        mover(right_plan(case), inside)()
        landed.append(read_memory(case, given_, plane, guard=guard))
    assert check_landed(case, landed)


# Whatever the case and the plan


@settings(max_examples=50, deadline=None)
@given(small_cases(), st.randoms(use_true_random=False))
def test_memory_of_others_is_judged_as_that_of_an_engine_and_as_the_plan(case: Case, random) -> None:  # type: ignore[no-untyped-def]
    reference = read(case)
    rows = right_rows(case, reference, optional=random.random() < 0.7)
    sizes = [pool_sizes(case, side) for side in SIDES]
    for row in random.sample(rows, min(len(rows), random.randrange(4))):
        column = random.choice((7, 8))
        row[column] = random.randrange(sizes[column - 7][row[column - 4]][row[column - 2]] - row[9] + 1)
    if random.random() < 0.4:
        rows = rows[random.randrange(len(rows) + 1) :]
    # The second write to a byte is a duplicate, which memory does not show.
    plan = plan_of(list({tuple(row[n] for n in (4, 6, 8)): row for row in rows}.values()), reference)
    memories = pools_of(case)
    found = check_memory(case, memories, mover(plan, memories), writes=plan)
    by_engine, on_paper = execute(case, plan, HOST), judge(case, plan, election="own")
    assert found.counts == by_engine.counts and found.violations == by_engine.violations
    assert found.outcome is by_engine.outcome is on_paper.outcome
    seen = {kind: on_paper.counts[kind] for kind in SEEN_IN_MEMORY if on_paper.counts.get(kind)}
    assert found.counts == seen
    without = check_memory(case, memories, mover(plan, memories))
    assert without.counts == found.counts


@settings(max_examples=40, deadline=None)
@given(small_cases(), st.randoms(use_true_random=False))
def test_arrays_by_layer_are_judged_as_the_pools_they_lie_in(case: Case, random) -> None:  # type: ignore[no-untyped-def]
    tables = [table for side in SIDES for table in lay_out(case, side).tables]
    assume(all(len({e.group for e in t.entries if e.pool == p}) <= 1 for t in tables for p in range(len(t.pools))))
    reference = read(case)
    plan = plan_of([row for row in right_rows(case, reference) if random.random() < 0.8], reference)
    pools, views = numpy_views(case)
    by_view, by_pool = (check_memory(case, memories, mover(plan, pools)) for memories in (views, pools))
    assert by_view == by_pool


# The fixture, the example and the documentation


def test_the_fixture_passes_and_fails_with_the_argument(case: Case, kvwitness_memory: Any) -> None:
    memories, plan = pools_of(case), right_plan(case)
    assert kvwitness_memory(case, memories, mover(plan, memories)).nbytes == 1280
    with pytest.raises(pytest.fail.Exception) as told:
        kvwitness_memory(case, memories, mover(swap_two_runs(plan), memories), writes=plan)
    text = str(told.value)
    assert text.startswith("the memory is not as it must be: fail: wrong element 320 bytes; 1,280 bytes in 8 runs")
    assert "the transfer did not carry the plan out: 320 B of the destination are not what it brings" in text
    assert (
        "  differs  " in text and "  note     the plan brings the right byte here: it was carried out wrongly" in text
    )
    with pytest.raises(pytest.fail.Exception, match=r"not run \(the plan refuses the instances\)"):
        kvwitness_memory(case, memories, lambda: None, writes=Refusal("fan", "3 and 2"))


@needs_torch
def test_the_example_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "verify_torch_transfer.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "pass: 5,120 bytes, each in its place" in done.stdout
    assert "  differs  head 2 in place of 0" in done.stdout


def test_the_docstrings_run() -> None:
    assert doctest.testmod(kvwitness.memory).attempted > 0
    assert doctest.testmod(kvwitness.memory).failed == 0


def test_the_check_is_public() -> None:
    for name in ("check_memory", "fill_memory", "read_memory", "check_landed", "planes", "plane_count", "pool_sizes"):
        assert getattr(kvwitness, name) is getattr(kvwitness.memory, name)
        assert name in kvwitness.__all__
