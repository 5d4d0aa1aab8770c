"""Several subjects on one case: what the judge says of each plan, and what every two plans differ in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from differential.ledger import Settled
from kvwitness.errors import CannotRun
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from kvwitness.words import count
from oracle.model.case import Case
from oracle.truth.verdict import Kind, Verdict

GRAVITY = ("identical", "cannot say", "accepted", "different")


@dataclass(frozen=True, slots=True)
class Compared:
    """``settled``: one for every two subjects; ``verdicts``: the judge's by subject name.

    Both have the order in which the subjects were asked for.
    """

    settled: tuple[Settled, ...]
    verdicts: dict[str, Verdict]

    @property
    def verdict(self) -> str:
        """The gravest of all comparisons, see ``differential.ledger.Settled``."""
        return max((each.verdict for each in self.settled), key=GRAVITY.index)


def compare_subjects(case: Case, subjects: Sequence[str], *, padding: str = "optional") -> Compared:
    """Plan ``case`` with some subjects and compare every two.

    Raises ``CannotRun`` where one makes no plan or is not asked, and for fewer than two.
    """
    if len(subjects) < 2:
        raise CannotRun(f"--subjects = {','.join(subjects)!r} is not possible: expected at least two names by comma")
    judgement = Trial(Judged(tuple(subjects), padding=padding))(case, carry=False)
    for name in judgement.left_out:
        raise CannotRun(f"{name} cannot be asked: the case declares nothing for a legacy sender")
    result = judgement.result
    for name, verdict in result.verdicts.items():
        if name not in result.plans:
            raise CannotRun(f"{name} made no plan: {verdict.reason}")
    return Compared(judgement.settled, result.verdicts)


def describe_verdict(verdict: Verdict) -> str:
    """``right: 12 runs, 96 bytes, each in its place``, ``wrong: missing 4 bytes``."""
    how = "rightly" if verdict else "wrongly"
    said = [f"{how} refuses {refusal}" for refusal in verdict.refusals]
    said += [
        kind.value + (f" {count(nbytes, 'byte')}" if nbytes > 1 else "")
        for kind, nbytes in verdict.counts.items()
        if kind is not Kind.FALSE_REFUSAL
    ]
    if not said:
        said = [f"{count(verdict.runs, 'run')}, {count(verdict.nbytes, 'byte')}, each in its place"]
    return f"{'right' if verdict else 'wrong'}: {', '.join(said)}"
