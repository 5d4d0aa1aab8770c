"""Two plans of one case: equal, or the exact bytes, pairs and refusals in which they differ.

Order and cutting of runs do not count: the set of (source byte, destination byte) does. Pairs are
compared apart from bytes.
"""

from __future__ import annotations

from differential.compare.differences import compare_bytes, written_runs
from differential.compare.records import (
    BOTH,
    FIRST,
    NEITHER,
    SECOND,
    ByteDifference,
    Comparison,
    Difference,
    PairDifference,
    RefusalDifference,
)
from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes
from oracle.truth.elements import truth_of

__all__ = [
    "BOTH",
    "FIRST",
    "NEITHER",
    "SECOND",
    "ByteDifference",
    "Comparison",
    "Difference",
    "PairDifference",
    "RefusalDifference",
    "compare",
]


def compare(
    case: Case,
    first: Writes | Refusal,
    second: Writes | Refusal,
    *,
    names: tuple[str, str] = (FIRST, SECOND),
) -> Comparison:
    """Compare two plans of ``case``. Where both refuse, whatever the reasons, they do not differ.

    What only one of them refuses is a difference, and nothing else is said of it: there are no
    bytes to compare.
    """
    one, two = _as_writes(first), _as_writes(second)
    refusals, settled = _compare_refusals(case, one, two)
    if len(settled) == len(case.requests):
        return Comparison(*names, refusals=refusals)
    truth = truth_of(case)
    pairs = _compare_pairs(one, two, settled)
    runs = [written_runs(truth, writes, settled) for writes in (one, two)]
    if runs[0].shape == runs[1].shape and bool((runs[0] == runs[1]).all()):
        return Comparison(*names, pairs=pairs, refusals=refusals)
    return Comparison(*names, compare_bytes(truth, runs[0], runs[1]), pairs, refusals)


def _as_writes(plan: Writes | Refusal) -> Writes:
    return Writes(refusals=(plan,)) if isinstance(plan, Refusal) else plan


def _compare_refusals(case: Case, one: Writes, two: Writes) -> tuple[tuple[RefusalDifference, ...], frozenset[int]]:
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


def _compare_pairs(one: Writes, two: Writes, settled: frozenset[int]) -> tuple[PairDifference, ...]:
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
