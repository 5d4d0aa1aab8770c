"""Layers that share a view on the sender and not on the receiver: the first view that fits is taken for all of them."""

from __future__ import annotations

from datetime import date

from differential.compare import BOTH, FIRST, ByteDifference
from differential.ledger.entry import NATIVE, Bytes, Entry
from differential.ledger.legacy.views import is_in_a_later_view
from differential.runner import Kind, Violation
from oracle.model.case import Case


def covers(case: Case, difference: ByteDifference) -> bool:
    place = difference.group, difference.layer, difference.role
    if case.native is None or None in place or difference.right not in (FIRST, BOTH):
        return False
    if difference.second_senders or len(difference.first_senders) != 1:
        return False
    return is_in_a_later_view(case, difference.first_senders[0], difference.destination, *place)  # type: ignore[arg-type]


def explains(case: Case, violation: Violation) -> bool:
    place = violation.destination, violation.group, violation.layer, violation.role
    if case.native is None or violation.kind is not Kind.MISSING or None in place:
        return False
    # Of the paired ranks those of one stage hold the buffer, all packed alike.
    return any(is_in_a_later_view(case, source, *place) for source in violation.paired)  # type: ignore[arg-type]


ENTRY = Entry(
    name="view-split-on-the-receiver",
    summary="a view has one partner, the first that fits: its layers that are in another view there are not sent",
    reference="spec: legacy sender, 6.1, step 1; spec: kinds, hot spot 1 (equal sizes by accident)",
    component="legacy view mapping",
    second=NATIVE,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
