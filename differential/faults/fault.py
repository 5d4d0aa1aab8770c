"""What a planted fault is: a named bug that any subject can be given, and be relieved of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from differential.managers.facts import Facts
from differential.runner import Kind, Padding, Verdict, run_case
from differential.subjects.protocol import Election, Subject, encoding_of
from oracle.model.case import Case
from oracle.model.encodings import Encoding
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes

Plant = Callable[[Subject, Case, Facts], Writes | Refusal]
"""Plans a case with a subject and a bug."""


class Size(NamedTuple):
    """How large a case is: ranks of both sides together, layers of the model, blocks of all requests."""

    ranks: int
    layers: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A planted bug.

    ``kinds``: the violations that count as having caught it. ``minimum``: the lexicographically
    least size at which it can show. ``applies``: whether it changes anything in a case; elsewhere
    the subject's plan is left as it is. ``report``: the public report that it reproduces, if any.
    ``base``: the only subject that has the step that goes wrong; empty where any may have the bug.
    """

    name: str
    description: str
    kinds: frozenset[Kind]
    minimum: Size
    plant: Plant
    applies: Callable[[Case], bool] = lambda case: True
    report: str = ""
    base: str = ""

    def wrap(self, subject: Subject) -> Planted:
        """``subject`` with this bug. Nothing else changes: the subject itself stays as it is.

        Raises ``InvalidCase`` for a subject that does not have the step.
        """
        if self.base and subject.name != self.base:
            accepted = f"it is a wrong step of {self.base}: expected that subject, not {subject.name}"
            raise InvalidCase("fault", self.name, accepted)
        return Planted(self, subject)

    def caught_by(self, verdict: Verdict) -> bool:
        """Whether a verdict on the planted subject names one of the fault's own violations."""
        return not verdict.kinds.isdisjoint(self.kinds)

    def shows(self, case: Case, subject: Subject, *, padding: Padding = "optional") -> bool:
        """Whether ``case`` catches the fault planted in ``subject``; see ``failure_in``."""
        return self.failure_in(case, subject, padding=padding) is not None

    def failure_in(self, case: Case, subject: Subject, *, padding: Padding = "optional") -> Verdict | None:
        """The verdict that catches the fault in ``case``.

        None where it stays hidden or other violations are found, and where ``subject`` itself is wrong:
        there the fault proves nothing.
        """
        if not self.applies(case):
            return None
        failure = run_case(case, [self.wrap(subject)], padding=padding).failure()
        if failure is None or not self.caught_by(failure[1]):
            return None
        return failure[1] if run_case(case, [subject], padding=padding).passed else None

    def __repr__(self) -> str:
        return f"the fault {self.name}: {self.description}"


@dataclass(frozen=True, slots=True)
class Planted:
    """A subject with a fault. It keeps the name of its ``base``, so that tables stay readable."""

    fault: Fault
    base: Subject

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def election(self) -> Election:
        return self.base.election

    @property
    def encoding(self) -> Encoding:
        return encoding_of(self.base)

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        """The faulty plan; that of ``base`` where the fault does not apply."""
        if not self.fault.applies(case):
            return self.base.plan(case, facts)
        return self.fault.plant(self.base, case, facts)

    def __repr__(self) -> str:
        return f"{self.base.name} with {self.fault.name}"


def on_plan(change: Callable[[Case, Writes], Writes]) -> Plant:
    """A bug that spoils the finished plan; a refusal of the instances stays one."""

    def plant(subject: Subject, case: Case, facts: Facts) -> Writes | Refusal:
        plan = subject.plan(case, facts)
        return plan if isinstance(plan, Refusal) else change(case, plan)

    return plant


def on_case(mistake: Callable[[Case], Case]) -> Plant:
    """A bug that takes the case for another one; facts stay what they are."""

    def plant(subject: Subject, case: Case, facts: Facts) -> Writes | Refusal:
        return subject.plan(mistake(case), facts)

    return plant
