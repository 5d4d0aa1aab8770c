"""Two plans of one case: equal, or the exact bytes, pairs and refusals in which they differ.

Order and cutting of runs do not count: the set of (source byte, destination byte) does. Pairs are
compared apart from bytes. What only a sender with an election of its own brings is passed over.
"""

from __future__ import annotations

from differential.compare.differences import compare_bytes, written_runs
from differential.compare.plans import as_writes, compare_pairs, compare_refusals
from differential.compare.records import (
    BOTH,
    FIRST,
    NEITHER,
    SECOND,
    UNKNOWN,
    ByteDifference,
    Comparison,
    Difference,
    PairDifference,
    RefusalDifference,
    Unsaid,
)
from differential.compare.unsaid import Encodings, carry_tails, set_apart
from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes
from oracle.truth.elements import truth_of

__all__ = [
    "BOTH",
    "FIRST",
    "NEITHER",
    "SECOND",
    "UNKNOWN",
    "ByteDifference",
    "Comparison",
    "Difference",
    "PairDifference",
    "RefusalDifference",
    "Unsaid",
    "compare",
]


def compare(
    case: Case,
    first: Writes | Refusal,
    second: Writes | Refusal,
    *,
    names: tuple[str, str] = (FIRST, SECOND),
    encodings: Encodings = ("tables", "tables"),
) -> Comparison:
    """Compare two plans of ``case``. Where both refuse, whatever the reasons, they do not differ.

    What only one of them refuses is a difference, and nothing else is said of it: there are no
    bytes to compare. ``encodings``: how block lists reached the two; what one of them rightly could not
    say is no difference.
    """
    one, two = as_writes(case, first), as_writes(case, second)
    refusals, settled = compare_refusals(case, one, two)
    if len(settled) == len(case.requests):
        return set_apart(case, Comparison(*names, refusals=refusals), encodings)
    truth = truth_of(case, with_tails=carry_tails(encodings))
    pairs = compare_pairs(one, two, settled)
    runs = [written_runs(truth, writes, settled) for writes in (one, two)]
    if runs[0].shape == runs[1].shape and bool((runs[0] == runs[1]).all()):
        return set_apart(case, Comparison(*names, pairs=pairs, refusals=refusals), encodings)
    found = Comparison(*names, compare_bytes(truth, runs[0], runs[1]), pairs, refusals)
    return set_apart(case, found, encodings)
