"""Heads that do not share out evenly and leave a due head on unpaired ranks: served all the same."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entries.uneven_heads import arrival, explains, is_uneven
from differential.ledger.entry import NATIVE, Entry, Refuses
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    heads = is_uneven(case)
    if heads is None or difference.request is not None:
        return False
    ranks = case.generation.topology.ranks()
    layers = case.model.groups[0].layers[:1]
    return any(
        (found := arrival(case, request, rank.number, layer, head, heads)) is not None and found.owner is None
        for request in range(len(case.requests))
        for rank in ranks
        for layer in layers
        for head in range(heads)
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
