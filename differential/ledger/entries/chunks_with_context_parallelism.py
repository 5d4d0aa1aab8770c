"""A prefill sent in chunks to or from context-parallel ranks."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import HELIX, Entry, Refuses
from differential.ledger.legacy.sides import chunk_count
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is None or max(case.context.topology.cp, case.generation.topology.cp) == 1:
        return False
    return chunk_count(case, case.requests[difference.request]) > 1


ENTRY = Entry(
    name="chunks-with-context-parallelism",
    summary="chunks do not go with context parallelism on either side: refused",
    reference="spec: legacy sender, 6.4; spec: blocks, chunked prefill; report B45",
    component="legacy request check",
    second=HELIX,
    form=Refuses(SECOND, ("context_parallel_unsupported",), covers),
    look_again=date(2027, 6, 1),
)
