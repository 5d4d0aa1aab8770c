"""A prefill sent in chunks by a manager that keeps recurrent state."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import POSITIONAL, Entry, Refuses
from differential.ledger.legacy.sides import chunk_count
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is None or all(group.is_paged or group.native_only for group in case.model.groups):
        return False
    return chunk_count(case, case.requests[difference.request]) > 1


ENTRY = Entry(
    name="chunks-with-state",
    summary="a recurrent-state manager may not send in chunks: refused",
    reference="spec: legacy sender, 6.4",
    component="legacy request check",
    second=(POSITIONAL,),
    form=Refuses(SECOND, ("chunks_with_state",), covers),
    look_again=date(2027, 6, 1),
)
