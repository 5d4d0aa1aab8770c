"""A context-parallel sender and a whole receiver: of suffix lists too, only the other direction is known."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import SUFFIX, Entry, Refuses
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    return difference.request is not None and case.context.topology.cp > 1 and case.generation.topology.cp == 1


ENTRY = Entry(
    name="context-parallel-sender-of-suffixes",
    summary="a sender that holds every cp-th block lists fewer blocks than its receiver: refused",
    reference="spec: legacy sender, 4.4 and 6.3",
    component="legacy block alignment",
    second=(SUFFIX,),
    form=Refuses(SECOND, ("destination_lists_more_blocks_than_source",), covers),
    look_again=date(2027, 6, 1),
)
