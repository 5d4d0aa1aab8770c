"""Elements of unequal width on the two sides: of a whole cache, the legacy sender compares the width of one buffer."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.widths import compared_buffer, moving, widths_differ
from differential.runner import Kind, Violation
from oracle.model.case import Case


def applies(case: Case) -> bool:
    """Whether widths of what moves differ, and not that of the buffer which is compared."""
    compared = compared_buffer(case)
    if compared is not None and widths_differ(case, compared):
        return False
    return any(widths_differ(case, buffer) for buffer in moving(case))


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
