"""Layers of one view that take unequal room: the legacy sender knows one size for all of them."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.views import uneven_regions
from oracle.model.case import SIDES, Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    return difference.request is None and any(uneven_regions(case, side) for side in SIDES)


ENTRY = Entry(
    name="layers-of-a-view-differ",
    summary="buffers of one pool are one view though some layers have more of them than others: refused",
    reference="spec: legacy sender, 2 (every layer of a view has the same bytes)",
    component="legacy page-table views",
    second=NATIVE,
    form=Refuses(SECOND, ("layer_regions_differ",), covers),
    look_again=date(2027, 6, 1),
)
