"""The oldest generation knows no context parallelism at all."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import WITHOUT_HELIX, Entry, Refuses
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    return difference.request is None and max(case.context.topology.cp, case.generation.topology.cp) > 1


ENTRY = Entry(
    name="any-context-parallelism",
    summary="before Helix, context parallelism on either side is refused",
    reference="spec: legacy sender, 3.1",
    component="legacy compatibility check",
    second=(WITHOUT_HELIX,),
    form=Refuses(SECOND, ("context_parallel_unsupported",), covers),
    look_again=date(2027, 6, 1),
)
