"""What a subject is: anything that plans a case."""

from __future__ import annotations

from typing import Literal, Protocol

from differential.managers.facts import Facts
from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes

Election = Literal["paired", "own"]


class Subject(Protocol):
    """An implementation under test.

    ``election``: ``paired`` subjects elect senders as the mapping does and are judged for it;
    ``own`` subjects have their own rule, which is compared and not judged.
    """

    name: str
    election: Election

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        """The plan of ``case``; a ``Refusal`` if this pair of instances cannot be served."""
        ...
