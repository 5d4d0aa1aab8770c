"""One case judged: by which subjects, with which engine, and what counts as a failure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from differential.compare import FIRST, SECOND, Comparison
from differential.compare.sibling import is_large
from differential.engines import find_engine
from differential.engines.protocol import Engine
from differential.faults import find_fault
from differential.faults.minimum import size_of
from differential.ledger import (
    Settled,
    asked_of,
    check_case,
    check_witnesses,
    compare_plans,
    covers_verdict,
    is_legacy,
)
from differential.runner import CaseResult, run_case
from differential.subjects.protocol import Subject
from differential.subjects.registry import find_subject
from kvwitness.errors import CannotRun
from kvwitness.settings import Judged
from kvwitness.tally import Tally
from oracle.model.case import Case
from oracle.model.codec import encode
from oracle.model.errors import InvalidCase
from oracle.truth.verdict import Kind, Outcome, Verdict

CRASH = "crash"
"""Stands beside the judge's kinds of violation: a subject or an engine raised."""

DIFFERS = "differs"
"""Stands beside them too: two subjects differ in something that the ledger does not know."""

KINDS = tuple(kind.value for kind in Kind)

REFERENCE = "mapping"
"""Known differences are those from this subject: it explains a failure of a legacy one even where it is not judged."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, and the violation kinds that count.

    ``stage``: ``plan``, ``memory`` (what an engine left) or ``comparison``, which is about ``subject``
    and ``other``; ``forms`` then tells in which ways they differ.
    """

    subject: str
    stage: str
    kinds: tuple[str, ...]
    other: str = ""
    forms: tuple[str, ...] = ()

    @property
    def main_kind(self) -> str:
        """The kind that the judge looks for first; shrinking keeps to it."""
        return self.kinds[0]

    def same_as(self, other: Failure) -> bool:
        """Whether ``other`` shows this failure: same subjects and stage, main kind and form among its own."""
        about = (self.subject, self.other, self.stage) == (other.subject, other.other, other.stage)
        return about and self.main_kind in other.kinds and set(self.forms[:1]) <= set(other.forms)

    def __str__(self) -> str:
        if self.stage == "comparison":
            return f"{self.subject} and {self.other}: {', '.join(self.kinds)} ({', '.join(self.forms)})"
        where = "" if self.stage == "plan" else " (in the memory that the engine left)"
        return f"{self.subject}: {', '.join(self.kinds)}{where}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one case; ``failure`` is None where nothing that counts failed.

    ``settled``: how every two subjects compare, empty where a fault is planted. ``left_out``: legacy
    subjects that were not asked, or that alone were and refuse, for the case has no legacy rule.
    """

    case: Case
    result: CaseResult
    failure: Failure | None
    settled: tuple[Settled, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that ``failure`` is about; None where it is about a comparison."""
        if self.failure is None or self.failure.stage == "comparison":
            return None
        verdicts = self.result.verdicts if self.failure.stage == "plan" else self.result.landed
        return verdicts[self.failure.subject]

    @property
    def difference(self) -> Settled | None:
        """The comparison that ``failure`` is about; None where it is about a verdict."""
        if self.failure is None or self.failure.stage != "comparison":
            return None
        names = self.failure.subject, self.failure.other
        return next(each for each in self.settled if (each.open.first, each.open.second) == names)

    def known(self, subject: str) -> tuple[str, ...]:
        """Ledger entries that were met in a comparison with ``subject``."""
        met = [each for each in self.settled if subject in (each.open.first, each.open.second)]
        return tuple(sorted({name for each in met for name in each.accepted}))


def forms_of(comparison: Comparison) -> tuple[str, ...]:
    """In which ways two plans differ: ``NAME refuses: CODE``, ``pairs``, ``bytes``."""
    names = {FIRST: comparison.first, SECOND: comparison.second}
    refused = dict.fromkeys(f"{names[each.refused_by]} refuses: {each.code}" for each in comparison.refusals)
    return (*refused, *(["pairs"] if comparison.pairs else []), *(["bytes"] if comparison.bytes else []))


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


def subjects_for(fault: str) -> tuple[str, ...]:
    """Who is judged where nobody is named: with a fault that only one subject can have, that one."""
    try:
        base = find_fault(fault).base if fault else ""
    except InvalidCase as error:
        raise CannotRun(str(error)) from None
    return (base,) if base else Judged().subjects


class Trial:
    """Judges cases as ``judged`` says; made anew in each process, for it holds subjects and an engine."""

    __slots__ = ("asked", "bases", "counted", "engine", "judged", "subjects")

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        try:
            self.engine: Engine = find_engine(judged.engine, judged.device)
            fault = find_fault(judged.fault) if judged.fault else None
            self.bases = [subject_named(name) for name in judged.subjects]
            self.subjects = self.bases if fault is None else [fault.wrap(subject) for subject in self.bases]
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
        self.counted = EVERYTHING if fault is None else frozenset(kind.value for kind in fault.kinds)

    def __call__(self, case: Case, *, carry: bool = True) -> Judgement:
        """Judge ``case`` and compare every two plans; ``carry``: an engine also carries each out, judged again.

        A failure or a difference that the ledger knows does not count. A case of large memory is judged
        in closed form, and no engine carries it out. Under a planted fault only its own kinds count,
        only where the subject itself is right, and nothing is compared.
        """
        if self.judged.fault:
            result = self._run(case, self.subjects, carry)
            return Judgement(case, result, self._planted(result))
        return self._judge(case, carry)

    def without_fault(self, case: Case) -> Judgement:
        """What becomes of ``case`` where the fault is not planted."""
        return self._judge(case, True)

    def stale_entries(self) -> list[str]:
        """Entries of the ledger whose witness no longer differs as it says, between subjects that are judged."""
        return [] if self.judged.fault else [str(stale) for stale in check_witnesses(self.bases)]

    def _run(self, case: Case, subjects: list[Subject], carry: bool) -> CaseResult:
        engine = self.engine if carry and not is_large(case) else None
        with _keeping(case):
            return run_case(case, subjects, engine=engine, padding=self.judged.padding)

    def _planted(self, result: CaseResult) -> Failure | None:
        """The first failure that a planted fault is to blame for."""
        right: dict[str, bool] = {}
        for failure in _failures(result, self.counted):
            base = next(each for each in self.bases if each.name == failure.subject)
            if base.name not in right:
                right[base.name] = self._run(result.case, [base], False).passed
            if right[base.name]:
                return failure
        return None

    def _judge(self, case: Case, carry: bool) -> Judgement:
        asked, left_out = asked_of(case, self.bases)
        result = self._run(case, asked, carry)
        if case.native is None and all(is_legacy(each.name) for each in asked):
            return Judgement(case, result, None, left_out=tuple(each.name for each in asked))
        with _keeping(case):
            settled = compare_plans(result, asked)
        return Judgement(case, result, self._failure(result, settled), settled, left_out)

    def _failure(self, result: CaseResult, settled: tuple[Settled, ...]) -> Failure | None:
        """What fails or differs first and is not known."""
        for failure in _failures(result, EVERYTHING):
            verdict = result.verdicts[failure.subject]
            if failure.stage == "memory" and verdict:
                return failure
            # What a wrong plan leaves in memory is no news of its own.
            if failure.stage == "plan" and not self._is_known(result.case, failure.subject, verdict, settled):
                return failure
        for each in settled:
            if not each.open.identical:
                return Failure(each.open.first, "comparison", (DIFFERS,), each.open.second, forms_of(each.open))
        return None

    def _is_known(self, case: Case, name: str, verdict: Verdict, settled: tuple[Settled, ...]) -> bool:
        """Whether known differences explain a failed verdict; a legacy subject is compared for it if need be."""
        if covers_verdict(case, name, verdict, settled):
            return True
        names = [subject.name for subject in self.bases]
        if REFERENCE in names or not is_legacy(name):
            return False
        pair = [find_subject(REFERENCE), self.bases[names.index(name)]]
        return covers_verdict(case, name, verdict, check_case(case, pair, padding=self.judged.padding).settled)

    def add(self, tally: Tally, judgement: Judgement) -> None:
        """Count one judged case."""
        result = judgement.result
        tally.cases += 1
        tally.add_size(size_of(judgement.case))
        tally.pairs += result.pairs
        tally.runs += result.runs
        tally.nbytes += result.nbytes
        tally.carried += bool(result.landed)
        tally.refused += is_refused(result)
        tally.left_out.update(judgement.left_out)
        for settled in judgement.settled:
            tally.compare(settled)
        if judgement.failure is not None:
            tally.failed += 1
            tally.violations.update(judgement.failure.kinds)


EVERYTHING = frozenset((*KINDS, CRASH))


@contextmanager
def _keeping(case: Case) -> Iterator[None]:
    """What is raised here is the checker's own fault, or a plan is none: the case is worth keeping."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while this case was judged:\n{encode(case)}")
        raise


def is_refused(result: CaseResult) -> bool:
    """Whether a subject rightly refused something, so that not all of the case was judged."""
    return any(verdict.refusals and verdict.outcome is Outcome.PASS for verdict in result.verdicts.values())


def _failures(result: CaseResult, counted: frozenset[str]) -> Iterator[Failure]:
    """Failed verdicts, plans before memory."""
    for stage, verdicts in (("plan", result.verdicts), ("memory", result.landed)):
        for name, verdict in verdicts.items():
            found = tuple(kind for kind in kinds_of(verdict) if kind in counted)
            if found:
                yield Failure(name, stage, found)
