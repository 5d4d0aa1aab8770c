"""A rank reports the heads of its first layer, and the regions of its other layers are cut, or not, by that number."""

from __future__ import annotations

from datetime import date

from differential.compare import SECOND, RefusalDifference
from differential.ledger.entry import NATIVE, Entry, Refuses
from differential.ledger.legacy.heads import counts_of_others, is_head_split, reported_heads
from differential.ledger.legacy.sides import legacy_stage_pairs
from differential.ledger.legacy.views import token_major
from oracle.model.case import Case
from oracle.model.sides import lay_out


def misfits(case: Case, stages: tuple[int, int]) -> bool:
    """Whether some layer of two paired stages does not fit the heads that their ranks report."""
    there, here = case.context.topology.number(stages[0], 0, 0), case.generation.topology.number(stages[1], 0, 0)
    told, own_told = reported_heads(case, "context", stages[0]), reported_heads(case, "generation", stages[1])
    if not told or not own_told:
        return False
    received = {
        (each.group, each.layer, each.role): each.nbytes for each in lay_out(case, "generation").tables[here].entries
    }
    for each in lay_out(case, "context").tables[there].entries:
        own_bytes = received.get((each.group, each.layer, each.role))
        if own_bytes is None or not is_head_split(case, each.group, each.role):
            continue
        if not counts_of_others(case, here, each.layer):
            continue
        if told == own_told:
            if each.nbytes != own_bytes:
                return True
            continue
        buffers = case.model.groups[each.group].buffers
        buffer = next(found for found in buffers if found.role == each.role and each.layer in found.layers)
        cuts = told * (case.context.tokens_per_block if token_major(case, "context", buffer) else 1)
        if each.nbytes * own_told != own_bytes * told or each.nbytes % cuts:
            return True
    return False


def covers(case: Case, difference: RefusalDifference) -> bool:
    return difference.request is None and any(misfits(case, stages) for stages in legacy_stage_pairs(case))


ENTRY = Entry(
    name="first-head-count-cuts",
    summary="a layer whose heads are more or fewer than those of the first layer does not fit their number: refused",
    reference="spec: legacy sender, 1 (heads of a rank), 5 and 7.6; spec: kinds, hot spot 15",
    component="legacy head-mismatch and whole-region mappers",
    second=NATIVE,
    form=Refuses(SECOND, ("head_bytes_differ", "region_sizes_differ"), covers),
    look_again=date(2027, 6, 1),
)
