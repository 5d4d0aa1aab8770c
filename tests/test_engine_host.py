"""The host engine moves what a plan says, and the memory that it leaves is judged byte by byte."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import differential.engines
from differential.engines import Memories, find_engine, names
from differential.engines.host import HostEngine
from differential.engines.memory import GUARD, execute, planes_of
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Segment, Writes
from oracle.truth.explain import explain
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome, Verdict
from tests import golden
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, small_cases

HOST = HostEngine()
SEEN_IN_MEMORY = (Kind.OUT_OF_BOUNDS, Kind.STALE_SOURCE, Kind.STRAY, Kind.WRONG_ELEMENT, Kind.MISSING)
HEADS = "key @ 0 : H(2).heads T D(2) ; 8"
WIDE = "key @ 0 : H(2).heads T D(160) ; 8"
"""A block of two tokens has 640 bytes: more identities than one digit counts."""


def right_plan(case: Case) -> Writes:
    reference = read(case)
    return plan_of(right_rows(case, reference), reference)


def run(source: int, destination: int, nbytes: int, *, ranks: tuple[int, int] = (0, 0), pool: int = 0) -> Segment:
    """One run between the first pools of two ranks, offsets from their starts; ``pool`` of the destination."""
    row = np.array([[source, destination, nbytes]], dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    return Segment(0, 0, 0, *ranks, 0, pool, zero, zero, row)


def with_more(plan: Writes, *segments: Segment) -> Writes:
    return replace(plan, segments=(*plan.segments, *segments))


def extent(case: Case, side: str) -> int:
    """Bytes of the first pool of rank 0."""
    arena = planes_of(case).source_arena if side == "context" else planes_of(case).destination
    start, end = arena.spans[0][0]
    return int(end - start) - 2 * GUARD


def seen(verdict: Verdict) -> dict[Kind, int]:
    return {kind: verdict.counts[kind] for kind in SEEN_IN_MEMORY if verdict.counts.get(kind)}


class Mistaken(HostEngine):
    """The host engine, wrong in one pass of the digits (counted from 0), or in all."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number
        self.passes = 0

    def carry(self, writes: Writes, source: Memories, destination: Memories) -> None:
        if self.number in (None, self.passes):
            self.carry_wrongly(writes, source, destination)
        else:
            super().carry(writes, source, destination)
        self.passes += 1

    def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
        raise NotImplementedError


class Forgetful(Mistaken):
    """Leaves the last segment out."""

    def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
        HOST.carry(replace(writes, segments=writes.segments[:-1]), source, destination)


# Which engines there are


def test_the_host_engine_is_the_default_and_needs_no_device() -> None:
    assert names()[0] == "host"
    assert find_engine().name == find_engine("host", device="cpu").name == "host"
    assert find_engine().available() is None


def test_an_unknown_engine_is_told_with_the_known_ones() -> None:
    with pytest.raises(InvalidCase) as told:
        find_engine("hots")
    assert str(told.value) == "engine = 'hots' is not possible: the engines are host, torch; did you mean host?"


def test_the_host_engine_takes_no_other_device() -> None:
    with pytest.raises(InvalidCase) as told:
        find_engine("host", device="cuda:0")
    assert str(told.value) == "device = 'cuda:0' is not possible: the host engine copies on the cpu"


def test_an_engine_is_added_by_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "carrier.py").write_text(
        "from differential.engines.host import HostEngine\ndef make(device):\n    return device, HostEngine()\n"
    )
    monkeypatch.setattr(differential.engines, "__path__", [*differential.engines.__path__, str(tmp_path)])
    assert names() == ["host", *sorted({*names(), "carrier"} - {"host"})]
    assert find_engine("carrier", "gpu 3")[0] == "gpu 3"  # type: ignore[index]
    sys.modules.pop("differential.engines.carrier")


def test_engines_and_runner_are_imported_without_device_libraries() -> None:
    code = (
        "import sys, differential.engines, differential.engines.memory, differential.runner, differential.faults\n"
        "differential.engines.find_engine('host')\n"
        "print(sorted({'torch', 'triton', 'cuda', 'nixl', 'hypothesis'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The copy loop


@pytest.mark.parametrize("make", [bytearray, lambda data: np.frombuffer(bytearray(data), np.uint8)])
def test_runs_are_copied_for_every_slot_in_plan_order(make) -> None:  # type: ignore[no-untyped-def]
    source, destination = [[make(bytes(range(24)))]], [[make(bytes(24))], [make(bytes(24))]]
    slots = np.array([0, 8]), np.array([16, 0])
    segment = Segment(0, 0, 0, 0, 1, 0, 0, *slots, np.array([[0, 2, 3], [4, 5, 1]]))
    HOST.carry(Writes(segments=(segment, run(20, 5, 2, ranks=(0, 1)))), source, destination)
    landed = list(bytes(destination[1][0]))
    assert landed[:8] == [0, 0, 8, 9, 10, 20, 21, 0]
    assert landed[8:16] == [0] * 8
    assert landed[16:] == [0, 0, 0, 1, 2, 4, 0, 0]
    assert not any(bytes(destination[0][0]))
    assert bytes(source[0][0]) == bytes(range(24))


# What landed


@settings(max_examples=60, deadline=None)
@given(small_cases(), st.randoms(use_true_random=False))
def test_memory_and_plan_get_the_same_verdict(case: Case, random) -> None:  # type: ignore[no-untyped-def]
    reference = read(case)
    rows = right_rows(case, reference, optional=random.random() < 0.7)
    right = plan_of(rows, reference)
    assert execute(case, right, HOST).outcome is judge(case, right, election="own").outcome
    arenas = planes_of(case).source_arena, planes_of(case).destination
    for row in random.sample(rows, min(len(rows), random.randrange(6))):
        spoilt = random.choice((7, 8))
        start, end = arenas[spoilt - 7].spans[row[spoilt - 4]][row[spoilt - 2]]
        # The destination's guards are written as well, but not read: a plan does not say what a guard holds.
        margin = 0 if spoilt == 7 else GUARD // 2
        row[spoilt] = random.randrange(-margin, end - start - 2 * GUARD + margin)
    if random.random() < 0.5:
        rows = rows[random.randrange(len(rows) + 1) :]
    # The second write to a byte is a duplicate, which memory does not show.
    plan = plan_of(list({tuple(row[n] for n in (4, 6, 8)): row for row in rows}.values()), reference)
    expected, found = judge(case, plan, election="own"), execute(case, plan, HOST)
    assert seen(found) == seen(expected)
    assert found.kinds <= set(SEEN_IN_MEMORY)
    assert (found.nbytes, found.runs) == (expected.nbytes, expected.runs)
    for kind, count in found.counts.items():
        if len(found.violations) < 200:
            assert sum(v.nbytes for v in found.violations if v.kind is kind) == count


def test_recorded_plans_land_as_they_are_judged() -> None:
    outcomes = set()
    for scenario in golden.scenarios():
        case = golden.case_of(scenario)
        for result in scenario["results"]:
            if result["status"] != "ok":
                continue
            plan = golden.writes_of(scenario, result, case)
            expected = judge(case, plan, padding="due", election="own")
            found = execute(case, plan, HOST, padding="due", election="own")
            outcomes.add(found.outcome)
            assert found.outcome is expected.outcome
            kinds = seen(expected)
            if scenario["id"] == "g299":
                # Eight bytes are read past the pool. To the plan they never came, in memory a guard did.
                kinds[Kind.MISSING] -= 8
            assert seen(found) == kinds
    assert outcomes == {Outcome.PASS, Outcome.FAIL}


def test_a_violation_names_place_due_and_what_came() -> None:
    case = case_of(HEADS, "tp1", "tp2")
    plan = right_plan(case)
    first, *others = plan.segments
    # Head 0 of receiver 0 gets the bytes of head 1, which come right after it.
    shifted = replace(first, runs=first.runs + np.array([4, 0, 0]))
    verdict = execute(case, replace(plan, segments=(shifted, *others)), HOST)
    assert seen(verdict) == {Kind.WRONG_ELEMENT: 4}
    (violation,) = verdict.violations
    assert (violation.destination, violation.request, violation.source) == (0, 0, None)
    assert (violation.group, violation.layer, violation.role, violation.ordinal) == (0, 0, "key", 0)
    assert violation.due is not None and violation.found is not None
    assert (dict(violation.due.indices)["H"], dict(violation.found.indices)["H"]) == (0, 1)
    assert (violation.paired, violation.elected) == ((0,), 0)
    assert violation.holders == (0,)
    assert violation.place is not None and violation.place.in_buffer == 0
    told = explain(case, verdict)
    assert "due      key of layer 0, block 0, head 0, token 0, element 0 (content 0)\n" in told
    assert "came     key of layer 0, block 0, head 1, token 0, element 0 (content 0)\n" in told
    assert "differs  head 1 in place of 0\n" in told
    assert execute(case, replace(plan, segments=(shifted, *others)), HOST, election="own").violations[0].elected is None


def test_bytes_of_another_owner_are_stale_and_wrong() -> None:
    case = case_of(HEADS)
    plan = right_plan(case)
    used = plan.segments[0].runs[0, 0] // 8 * 8
    free = next(slot for slot in range(0, extent(case, "context"), 8) if slot != used)
    moved = replace(plan.segments[0], runs=plan.segments[0].runs + np.array([free - used, 0, 0]))
    verdict = execute(case, replace(plan, segments=(moved,)), HOST)
    assert seen(verdict) == {Kind.STALE_SOURCE: 8, Kind.WRONG_ELEMENT: 8}
    assert verdict.violations[0].found_note == "a slot that holds no block of this transfer"
    assert "came     a slot that holds no block of this transfer\n" in explain(case, verdict)


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_byte_outside_a_pool_is_seen_on_its_guard(where: str) -> None:
    case = case_of(HEADS, "tp1", "tp2")
    offset = -1 if where == "before" else extent(case, "generation")
    verdict = execute(case, with_more(right_plan(case), run(0, offset, 1, ranks=(0, 1))), HOST)
    assert verdict.counts == {Kind.OUT_OF_BOUNDS: 1}
    (violation,) = verdict.violations
    assert violation.note == f"a guard of {GUARD} B around the pool was written"
    assert violation.place is not None
    assert (violation.place.rank, violation.place.pool) == (1, 0)
    assert violation.place.slot * 4 + violation.place.offset == offset


def test_a_byte_read_outside_a_pool_is_out_of_bounds() -> None:
    case = case_of(HEADS)
    plan = right_plan(case)
    last = plan.segments[0].runs[-1]
    outside = run(extent(case, "context"), int(last[1]), 1)
    verdict = execute(case, with_more(plan, outside), HOST)
    assert verdict.counts == {Kind.OUT_OF_BOUNDS: 1}
    assert verdict.violations[0].found_note == "a guard of the source"


def test_runs_far_outside_are_not_carried_and_the_rest_is_judged() -> None:
    case = case_of(WIDE)
    plan, end = right_plan(case), extent(case, "generation")
    for segment, nbytes in (
        (run(0, end + GUARD + 1, 3), 3),
        (run(0, end, GUARD + 9), GUARD + 9),
        (run(0, -GUARD - 9, GUARD + 9), GUARD + 9),
        (run(-4 * GUARD, end, 2), 2),
        (run(0, 0, 7, ranks=(0, 99)), 7),
        (run(0, 0, 7, ranks=(-1, 0)), 7),
        (run(0, 0, 7, pool=3), 7),
    ):
        verdict = execute(case, with_more(plan, segment), HOST)
        assert verdict.counts == {Kind.OUT_OF_BOUNDS: nbytes}
        assert verdict.outcome is Outcome.FAIL
        assert verdict.nbytes == 640


def test_empty_segments_and_plans_move_nothing() -> None:
    case = case_of(HEADS)
    none = np.zeros(0, dtype=np.int64)
    hollow = Segment(0, 0, 0, 0, 0, 0, 0, none, none, np.array([[0, 0, 4]]))
    bare = replace(run(0, 0, 1), runs=np.zeros((0, 3), dtype=np.int64))
    assert execute(case, with_more(right_plan(case), hollow, bare), HOST)
    for plan in (Writes(), Writes(segments=(hollow, bare))):
        assert execute(case, plan, HOST).counts == {Kind.MISSING: 8}


def test_rows_past_the_prompt_are_missed_only_where_they_are_due() -> None:
    case = case_of(HEADS, prompts=1)
    reference = read(case)
    plan = plan_of(right_rows(case, reference, optional=False), reference)
    assert execute(case, plan, HOST)
    assert execute(case, plan, HOST, padding="due").counts == {Kind.MISSING: 4}


def test_a_refused_request_gets_nothing() -> None:
    case = case_of(HEADS, prompts=(2, 2))
    plan = replace(right_plan(case), refusals=(Refusal("gone", "its block was lost", 1),))
    kept = replace(plan, segments=tuple(segment for segment in plan.segments if segment.request == 0))
    assert execute(case, kept, HOST)
    verdict = execute(case, plan, HOST)
    assert verdict.counts == {Kind.STRAY: 8}
    assert execute(case, replace(kept, refusals=()), HOST).counts == {Kind.MISSING: 8}


# Engines that do it wrong


def test_a_byte_that_lands_in_some_passes_only_is_torn() -> None:
    case = case_of(WIDE, "tp1", "tp2")
    plan = right_plan(case)
    assert planes_of(case).passes == 2
    lost = plan.segments[-1].nbytes
    for number in (0, 1):
        verdict = execute(case, plan, Forgetful(number))
        assert verdict.counts == {Kind.TORN: lost}
        assert verdict.violations[0].found_note == "bytes of several elements, or of some passes only"
    assert execute(case, plan, Forgetful()).counts == {Kind.MISSING: lost}


def test_a_byte_of_two_elements_is_torn_or_wrong() -> None:
    class Late(Mistaken):
        """Reads one byte further on."""

        def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
            later = [replace(each, runs=each.runs + np.array([1, 0, 0])) for each in writes.segments]
            HOST.carry(replace(writes, segments=tuple(later)), source, destination)

    case = case_of(WIDE)
    # The higher digit of most neighbours is the same: only where it steps does the mixture differ from what is due.
    assert execute(case, right_plan(case), Late(1)).kinds & {Kind.TORN, Kind.WRONG_ELEMENT}
    assert execute(case, right_plan(case), Late(0)).counts[Kind.WRONG_ELEMENT] > 600


def test_an_engine_that_spills_over_is_caught() -> None:
    class Spilling(Mistaken):
        """Copies one byte more than a run has."""

        def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
            longer = [replace(each, runs=each.runs + np.array([0, 0, 1])) for each in writes.segments]
            HOST.carry(replace(writes, segments=tuple(reversed(longer))), source, destination)

    case = case_of(HEADS, "tp1", "tp2")
    assert execute(case, right_plan(case), Spilling()).kinds & {Kind.STRAY, Kind.OUT_OF_BOUNDS, Kind.WRONG_ELEMENT}


def test_an_engine_that_writes_to_the_source_is_caught() -> None:
    class Swapping(Mistaken):
        """Leaves the destination's bytes on the source."""

        def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
            HOST.carry(writes, source, destination)
            source[0][0][GUARD + 3] = 77

    case = case_of(HEADS)
    verdict = execute(case, right_plan(case), Swapping())
    assert (verdict.outcome, verdict.counts) == (Outcome.FAIL, {})
    assert verdict.reason == ("the engine changed 1 B of the source, the first at pool 0 slot 0 +3 of context rank 0")
    assert execute(case, right_plan(case), HOST), "the mistake must not outlive its run"


def test_an_engine_that_cannot_run_is_not_run() -> None:
    class Absent(HostEngine):
        name = "absent"

        def available(self) -> str | None:
            return "there is no device"

    verdict = execute(case_of(HEADS), Writes(), Absent())
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_RUN, "engine absent: there is no device")


def test_a_refusal_of_the_instances_is_not_carried_out() -> None:
    refusal = Refusal("fan", "3 and 2")
    verdict = execute(case_of(HEADS), Writes(refusals=(refusal,)), HOST)
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_RUN, "the plan refuses the instances")
    assert verdict.refusals == (refusal,)


def test_unknown_judging_rules_are_told() -> None:
    with pytest.raises(InvalidCase, match="padding = 'some' is not possible: expected optional or due"):
        execute(case_of(HEADS), Writes(), HOST, padding="some")  # type: ignore[arg-type]
    with pytest.raises(InvalidCase, match="election = 'free' is not possible: expected paired or own"):
        execute(case_of(HEADS), Writes(), HOST, election="free")  # type: ignore[arg-type]
