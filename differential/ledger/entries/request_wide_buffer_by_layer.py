"""A buffer of the whole request is known by the layer that holds it: on a stage that begins elsewhere it is another."""

from __future__ import annotations

from datetime import date

from differential.compare import BOTH, FIRST, ByteDifference
from differential.ledger.entry import NATIVE, Bytes, Entry
from differential.ledger.legacy.sides import asked_ranks, election_key, tensor_size
from differential.ledger.legacy.views import holding_layer, is_request_wide, lacks_partner
from differential.runner import Kind, Violation
from oracle.model.case import Case


def holders(case: Case, request: int, destination: int, group: int, role: str) -> dict[int, int]:
    """Layers under which the ranks that ``destination`` asks hold the buffer, by rank."""
    asked = [rank.number for rank in asked_ranks(case, case.requests[request], destination)]
    found = {rank: holding_layer(case, "context", rank, group, role) for rank in asked}
    return {rank: layer for rank, layer in found.items() if layer is not None}


def senders(case: Case, request: int, destination: int, group: int, role: str) -> tuple[int, ...]:
    """Ranks that hold the buffer under the receiver's own layer, have it in a like view, and are elected for it."""
    layer = holding_layer(case, "generation", destination, group, role)
    copies = max(1, tensor_size(case.context) // tensor_size(case.generation))
    key = election_key(case, case.requests[request])
    topology = case.context.topology
    return tuple(
        rank
        for rank, own in holders(case, request, destination, group, role).items()
        if own == layer
        and not lacks_partner(case, rank, destination, group, own, role)
        and (0 if topology.attention_dp else topology.rank(rank).tp) % copies == key % copies
    )


def is_under_another_layer(case: Case, request: int, destination: int, group: int, role: str) -> bool:
    """Whether a rank that ``destination`` asks holds the replicated request-wide ``role`` under another layer."""
    if not is_request_wide(case, group, role) or case.native is None or case.native.mapper_of(role) != "replicated":
        return False
    layer = holding_layer(case, "generation", destination, group, role)
    return any(own != layer for own in holders(case, request, destination, group, role).values())


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.request is None or difference.group is None or difference.role is None:
        return False
    if len(difference.first_senders) != 1 or difference.right not in (FIRST, BOTH):
        return False
    place = difference.request, difference.destination, difference.group, difference.role
    if not is_under_another_layer(case, *place) or difference.second_senders != senders(case, *place):
        return False
    # What the owner has under the receiver's layer is left out for another reason.
    own = holders(case, *place).get(difference.first_senders[0])
    is_same = own == holding_layer(case, "generation", *place[1:])
    return own is not None and (bool(difference.second_senders) or not is_same)


def explains(case: Case, violation: Violation) -> bool:
    place = violation.request, violation.destination, violation.group, violation.role
    if violation.kind is not Kind.MISSING or None in place:
        return False
    return is_under_another_layer(case, *place) and not senders(case, *place)  # type: ignore[arg-type]


ENTRY = Entry(
    name="request-wide-buffer-by-layer",
    summary="a role of the whole request is paired by the layer that holds it: under another one it is not sent",
    reference="spec: legacy sender, 6.1, step 1; spec: kinds, hot spot 3 and decision 1",
    component="legacy view mapping",
    second=NATIVE,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
