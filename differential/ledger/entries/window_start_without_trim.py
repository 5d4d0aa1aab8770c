"""Suffix lists: a sender that lists more than the window has its start raised and its list left as it is."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import SUFFIX, WITHOUT_HELIX, Bytes, Entry
from differential.ledger.legacy.lists import is_misplaced, is_of_another_block
from differential.managers.tables import gather_facts
from differential.runner import Kind, Violation
from oracle.model.case import Case


def is_shifted(case: Case, request: int | None, group: int | None, destination: int | None) -> bool:
    """Whether a context rank lists more blocks than are in the window, and more of them than the receiver does.

    Beyond the window are blocks that it has left and that the sender keeps, and sinks.
    """
    if request is None or group is None or destination is None or case.model.groups[group].window is None:
        return False
    facts = gather_facts(case)
    own = facts.generation[destination].blocks.get((request, group))
    if own is None:
        return False
    block, tokens = case.context.tokens_per_block, case.requests[request].tokens(case.model.groups[group].length)
    stale = max(0, (tokens + 1 - case.model.groups[group].window) // block)
    in_window = -(-tokens // block) - stale

    def beyond(listed: int) -> int:
        return max(0, listed - in_window)

    offered = [rank.blocks[request, group] for rank in facts.context if (request, group) in rank.blocks]
    # A context-parallel receiver is offered every stride-th entry of the sender's list.
    counts = [len(range(own.first, int((table.slots >= 0).sum()), own.stride)) for table in offered]
    return any(beyond(count) > beyond(int((own.slots >= 0).sum())) for count in counts)


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.right != FIRST or not is_misplaced(case, difference):
        return False
    return is_shifted(case, difference.request, difference.group, difference.destination)


def explains(case: Case, violation: Violation) -> bool:
    if not is_shifted(case, violation.request, violation.group, violation.destination):
        return False
    if violation.due is not None and violation.found is not None and violation.found.ordinal >= violation.due.ordinal:
        return False
    return violation.kind is not Kind.MISSING and is_of_another_block(case, violation)


ENTRY = Entry(
    name="window-start-without-trim",
    summary="one listed block more than the window reaches, and every block of the group lands one position off",
    reference="spec: legacy sender, 7.8; spec: blocks, I4",
    component="legacy suffix alignment",
    second=(SUFFIX, WITHOUT_HELIX),
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
