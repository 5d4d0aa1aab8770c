"""An engine that carries a right plan out wrongly is found, each mistake with its kind, and told from a wrong plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.engines import find_engine
from differential.engines.host import HostEngine
from differential.engines.memory import GUARD, Carried, carry, compare_memory, planes_of
from differential.engines.protocol import Engine, Memories
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from oracle.model.case import Case, Slots
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes
from oracle.truth.explain import explain
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome, Verdict
from tests.engine_mistakes import (
    Change,
    Mistaken,
    Planning,
    Setting,
    Stale,
    by_runs,
    drop_the_last_run,
    one_byte_more,
    swap_two_runs,
)
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, small_cases

WIDE = "key @ 0 : H(2).heads T D(160) ; 8"
"""Two heads of two tokens of 160 B a block: 640 identities, more than one digit counts; a run a token or a block."""
RIGHT = "the plan brings the right byte here: it was carried out wrongly"
NOTHING = "the plan writes nothing here: it was carried out wrongly"


@pytest.fixture(params=["host", "torch"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each engine that runs on the cpu."""
    found = find_engine(request.param)
    reason = found.available()
    if reason is not None:
        pytest.skip(f"engine {request.param}: {reason}")
    yield found


@pytest.fixture
def case() -> Case:
    """Two blocks to two receivers in other slots: NHD on the sender makes a run a token and head."""
    return case_of(WIDE, "tp1", "tp2", prompts=4, context_side={"layout": "NHD"}, generation_side={"layout": "HND"})


def plan_for(case: Case) -> Writes:
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    assert judge(case, plan), "the plan is right: what is found is the engine's"
    return plan


def carried(case: Case, engine: Engine) -> Verdict:
    plan = plan_for(case)
    verdict = carry(case, plan, engine).verdict
    assert run_case(case, [Mapping()], engine=engine).verdicts["mapping"]
    return verdict


def blames_the_engine(verdict: Verdict, nbytes: int) -> bool:
    return verdict.reason == (
        f"the engine did not carry the plan out: {nbytes:,} B of the destination are not what it brings"
    )


def test_the_case_is_one_whose_mistakes_show(case: Case, engine: Engine) -> None:
    plan = plan_for(case)
    assert {int(run.runs[0, 2]) for run in by_runs(plan)} == {160}
    assert len(by_runs(plan)) == 8
    assert planes_of(case).passes == 2
    assert carry(case, plan, engine).verdict
    assert carry(case, plan, Planning(engine, lambda writes: writes)).verdict


# Each mistake, with its kind


def test_a_dropped_run_is_missing(case: Case, engine: Engine) -> None:
    verdict = carried(case, Planning(engine, drop_the_last_run))
    quoted = (Path(__file__).parents[1] / "docs" / "memory.md").read_text(encoding="utf-8")
    assert "\n".join(explain(case, verdict).splitlines()[:5]) in quoted
    assert (verdict.outcome, verdict.counts) == (Outcome.FAIL, {Kind.MISSING: 160})
    assert blames_the_engine(verdict, 160)
    assert {violation.note for violation in verdict.violations} == {RIGHT}


@pytest.mark.parametrize("when", [0, 1])
def test_a_run_dropped_in_one_pass_is_torn(case: Case, engine: Engine, when: int) -> None:
    verdict = carry(case, plan_for(case), Planning(engine, drop_the_last_run, (when,))).verdict
    assert verdict.counts == {Kind.TORN: 160}
    assert blames_the_engine(verdict, 160)
    (violation,) = verdict.violations
    assert violation.found_note == "bytes of several elements, or of some passes only"
    assert violation.note == RIGHT


def test_a_byte_past_a_run_is_found_where_it_lies(engine: Engine) -> None:
    kinds = set()
    for add in range(7):
        case = case_of(WIDE, "tp1", "tp2", prompts=4, context_side={"layout": "NHD"}, slots=Slots(1, add))
        plan = plan_for(case)
        pools = [end - start - 2 * GUARD for ((start, end),) in planes_of(case).destination.spans]
        places = [(run.destination_rank, int(run.runs[0, 1]), int(run.runs[0, 1] + 160)) for run in by_runs(plan)]
        for number, (rank, _, past) in enumerate(places):
            verdict = carry(case, plan, Planning(engine, one_byte_more(number))).verdict
            behind = [index for index, (other, start, _) in enumerate(places) if (other, start) == (rank, past)]
            if behind and behind[0] > number:
                assert verdict, "the run that comes later in plan order puts the byte right"
                continue
            kind = Kind.WRONG_ELEMENT if behind else Kind.OUT_OF_BOUNDS if past == pools[rank] else Kind.STRAY
            assert verdict.counts == {kind: 1}
            assert blames_the_engine(verdict, 1)
            guard = f"a guard of {GUARD} B around the pool was written; " if kind is Kind.OUT_OF_BOUNDS else ""
            assert verdict.violations[0].note == (RIGHT if behind else guard + NOTHING)
            kinds.add(kind)
    assert {Kind.OUT_OF_BOUNDS, Kind.STRAY} <= kinds


def test_two_swapped_runs_are_wrong_elements(case: Case, engine: Engine) -> None:
    verdict = carried(case, Planning(engine, swap_two_runs))
    assert verdict.counts == {Kind.WRONG_ELEMENT: 320}
    assert blames_the_engine(verdict, 320)
    assert {violation.note for violation in verdict.violations} == {RIGHT}
    assert f"note     {RIGHT}\n" in explain(case, verdict)


@pytest.mark.parametrize("when", [0, 1])
def test_runs_swapped_in_one_pass_are_found(case: Case, engine: Engine, when: int) -> None:
    verdict = carry(case, plan_for(case), Planning(engine, swap_two_runs, (when,))).verdict
    # Digits of two elements may spell a third, or another owner's; never the one that is due.
    assert verdict.counts.get(Kind.WRONG_ELEMENT, 0) + verdict.counts.get(Kind.TORN, 0) == 320
    assert blames_the_engine(verdict, 320)


def test_a_stale_buffer_is_torn(case: Case, engine: Engine) -> None:
    verdict = carry(case, plan_for(case), Stale(engine)).verdict
    assert verdict.counts == {Kind.TORN: 1280}
    assert blames_the_engine(verdict, 1280)


def test_mixed_passes_are_torn_where_they_mix(case: Case, engine: Engine) -> None:
    verdict = carry(case, plan_for(case), Stale(engine, slice(0, 1))).verdict
    plan = plan_for(case)
    mixed = sum(len(s.source_bases) * int(s.runs[0, 2]) for s in plan.segments)
    assert 0 < mixed < 1280
    assert verdict.counts == {Kind.TORN: mixed}
    assert blames_the_engine(verdict, mixed)


def test_a_guard_that_looks_untouched_is_out_of_bounds(case: Case, engine: Engine) -> None:
    class Spreading(Mistaken):
        """Copies a byte that nothing has reached onto the guard before it."""

        def carry_wrongly(self, writes: Writes, source: Memories, destination: Memories) -> None:
            destination[1][0][GUARD - 1] = destination[1][0][GUARD]
            self.base.carry(writes, source, destination)

    assert carry(case, plan_for(case), Spreading(engine)).verdict.counts == {Kind.OUT_OF_BOUNDS: 1}


@pytest.mark.parametrize("value", [0, 253, 254, 255])
def test_memory_set_to_one_value_is_not_taken_for_untouched(case: Case, engine: Engine, value: int) -> None:
    verdict = carry(case, plan_for(case), Setting(engine, value)).verdict
    assert verdict.outcome is Outcome.FAIL
    assert set(verdict.counts) == {Kind.STRAY}
    assert {violation.note for violation in verdict.violations} == {NOTHING}


def test_a_dropped_run_of_optional_bytes_is_found(engine: Engine) -> None:
    # One token in a block of two: the second row may come, and the plan brings it.
    case = case_of(WIDE, "tp1", "tp1", prompts=1, context_side={"layout": "NHD"}, generation_side={"layout": "HND"})
    reference = read(case)
    required = plan_of(right_rows(case, reference, optional=False), reference)
    whole = plan_for(case)
    assert 2 * required.nbytes == whole.nbytes == 640
    assert carry(case, required, engine).verdict and carry(case, whole, engine).verdict

    def without_optional(writes: Writes) -> Writes:
        keep = {tuple(run.runs[0, :2]) for run in by_runs(writes)}
        due = [run for run in by_runs(writes) if (int(run.runs[0, 1]) - 64) % 320 < 160]
        assert len(due) < len(keep)
        return replace(writes, segments=tuple(due))

    verdict = carry(case, whole, Planning(engine, without_optional)).verdict
    assert verdict.counts == {Kind.MISSING: 320}
    assert blames_the_engine(verdict, 320)


# The plan's fault or the engine's


@pytest.mark.parametrize(
    ("change", "kinds"),
    [(drop_the_last_run, {Kind.MISSING: 160}), (swap_two_runs, {Kind.WRONG_ELEMENT: 320})],
)
def test_the_same_mistake_in_the_plan_is_the_plans(
    case: Case, engine: Engine, change: Change, kinds: dict[Kind, int]
) -> None:
    plan = change(plan_for(case))
    assert not judge(case, plan)
    verdict = carry(case, plan, engine).verdict
    assert verdict.counts == kinds
    assert verdict.reason == "the engine carried the plan out as it is: the plan is wrong"
    assert not any("carried out wrongly" in violation.note for violation in verdict.violations)


def test_both_can_be_at_fault(case: Case, engine: Engine) -> None:
    plan = swap_two_runs(plan_for(case))
    verdict = carry(case, plan, Planning(engine, drop_the_last_run)).verdict
    assert verdict.counts == {Kind.WRONG_ELEMENT: 320, Kind.MISSING: 160}
    assert blames_the_engine(verdict, 160)
    assert {v.kind: v.note for v in verdict.violations} == {Kind.WRONG_ELEMENT: "", Kind.MISSING: RIGHT}


def test_each_violation_says_whose_fault_it_is(engine: Engine) -> None:
    # Two tokens of one block, a run each: the plan forgets the second, the engine the first.
    case = case_of(WIDE, context_side={"layout": "NHD"}, generation_side={"layout": "HND"})
    whole = plan_for(case)
    plan = replace(whole, segments=tuple(by_runs(whole)[:-1]))
    verdict = carry(case, plan, Planning(engine, lambda writes: replace(writes, segments=writes.segments[1:]))).verdict
    assert verdict.counts == {Kind.MISSING: 320}
    assert sorted((violation.nbytes, violation.note) for violation in verdict.violations) == [(160, ""), (160, RIGHT)]
    assert blames_the_engine(verdict, 160)


def test_two_wrongs_make_no_right(case: Case, engine: Engine) -> None:
    """An engine that undoes a mistake of the plan leaves right bytes, but not those of the plan."""
    plan = swap_two_runs(plan_for(case))
    verdict = carry(case, plan, Planning(engine, swap_two_runs)).verdict
    assert (verdict.outcome, verdict.counts) == (Outcome.FAIL, {})
    assert blames_the_engine(verdict, 320)


def test_an_engine_at_fault_is_told_apart_by_the_runner(case: Case, engine: Engine) -> None:
    result = run_case(case, [Mapping()], engine=Planning(engine, drop_the_last_run))
    assert result.verdicts["mapping"].outcome is Outcome.PASS
    failure = result.failure()
    assert failure is not None and failure[1] is result.landed["mapping"]
    assert blames_the_engine(failure[1], 160)


# Memory against memory


class Other:
    """The mapping under another name, with a change of its plan."""

    name = "other"
    election = "own"

    def __init__(self, change: Change) -> None:
        self.change = change

    def plan(self, case: Case, facts: object) -> Writes:
        return self.change(Mapping().plan(case, facts))  # type: ignore[arg-type]


def test_memories_of_two_right_plans_are_alike(case: Case, engine: Engine) -> None:
    reordered = Other(lambda plan: replace(plan, segments=tuple(reversed(by_runs(plan)))))
    result = run_case(case, [Mapping(), reordered], engine=engine)
    assert result.passed and result.memory_differs == {}


def test_memories_of_two_plans_are_compared_byte_for_byte(case: Case, engine: Engine) -> None:
    result = run_case(case, [Mapping(), Other(drop_the_last_run)], engine=engine)
    (difference,) = result.memory_differs.values()
    assert list(result.memory_differs) == [("mapping", "other")]
    assert difference.nbytes == 160
    assert difference.due == difference.first is not None and difference.second is None
    assert str(difference).startswith(f"160 B of memory differ, the first at pool 0 slot {difference.place.slot} +160")
    assert str(difference).endswith(
        "of generation rank 1: key of layer 0, block 1, head 1, token 3, element 0 (content 0) / nothing came"
    )


def test_memories_differ_where_one_plan_brings_optional_bytes(engine: Engine) -> None:
    case = case_of(WIDE, prompts=1)
    reference = read(case)
    required = plan_of(right_rows(case, reference, optional=False), reference)
    result = run_case(case, [Mapping(), Other(lambda plan: required)], engine=engine)
    assert result.passed, "either may do so"
    assert result.memory_differs["mapping", "other"].nbytes == 320


def test_memories_are_compared_only_where_both_plans_serve_all(case: Case, engine: Engine) -> None:
    refusing = Other(lambda plan: replace(plan, refusals=(Refusal("moody", "not today", 0),), segments=()))
    assert run_case(case, [Mapping(), refusing], engine=engine).memory_differs == {}

    class Broken(Mistaken):
        def carry_wrongly(self, *_: object) -> None:
            raise RuntimeError("lost the device")

    crashed = run_case(case, [Mapping(), Other(drop_the_last_run)], engine=Broken(engine))
    assert crashed.memory_differs == {}


def test_memories_of_two_cases_are_not_compared(engine: Engine) -> None:
    landings = [landing_of(case_of(WIDE, prompts=prompt), engine) for prompt in (2, 4)]
    with pytest.raises(InvalidCase, match=r"second = .* is not possible: expected the memory of the same case"):
        compare_memory(landings[0], landings[1])


def landing_of(case: Case, engine: Engine):  # type: ignore[no-untyped-def]
    done: Carried = carry(case, plan_for(case), engine)
    assert done.landing is not None
    return done.landing


# Whatever the plan and the mistake


@settings(max_examples=60, deadline=None)
@given(small_cases(), st.randoms(use_true_random=False))
def test_what_lands_is_blamed_on_the_engine_exactly_if_it_is_not_what_the_plan_brings(case: Case, random) -> None:  # type: ignore[no-untyped-def]
    reference = read(case)
    rows = right_rows(case, reference, optional=random.random() < 0.7)
    if random.random() < 0.4:
        rows = rows[random.randrange(len(rows) + 1) :]
    plan = plan_of(rows, reference)
    runs = by_runs(plan)
    other = [run for run in runs if random.random() < 0.7] if random.random() < 0.6 else runs
    mistaken = Planning(HostEngine(), lambda writes: replace(writes, segments=shifted(other)))
    found = carry(case, plan, mistaken).verdict
    if len(other) == len(runs):
        assert (found.outcome, found.counts) == (judge(case, plan, election="own").outcome, found.counts)
        assert "did not carry" not in found.reason
    else:
        lost = sum(int(run.runs[0, 2]) for run in runs) - sum(int(run.runs[0, 2]) for run in other)
        assert blames_the_engine(found, lost)
        assert found.outcome is Outcome.FAIL


def shifted(runs: list) -> tuple:  # type: ignore[type-arg]
    """As the engine gets them: addresses count from the start of the guard."""
    return tuple(
        replace(run, source_bases=run.source_bases + 64, destination_bases=run.destination_bases + 64) for run in runs
    )


def test_the_bytes_of_a_plan_that_writes_twice_are_those_of_the_later_run(engine: Engine) -> None:
    case = case_of(WIDE)
    plan = plan_for(case)
    (segment,) = plan.segments
    early = replace(segment, runs=np.array([[3, 0, 100], [0, 0, 640]]))
    late = replace(segment, runs=np.array([[0, 0, 640], [3, 0, 100]]))
    assert carry(case, replace(plan, segments=(early,)), engine).verdict
    verdict = carry(case, replace(plan, segments=(late,)), engine).verdict
    assert verdict.counts == {Kind.WRONG_ELEMENT: 100}
    assert verdict.reason == "the engine carried the plan out as it is: the plan is wrong"
