"""Suffix lists under Helix: every cp-th entry is taken from where the list starts, wherever that is in the prompt."""

from __future__ import annotations

from datetime import date

from differential.compare import BOTH, FIRST, ByteDifference
from differential.ledger.entry import SUFFIX, Bytes, Entry
from differential.ledger.legacy.lists import is_misplaced, is_of_another_block, listed_blocks
from differential.ledger.legacy.sides import is_helix
from differential.runner import Violation
from oracle.model.case import Case


def starts_out_of_phase(case: Case, request: int | None, group: int | None, destination: int | None) -> bool:
    """Whether the sender's list begins, sinks not counted, with a block that makes those after it another rank's."""
    if request is None or group is None or destination is None or not is_helix(case):
        return False
    if case.model.groups[group].window is None:
        return False
    size, own = case.generation.topology.cp, case.generation.topology.rank(destination).cp
    return any(
        listed[own::size] != [ordinal for ordinal in listed if ordinal % size == own]
        for listed in listed_blocks(case, request, group)
    )


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.right not in (FIRST, BOTH) or not is_misplaced(case, difference):
        return False
    return starts_out_of_phase(case, difference.request, difference.group, difference.destination)


def explains(case: Case, violation: Violation) -> bool:
    if not starts_out_of_phase(case, violation.request, violation.group, violation.destination):
        return False
    return is_of_another_block(case, violation)


ENTRY = Entry(
    name="suffix-strided-from-its-start",
    summary="under Helix a window's list is strided from its first entry: where that is not rank 0's, blocks shift",
    reference="spec: legacy sender, 4.4 and 6.3; spec: blocks, I8",
    component="legacy suffix alignment",
    second=(SUFFIX,),
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
