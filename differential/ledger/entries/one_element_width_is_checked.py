"""Elements of unequal width on the two sides: of a whole cache, the legacy sender compares the width of one buffer."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.runner import Kind, Violation
from oracle.model.buffers import Buffer
from oracle.model.case import Case


def compared_buffer(case: Case) -> Buffer | None:
    """The paged buffer whose width stands for all: the first on the first layer that has one cut by heads or whole."""
    if case.native is None:
        return None
    found = [
        buffer
        for group in case.model.groups
        for buffer in group.buffers
        if group.is_paged and buffer.role not in case.native.ignored
    ]
    found = [each for each in found if case.native.mapper_of(each.role) != "replicated"] or found
    return min(found, key=lambda each: each.layers.ids[0], default=None)


def applies(case: Case) -> bool:
    """Whether widths differ, and not that of the buffer which is compared."""

    def differs(buffer: Buffer) -> bool:
        widths = [
            [side.bits_of(buffer.role, part.bits) for part in buffer.parts] for side in (case.context, case.generation)
        ]
        return widths[0] != widths[1]

    buffers = [buffer for group in case.model.groups for buffer in group.buffers]
    compared = compared_buffer(case)
    return any(map(differs, buffers)) and (compared is None or not differs(compared))


def covers(case: Case, difference: RefusalDifference) -> bool:
    return difference.request is None and applies(case)


def explains(case: Case, violation: Violation) -> bool:
    return violation.kind in (Kind.WRONG_ELEMENT, Kind.MISSING) and applies(case)


ENTRY = Entry(
    name="one-element-width-is-checked",
    summary="of all element widths only that of the first buffer is compared: where another differs, the rest is sent",
    reference="spec: legacy sender, 1 (attention record) and 3",
    component="legacy compatibility check",
    second=NATIVE,
    form=Refuses(FIRST, ("element_width_differs",), covers, explains),
    look_again=date(2027, 6, 1),
)
