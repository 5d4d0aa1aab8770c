"""Helix receivers that have whole blocks already."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import POSITIONAL, Entry, Refuses
from differential.ledger.legacy.sides import is_helix
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is None or not is_helix(case):
        return False
    return case.requests[difference.request].generation.cached >= case.generation.tokens_per_block


ENTRY = Entry(
    name="helix-with-reuse",
    summary="a context-parallel receiver that reuses whole blocks is refused",
    reference="spec: legacy sender, 4.4; spec: blocks, decision 6; report B44",
    component="legacy request check",
    second=(POSITIONAL,),
    form=Refuses(SECOND, ("helix_prefix_reuse",), covers),
    look_again=date(2027, 6, 1),
)
