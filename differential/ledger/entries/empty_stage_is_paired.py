"""An empty stage inside the layers of a peer's stage counts as a pair; it answers with nothing."""

from __future__ import annotations

from datetime import date

from differential.compare import PairDifference
from differential.ledger.entry import SUFFIX, WITHOUT_HELIX, Bytes, Entry
from differential.ledger.legacy.sides import legacy_stage_pairs
from oracle.model.case import Case


def covers_pair(case: Case, difference: PairDifference) -> bool:
    there, here = case.context.topology, case.generation.topology
    if (difference.first, difference.second) != ("no", "both"):
        return False
    if not (difference.source < there.size and difference.destination < here.size):
        return False
    pair = there.rank(difference.source).pp, here.rank(difference.destination).pp
    is_empty = not there.stages[pair[0]] or not here.stages[pair[1]]
    return is_empty and pair in set(legacy_stage_pairs(case))


ENTRY = Entry(
    name="empty-stage-is-paired",
    summary="an empty stage strictly inside the other side's stage is expected to answer, with nothing",
    reference="spec: legacy sender, 7.13",
    component="legacy topology overlap",
    second=(SUFFIX, WITHOUT_HELIX),
    form=Bytes(covers_pair=covers_pair),
    look_again=date(2027, 6, 1),
)
