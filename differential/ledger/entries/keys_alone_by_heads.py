"""Keys by heads without any values: the legacy sender takes them for a latent, which has one head everywhere."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.heads import reported_heads
from differential.ledger.legacy.sides import legacy_stage_pairs
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    ignored = case.native.ignored if case.native is not None else ()
    roles = {
        buffer.role
        for group in case.model.groups
        if group.is_paged and not group.native_only
        for buffer in group.buffers
        if buffer.role not in ignored
    }
    if difference.request is not None or any(role == "value" or role.endswith("_value") for role in roles):
        return False
    return any(
        reported_heads(case, "context", source) > 1 or reported_heads(case, "generation", destination) > 1
        for source, destination in legacy_stage_pairs(case)
    )


ENTRY = Entry(
    name="keys-alone-by-heads",
    summary="a cache without values counts as a latent, and is refused where a rank reports more heads than one",
    reference="spec: legacy sender, 1 and 6",
    component="legacy compatibility check",
    second=NATIVE,
    form=Refuses(SECOND, ("latent_heads_not_one",), covers),
    look_again=date(2027, 6, 1),
)
