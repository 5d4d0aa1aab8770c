"""The law that mistakes in a declaration are noticed: each small one changes a plan, a page, or cannot be built.

A mistaken declaration plans, with the mapping, in the pages of the true one, and the judge holds the plan against
the true one. What lies elsewhere, is refused when it is built, or differs from the legacy sender is noticed
too. What is not noticed is either the same declaration in other words, or the drawn cases are too narrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from differential.compare import compare
from differential.compare.alike import are_alike
from differential.ledger import settle
from differential.managers.facts import Facts
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.registry import find_subject
from kvwitness.conform.equal import why_equal
from kvwitness.conform.law import Law, Result, broken, holds, not_run
from kvwitness.conform.mutate import Mutant, mutants_of
from kvwitness.conform.sample import Sample
from kvwitness.trial import Judgement
from kvwitness.words import count, joined
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from oracle.truth.judge import judge
from oracle.truth.verdict import Outcome

ENOUGH = 10
"""Cases in which a mistake that cannot matter has to change nothing."""
COMPARED = 12
"""Cases in which a mistake that plans and lies alike is also compared with the legacy sender."""
MOST_MEMORY = 1 << 19
"""Bytes of a plan above which a case is left out: there are small ones enough."""

BUILDING, JUDGE, PAGES, COMPARISON = "building", "judge", "pages", "comparison"
LEAST = 16
"""Cases in which a mistake could have mattered, from which on it survives."""
NAMED = 3
"""Equivalent mutants that are named for a reason."""
EQUIVALENT, SELDOM, SURVIVES = "equivalent", "seldom", "survives"
BY = {
    JUDGE: "the judge",
    PAGES: "the page tables",
    BUILDING: "building",
    COMPARISON: "the comparison",
}
"""Who catches mutants, in words."""
OTHERS = {EQUIVALENT: "equivalent", SELDOM: "too seldom to tell"}


@dataclass(slots=True)
class Standing:
    """What is known of a mutant. ``by``: who caught it, "" while it lives; ``how`` it shows, or why it cannot.

    ``same``: cases in which it changes nothing, ``open_``: those of them in which it might have; ``differ``: cases
    in which its plan is another and right.
    """

    mutant: Mutant
    by: str = ""
    how: str = ""
    same: int = 0
    open_: int = 0
    differ: int = 0
    tried: int = 0
    reasons: set[str] = field(default_factory=set)

    @property
    def alive(self) -> bool:
        return not self.by

    @property
    def reason(self) -> str:
        """Why it cannot matter, "" unless there is a reason for every case in which it was tried."""
        return "" if "" in self.reasons or not self.reasons else joined(sorted(self.reasons))


def judge_mutants(sample: Sample) -> list[Standing]:
    """All small mistakes in the drawn declarations, and what became of each.

    For those that nothing has told apart yet, more cases are drawn: a form of a kind may be rare.
    """
    standings: dict[str, Standing] = {}
    for judgement in sorted(sample.judgements, key=_is_refused):
        _try_all(sample, judgement, standings, more=False)
    for case in sample.more_cases():
        if not any(_is_open(standing) for standing in standings.values()):
            break
        if any(_is_open(standings[mutant.name]) for mutant in mutants_of(case.model) if mutant.name in standings):
            _try_all(sample, sample.trial(case, carry=False), standings, more=True)
    for standing in standings.values():
        _settle(standing)
    return [standing for standing in standings.values() if standing.tried]


def _is_open(standing: Standing) -> bool:
    return standing.alive and (standing.differ > 0 or not standing.reason)


def _try_all(sample: Sample, judgement: Judgement, standings: dict[str, Standing], *, more: bool) -> None:
    """Hold every mutant of a case that is still alive against the case; ``more``: only those that are open."""
    case = judgement.case
    if judgement.result.verdicts["mapping"].nbytes > MOST_MEMORY:
        return
    facts: Facts | None = None
    for mutant in mutants_of(case.model):
        if more and mutant.name not in standings:
            continue
        standing = standings.setdefault(mutant.name, Standing(mutant))
        if not standing.alive or (not _is_open(standing) and (more or standing.same >= ENOUGH)):
            continue
        facts = facts or gather_facts(case)
        _try(sample, judgement, facts, standing, mutant)


def _is_refused(judgement: Judgement) -> bool:
    verdict = judgement.result.verdicts["mapping"]
    return bool(verdict.refusals) or not verdict


def _settle(standing: Standing) -> None:
    if not standing.alive:
        return
    if standing.reason and not standing.differ:
        standing.by, standing.how = EQUIVALENT, standing.reason
        return
    cases = count(standing.open_, "case")
    if standing.differ:
        differ = count(standing.differ, "case")
        standing.by, standing.how = SURVIVES, f"its plan is another in {differ}, and no law objects"
    elif standing.open_ >= LEAST:
        standing.by, standing.how = SURVIVES, f"nothing tells it apart in {cases}: the drawn cases are too narrow"
    else:
        standing.by, standing.how = SELDOM, f"it could matter in {cases} of {standing.tried:,}, and shows in none"


def _try(sample: Sample, judgement: Judgement, facts: Facts, standing: Standing, mutant: Mutant) -> None:
    """Hold one mutant of one case against the case."""
    case = judgement.case
    try:
        model = mutant.apply(case.model)
        if model is None:
            return
        standing.tried += 1
        mistaken = replace(case, model=model)
        own = gather_facts(mistaken)
    except InvalidCase as error:
        standing.tried += 1
        standing.by, standing.how = BUILDING, str(error)
        return
    pages = _page_difference(case, mistaken)
    if _is_refused(judgement):
        if pages:
            standing.by, standing.how = PAGES, pages
        return
    plan = _planned(mistaken, facts if pages else own)
    if plan is not None:
        verdict = judge(case, plan)
        if verdict.outcome is Outcome.FAIL:
            kinds = ", ".join(kind.value for kind in verdict.counts) or "wrong"
            refused = f" ({verdict.refusals[0].code})" if verdict.refusals else ""
            standing.by, standing.how = JUDGE, f"{kinds}{refused}"
            return
    if pages:
        standing.by, standing.how = PAGES, pages
        return
    if plan is None:
        standing.by, standing.how = JUDGE, "it cannot be planned"
        return
    has_native = any(each.native for each in sample.cases)
    reason = why_equal(sample.kind, mutant, case.model, model, has_native=has_native)
    standing.reasons.add(reason)
    # Only where the true declaration leaves nothing open is a difference the mistake's.
    settled = all(each.open.identical for each in judgement.settled)
    if settled and standing.same < COMPARED and (said := _compared(mistaken, plan)):
        standing.by, standing.how = COMPARISON, said
    elif are_alike(facts, judgement.result.plans["mapping"], plan):
        standing.same += 1
        standing.open_ += not reason
    else:
        standing.differ += 1


def _planned(case: Case, facts: Facts) -> Writes | Refusal | None:
    """What the mapping plans, None where the pages do not let it plan anything."""
    try:
        return find_subject("mapping").plan(case, facts)
    except Exception:
        return None


def _page_difference(case: Case, mistaken: Case) -> str:
    """How the pages of a rank differ, "" where they are the same on all."""
    for side in SIDES:
        for rank, (table, own) in enumerate(
            zip(lay_out(case, side).tables, lay_out(mistaken, side).tables, strict=True)
        ):
            if table == own:
                continue
            slots = [tuple(pool.slot_bytes for pool in each.pools) for each in (table, own)]
            if slots[0] != slots[1]:
                return f"slots of {_sizes(slots[1])} instead of {_sizes(slots[0])} on {side} rank {rank}"
            return f"buffers at other places in the slots of {side} rank {rank}"
    return ""


def _sizes(slots: tuple[int, ...]) -> str:
    return f"{joined(slots)} B" if slots else "no pool"


def _compared(mistaken: Case, plan: Writes | Refusal) -> str:
    """What is open between the mapping and the legacy sender where both are told the mistaken declaration."""
    if mistaken.native is None:
        return ""
    native = run_case(mistaken, [find_subject("native")]).plans.get("native")
    if native is None:
        return "the legacy sender crashes"
    settled = settle(mistaken, compare(mistaken, plan, native, names=("mapping", "native")))
    return "" if settled.open.identical else "the legacy sender sends other bytes"


# ---- the law


def summary_of(standings: Iterable[Standing]) -> str:
    """``40 mutants: 30 caught by the judge of plans, ...; 4 equivalent``."""
    standings = list(standings)
    counted = Counter(standing.by for standing in standings)
    caught = [f"{counted[by]} by {who}" for by, who in BY.items() if counted[by]]
    said = [f"caught {', '.join(caught)}"] if caught else []
    said += [f"{counted[by]} {what}" for by, what in OTHERS.items() if counted[by]]
    if counted[SURVIVES]:
        said.insert(0, f"{counted[SURVIVES]} SURVIVE{'S' * (counted[SURVIVES] == 1)}")
    return f"{count(len(standings), 'mutant')}: {'; '.join(said)}"


def equivalents_of(standings: Iterable[Standing]) -> tuple[str, ...]:
    """Which mistakes cannot matter, by the reason why; of many, how many more."""
    by_reason: dict[str, list[str]] = {}
    for standing in standings:
        if standing.by == EQUIVALENT:
            by_reason.setdefault(standing.how, []).append(standing.mutant.name)
    return tuple(f"equivalent, for {reason}: {'; '.join(_some(names))}" for reason, names in by_reason.items())


def _some(names: list[str]) -> list[str]:
    return names if len(names) <= NAMED else [*names[: NAMED - 1], f"and {len(names) - NAMED + 1} more"]


def check_mutants(sample: Sample) -> Result:
    """Make every small mistake, and see who notices it."""
    if not sample.cases:
        return not_run("no case could be drawn")
    standings = sample.standings
    lost = [standing for standing in standings if standing.by == SURVIVES]
    if lost:
        lines = tuple(f"SURVIVES {standing.mutant.name}: {standing.how}" for standing in lost)
        return broken(summary_of(standings), *lines)
    seldom = (f"{each.mutant.name}: {each.how}" for each in standings if each.by == SELDOM)
    return holds(summary_of(standings), *equivalents_of(standings), *seldom)


MUTANTS = Law("mutants", "A small mistake in the declaration is noticed, or means the same.", check_mutants, whole=True)
