"""A due block that the sender no longer holds: a list may lack blocks, so nobody refuses."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.managers.tables import gather_facts
from differential.runner import Kind, Violation
from oracle.model.case import Case


def is_lost(case: Case, request: int, group: int, ordinal: int) -> bool:
    """Whether some rank of the context side has the group of the request, and none lists this block."""
    tables = [rank.blocks[request, group] for rank in gather_facts(case).context if (request, group) in rank.blocks]
    found = False
    for table in tables:
        place, rest = divmod(ordinal - table.first, table.stride)
        if not rest and 0 <= place < len(table.slots) and table.slots[place] >= 0:
            return False
        found = True
    return found


def covers(case: Case, difference: RefusalDifference) -> bool:
    request = difference.request
    if request is None:
        return False
    blocks = -(-case.requests[request].prompt // case.context.tokens_per_block)
    return any(
        is_lost(case, request, group, ordinal)
        for group, declared in enumerate(case.model.groups)
        if declared.is_paged
        for ordinal in range(blocks)
    )


def explains(case: Case, violation: Violation) -> bool:
    place = violation.request, violation.group, violation.ordinal
    if violation.kind is not Kind.MISSING or None in place:
        return False
    return is_lost(case, *place)  # type: ignore[arg-type]


ENTRY = Entry(
    name="lost-block-is-not-noticed",
    summary="the sender's list lacks a block that is due: it goes on without the block instead of refusing",
    reference="spec: blocks, decisions (a lost due block has one right answer); spec: legacy sender, 6.2",
    component="legacy block alignment",
    second=NATIVE,
    form=Refuses(FIRST, ("block_lost",), covers, explains),
    look_again=date(2027, 6, 1),
)
