"""State that every rank holds whole, declared as a share: its size times the grid then differs with the grid."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.state import all_shared_state, is_whole_in_part, state_grid
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    if difference.request is not None or state_grid(case.context) == state_grid(case.generation):
        return False
    return any(map(is_whole_in_part, all_shared_state(case)))


ENTRY = Entry(
    name="whole-state-declared-as-shares",
    summary="a state buffer, or a section of it, is whole on every rank and declared as a share: unequal grids refused",
    reference="spec: legacy sender, 3.7; spec: kinds, KDA (the replicated declaration) and decision 4",
    component="legacy compatibility check",
    second=NATIVE,
    form=Refuses(SECOND, ("state_sizes_differ",), covers),
    look_again=date(2027, 6, 1),
)
