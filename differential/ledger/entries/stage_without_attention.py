"""A pipeline stage without attention reports no heads, and is paired all the same."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import POSITIONAL, Entry, Refuses
from differential.ledger.legacy.sides import legacy_stage_pairs, stages
from oracle.model.case import Case
from oracle.model.instance import Instance


def bare_stages(case: Case, instance: Instance) -> frozenset[int]:
    """Stages that hold no layer with paged buffers."""
    paged = {layer for group in case.model.groups if group.is_paged for layer in group.layers}
    return frozenset(stage for stage, first, end in stages(instance) if paged.isdisjoint(range(first, end)))


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None or not any(group.is_paged for group in case.model.groups):
        return False
    there, here = bare_stages(case, case.context), bare_stages(case, case.generation)
    return any(source in there or destination in here for source, destination in legacy_stage_pairs(case))


ENTRY = Entry(
    name="stage-without-attention",
    summary="a stage without attention reports no heads: the duplication factor divides by zero, a latent is refused",
    reference="spec: legacy sender, 7.6 and 7.13",
    component="legacy duplication factor and compatibility check",
    second=(POSITIONAL,),
    form=Refuses(SECOND, ("crash: division by zero", "latent_heads_not_one"), covers),
    look_again=date(2027, 6, 1),
)
