"""Plans read back as blocks: which block of the source goes to which of the destination, by slot.

A subject is given itself or by its name.
"""

from __future__ import annotations

from differential.managers.tables import gather_facts
from differential.subjects.protocol import Subject, encoding_of
from differential.subjects.registry import find_subject
from oracle.model.case import Case
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from oracle.truth.verdict import Verdict

ENCODED = ("mapping:tables", "mapping:anchors", "mapping:suffix")


def plan_of(case: Case, name: str | Subject) -> Writes:
    subject = find_subject(name) if isinstance(name, str) else name
    plan = subject.plan(case, gather_facts(case))
    return Writes(refusals=(plan,)) if isinstance(plan, Refusal) else plan


def verdict_of(case: Case, name: str | Subject) -> Verdict:
    """The verdict on a subject's plan, on which both judges agree."""
    subject = find_subject(name) if isinstance(name, str) else name
    plan = subject.plan(case, gather_facts(case))
    verdict = judge(case, plan, encoding=encoding_of(subject))
    assert judge_intervals(case, plan, encoding=encoding_of(subject)) == verdict
    return verdict


def codes_of(case: Case, name: str | Subject) -> list[str]:
    return [refusal.code for refusal in plan_of(case, name).refusals]


def block_names(case: Case, side: str, rank: int, request: int = 0, group: int = 0) -> dict[int, object]:
    """Slot -> ordinal; past the prompt ``("past", n)``, a beam tail ``("tail", n)``."""
    layout = lay_out(case, side)
    beyond, tails = layout.spare_slots(rank, group, request)
    return {
        **{slot: ordinal for ordinal, slot in enumerate(layout.slots[rank][group][request].tolist()) if slot >= 0},
        **{slot: ("past", number) for number, slot in enumerate(beyond.tolist())},
        **{slot: ("tail", number) for number, slot in enumerate(tails.tolist())},
    }


def moves(
    case: Case, name: str | Subject, *, rank: int = 0, request: int = 0, group: int = 0
) -> list[tuple[object, object]]:
    """(source block, destination block) in plan order, from the first sender of a destination rank."""
    return [pair for _, pair in chunked_moves(case, name, rank=rank, request=request, group=group)]


def chunked_moves(
    case: Case, name: str | Subject, *, rank: int = 0, request: int = 0, group: int = 0
) -> list[tuple[int, tuple[object, object]]]:
    """(chunk, (source block, destination block)) in plan order."""
    plan = plan_of(case, name)
    found: list[tuple[int, tuple[object, object]]] = []
    for segment in plan.segments:
        if (segment.request, segment.group, segment.destination_rank) != (request, group, rank):
            continue
        ours = block_names(case, "context", segment.source_rank, request, group)
        theirs = block_names(case, "generation", rank, request, group)
        strides = [
            lay_out(case, side).tables[number].pools[pool].slot_stride
            for side, number, pool in (
                ("context", segment.source_rank, segment.source_pool),
                ("generation", rank, segment.destination_pool),
            )
        ]
        for source, destination in zip(segment.source_bases.tolist(), segment.destination_bases.tolist(), strict=True):
            found.append((segment.chunk, (ours[source // strides[0]], theirs[destination // strides[1]])))
    return found
