"""Heads that do not share out evenly: written twice, or another one, by senders that count too many heads."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import NATIVE, Bytes, Entry
from differential.ledger.legacy.heads import arrives_so, arrives_wrong, counts_of_others, is_uneven
from differential.runner import Violation
from oracle.model.case import Case


def applies(case: Case, destination: int | None, layer: int | None) -> bool:
    """Whether the layer's heads do not share out evenly, and are those that both ranks report."""
    return is_uneven(case, layer) and not counts_of_others(case, destination, layer)


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.right != FIRST or not applies(case, difference.destination, difference.layer):
        return False
    return arrives_so(case, difference)


def explains(case: Case, violation: Violation) -> bool:
    return applies(case, violation.destination, violation.layer) and arrives_wrong(case, violation)


ENTRY = Entry(
    name="uneven-heads",
    summary="heads that do not divide evenly are not refused: some are written twice, and some ranks get another head",
    reference="spec: legacy sender, 7.3",
    component="legacy head offsets and duplication factor",
    second=NATIVE,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
