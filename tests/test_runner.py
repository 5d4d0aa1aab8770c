"""The runner gives every subject the same facts, judges each by its own rule, and hides nothing that went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from differential.engines.host import HostEngine
from differential.engines.protocol import Memories
from differential.managers.facts import Facts
from differential.runner import Kind, Outcome, run_case
from differential.subjects.mapping import Mapping
from differential.subjects.protocol import Election
from oracle.model.case import Case, SlotList
from oracle.model.errors import InvalidCase
from oracle.model.writes import Pair, Refusal, Writes
from strategies.deployments import deployment
from tests.small_cases import case_of

HEADS = "key @ 0 : H(2).heads T D(2) ; 8"
ENGINE = HostEngine()


@dataclass
class Spy:
    """The mapping under another name, which remembers what it was given and may change its plan."""

    name: str = "spy"
    election: Election = "paired"
    change: object = None
    given: list[tuple[Case, Facts]] = field(default_factory=list)

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        self.given.append((case, facts))
        plan = Mapping().plan(case, facts)
        return plan if self.change is None else self.change(plan)  # type: ignore[operator]


@dataclass
class Crashing:
    name: str = "crashing"
    election: Election = "own"
    error: type[BaseException] = ZeroDivisionError

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        raise self.error("no stage")


def without_segments(plan: Writes) -> Writes:
    return replace(plan, segments=())


def test_facts_are_gathered_once_for_all_subjects() -> None:
    case = case_of(HEADS, "tp1", "tp2")
    first, second = Spy("first"), Spy("second")
    assert run_case(case, [first, second]).passed
    ((own_case, facts),), ((other_case, other_facts),) = first.given, second.given
    assert own_case is other_case is case
    assert facts is other_facts


def test_a_right_plan_passes_on_paper_and_in_memory() -> None:
    case = case_of(HEADS, "tp1", "tp2", prompts=(3, 2))
    result = run_case(case, [Mapping()], engine=ENGINE)
    assert result.passed and result.failure() is None
    assert list(result.verdicts) == list(result.landed) == ["mapping"]
    assert result.landed["mapping"].outcome is Outcome.PASS
    # Three blocks of 8 bytes, half of each for either receiver; each of the two requests pairs both with the sender.
    assert (result.nbytes, result.pairs) == (24, 4)
    assert result.runs == result.verdicts["mapping"].runs > 0
    assert result.landed["mapping"].nbytes == 24


def test_counts_are_those_of_all_subjects_together() -> None:
    case = case_of(HEADS)
    one, both = run_case(case, [Mapping()]), run_case(case, [Mapping(), Spy()])
    assert (both.runs, both.nbytes, both.pairs) == (2 * one.runs, 2 * one.nbytes, 2 * one.pairs)
    assert one.landed == both.landed == {}


def test_each_subject_is_judged_by_its_own_election() -> None:
    def unnamed(plan: Writes) -> Writes:
        return replace(plan, pairs=())

    result = run_case(case_of(HEADS), [Spy("paired", "paired", unnamed), Spy("own", "own", unnamed)])
    assert {name: verdict.outcome for name, verdict in result.verdicts.items()} == {
        "paired": Outcome.FAIL,
        "own": Outcome.PASS,
    }
    assert result.failure() is not None and result.failure()[0] == "paired"  # type: ignore[index]


def test_the_first_failure_is_reported_plans_before_memory() -> None:
    class Idle(HostEngine):
        """Moves nothing."""

        def carry(self, writes: Writes, source: Memories, destination: Memories) -> None:
            pass

    case = case_of(HEADS)
    result = run_case(case, [Mapping(), Spy(change=without_segments)], engine=Idle())
    failure = result.failure()
    assert failure is not None
    assert failure == ("spy", result.verdicts["spy"])
    only_in_memory = run_case(case, [Mapping()], engine=Idle()).failure()
    assert only_in_memory is not None
    assert (only_in_memory[0], only_in_memory[1].counts) == ("mapping", {Kind.MISSING: 8})


def test_a_crash_of_a_subject_is_its_failure_and_stops_no_other() -> None:
    result = run_case(case_of(HEADS), [Crashing(), Mapping()], engine=ENGINE)
    failure = result.failure()
    assert failure is not None and failure[0] == "crashing"
    verdict = failure[1]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("crash: ZeroDivisionError: no stage at test_runner.py:")
    assert (verdict.violations, verdict.counts, verdict.nbytes) == ((), {}, 0)
    assert (result.landed["crashing"].outcome, result.landed["crashing"].reason) == (
        Outcome.NOT_RUN,
        "there is no plan to carry out",
    )
    assert result.verdicts["mapping"] and result.landed["mapping"]


def test_an_invalid_case_raised_by_a_subject_is_a_crash() -> None:
    class Confused(Crashing):
        def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
            raise InvalidCase("tp", 3, "expected 2")

    verdict = run_case(case_of(HEADS), [Confused()]).verdicts["crashing"]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("crash: InvalidCase: tp = 3 is not possible: expected 2 at ")


def test_what_is_no_plan_is_a_crash() -> None:
    result = run_case(case_of(HEADS), [Spy(change=lambda plan: None)], engine=ENGINE)
    assert result.verdicts["spy"].outcome is Outcome.FAIL
    assert result.verdicts["spy"].reason.startswith("crash: TypeError: spy returned None, expected Writes or a Refusal")
    assert result.landed["spy"].outcome is Outcome.NOT_RUN


def test_an_interrupt_is_not_taken_for_a_crash() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_case(case_of(HEADS), [Crashing(error=KeyboardInterrupt)])


def test_a_crash_of_the_engine_is_a_failure_in_memory() -> None:
    class Broken(HostEngine):
        def carry(self, writes: Writes, source: Memories, destination: Memories) -> None:
            raise RuntimeError("lost the device")

    result = run_case(case_of(HEADS), [Mapping()], engine=Broken())
    assert result.verdicts["mapping"]
    failure = result.failure()
    assert failure is not None and failure[1] is result.landed["mapping"]
    assert failure[1].reason.startswith("crash: RuntimeError: lost the device at test_runner.py:")


def test_refused_instances_are_not_carried_out() -> None:
    # Two heads on three senders: the third receiver's head is on ranks it does not hear from.
    result = run_case(case_of(HEADS, "tp2", "tp3"), [Mapping()], engine=ENGINE)
    assert result.verdicts["mapping"].refusals
    assert result.passed
    assert (result.landed["mapping"].outcome, result.landed["mapping"].reason) == (
        Outcome.NOT_RUN,
        "the plan refuses the instances",
    )


def test_a_false_refusal_fails() -> None:
    def refuse(plan: Writes) -> Refusal:
        return Refusal("moody", "not today")

    result = run_case(case_of(HEADS), [Spy(change=refuse)], engine=ENGINE)
    failure = result.failure()
    assert failure is not None and failure[1].kinds == {Kind.FALSE_REFUSAL}
    assert result.landed["spy"].outcome is Outcome.NOT_RUN


def test_padding_can_be_demanded() -> None:
    def cut_to_the_prompt(plan: Writes) -> Writes:
        return replace(plan, segments=tuple(replace(each, runs=halved(each.runs)) for each in plan.segments))

    def halved(runs):  # type: ignore[no-untyped-def]
        # One block of two tokens of two bytes: the first row is the prompt's.
        assert runs.tolist() == [[0, 0, 4]]
        return runs // 2

    case = case_of("key @ 0 : T D(2) ; 8", prompts=1)
    subject = Spy(change=cut_to_the_prompt)
    assert run_case(case, [subject], engine=ENGINE).passed
    demanded = run_case(case, [subject], engine=ENGINE, padding="due")
    assert demanded.verdicts["spy"].counts == demanded.landed["spy"].counts == {Kind.MISSING: 2}


def test_two_subjects_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidCase) as told:
        run_case(case_of(HEADS), [Mapping(), Mapping()])
    assert str(told.value) == ("subjects = ['mapping', 'mapping'] is not possible: expected subjects of distinct names")


def test_a_case_that_cannot_be_is_told_before_anyone_plans() -> None:
    spy = Spy()
    case = case_of(HEADS, tables=(SlotList("context", 0, "kv", 0, (99,)),))
    with pytest.raises(InvalidCase, match=r"tables.context.0.kv\[0\] = 99 is not possible"):
        run_case(case, [spy])
    assert spy.given == []


def leaves(case: Case, facts: Facts) -> Writes:
    raise SystemExit(0)


def moves_blocks(case: Case, facts: Facts) -> Writes:
    facts.generation[0].blocks[0, 0].slots[:] = 0
    return Writes()


def names_no_request(case: Case, facts: Facts) -> Writes:
    return Writes((Pair(99, 0, 0),))


@pytest.mark.parametrize(
    ("plan", "said"), [(leaves, "SystemExit"), (moves_blocks, "read-only"), (names_no_request, "the case has requests")]
)
def test_what_is_no_plan_is_the_subject_s_own_failure(plan: object, said: str) -> None:
    subject = SimpleNamespace(name="theirs", election="own", plan=plan)
    case = deployment("qwen3-32b", {"tp": 1}, {"tp": 1}, prompt=5, tokens_per_block=2)
    verdict = run_case(case, [subject]).verdicts["theirs"]
    assert verdict.outcome is Outcome.FAIL and said in verdict.reason
