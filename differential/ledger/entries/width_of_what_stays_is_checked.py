"""Elements of unequal width in a buffer that does not move: the legacy sender compares its width all the same."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.widths import compared_buffer, moving, widths_differ
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    compared = compared_buffer(case)
    if difference.request is not None or compared is None or not widths_differ(case, compared):
        return False
    return not any(widths_differ(case, buffer) for buffer in moving(case))


ENTRY = Entry(
    name="width-of-what-stays-is-checked",
    summary="the one element width that is compared is that of a buffer which the receiver does not get: refused",
    reference="spec: legacy sender, 1 (attention record) and 3",
    component="legacy compatibility check",
    second=NATIVE,
    form=Refuses(SECOND, ("element_size_differs",), covers),
    look_again=date(2027, 6, 1),
)
