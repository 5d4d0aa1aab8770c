"""HND on one side and NHD on the other: the same axes in another order, which the legacy sender cannot copy."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.views import token_major
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None:
        return False
    return any(
        token_major(case, "context", buffer) != token_major(case, "generation", buffer)
        for group in case.model.groups
        if group.is_paged
        for buffer in group.buffers
    )


ENTRY = Entry(
    name="head-major-and-token-major",
    summary="K/V head-major on one side and token-major on the other: two mapper kinds, refused",
    reference="spec: legacy sender, 3.8; report B29",
    component="legacy view mapping",
    second=NATIVE,
    form=Refuses(SECOND, ("mapper_kinds_differ",), covers),
    look_again=date(2027, 6, 1),
)
