"""Layers of one view that take unequal room: the legacy sender knows one size, and one number of buffers, for all.

Where heads are cut it compares the numbers first: buffers over layers, rounded down, which tells apart a
stage that has all layers of the view from one that has those with more.
"""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.members import some_layer_has_other_roles
from differential.ledger.legacy.views import uneven_regions
from oracle.model.case import SIDES, Case

REGIONS, COUNTS = "layer_regions_differ", "buffer_counts_differ"


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None or not any(uneven_regions(case, side) for side in SIDES):
        return False
    # What differs in number on a layer that both views have is another matter.
    return difference.code == REGIONS or not some_layer_has_other_roles(case)


ENTRY = Entry(
    name="layers-of-a-view-differ",
    summary="buffers of one pool are one view though some layers have more of them than others: refused",
    reference="spec: legacy sender, 2 (every layer of a view has the same bytes), 5 (heads: equal buffers a layer)",
    component="legacy page-table views",
    second=NATIVE,
    form=Refuses(SECOND, (REGIONS, COUNTS), covers),
    look_again=date(2027, 6, 1),
)
