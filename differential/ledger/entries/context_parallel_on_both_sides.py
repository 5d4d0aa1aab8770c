"""Context parallelism on both sides, where the mapping can serve it."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import HELIX, Entry, Refuses
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    return difference.request is None and min(case.context.topology.cp, case.generation.topology.cp) > 1


ENTRY = Entry(
    name="context-parallel-on-both-sides",
    summary="one side must have context-parallel size 1, else the pair is refused",
    reference="spec: legacy sender, 3.1",
    component="legacy compatibility check",
    second=HELIX,
    form=Refuses(SECOND, ("context_parallel_unsupported",), covers),
    look_again=date(2027, 6, 1),
)
