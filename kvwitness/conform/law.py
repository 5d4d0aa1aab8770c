"""A law that a cache kind keeps, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oracle.truth.verdict import Outcome

if TYPE_CHECKING:
    from kvwitness.conform.sample import Sample


NOT_BUILT = "does not build"
"""Why a law is not run on a kind that breaks the first one, which says what cannot be built."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a law: ``said`` is what was tried, what is broken, or why it did not run.

    ``example``: the smallest example of what is broken, in lines; of a law that holds, what is worth knowing besides.
    """

    outcome: Outcome
    said: str
    example: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.outcome is Outcome.PASS


def holds(said: str, *more: str) -> Result:
    """The law holds for all that was tried."""
    return Result(Outcome.PASS, said, more)


def broken(said: str, *example: str) -> Result:
    """The law is broken."""
    return Result(Outcome.FAIL, said, example)


def not_run(why: str) -> Result:
    """The law could not be tried."""
    return Result(Outcome.NOT_RUN, why)


@dataclass(frozen=True, slots=True)
class Law:
    """``sentence`` says what holds of a kind that keeps it.

    ``whole``: it can only be tried where all that is drawn of the kind can be built.
    """

    name: str
    sentence: str
    check: Callable[[Sample], Result]
    whole: bool = False
