"""Every law that a cache kind keeps, tried on one kind (``kvwitness conform``).

A law is a small record: a name, a sentence, and a check that holds, is broken with a smallest example, or is
not run for a reason. Cases are drawn from a seed without Hypothesis, so that the same seed always
tries the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvwitness.conform.formed import FORMED
from kvwitness.conform.law import Law, Result, not_run
from kvwitness.conform.layouts import LAYOUTS
from kvwitness.conform.missing import STRESSED, Missing, missing_of
from kvwitness.conform.mutants import MUTANTS, Standing
from kvwitness.conform.plans import PLANS
from kvwitness.conform.published import PUBLISHED
from kvwitness.conform.reshard import RESHARDS
from kvwitness.conform.sample import EXAMPLES, Sample
from kvwitness.conform.sources import Source, find_source
from oracle.truth.verdict import Outcome

__all__ = [
    "EXAMPLES",
    "LAWS",
    "Conformed",
    "Law",
    "Missing",
    "Result",
    "Sample",
    "Source",
    "Standing",
    "conform",
    "find_source",
]

LAWS: tuple[Law, ...] = (*FORMED, RESHARDS, *LAYOUTS, *PLANS, PUBLISHED, STRESSED, MUTANTS)
"""All laws, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Conformed:
    """What came of the laws of one kind: results by the name of the law, in order; what is missing; every mutant."""

    source: Source
    results: dict[str, Result]
    missing: tuple[Missing, ...]
    mutants: tuple[Standing, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the laws that are broken."""
        return tuple(name for name, result in self.results.items() if result.outcome is Outcome.FAIL)

    @property
    def passed(self) -> bool:
        return not self.broken


def conform(sample: Sample, watch: Callable[[Law], None] = lambda law: None) -> Conformed:
    """Try every law on one kind; ``watch`` is told which is next."""
    results: dict[str, Result] = {}
    for law in LAWS:
        watch(law)
        try:
            results[law.name] = law.check(sample)
        except Exception as error:
            if not sample.trouble:
                raise
            # What cannot even be built breaks other laws in ways that are no news.
            results[law.name] = not_run(f"not every case can be: {sample.told(error)}")
    standings = tuple(sample.standings) if results[MUTANTS.name].outcome is not Outcome.NOT_RUN else ()
    return Conformed(sample.source, results, tuple(missing_of(sample)), standings)
