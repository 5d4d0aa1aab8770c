"""A pipeline stage without attention of the target's own reports no heads, and is paired all the same."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import POSITIONAL, Entry, Refuses
from differential.ledger.legacy.heads import reported_heads
from differential.ledger.legacy.sides import legacy_stage_pairs
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None or not any(group.is_paged for group in case.model.groups):
        return False
    return any(
        not reported_heads(case, "context", source) or not reported_heads(case, "generation", destination)
        for source, destination in legacy_stage_pairs(case)
    )


ENTRY = Entry(
    name="stage-without-attention",
    summary="a stage without attention reports no heads: the duplication factor divides by zero, a latent is refused",
    reference="spec: legacy sender, 7.6 and 7.13",
    component="legacy duplication factor and compatibility check",
    second=(POSITIONAL,),
    form=Refuses(SECOND, ("crash: division by zero", "latent_heads_not_one"), covers),
    look_again=date(2027, 6, 1),
)
