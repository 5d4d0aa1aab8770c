"""State grids of which neither size divides the other, though tensor sizes do: every axis is split evenly."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import HELIX, Entry, Refuses
from differential.ledger.legacy.sides import divides
from differential.ledger.legacy.state import all_shared_state, state_grid
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None or divides(state_grid(case.context), state_grid(case.generation)):
        return False
    return bool(all_shared_state(case))


ENTRY = Entry(
    name="state-grids-that-do-not-divide",
    summary="tensor sizes divide and tensor times context-parallel sizes do not: shares overlap in part, refused",
    reference="spec: legacy sender, 5 (state offsets: the ratio must divide); spec: mapping, contract (24 heads)",
    component="legacy state mapper",
    second=HELIX,
    form=Refuses(SECOND, ("shard_counts_not_divisible",), covers),
    look_again=date(2027, 6, 1),
)
