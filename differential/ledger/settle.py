"""What of a comparison is known already, and which failures of a legacy subject are no news."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from differential.compare import ByteDifference, Comparison, Difference, PairDifference, RefusalDifference
from differential.ledger.entry import Entry, Refuses
from differential.ledger.shelf import entries
from differential.runner import Kind, Outcome, Verdict, Violation
from oracle.model.case import Case
from oracle.model.records import frozen


@frozen()
class Settled:
    """A comparison taken apart: ``accepted`` by entry name, and what is left ``open``.

    Both have the order in which the comparison named the subjects. What an encoding cannot say is no
    difference and stays in ``open.unsaid``. ``told_of``: the smaller case whose bytes the differences
    name, where they are not those of the case that was compared.
    """

    accepted: dict[str, tuple[Difference, ...]]
    open: Comparison
    told_of: Case | None = None

    @property
    def identical(self) -> bool:
        """Whether the two plans do not differ at all, and no encoding was short of words."""
        return not self.accepted and self.open.identical and not self.open.unsaid

    def of(self, first: str, second: str) -> Settled:
        """The same between two other subjects that plan alike."""
        return replace(self, open=replace(self.open, first=first, second=second))

    def exchanged(self) -> Settled:
        """The same with first and second exchanged."""
        accepted = {name: _of(self.open, list(found)).exchanged().differences for name, found in self.accepted.items()}
        return replace(self, accepted=accepted, open=self.open.exchanged())

    @property
    def verdict(self) -> str:
        """``identical``, ``cannot say`` (but for what one encoding cannot say), ``accepted`` (all that differs is
        known) or ``different``.
        """
        if not self.open.identical:
            return "different"
        if self.accepted:
            return "accepted"
        return "cannot say" if self.open.unsaid else "identical"


def settle(case: Case, comparison: Comparison, *, known: Iterable[Entry] | None = None) -> Settled:
    """Take the known differences out of ``comparison``; ``known``: the entries to use, by default all.

    Every difference goes to the first entry, in the order of names, that covers it. The subjects may
    be named in either order.
    """
    if comparison.identical:
        return Settled({}, comparison)
    chosen = entries() if known is None else tuple(known)
    about = [entry for entry in chosen if entry.is_about(comparison.first, comparison.second)]
    differences = as_entries_say = comparison.differences
    if not about:
        about = [entry for entry in chosen if entry.is_about(comparison.second, comparison.first)]
        as_entries_say = comparison.exchanged().differences if about else differences
    of_refusals = [entry for entry in about if isinstance(entry.form, Refuses)]
    of_bytes = [entry for entry in about if not isinstance(entry.form, Refuses)]
    accepted: dict[str, list[Difference]] = {}
    left: list[Difference] = []
    for difference, asked in zip(differences, as_entries_say, strict=True):
        known_of = of_refusals if isinstance(asked, RefusalDifference) else of_bytes
        entry = next((entry for entry in known_of if entry.covers(case, asked)), None)
        (left if entry is None else accepted.setdefault(entry.name, [])).append(difference)
    return Settled({name: tuple(found) for name, found in sorted(accepted.items())}, _of(comparison, left))


def _of(comparison: Comparison, differences: list[Difference]) -> Comparison:
    return Comparison(
        comparison.first,
        comparison.second,
        tuple(each for each in differences if isinstance(each, ByteDifference)),
        tuple(each for each in differences if isinstance(each, PairDifference)),
        tuple(each for each in differences if isinstance(each, RefusalDifference)),
        comparison.unsaid,
    )


def covers_verdict(case: Case, subject: str, verdict: Verdict, settled: Iterable[Settled]) -> bool:
    """Whether a failed ``verdict`` on ``subject`` is wholly explained by known differences.

    ``settled`` are the comparisons of this case, or of those pairs of subjects that are of interest.
    True only if in one of them that names ``subject`` everything is accepted and each violation is a
    consequence of an entry that accepted something there. A passed verdict needs no cover, so it is
    True; one without violations, of a subject that raised, has none and is False.
    """
    if verdict.outcome is Outcome.PASS:
        return True
    if verdict.outcome is not Outcome.FAIL or not verdict.violations:
        return False
    return any(_explained(case, subject, verdict, one) for one in settled)


def unexplained(case: Case, subject: str, verdict: Verdict, settled: Settled) -> tuple[Violation, ...]:
    """The violations of ``verdict`` that no entry which accepted something in ``settled`` explains."""
    known = [entry for entry in entries() if entry.name in settled.accepted and subject in entry.second]
    if not settled.accepted:
        # Both refuse, whatever the reasons, so that a refusal for a known wrong one showed no difference.
        names = settled.open.first, settled.open.second
        known = [entry for entry in entries() if entry.is_about(*names) or entry.is_about(*names[::-1])]
    if _is_refused_by_the_other(known):
        # There were no bytes to compare, so entries about bytes could accept nothing.
        known = [entry for entry in entries() if subject in entry.second]
    return tuple(each for each in verdict.violations if not any(entry.explains(case, each) for entry in known))


def _explained(case: Case, subject: str, verdict: Verdict, settled: Settled) -> bool:
    if subject not in (settled.open.first, settled.open.second) or not settled.open.identical:
        return False
    if not settled.accepted and verdict.kinds != {Kind.FALSE_REFUSAL}:
        return False
    return not unexplained(case, subject, verdict, settled)


def _is_refused_by_the_other(known: list[Entry]) -> bool:
    return any(isinstance(entry.form, Refuses) and entry.form.by == "first" for entry in known)
