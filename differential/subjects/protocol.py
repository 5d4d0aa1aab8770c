"""What a subject is: anything that plans a case."""

from __future__ import annotations

from typing import Literal, Protocol

from differential.managers.facts import Facts
from oracle.model.case import Case
from oracle.model.encodings import Encoding
from oracle.model.writes import Refusal, Writes

Election = Literal["paired", "own"]


class Subject(Protocol):
    """An implementation under test.

    ``election``: ``paired`` subjects elect senders as the mapping does and are judged for it;
    ``own`` subjects have their own rule, which is compared and not judged. A subject that reads block
    lists in another encoding than tables says so by an attribute ``encoding``, see :func:`encoding_of`.
    """

    name: str
    election: Election

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        """The plan of ``case``; a ``Refusal`` if this pair of instances cannot be served."""
        ...


def encoding_of(subject: Subject) -> Encoding:
    """The encoding of block lists that a subject reads: ``tables`` where it does not say.

    Those of other encodings carry beam tails, and may refuse what they cannot say.
    """
    return getattr(subject, "encoding", "tables")
