"""Plans of memory that is too large to name each byte: what they differ in, told coarsely or on a small sibling.

Refusals, pairs and whether the bytes are the same are exact. Which bytes differ is told on a sibling
of the case with shorter prompts and narrower elements, planned anew (``differential.compare.sibling``).
"""

from __future__ import annotations

from differential.compare.alike import unlike_slots
from differential.compare.plans import as_writes, compare_pairs, compare_refusals
from differential.compare.records import UNKNOWN, ByteDifference, Comparison
from differential.compare.unsaid import Encodings, set_apart
from differential.managers.facts import Facts
from oracle.model.case import Case
from oracle.model.writes import Refusal, Segment, Writes


def compare_outlines(
    case: Case,
    facts: Facts,
    first: Writes | Refusal,
    second: Writes | Refusal,
    *,
    names: tuple[str, str],
    encodings: Encodings = ("tables", "tables"),
) -> Comparison:
    """Compare two plans without naming bytes: differing ones are told by receiver and group, and not who is right.

    ``nbytes`` is then what the slots concerned are sent in the plan that sends more.
    """
    one, two = as_writes(case, first), as_writes(case, second)
    refusals, settled = compare_refusals(case, one, two)
    pairs = compare_pairs(one, two, settled)
    segments = [[each for each in plan.segments if each.request not in settled] for plan in (one, two)]
    unlike = {(key[0], key[1], key[4]) for key in unlike_slots(facts, *segments)}
    found = []
    for request, group, rank in sorted(unlike):
        mine = [[each for each in part if _place(each) == (request, group, rank)] for part in segments]
        found.append(
            ByteDifference(
                rank,
                group,
                None,
                None,
                None,
                max(sum(segment.nbytes for segment in part) for part in mine),
                *(tuple(sorted({segment.source_rank for segment in part})) for part in mine),
                UNKNOWN,
                request=request,
            )
        )
    return set_apart(case, Comparison(*names, tuple(found), pairs, refusals), encodings)


def _place(segment: Segment) -> tuple[int, int, int]:
    return segment.request, segment.group, segment.destination_rank


def covers_outline(told: Comparison, outline: Comparison) -> bool:
    """Whether ``told``, of a small sibling, has all that ``outline`` has: only then may it stand for the large case."""
    there = {(each.request, each.group, each.destination) for each in told.bytes}
    here = {(each.request, each.group, each.destination) for each in outline.bytes}
    return here <= there and told.pairs == outline.pairs and len(told.refusals) == len(outline.refusals)
