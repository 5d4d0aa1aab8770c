"""Helix receivers of which some own no block."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import HELIX, Entry, Refuses
from differential.ledger.legacy.sides import is_helix
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is None or not is_helix(case):
        return False
    owned = case.generation.topology.cp - 1
    return case.requests[difference.request].prompt <= owned * case.generation.tokens_per_block


ENTRY = Entry(
    name="fewer-blocks-than-context-parallel",
    summary="a prompt with fewer blocks than context-parallel ranks is refused, where empty ranks could take part",
    reference="spec: legacy sender, 4.4; spec: blocks, decision 6; report B42",
    component="legacy request partition",
    second=HELIX,
    form=Refuses(SECOND, ("fewer_blocks_than_context_parallel",), covers),
    look_again=date(2027, 6, 1),
)
