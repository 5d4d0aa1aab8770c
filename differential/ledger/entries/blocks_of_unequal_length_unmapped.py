"""Blocks of unequal length whose views have no partner: with nothing to copy, nothing notices."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entries.other_roles_in_a_view import explains as is_left_out
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.sides import divides
from differential.ledger.legacy.views import views
from differential.runner import Kind, Violation
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    sizes = case.context.tokens_per_block, case.generation.tokens_per_block
    if difference.request is not None or sizes[0] == sizes[1] or not divides(*sizes):
        return False
    roles = [
        {
            (group, frozenset(role for _, role in view))
            for rank in range(case.side(side).topology.size)
            for group, declared in enumerate(case.model.groups)
            if declared.is_paged
            for view in views(case, side, rank, group)
        }
        for side in ("context", "generation")
    ]
    return roles[0].isdisjoint(roles[1])


def explains(case: Case, violation: Violation) -> bool:
    """Whether a block was left out; or state was copied, which between two instances of such blocks is no element."""
    if violation.kind is Kind.WRONG_ELEMENT and violation.group is not None and violation.found is None:
        return not case.model.groups[violation.group].is_paged
    return is_left_out(case, violation)


ENTRY = Entry(
    name="blocks-of-unequal-length-unmapped",
    summary="block lengths that divide are let pass, and only a copy would refuse them: without partners there is none",
    reference="spec: legacy sender, 7.9 and 6.1",
    component="legacy compatibility check",
    second=NATIVE,
    form=Refuses(FIRST, ("tokens_per_block_differ",), covers, explains),
    look_again=date(2027, 6, 1),
)
