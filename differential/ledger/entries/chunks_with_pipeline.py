"""A prefill sent in chunks by a context side of several pipeline stages."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import POSITIONAL, Entry, Refuses
from differential.ledger.legacy.sides import chunk_count
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is None or case.context.topology.pp == 1:
        return False
    return chunk_count(case, case.requests[difference.request]) > 1


ENTRY = Entry(
    name="chunks-with-pipeline",
    summary="chunks do not go with pipeline stages on the sending side: refused",
    reference="spec: legacy sender, 6.4; spec: blocks, chunked prefill",
    component="legacy request check",
    second=(POSITIONAL,),
    form=Refuses(SECOND, ("chunks_with_pipeline",), covers),
    look_again=date(2027, 6, 1),
)
