"""Suffix lists of a group with sinks: they stand right in front of the window, as if no block were between."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entries.window_start_without_trim import is_shifted
from differential.ledger.entry import SUFFIX, WITHOUT_HELIX, Bytes, Entry
from differential.ledger.legacy.lists import (
    asked_blocks,
    block_count,
    has_gap,
    is_misplaced,
    is_of_another_block,
    offered_blocks,
)
from differential.ledger.legacy.sides import is_helix
from differential.runner import Violation
from oracle.model.case import Case


def takes_sinks_for_others(case: Case, request: int | None, group: int | None, destination: int | None) -> bool:
    """Whether both sides list other blocks of a group with sinks, and one of them not all from its first to the end.

    Where the sender lists more than the receiver, its list is shifted as a whole, whatever the sinks.
    """
    if request is None or group is None or destination is None or not case.model.groups[group].sinks:
        return False
    if is_shifted(case, request, group, destination):
        return False
    stride = case.generation.topology.cp if is_helix(case) else 1
    asked = asked_blocks(case, request, group, destination)
    blocks = block_count(case, request, group)
    return any(
        asked != offered and (has_gap(asked, stride, blocks) or has_gap(offered, stride, blocks))
        for offered in offered_blocks(case, request, group, destination)
    )


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.right != FIRST or not is_misplaced(case, difference):
        return False
    return takes_sinks_for_others(case, difference.request, difference.group, difference.destination)


def explains(case: Case, violation: Violation) -> bool:
    if not takes_sinks_for_others(case, violation.request, violation.group, violation.destination):
        return False
    return is_of_another_block(case, violation)


ENTRY = Entry(
    name="sinks-in-a-suffix-list",
    summary="a suffix list has no hole behind its sinks: where the sides list other blocks, sinks go to other places",
    reference="spec: blocks, 2.2, I11; spec: legacy sender, 6.3",
    component="legacy suffix alignment",
    second=(SUFFIX, WITHOUT_HELIX),
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
