"""A rank reports the heads of its first layer, and they choose who sends those of its other layers too."""

from __future__ import annotations

from datetime import date

from differential.compare import BOTH, FIRST, ByteDifference
from differential.ledger.entry import NATIVE, Bytes, Entry
from differential.ledger.legacy.heads import arrives_so, arrives_wrong, counts_of_others
from differential.runner import Violation
from oracle.model.case import Case


def covers(case: Case, difference: ByteDifference) -> bool:
    # Rows past the prompt that nobody sends are right in both plans.
    if difference.right not in (FIRST, BOTH) or (difference.right == BOTH and difference.second_senders):
        return False
    return counts_of_others(case, difference.destination, difference.layer) and arrives_so(case, difference)


def explains(case: Case, violation: Violation) -> bool:
    return counts_of_others(case, violation.destination, violation.layer) and arrives_wrong(case, violation)


ENTRY = Entry(
    name="first-head-count-elects",
    summary="the copies of each layer's heads are counted by those of the first layer: some are sent twice, some never",
    reference="spec: legacy sender, 1 (heads of a rank) and 7.6; spec: kinds, hot spot 15",
    component="legacy duplication factor",
    second=NATIVE,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
