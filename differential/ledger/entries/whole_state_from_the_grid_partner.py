"""State that every rank holds whole, declared as a share: with context parallelism it comes from the grid partner."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, ByteDifference
from differential.ledger.entry import HELIX, Bytes, Entry
from differential.ledger.legacy.sides import asked_ranks, election_key, stage_of
from differential.ledger.legacy.state import grid_partners, is_whole_in_part, shared_state, state_grid
from oracle.model.case import Case


def covers(case: Case, difference: ByteDifference) -> bool:
    buffer = shared_state(case, difference.group, difference.role)
    if buffer is None or not is_whole_in_part(buffer) or difference.layer not in buffer.layers.ids:
        return False
    sizes = case.context.topology.cp, case.generation.topology.cp
    if sizes == (1, 1) or state_grid(case.context) != state_grid(case.generation) or difference.request is None:
        return False
    assert difference.layer is not None
    request, stage = case.requests[difference.request], stage_of(case.context, difference.layer)
    asked = [rank.number for rank in asked_ranks(case, request, difference.destination) if rank.pp == stage]
    partner = tuple(rank.number for rank in grid_partners(case, request, difference.destination, stage))
    # All that is asked holds it; of shares, the one holder is the partner itself.
    elected = asked[election_key(case, request) % len(asked)]
    return (difference.first_senders, difference.second_senders) == ((elected,), partner) and difference.right == FIRST


ENTRY = Entry(
    name="whole-state-from-the-grid-partner",
    summary="a state buffer, or a section of it, is whole on every rank and declared as a share: the partner sends it",
    reference="spec: legacy sender, 4.3; spec: kinds, KDA (the replicated declaration) and decision 4",
    component="legacy pairing of state",
    second=HELIX,
    form=Bytes(covers),
    look_again=date(2027, 6, 1),
)
