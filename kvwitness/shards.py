"""The parts that a search is cut into: shards of random cases and pieces of the small scope.

A part is run whole in one process. What it does depends on its description alone, never on which
process runs it or what ran there before, so the set of cases does not depend on the number of jobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from differential.faults.minimum import size_of
from kvwitness.provider import drawing_from_the_seed_alone
from kvwitness.reduce import reduce_case
from kvwitness.settings import Search, seed_of_shard
from kvwitness.tally import Tallies, Tally, Timing
from kvwitness.trial import Failure, Judgement, Trial
from oracle.model.case import Case
from oracle.model.codec import encode
from strategies.cases import cases
from strategies.scope import small_scope, topology_class

RANDOM = "random"
"""The group of the shards of random cases; the pieces of the small scope are grouped by kind."""

PIECE = 64
"""Cases of a piece of the small scope."""


class Gate(Protocol):
    """What a part knows of the others."""

    def closed(self) -> bool:
        """Whether the run of this part has become pointless."""
        ...

    def close_behind(self) -> None:
        """Say that this part failed, so that later ones are pointless."""
        ...


@dataclass(slots=True)
class Part:
    """What became of one part of a search.

    ``found``: the failing case, shrunk, as the text of a case file; ``found_kind``: the kind of the case that
    failed first, which shrinking may leave. ``timing``: what counted random cases took. ``complete``: whether the
    part ran to its end or its first failure.
    """

    group: str
    number: int
    tallies: Tallies = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    found: str = ""
    found_kind: str = ""
    failure: Failure | None = None
    complete: bool = True


class _Found(Exception):
    """The property's failure, for Hypothesis to shrink."""


class _Enough(BaseException):
    """Leaves a Hypothesis run at once; Hypothesis takes it for no failure."""


class _Property:
    """Judges what Hypothesis draws: counts cases up to the first failure, then shrinks that one failure."""

    __slots__ = (
        "failures",
        "gate",
        "part",
        "search",
        "shrinking_since",
        "started",
        "trial",
        "until",
    )

    def __init__(self, part: Part, trial: Trial, search: Search, until: float | None, gate: Gate) -> None:
        self.part = part
        self.trial = trial
        self.search = search
        self.until = until
        self.gate = gate
        self.failures: list[Judgement] = []
        self.started = time.process_time()
        self.shrinking_since: float | None = None

    def __call__(self, case: Case) -> None:
        fails = self._counted(case) if self.shrinking_since is None else self._shrunk(case)
        if fails:
            raise _Found  # at one place: Hypothesis tells failures apart by theirs

    def _counted(self, case: Case) -> bool:
        if self.gate.closed() or (self.until is not None and time.time() > self.until):
            self.part.complete = False
            raise _Enough
        judgement = self._timed(case)
        self.trial.add(self.part.tallies.setdefault(case.kind, Tally()), judgement)
        if judgement.failure is None:
            return False
        self.failures.append(judgement)
        self.gate.close_behind()
        self.shrinking_since = time.monotonic()
        self.part.timing.whole = time.process_time() - self.started
        return True

    def _timed(self, case: Case) -> Judgement:
        began = time.process_time()
        judgement = self.trial(case)
        result = judgement.result
        refused = any(verdict.refusals for verdict in result.verdicts.values())
        self.part.timing.add(time.process_time() - began, sum(result.carrying.values()), refused)
        return judgement

    def _shrunk(self, case: Case) -> bool:
        if self.gate.closed() or time.monotonic() - self.shrinking_since > self.search.shrink_seconds:
            raise _Enough
        judgement = self.trial(case)
        if judgement.failure is None or not self.failures[0].failure.same_as(judgement.failure):
            return False
        self.failures.append(judgement)
        return True


def run_shard(trial: Trial, search: Search, shard: int, until: float | None, gate: Gate) -> Part:
    """Draw and judge the cases of shard number ``shard``; shrink the first failure.

    ``until`` (as of ``time.time``) ends the drawing; shrinking has its own bound.
    """
    part = Part(RANDOM, shard)
    judge = _Property(part, trial, search, until, gate)

    @seed(seed_of_shard(search.seed, shard))
    @settings(
        max_examples=search.examples_of(shard),
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(cases(search.kinds, states=search.states == "all"))
    def property_holds(case: Case) -> None:
        judge(case)

    try:
        with drawing_from_the_seed_alone():
            property_holds()
    except (_Found, _Enough):
        pass
    if not judge.failures:
        part.timing.whole = time.process_time() - judge.started
        return part
    # Hypothesis ends at its smallest; a run that was cut off ends anywhere.
    smallest = min(judge.failures, key=lambda judgement: _weight(judgement.case))
    part.found_kind = judge.failures[0].case.kind
    return _with_failure(part, trial, smallest, search.shrink_seconds / 3)


def _weight(case: Case) -> tuple[object, int, str]:
    text = encode(case)
    return size_of(case), len(text), text


def _with_failure(part: Part, trial: Trial, found: Judgement, seconds: float) -> Part:
    failure = found.failure

    def still_fails(case: Case) -> bool:
        now = trial(case).failure
        return now is not None and failure.same_as(now)

    case = reduce_case(found.case, still_fails, seconds=seconds)
    part.found = encode(case)
    part.failure = trial(case).failure
    return part


# ---- the small scope


class Scope:
    """The small scope of one kind as a list that grows as it is needed, each case with whether an engine carries it.

    An engine carries the first case of each topology class.
    """

    __slots__ = ("_cases", "_classes", "_source")

    def __init__(self, kind: str, bound: str) -> None:
        self._source: Iterator[Case] = iter(small_scope(kind, bound))
        self._cases: list[tuple[Case, bool]] = []
        self._classes: set[object] = set()

    def piece(self, number: int) -> list[tuple[Case, bool]]:
        """Cases of piece ``number``, fewer or none at the end."""
        end = (number + 1) * PIECE
        while len(self._cases) < end:
            case = next(self._source, None)
            if case is None:
                break
            what = topology_class(case)
            self._cases.append((case, what not in self._classes))
            self._classes.add(what)
        return self._cases[number * PIECE : end]


def run_piece(trial: Trial, scope: Scope, kind: str, number: int, seconds: float, gate: Gate) -> Part:
    """Judge the cases of one piece of the small scope up to the first failure, and make that case smaller."""
    part = Part(kind, number)
    tally = part.tallies.setdefault(kind, Tally())
    found = None
    for case, carry in scope.piece(number):
        if gate.closed():
            part.complete = False
            break
        judgement = trial(case, carry=carry)
        trial.add(tally, judgement)
        if judgement.failure is not None:
            found = judgement
            gate.close_behind()
            break
    if found is None:
        return part
    part.found_kind = found.case.kind
    return _with_failure(part, trial, found, seconds)
