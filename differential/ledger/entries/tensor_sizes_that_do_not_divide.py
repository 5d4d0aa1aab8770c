"""Tensor sizes of which neither divides the other: the legacy sender serves them, wrongly."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.heads import arrivals, heads_of, is_head_split
from differential.ledger.legacy.sides import (
    asked_ranks,
    asked_tensor_ranks,
    divides,
    election_key,
    stage_of,
    tensor_size,
)
from differential.ledger.legacy.state import grid_partners, shared_state
from differential.runner import Kind, Violation
from oracle.model.case import Case, Request
from oracle.model.sides import lay_out


def applies(case: Case) -> bool:
    return not divides(tensor_size(case.context), tensor_size(case.generation))


def covers(case: Case, difference: RefusalDifference) -> bool:
    return applies(case) and difference.request is None


def explains(case: Case, violation: Violation) -> bool:
    """Whether this happens where tensor ranks are paired by whole ratios: absent senders, shifted heads, overruns."""
    if not applies(case) or violation.request is None or violation.destination is None or violation.group is None:
        return False
    request = case.requests[violation.request]
    if violation.kind is Kind.UNPAIRED_SENDER:
        return any(rank.number == violation.source for rank in asked_ranks(case, request, violation.destination))
    if not case.model.groups[violation.group].is_paged:
        return violation.kind is Kind.MISSING and not _state_senders(case, request, violation)
    if violation.layer is None:
        return violation.kind is Kind.OUT_OF_BOUNDS and _overflows(case, violation)
    stage = stage_of(case.context, violation.layer)
    heads = heads_of(case, violation.layer)
    head = None if violation.due is None else dict(violation.due.indices).get("H")
    if heads is None or (violation.due is not None and head is None):
        # A latent, or another buffer that every rank holds whole: those who win the election send it, if they exist.
        copies = max(1, tensor_size(case.context) // tensor_size(case.generation))
        asked = asked_tensor_ranks(case, request, violation.destination, stage)
        winners = [rank for rank in asked if rank % copies == election_key(case, request) % copies]
        if {Kind.MISSING: not winners, Kind.DUPLICATE: len(winners) > 1}.get(violation.kind, False):
            return True
        return violation.kind in (Kind.DUPLICATE, Kind.WRONG_ELEMENT) and _is_run_over(case, violation)
    found = arrivals(case, request, violation.destination, violation.layer)
    if violation.kind is Kind.STRAY or found.overflows:
        return found.overflows
    return head in found.heads and found.heads[head].goes_wrong(violation.kind)


def _state_senders(case: Case, request: Request, violation: Violation) -> list[int]:
    """Tensor ranks that send the missing state: those asked whose share it is; of replicated state, the elected."""
    assert violation.destination is not None and violation.layer is not None and violation.role is not None
    stage = stage_of(case.context, violation.layer)
    partners = [rank.tp for rank in grid_partners(case, request, violation.destination, stage)]
    if shared_state(case, violation.group, violation.role) is not None:
        return partners
    copies = max(1, tensor_size(case.context) // tensor_size(case.generation))
    return [rank for rank in partners if rank % copies == election_key(case, request) % copies]


def _is_run_over(case: Case, violation: Violation) -> bool:
    """Whether the buffer shares a pool of its rank with heads that run past the end of theirs."""
    assert violation.destination is not None
    entries = lay_out(case, "generation").tables[violation.destination].entries
    pools = {
        entry.pool
        for entry in entries
        if (entry.group, entry.layer, entry.role) == (violation.group, violation.layer, violation.role)
    }
    beside = any(entry.pool in pools and is_head_split(case, entry.group, entry.role) for entry in entries)
    return beside and _overflows(case, violation)


def _overflows(case: Case, violation: Violation) -> bool:
    """Whether the heads of some layer run past the receiver's, as they do where their shift is counted too large."""
    if violation.request is None or violation.destination is None:
        return False
    request = case.requests[violation.request]
    layers = [layer for layer in range(case.model.layers) if heads_of(case, layer) is not None]
    return any(arrivals(case, request, violation.destination, layer).overflows for layer in layers)


ENTRY = Entry(
    name="tensor-sizes-that-do-not-divide",
    summary="neither tensor size divides the other and nobody refuses: ranks ask ranks that do not exist, heads shift",
    reference="spec: legacy sender, 7.4",
    component="legacy topology overlap",
    second=NATIVE,
    form=Refuses(FIRST, ("fan_undefined",), covers, explains),
    look_again=date(2027, 6, 1),
)
