"""Laws of what is planned: the mapping is right, the legacy sender too or in known ways not, and both compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kvwitness.conform.law import Law, Result, broken, holds, not_run
from kvwitness.conform.sample import Drawn, Sample
from kvwitness.conform.shrink import smallest
from kvwitness.reduce import reduce_case
from kvwitness.search import argument_of
from kvwitness.trial import Failure, Judgement
from kvwitness.words import count
from oracle.model.case import Case
from oracle.truth.verdict import Outcome

MAPPING, NATIVE = "mapping", "native"
SHRINK_SECONDS = 3.0
TRIES = 250


def _served(judgements: list[Judgement], subject: str) -> str:
    """``140 served, 10 rightly refused``."""
    refused = sum(bool(each.result.verdicts[subject].refusals) for each in judgements)
    return f"{len(judgements) - refused:,} served, {refused:,} rightly refused"


def _first(sample: Sample, fails: Callable[[Failure], bool]) -> tuple[Drawn, Failure] | None:
    for drawn, judgement in zip(sample.drawn, sample.judgements, strict=True):
        if judgement.failure is not None and fails(judgement.failure):
            return drawn, judgement.failure
    return None


def _example(sample: Sample, drawn: Drawn, failure: Failure) -> tuple[str, ...]:
    """The argument of the smallest case that fails as ``drawn`` does, and where it was written."""

    def still_fails(case: Case) -> bool:
        now = sample.trial(case, carry=False).failure
        return now is not None and failure.same_as(now)

    def fails(numbers: tuple[int, ...]) -> bool:
        found = sample.draw(numbers)
        return isinstance(found, Case) and still_fails(found)

    least = sample.draw(smallest(drawn.numbers, fails, tries=TRIES))
    case = reduce_case(least if isinstance(least, Case) else drawn.case, still_fails, seconds=SHRINK_SECONDS)
    judgement = sample.trial(case, carry=False)
    if judgement.failure is None:  # the subject is not the same twice
        judgement = sample.trial(drawn.case, carry=False)
    return (*argument_of(judgement), *sample.keep(judgement))


def check_mapping(sample: Sample) -> Result:
    """Whether the plan of the mapping is right in every drawn case."""
    if not sample.cases:
        return not_run("no case could be drawn")
    found = _first(sample, lambda failure: failure.subject == MAPPING and failure.stage == "plan")
    if found is not None:
        drawn, failure = found
        return broken(f"the mapping: {', '.join(failure.kinds)}", *_example(sample, drawn, failure))
    return holds(f"{count(len(sample.cases), 'case')}: {_served(sample.judgements, MAPPING)}")


def check_native(sample: Sample) -> Result:
    """Whether the plan of the legacy sender is right, or wrong in ways that the ledger knows."""
    if not sample.cases:
        return not_run("no case could be drawn")
    asked = [each for each in sample.judgements if NATIVE in each.result.verdicts]
    if not asked:
        return not_run("no legacy rule: the kind declares nothing for the legacy sender")
    found = _first(sample, lambda failure: failure.subject == NATIVE and failure.stage == "plan")
    if found is not None:
        drawn, failure = found
        return broken(f"the legacy sender: {', '.join(failure.kinds)}", *_example(sample, drawn, failure))
    failed = sum(each.result.verdicts[NATIVE].outcome is Outcome.FAIL for each in asked)
    return holds(f"{count(len(asked), 'case')}: {len(asked) - failed:,} right, {failed:,} wrong in known ways")


def check_compared(sample: Sample) -> Result:
    """Whether mapping and legacy sender send the same bytes, or differ in ways that the ledger knows."""
    if not sample.cases:
        return not_run("no case could be drawn")
    settled = [each.settled[0] for each in sample.judgements if each.settled]
    if not settled:
        return not_run("no legacy rule: there is nothing to compare with")
    found = _first(sample, lambda failure: failure.stage == "comparison")
    if found is not None:
        drawn, failure = found
        return broken(f"{failure}", *_example(sample, drawn, failure))
    counted = Counter(each.verdict for each in settled)
    if counted["different"]:
        return broken(f"{count(counted['different'], 'case')} differ in unknown ways, where a sender is wrong too")
    names = Counter(name for each in settled for name in each.accepted)
    known = (f"known: {', '.join(f'{name} {cases}' for name, cases in sorted(names.items()))}",) if names else ()
    said = f"{counted['identical']:,} identical, {counted['accepted']:,} different in known ways"
    return holds(f"{count(len(settled), 'case')}: {said}", *known)


PLANS = (
    Law("mapping", "The mapping sends every due byte, once, from the elected rank, and nothing else.", check_mapping),
    Law("native", "The legacy sender does too, but for what the ledger knows.", check_native),
    Law("compared", "Both send the same bytes, but for what the ledger knows.", check_compared),
)
