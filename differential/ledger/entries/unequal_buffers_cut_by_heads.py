"""Key and value of unequal width in one pool: one head width is assumed for both, so nothing can be cut by heads."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.heads import reported_heads
from differential.ledger.legacy.sides import legacy_stage_pairs
from differential.ledger.legacy.views import uneven_view
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None:
        return False
    pairs = legacy_stage_pairs(case)
    if all(reported_heads(case, "context", a) == reported_heads(case, "generation", b) for a, b in pairs):
        return False
    return any(uneven_view(case, side) for side in ("context", "generation"))


ENTRY = Entry(
    name="unequal-buffers-cut-by-heads",
    summary="the buffers of one view differ in size and its heads must be cut: refused",
    reference="spec: legacy sender, 2 (roles of one view share geometry) and 5",
    component="legacy head-mismatch mapper",
    second=NATIVE,
    form=Refuses(SECOND, ("view_geometry_differs",), covers),
    look_again=date(2027, 6, 1),
)
