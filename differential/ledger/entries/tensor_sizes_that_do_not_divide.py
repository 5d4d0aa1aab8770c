"""Tensor sizes of which neither divides the other: the legacy sender serves them, wrongly."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.heads import arrivals, head_count
from differential.ledger.legacy.sides import (
    asked_ranks,
    asked_tensor_ranks,
    divides,
    election_key,
    stage_of,
    tensor_size,
)
from differential.runner import Kind, Violation
from oracle.model.case import Case


def applies(case: Case) -> bool:
    return not divides(tensor_size(case.context), tensor_size(case.generation))


def covers(case: Case, difference: RefusalDifference) -> bool:
    return applies(case) and difference.request is None


def explains(case: Case, violation: Violation) -> bool:
    """Whether this happens where tensor ranks are paired by whole ratios: absent senders, shifted heads, overruns."""
    if not applies(case) or violation.request is None or violation.destination is None or violation.group is None:
        return False
    if not case.model.groups[violation.group].is_paged:
        return False
    request = case.requests[violation.request]
    if violation.kind is Kind.UNPAIRED_SENDER:
        return any(rank.number == violation.source for rank in asked_ranks(case, request, violation.destination))
    if violation.layer is None:
        return violation.kind is Kind.OUT_OF_BOUNDS and _overflows(case, violation)
    stage = stage_of(case.context, violation.layer)
    heads = head_count(case)
    head = None if violation.due is None else dict(violation.due.indices).get("H")
    if heads is None or (violation.due is not None and head is None):
        # A latent, or another buffer that every rank holds whole: those who win the election send it, if they exist.
        copies = max(1, tensor_size(case.context) // tensor_size(case.generation))
        asked = asked_tensor_ranks(case, request, violation.destination, stage)
        winners = [rank for rank in asked if rank % copies == election_key(case, request) % copies]
        return {Kind.MISSING: not winners, Kind.DUPLICATE: len(winners) > 1}.get(violation.kind, False)
    found = arrivals(case, request, violation.destination, stage, heads)
    if violation.kind is Kind.STRAY or found.overflows:
        return found.overflows
    if head not in found.heads:
        return False
    written = found.heads[head].written
    return {
        Kind.MISSING: not written,
        Kind.DUPLICATE: len(written) > 1,
        Kind.WRONG_ELEMENT: any(sent != head for _, sent in written),
    }.get(violation.kind, False)


def _overflows(case: Case, violation: Violation) -> bool:
    """Whether the heads of some layer run past the receiver's, as they do where their shift is counted too large."""
    heads = head_count(case)
    if heads is None or violation.request is None or violation.destination is None:
        return False
    request, last = case.requests[violation.request], len(case.context.topology.stages)
    return any(arrivals(case, request, violation.destination, stage, heads).overflows for stage in range(last))


ENTRY = Entry(
    name="tensor-sizes-that-do-not-divide",
    summary="neither tensor size divides the other and nobody refuses: ranks ask ranks that do not exist, heads shift",
    reference="spec: legacy sender, 7.4",
    component="legacy topology overlap",
    second=NATIVE,
    form=Refuses(FIRST, ("fan_undefined",), covers, explains),
    look_again=date(2027, 6, 1),
)
