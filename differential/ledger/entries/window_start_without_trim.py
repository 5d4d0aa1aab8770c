"""Suffix lists: a sender that lists more than the window has its start raised and its list left as it is."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import SUFFIX, WITHOUT_HELIX, Bytes, Entry
from differential.managers.tables import gather_facts
from differential.runner import Kind, Violation
from oracle.model.case import Case


def is_shifted(case: Case, request: int | None, group: int | None) -> bool:
    """Whether a context rank lists blocks of a windowed group that its window has left, and a receiver does not."""
    if request is None or group is None or case.model.groups[group].window is None:
        return False
    facts = gather_facts(case)
    block, tokens = case.context.tokens_per_block, case.requests[request].prompt
    stale = max(0, (tokens + 1 - case.model.groups[group].window) // block)

    def lists_stale(ranks: object) -> list[bool]:
        tables = [rank.blocks[request, group] for rank in ranks if (request, group) in rank.blocks]  # type: ignore[attr-defined]
        return [bool((table.slots[:stale] >= 0).any()) for table in tables]

    return any(lists_stale(facts.context)) and not all(lists_stale(facts.generation))


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.right != FIRST or len(difference.first_senders) != 1:
        return False
    if difference.first_senders != difference.second_senders or difference.ordinal is None or difference.layer is None:
        return False
    return is_shifted(case, difference.request, difference.group) and holds(case, difference)


def holds(case: Case, difference: ByteDifference) -> bool:
    """Whether the group has such a buffer on the layer."""
    assert difference.group is not None and difference.layer is not None
    buffers = case.model.groups[difference.group].buffers
    return any(each.role == difference.role and difference.layer in each.layers for each in buffers)


def explains(case: Case, violation: Violation) -> bool:
    if violation.kind is not Kind.WRONG_ELEMENT or violation.due is None or violation.found is None:
        return False
    earlier = violation.found.ordinal < violation.due.ordinal and violation.found.role == violation.due.role
    return earlier and is_shifted(case, violation.request, violation.group)


ENTRY = Entry(
    name="window-start-without-trim",
    summary="one listed block more than the window reaches, and every block of the group lands one position off",
    reference="spec: legacy sender, 7.8; spec: blocks, I4",
    component="legacy suffix alignment",
    second=(SUFFIX, WITHOUT_HELIX),
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
