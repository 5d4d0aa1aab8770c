"""What two plans differ in besides bytes: refusals and pairs."""

from __future__ import annotations

from dataclasses import replace

from differential.compare.records import FIRST, SECOND, PairDifference, RefusalDifference
from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes


def as_writes(case: Case, plan: Writes | Refusal) -> Writes:
    """What is compared of a plan of ``case``: all but what is native only."""
    if isinstance(plan, Refusal):
        return Writes(refusals=(plan,))
    apart = {index for index, group in enumerate(case.model.groups) if group.native_only}
    if not apart:
        return plan
    return replace(plan, segments=tuple([segment for segment in plan.segments if segment.group not in apart]))


def compare_refusals(case: Case, one: Writes, two: Writes) -> tuple[tuple[RefusalDifference, ...], frozenset[int]]:
    """(differences, requests that at least one plan refuses)."""
    if not one.refusals and not two.refusals:
        return (), frozenset()
    by_plan = []
    for plan in (one, two):
        refused: dict[int | None, Refusal] = {}
        for refusal in plan.refusals:
            refused.setdefault(refusal.request, refusal)
        by_plan.append(refused)
    found: dict[RefusalDifference, None] = {}
    settled: set[int] = set()
    for request in range(len(case.requests)):
        refusals = [refused.get(None) or refused.get(request) for refused in by_plan]
        if any(refusals):
            settled.add(request)
        for refusal, other, name in ((*refusals, FIRST), (*reversed(refusals), SECOND)):
            if refusal is not None and other is None:
                found[RefusalDifference(name, refusal.code, refusal.reason, refusal.request)] = None
    return tuple(found), frozenset(settled)


def compare_pairs(one: Writes, two: Writes, settled: frozenset[int]) -> tuple[PairDifference, ...]:
    named = [
        {(p.request, p.source, p.destination): p.seen_by for p in plan.pairs if p.request not in settled}
        for plan in (one, two)
    ]
    if named[0] == named[1]:
        return ()
    return tuple(
        PairDifference(*key, *(pairs.get(key, "no") for pairs in named))
        for key in sorted(named[0].keys() | named[1].keys())
        if named[0].get(key) != named[1].get(key)
    )
