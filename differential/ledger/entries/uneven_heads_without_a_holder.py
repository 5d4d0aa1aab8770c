"""Heads that do not share out evenly and leave a due head on unpaired ranks: served all the same."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entries.uneven_heads import explains
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.heads import held_heads, is_uneven, owner_of
from differential.ledger.legacy.sides import stage_of
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None:
        return False
    return any(
        owner_of(case, request, rank.number, layer, head) is None
        for layer in range(case.model.layers)
        if is_uneven(case, layer) and stage_of(case.context, layer) >= 0
        for request in case.requests
        for rank in case.generation.topology.ranks()
        for head in held_heads(case, "generation", rank.number, layer)
    )


ENTRY = Entry(
    name="uneven-heads-without-a-holder",
    summary="a due head that no paired sender holds is not refused: the receiver gets another head in its place",
    reference="spec: legacy sender, 7.3; spec: mapping, refusals",
    component="legacy compatibility check",
    second=NATIVE,
    form=Refuses(FIRST, ("unservable_index",), covers, explains),
    look_again=date(2027, 6, 1),
)
