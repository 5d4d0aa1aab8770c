"""The main job: the small scope in full, then random cases; what fails becomes a witness."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Protocol

from kvwitness.difference import entries_to_look_at, told_difference
from kvwitness.errors import CannotRun
from kvwitness.listed import with_lists
from kvwitness.settings import Judged, Search
from kvwitness.shards import PIECE, RANDOM, Part
from kvwitness.tally import Compared, Tallies, Tally, Timing, merge_tallies
from kvwitness.trial import CRASH, Failure, Judgement, Trial
from kvwitness.witness import check_writable, save
from kvwitness.words import NO_LEGACY_RULE, count
from kvwitness.workers import Task, Workers
from oracle.model.case import Case
from oracle.model.codec import decode
from oracle.truth.explain import explain
from strategies.kinds import BrokenEntry
from strategies.scope import small_scope


class Watcher(Protocol):
    """Who is told how far a search has come."""

    def begin(self, what: str, total: float | None, unit: str) -> None:
        """A stage begins: ``total`` in ``unit`` (cases or seconds), None if nobody knows."""
        ...

    def advance(self, done: float, cases: int) -> None:
        """``done`` in the unit of the stage, and the cases judged in it so far."""
        ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure: the shrunk case, its witness file, and why it fails."""

    case: Case
    failure: Failure
    path: Path
    argument: tuple[str, ...]
    where: str
    """which part of the search found it"""
    kind: str
    """of the case that failed first; shrinking may have led to another"""


@dataclass(slots=True)
class Report:
    """What a search did. ``scope`` and ``random`` are tallies by kind; ``seconds`` the whole run's duration.

    ``scope_size``: cases of the small scope, judged or not. ``timing``: what the random cases took, over all
    processes. ``stale``: entries of the ledger that are no longer true. ``notes`` say what was left out and why.
    ``broken``: of a search over all kinds, the entries of other distributions that give none.
    """

    judged: Judged
    search: Search
    scope: Tallies = field(default_factory=dict)
    random: Tallies = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    timing: Timing = field(default_factory=Timing)
    shards: int = 0
    scope_size: int = 0
    stale: list[str] = field(default_factory=list)
    broken: tuple[BrokenEntry, ...] = ()

    @property
    def kinds(self) -> Tallies:
        """Both parts together."""
        together: Tallies = {kind: Tally() for kind in self.search.kinds}
        merge_tallies(together, self.scope)
        merge_tallies(together, self.random)
        return together

    @property
    def cases(self) -> int:
        return sum(tally.cases for tally in self.kinds.values())

    @property
    def random_cases(self) -> int:
        return sum(tally.cases for tally in self.random.values())

    @property
    def scope_cases(self) -> int:
        return sum(tally.cases for tally in self.scope.values())

    @property
    def rate(self) -> float:
        """Random cases that one core draws, plans, judges and compares in a second; those refused do not count."""
        return self.timing.rate()

    @property
    def rate_carried(self) -> float:
        """The same with the engine's part."""
        return self.timing.rate(carried=True)

    @property
    def compared(self) -> dict[tuple[str, str], Compared]:
        """All kinds together, by the names of two subjects."""
        together = Tally()
        for tally in self.kinds.values():
            together.merge(tally)
        return together.compared

    @property
    def verdict(self) -> str:
        if self.findings or self.stale:
            return "fail"
        return "pass" if self.cases else "not run"


def argument_of(judgement: Judgement) -> tuple[str, ...]:
    """The lines that explain a failure: the first violation of its main kind, what was raised, or what differs."""
    failure, verdict, difference = judgement.failure, judgement.verdict, judgement.difference
    if difference is not None:
        return told_difference(difference)
    assert failure is not None and verdict is not None
    if failure.main_kind == CRASH:
        return (f"{failure.subject} {verdict.reason}",)
    for violation in verdict.violations:
        if violation.kind.value == failure.main_kind:
            return with_lists(judgement.case, violation, explain(judgement.case, violation).splitlines())
    return tuple(explain(judgement.case, verdict).splitlines())


def save_failure(judgement: Judgement, trial: Trial, out: str, **others: object) -> tuple[Path, tuple[str, ...]]:
    """Write the witness of a failing case; its path and its argument. ``others`` are fields of ``witness.Meta``."""
    failure, judged = judgement.failure, trial.judged
    assert failure is not None
    argument = argument_of(judgement)
    path = save(
        judgement.case,
        out,
        subject=trial.asked[failure.subject],
        other=trial.asked.get(failure.other, ""),
        property=failure.kinds,
        fault=judged.fault,
        argument=argument,
        stage=failure.stage,
        engine=judged.engine,
        device=judged.device,
        padding=judged.padding,
        **others,
    )
    return path, argument


def run_search(judged: Judged, search: Search, out: str, watcher: Watcher) -> Report:
    """Run a whole search. Raises ``CannotRun`` before anything is judged where it cannot run as asked."""
    started = time.monotonic()
    if search.scope == "none" and search.examples is None and search.seconds is None:
        raise CannotRun("nothing to do: --scope none without random cases; expected --examples or --time")
    check_writable(out)
    trial = Trial(judged)
    report = Report(judged, search)
    groups = [*(search.kinds if search.scope != "none" else ()), RANDOM]
    with Workers(judged, search, groups) as workers:
        if search.scope != "none":
            for kind in search.kinds:
                _run_scope(kind, workers, report, trial, out, watcher)
        if report.findings:
            report.notes.append("random cases were not drawn: the small scope failed")
        else:
            _run_random(workers, report, trial, out, watcher)
    for kind, tally in report.kinds.items():
        for name, cases in tally.left_out.items():
            report.notes.append(f"{name} not run in {count(cases, 'case')} of {kind}: {NO_LEGACY_RULE}")
    report.stale = trial.stale_entries()
    report.notes += entries_to_look_at(trial.bases, date.today())
    report.seconds = time.monotonic() - started
    return report


def _run_scope(kind: str, workers: Workers, report: Report, trial: Trial, out: str, watcher: Watcher) -> None:
    cases = sum(1 for _ in small_scope(kind, report.search.scope))
    report.scope_size += cases
    watcher.begin(f"{report.search.scope} scope of {kind}", cases, "cases")
    parts = []
    done = 0
    for part in workers.run(Task(kind, number) for number in range(-(-cases // PIECE))):
        parts.append(part)
        done += _cases(part)
        watcher.advance(done, done)
    parts = _that_count(parts)
    done = sum(map(_cases, parts))
    watcher.advance(done, done)
    watcher.end()
    _gather(parts, report.scope, report, trial, out)


def _run_random(workers: Workers, report: Report, trial: Trial, out: str, watcher: Watcher) -> None:
    search = report.search
    until = None if search.seconds is None else time.time() + search.seconds
    if search.examples is not None:
        watcher.begin("random cases", search.examples, "cases")
    else:
        watcher.begin("random cases", search.seconds, "seconds")
    began = time.time()
    parts = []
    done = 0
    for part in workers.run(_shards(search, until)):
        parts.append(part)
        done += _cases(part)
        watcher.advance(done if search.examples is not None else time.time() - began, done)
    parts = _that_count(parts)
    done = sum(map(_cases, parts))
    watcher.advance(done if search.examples is not None else time.time() - began, done)
    watcher.end()
    _gather(parts, report.random, report, trial, out)
    for part in parts:
        report.timing.merge(part.timing)
    report.shards = len(parts)
    if search.seconds is not None:
        if report.findings:
            ended = "a failure ended it"
        elif any(not part.complete for part in parts) or search.examples is None:
            ended = "the time ran out"
        else:
            ended = "all were drawn"
        report.notes.append(f"--time {search.seconds:g}: {ended}; how many cases a seed gives depends on the machine")


def _shards(search: Search, until: float | None) -> Iterator[Task]:
    number = 0
    while (search.shards() is None or number < search.shards()) and (until is None or time.time() < until):
        yield Task(RANDOM, number, until)
        number += 1


def _cases(part: Part) -> int:
    return sum(tally.cases for tally in part.tallies.values())


def _that_count(parts: list[Part]) -> list[Part]:
    """The parts up to the first that failed, in order; later ones ran only because a process was free."""
    failed = min((part.number for part in parts if part.failure is not None), default=None)
    return sorted((part for part in parts if failed is None or part.number <= failed), key=lambda part: part.number)


def _gather(parts: list[Part], into: Tallies, report: Report, trial: Trial, out: str) -> None:
    """Merge the parts that count, and keep the failure of the last one if it has any."""
    for part in parts:
        merge_tallies(into, part.tallies)
    if parts and parts[-1].failure is not None:
        report.findings.append(_finding(parts[-1], report, trial, out))


def _finding(part: Part, report: Report, trial: Trial, out: str) -> Finding:
    case = decode(part.found)
    judgement = trial(case)
    if judgement.failure is None:
        raise CannotRun(
            f"{part.failure} was found in {_where(part, report)}, but not again in this process: the subject is not"
            f" deterministic. The case: {part.found}"
        )
    path, argument = save_failure(judgement, trial, out, seed=report.search.seed if part.group == RANDOM else None)
    return Finding(case, judgement.failure, path, argument, _where(part, report), part.found_kind)


def _where(part: Part, report: Report) -> str:
    if part.group == RANDOM:
        return f"a case of {part.found_kind} (shard {part.number} of seed {report.search.seed})"
    return f"the {report.search.scope} scope of {part.group}"
