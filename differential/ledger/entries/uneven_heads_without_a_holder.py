"""Heads that do not share out evenly and leave a due head on unpaired ranks: served all the same."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entries.uneven_heads import explains
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.heads import arrival, heads_of, is_uneven
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None:
        return False
    layers = [layer for layer in range(case.model.layers) if is_uneven(case, layer)]
    return any(
        (found := arrival(case, request, rank.number, layer, head)) is not None and found.owner is None
        for layer in layers
        for request in range(len(case.requests))
        for rank in case.generation.topology.ranks()
        if layer in case.generation.topology.stage_layers(rank.pp)
        for head in range(heads_of(case, layer) or 0)
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
