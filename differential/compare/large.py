"""Plans of memory that is too large to name each byte: what they differ in, told coarsely or on a small sibling.

Refusals, pairs and whether the bytes are the same are exact. Which bytes differ is told on a case of
the same instances and model with shorter prompts and narrower elements, planned anew.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from differential.compare.alike import unlike_slots
from differential.compare.plans import as_writes, compare_pairs, compare_refusals
from differential.compare.records import UNKNOWN, ByteDifference, Comparison
from differential.managers.facts import Facts
from oracle.model.axes import Axis
from oracle.model.buffers import Model, Part
from oracle.model.case import SIDES, Case, Request, SideState, Slots
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Segment, Writes
from oracle.truth.decide import method_for

MOST_BLOCKS = 4
"""Blocks of a rank that a sibling's prompt has at most, besides those that a window reaches over."""


def is_large(case: Case) -> bool:
    """Whether the memory of ``case`` is judged in closed form, without naming each byte."""
    return method_for(case) != "elements"


def compare_outlines(
    case: Case, facts: Facts, first: Writes | Refusal, second: Writes | Refusal, *, names: tuple[str, str]
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
    return Comparison(*names, tuple(found), pairs, refusals)


def _place(segment: Segment) -> tuple[int, int, int]:
    return segment.request, segment.group, segment.destination_rank


def covers_outline(told: Comparison, outline: Comparison) -> bool:
    """Whether ``told``, of a small sibling, has all that ``outline`` has: only then may it stand for the large case."""
    there = {(each.request, each.group, each.destination) for each in told.bytes}
    here = {(each.request, each.group, each.destination) for each in outline.bytes}
    return here <= there and told.pairs == outline.pairs and len(told.refusals) == len(outline.refusals)


def small_sibling(case: Case) -> Case | None:
    """The same instances, requests and heads with short prompts and narrow elements; None where there is none.

    A prompt keeps how far it reaches into its last block; widths that differ stay different.
    """
    if case.tables or case.presented or any(case.side(side).page_tables for side in SIDES):
        return None
    try:
        small = replace(
            case,
            model=_narrow(case.model),
            requests=tuple(_shorter(case, request) for request in case.requests),
            slots=Slots(),
        )
        for side in SIDES:
            lay_out(small, side)
    except InvalidCase:
        return None
    return small if not is_large(small) else None


def _shorter(case: Case, request: Request) -> Request:
    size = case.generation.tokens_per_block
    period = lcm(case.context.topology.cp, case.generation.topology.cp) * size
    windows = [group.window + group.sinks for group in case.model.groups if group.window is not None]
    most = (MOST_BLOCKS + -(-max(windows, default=0) // period)) * period
    prompt = request.prompt if request.prompt <= most else most - period + (request.prompt - 1) % period + 1
    states = {side: SideState(min(request.state(side).cached, prompt)) for side in SIDES}
    return replace(request, prompt=prompt, cuts=tuple(cut for cut in request.cuts if cut < prompt), **states)


def _narrow(model: Model) -> Model:
    sizes = sorted({axis.size for group in model.groups for b in group.buffers for p in b.parts for axis in _wide(p)})
    width = {size: number + 1 for number, size in enumerate(sizes)}

    def narrowed(part: Part) -> Part:
        wide = _wide(part)
        axes = tuple(replace(axis, size=width[axis.size]) if axis in wide else axis for axis in part.axes)
        return replace(part, axes=axes)

    groups = []
    for group in model.groups:
        buffers = tuple(replace(b, parts=tuple(narrowed(part) for part in b.parts)) for b in group.buffers)
        groups.append(replace(group, buffers=buffers))
    return replace(model, groups=tuple(groups))


def _wide(part: Part) -> list[Axis]:
    """Axes whose length decides nothing but the width of an element."""
    return [axis for axis in part.axes if not axis.is_split and not axis.is_token and not axis.sections]
