"""Suffix lists of several context-parallel senders: each takes its own list for the end of the prompt."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import SUFFIX, Bytes, Entry
from differential.ledger.legacy.lists import asked_blocks, sent_for, strided_lists
from differential.runner import Kind, Violation
from oracle.model.case import Case


def pairs_of_ranks(case: Case, request: int | None, group: int | None, destination: int | None) -> dict[int, dict]:
    """What each context-parallel rank of the sender sends, by its coordinate: block of the receiver -> its own block.

    Empty where it is not known, and where the sender is no such one.
    """
    if request is None or group is None or destination is None or not case.model.groups[group].is_paged:
        return {}
    if case.context.topology.cp == 1 or case.generation.topology.cp > 1:
        return {}
    asked = asked_blocks(case, request, group, destination)
    lists = strided_lists(case, request, group)
    return {own: sent_for(case, request, group, listed, asked) for own, listed in lists.items()}


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.right != FIRST or difference.ordinal is None or difference.layer is None:
        return False
    found = pairs_of_ranks(case, difference.request, difference.group, difference.destination)
    buffers = case.model.groups[difference.group].buffers if found else ()  # type: ignore[index]
    if not any(each.role == difference.role and difference.layer in each.layers for each in buffers):
        return False
    topology = case.context.topology
    senders = [
        {topology.rank(rank).cp for rank in ranks if rank < topology.size}
        for ranks in (difference.first_senders, difference.second_senders)
    ]
    if len(difference.first_senders) > 1 or len(difference.second_senders) != len(senders[1]):
        return False
    block, owner = difference.ordinal, difference.ordinal % topology.cp
    assert difference.request is not None and difference.group is not None
    served = block in strided_lists(case, difference.request, difference.group).get(owner, ())
    asked = block in asked_blocks(case, difference.request, difference.group, difference.destination)
    if senders[0] != ({owner} if served and asked else set()):
        return False
    return senders[1] == {own for own, sent in found.items() if block in sent}


def explains(case: Case, violation: Violation) -> bool:
    found = pairs_of_ranks(case, violation.request, violation.group, violation.destination)
    if violation.kind is Kind.MISSING:
        return (
            bool(found)
            and violation.ordinal is not None
            and not any(violation.ordinal in each for each in found.values())
        )
    due, came = violation.due, violation.found
    if not found or due is None or came is None or violation.source is None:
        return False
    if (due.group, due.layer, due.role) != (came.group, came.layer, came.role):
        return False
    sent = found[case.context.topology.rank(violation.source).cp].get(due.ordinal)
    if violation.kind is Kind.DUPLICATE:
        return sent == came.ordinal and sum(due.ordinal in each for each in found.values()) > 1
    return violation.kind is Kind.WRONG_ELEMENT and sent == came.ordinal != due.ordinal


ENTRY = Entry(
    name="suffixes-of-context-parallel-senders",
    summary="a sender that holds every cp-th block takes its list for the end of the prompt: blocks go to other places",
    reference="spec: legacy sender, 4.4 and 6.3",
    component="legacy suffix alignment",
    second=(SUFFIX,),
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
