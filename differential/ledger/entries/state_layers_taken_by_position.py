"""State layers in other orders on the two sides: layers land on others' places, twice or not at all."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import NATIVE, Bytes, Entry
from differential.ledger.legacy.sides import stage_of
from differential.ledger.legacy.state import grid_partners, read_layers, shared_state
from differential.runner import Kind, Violation
from oracle.model.case import Case


def covers(case: Case, difference: ByteDifference) -> bool:
    buffer = shared_state(case, difference.group, difference.role)
    if buffer is None or difference.layer not in buffer.layers.ids or difference.request is None:
        return False
    if difference.right != FIRST or len(difference.first_senders) != 1:
        return False
    assert difference.group is not None and difference.layer is not None
    owner = case.context.topology.rank(difference.first_senders[0])
    request, layer = case.requests[difference.request], difference.layer
    found = read_layers(case, request, difference.destination, difference.group, layer, buffer.role)
    if owner.pp != stage_of(case.context, layer) or [own for _, own in found] == [layer]:
        return False
    if len({rank.tp for rank, _ in found}) > 1:
        # Several partners have a part each: that of the owner is written by those at its place.
        found = [(rank, own) for rank, own in found if rank.tp == owner.tp]
    return difference.second_senders == tuple(sorted({rank.number for rank, _ in found}))


def explains(case: Case, violation: Violation) -> bool:
    """Whether the layer is one that nothing, several layers, or another one is copied to."""
    buffer, layer = shared_state(case, violation.group, violation.role), violation.layer
    if buffer is None or layer is None or violation.request is None or violation.destination is None:
        return False
    assert violation.group is not None
    request, destination = case.requests[violation.request], violation.destination
    if not grid_partners(case, request, destination, stage_of(case.context, layer)):
        return False
    found = read_layers(case, request, destination, violation.group, layer, buffer.role)
    places = [rank.tp for rank, _ in found]
    return {
        Kind.MISSING: not found,
        Kind.DUPLICATE: len(set(places)) < len(places),
        Kind.WRONG_ELEMENT: any(own != layer for _, own in found),
    }.get(violation.kind, False)


ENTRY = Entry(
    name="state-layers-taken-by-position",
    summary="shared state layers are taken to be consecutive in both slots: other layers are read, or other ones hit",
    reference="spec: legacy sender, 5 (state pointers) and 7.7",
    component="legacy state mapper",
    second=NATIVE,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
