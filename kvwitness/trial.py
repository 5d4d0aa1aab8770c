"""One case judged: by which subjects, with which engine, and what counts as a failure."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from differential.engines import find_engine
from differential.engines.protocol import Engine
from differential.faults import find_fault
from differential.faults.minimum import size_of
from differential.managers.tables import gather_facts
from differential.runner import CaseResult, crashed, run_case
from differential.subjects.protocol import Subject
from differential.subjects.registry import find_subject
from kvwitness.errors import CannotRun
from kvwitness.settings import Judged
from kvwitness.tally import Tally
from oracle.model.case import Case
from oracle.model.codec import encode
from oracle.model.errors import InvalidCase
from oracle.truth.decide import judge_any, method_for
from oracle.truth.verdict import Kind, Outcome, Verdict

CRASH = "crash"
"""Stands beside the judge's kinds of violation: a subject or an engine raised."""

KINDS = tuple(kind.value for kind in Kind)


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed: a subject, its plan or the memory that an engine left, and the violation kinds that count."""

    subject: str
    stage: str
    kinds: tuple[str, ...]

    @property
    def main_kind(self) -> str:
        """The kind that the judge looks for first; shrinking keeps to it."""
        return self.kinds[0]

    def same_as(self, other: Failure) -> bool:
        """Whether ``other`` shows this failure: same subject and stage, and the main kind among its kinds."""
        return (self.subject, self.stage) == (other.subject, other.stage) and self.main_kind in other.kinds

    def __str__(self) -> str:
        where = "" if self.stage == "plan" else " (in the memory that the engine left)"
        return f"{self.subject}: {', '.join(self.kinds)}{where}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one case; ``failure`` is None where nothing that counts failed."""

    case: Case
    result: CaseResult
    failure: Failure | None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that ``failure`` is about."""
        if self.failure is None:
            return None
        verdicts = self.result.verdicts if self.failure.stage == "plan" else self.result.landed
        return verdicts[self.failure.subject]


def kinds_of(verdict: Verdict) -> tuple[str, ...]:
    """The violation kinds of a failed verdict, those that the judge looks for first in front."""
    if verdict.outcome is not Outcome.FAIL:
        return ()
    found = tuple(sorted((kind.value for kind in verdict.kinds), key=KINDS.index))
    return found or (CRASH,)


def subject_named(name: str) -> Subject:
    """The subject called ``name``; ``package.module:plan`` is also looked for where the user stands."""
    if ":" in name and "" not in sys.path:
        sys.path.insert(0, "")  # a console script starts without it
    return find_subject(name)


class Trial:
    """Judges cases as ``judged`` says; made anew in each process, for it holds subjects and an engine."""

    __slots__ = ("asked", "bases", "counted", "engine", "judged", "subjects")

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        try:
            self.engine: Engine = find_engine(judged.engine, judged.device)
            fault = find_fault(judged.fault) if judged.fault else None
            self.bases = [subject_named(name) for name in judged.subjects]
        except InvalidCase as error:
            raise CannotRun(str(error)) from None
        names = [subject.name for subject in self.bases]
        if not names or len(set(names)) < len(names):
            raise CannotRun(f"subjects = {names} is not possible: expected at least one, and each once")
        missing = self.engine.available()
        if missing:
            raise CannotRun(f"engine {judged.engine!r} on {judged.device!r} cannot run here: {missing}")
        if judged.padding not in ("optional", "due"):
            raise CannotRun(f"padding = {judged.padding!r} is not possible: expected optional or due")
        self.asked = dict(zip(names, judged.subjects, strict=True))
        self.subjects = self.bases
        self.counted = frozenset((*KINDS, CRASH))
        if fault is not None:
            self.subjects = [fault.wrap(subject) for subject in self.bases]
            self.counted = frozenset(kind.value for kind in fault.kinds)

    def __call__(self, case: Case, *, carry: bool = True) -> Judgement:
        """Judge ``case``; ``carry``: an engine also moves the bytes, and what landed is judged again.

        A case of large memory is judged in closed form, and no engine carries it out. Under a planted
        fault only its own kinds count, and only where the subject itself is right.
        """
        result = self._run(case, self.subjects, carry)
        failure = _failure(result, self.counted)
        if failure is not None and self.judged.fault and not self._run(case, self.bases, False).passed:
            failure = None
        return Judgement(case, result, failure)

    def without_fault(self, case: Case) -> Judgement:
        """What becomes of ``case`` where the fault is not planted."""
        result = self._run(case, self.bases, True)
        return Judgement(case, result, _failure(result, frozenset((*KINDS, CRASH))))

    def _run(self, case: Case, subjects: list[Subject], carry: bool) -> CaseResult:
        try:
            if method_for(case) != "elements":
                return self._judge_plans(case, subjects)
            return run_case(case, subjects, engine=self.engine if carry else None, padding=self.judged.padding)
        except Exception as error:  # of the checker itself, or a plan that is none: the case is worth keeping
            error.add_note(f"while this case was judged:\n{encode(case)}")
            raise

    def _judge_plans(self, case: Case, subjects: list[Subject]) -> CaseResult:
        """The plans of a case whose bytes are too many to name each."""
        facts = gather_facts(case)
        result = CaseResult(case)
        for subject in subjects:
            try:
                plan = subject.plan(case, facts)
            except Exception as error:
                result.verdicts[subject.name] = crashed(error)
                continue
            result.verdicts[subject.name] = judge_any(
                case, plan, padding=self.judged.padding, election=subject.election, method="intervals"
            )
        return result

    def add(self, tally: Tally, judgement: Judgement) -> None:
        """Count one judged case."""
        result = judgement.result
        tally.cases += 1
        tally.add_size(size_of(judgement.case))
        tally.pairs += result.pairs
        tally.runs += result.runs
        tally.nbytes += result.nbytes
        tally.carried += bool(result.landed)
        tally.refused += any(verdict.refusals for verdict in result.verdicts.values())
        if judgement.failure is not None:
            tally.failed += 1
            tally.violations.update(judgement.failure.kinds)


def _failure(result: CaseResult, counted: frozenset[str]) -> Failure | None:
    if result.passed:
        return None
    for stage, verdicts in (("plan", result.verdicts), ("memory", result.landed)):
        for name, verdict in verdicts.items():
            found = tuple(kind for kind in kinds_of(verdict) if kind in counted)
            if found:
                return Failure(name, stage, found)
    return None
