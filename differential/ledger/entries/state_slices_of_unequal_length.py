"""State layers in other orders on the two sides, of which one slice ends early: the copy fails."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.sides import legacy_stage_pairs
from differential.ledger.legacy.state import slices
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None or case.native is None:
        return False
    there, here = case.context.topology, case.generation.topology
    for source, destination in legacy_stage_pairs(case):
        for group, declared in enumerate(case.model.groups):
            for role in {buffer.role for buffer in declared.buffers} if not declared.is_paged else ():
                # Ranks of one stage are packed alike, and the first ones of either side are partners.
                taken = slices(case, there.number(source, 0, 0), here.number(destination, 0, 0), group, role)
                if taken is not None and len(taken[0]) != len(taken[1]):
                    return True
    return False


ENTRY = Entry(
    name="state-slices-of-unequal-length",
    summary="shared state layers are taken to be consecutive in both slots: where one slot ends first, nothing is sent",
    reference="spec: legacy sender, 5 (state pointers) and 7.7",
    component="legacy state mapper",
    second=NATIVE,
    form=Refuses(SECOND, ("crash: state pointers of unequal length",), covers),
    look_again=date(2027, 6, 1),
)
