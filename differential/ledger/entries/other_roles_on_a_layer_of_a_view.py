"""Views of the same roles with a layer in other ones: the legacy sender compares the roles of all layers at once."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.members import some_layer_has_other_roles
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    return difference.request is None and case.native is not None and some_layer_has_other_roles(case)


ENTRY = Entry(
    name="other-roles-on-a-layer-of-a-view",
    summary="views that have the same roles in all are partners, though one layer has others in each: refused",
    reference="spec: legacy sender, 5 (intact needs equal bytes, heads equal buffers a layer) and 6.1, step 1",
    component="legacy view mapping",
    second=NATIVE,
    form=Refuses(SECOND, ("region_sizes_differ", "buffer_counts_differ"), covers),
    look_again=date(2027, 6, 1),
)
