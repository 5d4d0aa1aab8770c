"""Buffers that share a pool on one side and not on the other have no partner view, and are left out without a word."""

from __future__ import annotations

from datetime import date

from differential.compare import BOTH, FIRST, ByteDifference
from differential.ledger.entry import NATIVE, Bytes, Entry
from differential.ledger.legacy.views import holding_layer, is_request_wide, lacks_partner
from differential.runner import Kind, Violation
from oracle.model.case import Case


def covers(case: Case, difference: ByteDifference) -> bool:
    if case.native is None or difference.group is None or difference.role is None:
        return False
    if difference.second_senders or len(difference.first_senders) != 1 or difference.right not in (FIRST, BOTH):
        return False
    layer = difference.layer
    if layer is None and is_request_wide(case, difference.group, difference.role):
        layer = holding_layer(case, "generation", difference.destination, difference.group, difference.role)
    if layer is None:
        return False
    place = difference.destination, difference.group, layer, difference.role
    return lacks_partner(case, difference.first_senders[0], *place)


def explains(case: Case, violation: Violation) -> bool:
    place = violation.destination, violation.group, violation.layer, violation.role
    if case.native is None or violation.kind is not Kind.MISSING or None in place:
        return False
    # Of the paired ranks those of one stage hold the buffer, all packed alike.
    return any(lacks_partner(case, source, *place) for source in violation.paired)  # type: ignore[arg-type]


ENTRY = Entry(
    name="other-roles-in-a-view",
    summary="a view goes to a view of the same roles or nowhere: packed otherwise on the two sides, nothing is sent",
    reference="spec: legacy sender, 6.1, step 1; spec: mapping (coalesced on one side, separate on the other)",
    component="legacy view mapping",
    second=NATIVE,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
