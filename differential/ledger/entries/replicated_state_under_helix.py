"""The Helix gap: replicated recurrent state reaches only receivers whose grid partner is elected among tensor ranks."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import HELIX, Bytes, Entry
from differential.ledger.legacy.sides import election_key, is_helix, stage_of, tensor_size
from differential.runner import Kind, Violation
from oracle.model.case import Case


def is_left_out(case: Case, request: int, destination: int, group: int, layer: int, role: str) -> bool:
    """Whether no sender that the state grid pairs with ``destination`` wins the election among tensor ranks."""
    if case.native is None or case.model.groups[group].is_paged or not is_helix(case):
        return False
    if case.native.mapper_of(role) != "replicated" or role in case.native.ignored:
        return False
    if not any(buffer.role == role and layer in buffer.layers for buffer in case.model.groups[group].buffers):
        return False
    senders, topology = tensor_size(case.context), case.generation.topology
    rank = topology.rank(destination)
    receivers = topology.tp * topology.cp
    place = rank.tp * topology.cp + rank.cp
    if receivers % senders and senders % receivers:
        return False
    # Ranks of either grid that cover the same part of the finer one.
    paired = [
        sender
        for sender in range(senders)
        if sender * receivers < (place + 1) * senders and place * senders < (sender + 1) * receivers
    ]
    ratio = max(1, senders // tensor_size(case.generation))
    elected = election_key(case, case.requests[request]) % ratio
    return all(sender % ratio != elected for sender in paired)


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.group is None or difference.layer is None or difference.role is None or difference.request is None:
        return False
    if difference.second_senders or len(difference.first_senders) != 1 or difference.right != FIRST:
        return False
    if case.context.topology.rank(difference.first_senders[0]).pp != stage_of(case.context, difference.layer):
        return False
    place = difference.request, difference.destination, difference.group, difference.layer, difference.role
    return is_left_out(case, *place)


def explains(case: Case, violation: Violation) -> bool:
    place = violation.request, violation.destination, violation.group, violation.layer, violation.role
    if violation.kind is not Kind.MISSING or None in place:
        return False
    return is_left_out(case, *place)  # type: ignore[arg-type]


ENTRY = Entry(
    name="replicated-state-under-helix",
    summary="replicated recurrent state is elected among tensor ranks, but only grid partners send: some get none",
    reference="report B47; spec: legacy sender, 7.1",
    component="legacy election of replicated state",
    second=HELIX,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
