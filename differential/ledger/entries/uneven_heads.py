"""Heads that do not share out evenly: written twice, or another one, by senders that count too many heads."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import NATIVE, Bytes, Entry
from differential.ledger.legacy.heads import Arrival, arrivals, head_count, is_even, is_head_split
from differential.ledger.legacy.sides import divides, stage_of, tensor_size
from differential.runner import Kind, Violation
from oracle.model.case import Case


def is_uneven(case: Case) -> int | None:
    """The number of heads, if either side cannot share them out evenly though the tensor sizes divide."""
    heads, sizes = head_count(case), (tensor_size(case.context), tensor_size(case.generation))
    if heads is None or not divides(*sizes) or all(is_even(heads, ranks) for ranks in sizes):
        return None
    return heads


def arrival(
    case: Case, request: int | None, destination: int | None, layer: int | None, head: int, heads: int
) -> Arrival | None:
    """What arrives of one head of one layer; None if that is not known."""
    if request is None or destination is None or layer is None:
        return None
    found = arrivals(case, case.requests[request], destination, stage_of(case.context, layer), heads)
    return None if found.overflows else found.heads.get(head)


def covers(case: Case, difference: ByteDifference) -> bool:
    heads = is_uneven(case)
    if heads is None or not difference.heads or not is_head_split(case, difference.group, difference.role):
        return False
    if difference.layer is None or difference.right != FIRST:
        return False
    stage = stage_of(case.context, difference.layer)

    def is_predicted(head: int) -> bool:
        found = arrival(case, difference.request, difference.destination, difference.layer, head, heads)
        if found is None or found.as_due or found.owner is None:
            return False
        senders = tuple(sorted({case.context.topology.number(stage, rank, 0) for rank, _ in found.written}))
        owner = case.context.topology.number(stage, found.owner, 0)
        return difference.first_senders == (owner,) and difference.second_senders == senders

    return case.context.topology.cp == 1 and all(map(is_predicted, difference.heads))


def explains(case: Case, violation: Violation) -> bool:
    """Whether this is how the due head's bytes arrive: not at all, more than once, or those of another head."""
    heads = is_uneven(case)
    if heads is None or violation.due is None or not is_head_split(case, violation.group, violation.role):
        return False
    head = dict(violation.due.indices)["H"]
    found = arrival(case, violation.request, violation.destination, violation.layer, head, heads)
    if found is None:
        return False
    return {
        Kind.MISSING: not found.written,
        Kind.DUPLICATE: len(found.written) > 1,
        Kind.WRONG_ELEMENT: any(head != found.due for _, head in found.written),
    }.get(violation.kind, False)


ENTRY = Entry(
    name="uneven-heads",
    summary="heads that do not divide evenly are not refused: some are written twice, and some ranks get another head",
    reference="spec: legacy sender, 7.3",
    component="legacy head offsets and duplication factor",
    second=NATIVE,
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
