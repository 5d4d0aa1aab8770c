"""One case through several subjects, each judged and every two compared, with what is known taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from differential.compare import Comparison, compare
from differential.engines.protocol import Engine
from differential.ledger.settle import Settled, covers_verdict, settle
from differential.managers.facts import Facts
from differential.runner import CaseResult, Outcome, Padding, Verdict, run_case
from differential.subjects.protocol import Election, Subject
from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes


class _Kept:
    """A subject whose last plan is kept for the comparison."""

    __slots__ = ("base", "kept")

    def __init__(self, base: Subject) -> None:
        self.base = base
        self.kept: Writes | Refusal | None = None

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def election(self) -> Election:
        return self.base.election

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        self.kept = self.base.plan(case, facts)
        return self.kept


@dataclass(frozen=True, slots=True)
class Checked:
    """``result`` has the verdicts, ``settled`` the comparison of every two subjects that made a plan."""

    result: CaseResult
    settled: tuple[Settled, ...]

    @property
    def open(self) -> tuple[Comparison, ...]:
        """Comparisons with differences that no entry of the ledger covers."""
        return tuple(each.open for each in self.settled if not each.open.identical)

    def uncovered(self) -> tuple[tuple[str, str, Verdict], ...]:
        """(subject, ``plan`` or ``memory``, verdict) of failures that the ledger does not explain."""
        case = self.result.case
        return tuple(
            (name, stage, verdict)
            for stage, verdicts in (("plan", self.result.verdicts), ("memory", self.result.landed))
            for name, verdict in verdicts.items()
            if verdict.outcome is Outcome.FAIL and not covers_verdict(case, name, verdict, self.settled)
        )

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing differed but what the ledger covers."""
        return not self.open and not self.uncovered()


def check_case(
    case: Case, subjects: Sequence[Subject], *, engine: Engine | None = None, padding: Padding = "optional"
) -> Checked:
    """Run ``case`` as ``differential.runner.run_case`` does, then compare the plans of every two subjects."""
    kept = [_Kept(subject) for subject in subjects]
    result = run_case(case, kept, engine=engine, padding=padding)
    settled = [
        settle(case, compare(case, one.kept, other.kept, names=(one.name, other.name)))
        for one, other in combinations(kept, 2)
        if isinstance(one.kept, Writes | Refusal) and isinstance(other.kept, Writes | Refusal)
    ]
    return Checked(result, tuple(settled))
