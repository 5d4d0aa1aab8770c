"""Laws of pages and of their judges: each byte of a slot is of one buffer or of none, and both judges say the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np

from kvwitness.conform.law import Law, Result, broken, holds, not_run
from kvwitness.conform.sample import Drawn, Sample
from kvwitness.conform.shrink import smallest
from kvwitness.words import count
from oracle.model.case import SIDES, Case
from oracle.model.codec import encode
from oracle.model.pages import PageTable
from oracle.model.writes import Refusal, Segment, Writes
from oracle.truth.elements import truth_of
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from oracle.truth.reserved import PADDING

MOST_MEMORY = 1 << 20
"""Bytes of a drawn case above which it is not enumerated several times over."""


# ---- page tables


def table_trouble(table: PageTable) -> str:
    """What is wrong with the regions of a page table, "" for nothing."""
    spans: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for entry in table.entries:
        pool = table.pools[entry.pool]
        inside = entry.offset % pool.layer_stride if pool.layer_stride else entry.offset
        name = f"{entry.role} of layer {entry.layer}"
        if inside + entry.nbytes > pool.slot_bytes:
            return f"{name} ends past its slot of {pool.slot_bytes} B"
        spans.setdefault((entry.group, entry.pool), []).append((entry.offset, entry.offset + entry.nbytes, name))
    for taken in spans.values():
        for (_, end, one), (start, _, other) in pairwise(sorted(taken)):
            if start < end:
                return f"{one} and {other} overlap"
    return ""


def _layout_trouble(case: Case) -> str:
    """What is wrong with the pages of ``case``: regions, bytes without identity, identities without a region."""
    truth = truth_of(case)
    for side in SIDES:
        flat = truth.context if side == "context" else truth.generation
        for rank, table in enumerate(flat.side.tables):
            if said := table_trouble(table):
                return f"{side} rank {rank}: {said}"
    flat = truth.context
    for rank, table in enumerate(flat.side.tables):
        regions: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for entry in table.entries:
            regions.setdefault((entry.group, entry.pool), []).append((entry.offset, entry.offset + entry.nbytes))
        for group, by_request in flat.side.slots[rank].items():
            for (own, number), spans in regions.items():
                pool = table.pools[number]
                if own != group or pool.layer_stride:
                    continue
                for slot in np.unique(np.concatenate(by_request)).tolist():
                    if slot < 0:
                        continue
                    start = flat.starts[rank][number] + slot * pool.slot_stride
                    ids = truth.source[start : start + pool.slot_bytes]
                    named = np.zeros(len(ids), dtype=bool)
                    for first, end in spans:
                        named[first:end] = True
                    if (ids[named] < 0).all():  # no block of this rank, or gone out of its window
                        continue
                    if (ids[named] < 0).any() or (ids[~named] != PADDING).any():
                        where = f"context rank {rank}, pool {number}, slot {slot}"
                        return f"{where}: padding has an identity, or a byte of a buffer has none"
    return ""


def check_layouts(sample: Sample) -> Result:
    """Look at every page table, and at every slot in use."""
    if not sample.cases:
        return not_run("no case could be drawn")
    tables = 0
    for drawn in sample.drawn:
        tables += drawn.case.context.topology.size + drawn.case.generation.topology.size
        if said := _layout_trouble(drawn.case):
            least = _least(sample, drawn, lambda case: bool(_layout_trouble(case)))
            return broken(_layout_trouble(least) or said, encode(least))
    return holds(count(tables, "page table"))


def _least(sample: Sample, drawn: Drawn, fails: Callable[[Case], bool]) -> Case:
    def still(numbers: tuple[int, ...]) -> bool:
        found = sample.draw(numbers)
        return isinstance(found, Case) and fails(found)

    found = sample.draw(smallest(drawn.numbers, still, tries=200))
    return found if isinstance(found, Case) else drawn.case


# ---- judges


def _damaged(plan: Writes, random: Random) -> tuple[str, Writes]:
    """The plan with one thing wrong."""
    if not plan.segments or random.randrange(6) == 0:
        return "no plan at all", Writes()
    number = random.randrange(len(plan.segments))
    segment = plan.segments[number]
    damage = random.randrange(4)
    if damage == 0 or not len(segment.runs):
        return "a plan without one segment", _with(plan, number)
    if damage == 1:
        return "a plan with a segment twice", _with(plan, number, segment, segment)
    runs = segment.runs.copy()
    run = random.randrange(len(runs))
    if damage == 2:
        runs[run, random.randrange(2)] += (-1, 1)[random.randrange(2)]
        return "a plan with a run a byte off", _with(plan, number, replace(segment, runs=runs))
    runs[run, 2] -= 1
    return "a plan with a run a byte short", _with(plan, number, replace(segment, runs=runs))


def _with(plan: Writes, number: int, *instead: Segment) -> Writes:
    return replace(plan, segments=(*plan.segments[:number], *instead, *plan.segments[number + 1 :]))


def _disagreement(case: Case, plan: Writes | Refusal, random: Random) -> tuple[int, str]:
    """(plans judged, what the two judges say differently)."""
    plans: list[tuple[str, Writes | Refusal]] = [("the plan of the mapping", plan)]
    if isinstance(plan, Writes):
        plans.append(_damaged(plan, random))
    for what, each in plans:
        one, other = judge(case, each), judge_intervals(case, each)
        if (one.outcome, one.counts, one.violations) != (other.outcome, other.counts, other.violations):
            return len(plans), f"of {what} one judge says {_counts(one.counts)}, the other {_counts(other.counts)}"
    return len(plans), ""


def _counts(counts: dict) -> str:
    return ", ".join(f"{kind.value} {nbytes} B" for kind, nbytes in counts.items()) or "pass"


def check_judges(sample: Sample) -> Result:
    """Have both judges judge right and damaged plans."""
    if not sample.cases:
        return not_run("no case could be drawn")
    judged = 0
    for number, (drawn, judgement) in enumerate(zip(sample.drawn, sample.judgements, strict=True)):
        plan = judgement.result.plans.get("mapping")
        if plan is None or judgement.result.verdicts["mapping"].nbytes > MOST_MEMORY:
            continue
        plans, said = _disagreement(drawn.case, plan, Random(number))
        judged += plans
        if said:

            def disagree(case: Case, number: int = number) -> bool:
                made = sample.trial(case, carry=False).result.plans.get("mapping")
                return made is not None and bool(_disagreement(case, made, Random(number))[1])

            return broken(said, encode(_least(sample, drawn, disagree)))
    return holds(f"{count(judged, 'plan')}, right and damaged ones")


LAYOUTS = (
    Law("layouts", "Every byte of a slot is of one buffer, or padding that has no identity.", check_layouts),
    Law("judges", "The enumerating judge and the closed form say the same.", check_judges),
)
