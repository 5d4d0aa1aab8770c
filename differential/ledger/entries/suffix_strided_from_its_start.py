"""Suffix lists under Helix: every cp-th entry is taken from where the list starts, wherever that is in the prompt."""

from __future__ import annotations

from datetime import date

from differential.compare import BOTH, FIRST, ByteDifference
from differential.ledger.entry import SUFFIX, Bytes, Entry
from differential.ledger.legacy.sides import is_helix
from differential.runner import Kind, Violation
from oracle.model.case import Case


def starts_out_of_phase(case: Case, request: int | None, group: int | None) -> bool:
    """Whether the window has left so many blocks, sinks not counted, that those after them are out of step."""
    if request is None or group is None or not is_helix(case):
        return False
    window = case.model.groups[group].window
    if window is None:
        return False
    tokens = case.requests[request].tokens(case.model.groups[group].length)
    block = case.context.tokens_per_block
    left = max(0, tokens + 1 - window) // block
    sinks = -(-case.model.groups[group].sinks // block)
    return max(0, left - sinks) % case.generation.topology.cp != 0


def covers(case: Case, difference: ByteDifference) -> bool:
    if difference.right not in (FIRST, BOTH) or len(difference.first_senders) != 1 or difference.group is None:
        return False
    if difference.second_senders not in ((), difference.first_senders):
        return False
    buffers = case.model.groups[difference.group].buffers
    held = any(each.role == difference.role and difference.layer in each.layers for each in buffers)
    return held and starts_out_of_phase(case, difference.request, difference.group)


def explains(case: Case, violation: Violation) -> bool:
    if not starts_out_of_phase(case, violation.request, violation.group):
        return False
    if violation.kind is Kind.WRONG_ELEMENT and violation.due is not None and violation.found is not None:
        due, found = violation.due, violation.found
        return (due.group, due.layer, due.role) == (
            found.group,
            found.layer,
            found.role,
        ) and due.ordinal != found.ordinal
    return violation.kind is Kind.MISSING


ENTRY = Entry(
    name="suffix-strided-from-its-start",
    summary="under Helix a window's list is strided from its first entry: where that is not rank 0's, blocks shift",
    reference="spec: legacy sender, 4.4 and 6.3; spec: blocks, I8",
    component="legacy suffix alignment",
    second=(SUFFIX,),
    form=Bytes(covers, explains=explains),
    look_again=date(2027, 6, 1),
)
