"""What an entry of the ledger is: a known difference between two subjects, as narrow as it can be said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

from differential.compare import FIRST, SECOND, ByteDifference, Difference, PairDifference, RefusalDifference
from differential.runner import Kind, Violation
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.records import frozen

MAPPING = "mapping"
POSITIONAL, SUFFIX, WITHOUT_HELIX = "native", "native:suffix", "native:suffix,no-helix"
"""The legacy sender of today, and its two older generations."""
NATIVE = (POSITIONAL, SUFFIX, WITHOUT_HELIX)
HELIX = (POSITIONAL, SUFFIX)
"""Generations that know context-parallel receivers."""
WITNESSES = Path(__file__).parent / "witnesses"


def explains_nothing(case: Case, violation: Violation) -> bool:
    return False


def names_no_pair(case: Case, difference: PairDifference) -> bool:
    return False


@frozen()
class Bytes:
    """The two plans differ in these bytes and these pairs, and in nothing else.

    ``covers`` is asked of each byte difference, ``covers_pair`` of each pair difference;
    ``explains`` of each violation that the judge finds in the second subject's plan.
    """

    covers: Callable[[Case, ByteDifference], bool] = lambda case, difference: False
    covers_pair: Callable[[Case, PairDifference], bool] = names_no_pair
    explains: Callable[[Case, Violation], bool] = explains_nothing


@frozen()
class Refuses:
    """One side, ``by`` first or second, refuses with one of ``codes``; the other serves.

    ``covers`` is asked of each such refusal. ``explains``: where the first subject rightly refuses,
    what the second does wrong because it serves all the same.
    """

    by: str
    codes: tuple[str, ...]
    covers: Callable[[Case, RefusalDifference], bool]
    explains: Callable[[Case, Violation], bool] = explains_nothing

    def __post_init__(self) -> None:
        if self.by not in (FIRST, SECOND):
            raise InvalidCase("by", self.by, f"expected {FIRST} or {SECOND}")
        if not self.codes:
            raise InvalidCase("codes", self.codes, "expected at least one refusal code")


@frozen()
class Entry:
    """A known difference between the subject ``first`` and each of ``second``.

    ``reference``: where it is described in public. ``component``: the part that differs.
    ``look_again``: when somebody should ask whether it is still so; passing it only warns. Its
    witness is ``witnesses/NAME.json``, a case that must differ as the file says and in nothing else.
    """

    name: str
    summary: str
    reference: str
    component: str
    second: tuple[str, ...]
    form: Bytes | Refuses
    look_again: date
    first: str = MAPPING

    def __post_init__(self) -> None:
        if not self.name or not self.name.replace("-", "").isalnum() or not self.name.islower():
            raise InvalidCase("entry.name", self.name, "expected lower case letters, digits and -")
        for field in ("summary", "reference", "component"):
            if not getattr(self, field).strip():
                raise InvalidCase(f"entry {self.name}.{field}", getattr(self, field), "expected a text")
        if not self.second or self.first in self.second:
            raise InvalidCase(f"entry {self.name}.second", self.second, f"expected subjects other than {self.first}")

    @property
    def witness(self) -> Path:
        return WITNESSES / f"{self.name}.json"

    @property
    def names(self) -> tuple[str, str]:
        """What the witness calls the two subjects: the same for every generation of the second."""
        return self.first, self.second[0].partition(":")[0]

    def is_about(self, first: str, second: str) -> bool:
        return first == self.first and second in self.second

    def covers(self, case: Case, difference: Difference) -> bool:
        """Whether ``difference``, between ``first`` and one of ``second``, is what this entry means."""
        form = self.form
        if isinstance(form, Refuses):
            if not isinstance(difference, RefusalDifference):
                return False
            return difference.refused_by == form.by and difference.code in form.codes and form.covers(case, difference)
        if isinstance(difference, ByteDifference):
            return form.covers(case, difference)
        return isinstance(difference, PairDifference) and form.covers_pair(case, difference)

    def explains(self, case: Case, violation: Violation) -> bool:
        """Whether ``violation``, found in the second subject's plan, is a consequence of what this entry means."""
        form = self.form
        if violation.kind is Kind.FALSE_REFUSAL:
            refusal = violation.refusal
            if not isinstance(form, Refuses) or form.by != SECOND or refusal is None:
                return False
            difference = RefusalDifference(SECOND, refusal.code, refusal.reason, refusal.request)
            return refusal.code in form.codes and form.covers(case, difference)
        return form.explains(case, violation)

    def __repr__(self) -> str:
        return f"the known difference {self.name}: {self.summary}"
