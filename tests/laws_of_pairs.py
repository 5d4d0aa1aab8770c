"""Laws B1 to B7 and E1 to E3: which block goes to which (spec: blocks, 6.1); see ``tests.encoding_laws``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import gcd, lcm

import numpy as np

from differential.managers.anchors import Anchors
from differential.managers.facts import BlockTable
from differential.managers.spans import Inexpressible, Span
from differential.managers.suffix import Suffix, Suffixes
from differential.managers.tables import mask_head
from differential.managers.v2 import HOLE
from oracle.model.case import SIDES, Case
from tests import block_definitions as by_definition
from tests.encoded_lists import How, Pairs, Slots, Told, ToldLists, align_tables, moves_of, own, refused, slot_of

# ---- B: pairing

Met = tuple[int, int, int, int, Told, Told]
"""(source rank, destination rank, request, group, list of the source, list of the destination)"""


def meetings(lists: ToldLists) -> Iterator[Met]:
    """Every two lists that have ordinals in common and that the encoding can say."""
    case = lists.case
    sides = [case.side(side).topology for side in SIDES]
    strides = [topology.cp for topology in sides]
    for source in lists.ranks("context"):
        for rank in lists.ranks("generation"):
            if (sides[0].rank(source).cp - sides[1].rank(rank).cp) % gcd(*strides):
                continue
            for request in lists.requests():
                for group in lists.groups():
                    told = lists.told("context", source, request, group), lists.told("generation", rank, request, group)
                    if told[0] is not None and told[1] is not None:
                        yield source, rank, request, group, *told


def aligned(lists: ToldLists, met: Met) -> tuple[Pairs, Pairs] | None:
    """(pairs of blocks, pairs of tails), None where the encoding cannot say them."""
    _, _, request, group, source, destination = met
    try:
        return lists.align(source, destination, request, group)
    except Inexpressible as no:
        assert no.code in by_definition.cannot_say(lists.case, lists.how.encoding, request)
        return None


def law_B1(case: Case, how: How) -> None:
    """Pairs are those of equal ordinals that are offered and asked for, in order; the same in the plan."""
    lists = ToldLists(case, how)
    for met in meetings(lists):
        source, rank, request, group, *_ = met
        found = aligned(lists, met)
        if found is None:
            continue
        both = by_definition.offered(case, request, group, how.encoding) & by_definition.asked(case, request, group)
        shared = own(case, "generation", rank, frozenset(own(case, "context", source, both)))
        there = slot_of(case, "context", source, request, group)
        here = slot_of(case, "generation", rank, request, group)
        assert found[0] == [(there[ordinal], here[ordinal]) for ordinal in shared]
    plan = how.plan(case)
    for (request, group, rank), moves in moves_of(case, plan).items():
        if request not in refused(plan):
            both = by_definition.offered(case, request, group, how.encoding) & by_definition.asked(case, request, group)
            blocks = [(s, d) for _, s, d in moves if isinstance(d, int)]
            assert sorted(blocks) == [(ordinal, ordinal) for ordinal in own(case, "generation", rank, both)]


def law_B2(case: Case, how: How) -> None:
    """There are as many pairs as ordinals in common, and no slot is in two of them."""
    lists = ToldLists(case, how)
    for met in meetings(lists):
        found = aligned(lists, met)
        if found is None:
            continue
        blocks, tails = found
        common = lists.slots(met[4]).keys() & lists.slots(met[5]).keys()
        assert len(blocks) == len(common)
        for slots in zip(*blocks, *tails, strict=True):
            assert len(set(slots)) == len(slots)


def law_B3(case: Case, how: How) -> None:
    """Swapping the two sides swaps the pairs; of tables and anchors, for only a sender's window trims a suffix."""
    lists = ToldLists(case, how)
    for met in meetings(lists) if how.encoding != "suffix" else ():
        found = aligned(lists, met)
        if found is not None:
            swapped = lists.align(met[5], met[4], met[2], met[3])
            assert swapped == tuple([(there, here) for here, there in pairs] for pairs in found)


def shifted(told: Told, by: int) -> Told:
    """The list of the same blocks in a prompt that has ``by`` more in front of them."""
    if isinstance(told, Span):
        return replace(told, start=told.start + by)
    if isinstance(told, Suffix):
        return replace(told, end=told.end + by)
    front = np.full(by // told.stride, HOLE, dtype=np.int64)
    return replace(told, slots=np.concatenate((front, told.slots)))


def law_B4(case: Case, how: How, by: int = 1) -> None:
    """More blocks in front, as many on both sides and before the window, change no pair."""
    lists = ToldLists(case, how)
    for met in meetings(lists):
        source, _, request, group, *told = met
        found = aligned(lists, met)
        if found is None or (case.requests[request].beams > 1 and how.encoding == "suffix"):
            continue  # a suffix tells tails from blocks by its length alone, so the length of the prompt is part of it
        steps = by * lcm(*(case.side(side).topology.cp for side in SIDES))
        ours, theirs = (shifted(each, steps) for each in told)
        extent = lists.extent("context", source, request, group)
        if isinstance(ours, BlockTable) and isinstance(theirs, BlockTable):
            assert align_tables(ours, theirs, extent.blocks + steps) == found[0]
            continue
        more = extent.stale + steps if extent.stale else 0
        assert lists.align_lists(ours, theirs, more) == found


def law_B5(case: Case, how: How, chosen: Iterable[int]) -> None:
    """Offering less, of any set of ordinals for tables and of an interval for anchors, leaves the pairs of the rest."""
    lists, chosen = ToldLists(case, how), set(chosen)
    if how.encoding == "anchors" and chosen:
        chosen = set(range(min(chosen), max(chosen) + 1))
    for met in meetings(lists) if how.encoding != "suffix" else ():
        _, _, request, group, told, other = met
        found = aligned(lists, met)
        if found is None:
            continue
        kept = {slot for ordinal, slot in lists.slots(told).items() if ordinal in chosen}
        less: Told
        if isinstance(told, BlockTable):
            slots = [slot if told.first + i * told.stride in chosen else HOLE for i, slot in enumerate(told.slots)]
            less = replace(told, slots=np.array(slots, dtype=np.int64))
        else:
            assert isinstance(told, Span) and isinstance(how.lists, Anchors)
            assert isinstance(other, Span)
            # Who has beam tails has no slices.
            told, other = replace(told, tails=told.tails[:0]), replace(other, tails=other.tails[:0])
            less = how.lists.cut_to_chunk(told, min(chosen, default=0), max(chosen, default=-1) + 1)
        pairs, _ = lists.align(less, other, request, group)
        assert pairs == [pair for pair in found[0] if pair[0] in kept]


def law_B6(case: Case, hows: Iterable[How]) -> None:
    """What several encodings can say they say alike; tables do not carry beam tails."""
    plans = [how.plan(case) for how in hows]
    moved = [moves_of(case, plan) for plan in plans]
    for key in moved[0]:
        said = [moves[key] for plan, moves in zip(plans, moved, strict=True) if key[0] not in refused(plan)]
        blocks = [[move for move in moves if isinstance(move[1], int)] for moves in said]
        assert all(each == blocks[0] for each in blocks)


def law_B7(case: Case, how: How) -> None:
    """As many tails go as both sides have, in order, and none where no block goes; tables carry none."""
    plan = how.plan(case)
    for (request, group, _), moves in moves_of(case, plan).items():
        if request in refused(plan):
            continue
        sides = [by_definition.has_prompt_tails(case, side, request) for side in SIDES]
        both = by_definition.offered(case, request, group, how.encoding) & by_definition.asked(case, request, group)
        carried = min(sides) if both and how.encoding != "tables" else 0
        if carried:
            assert sides[0] == sides[1]
        found = [(s, d) for _, s, d in moves if not isinstance(s, int)]
        assert found == [(("tail", number), ("tail", number)) for number in range(carried)]


# ---- E: context parallelism


def law_E1(case: Case, how: How) -> None:
    """The ranks of a context-parallel side share its blocks out: all of them, none twice; each gets its own.

    That is law B1, whose ordinals are those of the whole prompt.
    """
    lists = ToldLists(case, how)
    for side in SIDES:
        for request in lists.requests():
            for group in lists.groups():
                blocks = by_definition.all_blocks(case, side, request, group)
                shares = [share_of(lists, side, rank, request, group) for rank in lists.ranks(side)]
                assert sorted(ordinal for share in shares for ordinal in share) == sorted(blocks)
                told = [lists.told(side, rank, request, group) for rank in lists.ranks(side)]
                said = [list(lists.slots(each)) for each in told if each is not None]
                if len(said) < len(told):
                    continue
                if side == "context":
                    whole = by_definition.offered(case, request, group, how.encoding)
                else:
                    whole = by_definition.asked(case, request, group)
                together = sorted(ordinal for each in said for ordinal in each)
                if (
                    case.side(side).topology.cp == 1
                    or how.encoding == "tables"
                    or not by_definition.leaves_a_block(case, side, request, group)
                ):
                    assert together == sorted(whole)
                for rank, (each, share) in enumerate(zip(said, shares, strict=True)):
                    assert set(each) <= set(share)
                    assert all(ordinal % len(told) == rank for ordinal in share)
    law_B1(case, how)


def share_of(lists: ToldLists, side: str, rank: int, request: int, group: int) -> list[int]:
    """The blocks of a prompt that a rank's table has places for; of other lists, those that its rank counts."""
    told = lists.told(side, rank, request, group)
    if isinstance(told, BlockTable):
        return [told.first + place * told.stride for place in range(len(told.slots))]
    extent = lists.extent(side, rank, request, group)
    return [block for block in range(extent.blocks) if extent.local(block + 1) > extent.local(block)]


def law_E2(case: Case, how: How) -> None:
    """A rank skips as many of its own blocks as lie before a block of the prompt, and every trim keeps its phase."""
    lists = ToldLists(case, how)
    for side in SIDES:
        stride = case.side(side).topology.cp
        for rank in lists.ranks(side):
            for request in lists.requests():
                for group in lists.groups():
                    extent = lists.extent(side, rank, request, group)
                    for ordinal in range(extent.blocks + 2):
                        skipped = sum(1 for k in range(ordinal) if k % stride == rank)
                        assert extent.local(ordinal) == skipped
                    for trimmed, left, phase, step in trims(lists, side, rank, request, group):
                        assert places(lists, trimmed) == (phase, step)
                        assert lists.slots(trimmed) == left
                    told = as_span(lists, lists.told(side, rank, request, group))
                    if isinstance(told, Span) and stride > 1:
                        assert how.lists is not None
                        assert not len(how.lists.intersect(told, replace(told, start=told.start + 1)).ordinals)


def as_span(lists: ToldLists, told: Told | None) -> Span | BlockTable | None:
    """A list as its reader places it."""
    return lists.how.lists.place(told) if isinstance(told, Suffix) else told  # type: ignore[union-attr]


def places(lists: ToldLists, told: Told) -> tuple[int, int]:
    """(phase, stride) of the blocks that a list has places for."""
    placed = as_span(lists, told)
    if isinstance(placed, BlockTable):
        return placed.first % placed.stride, placed.stride
    assert placed is not None
    return placed.start % placed.stride, placed.stride


Trimmed = tuple[Told, Slots, int, int]
"""(list after a trim, what it must say, phase and stride that it must have)"""


def trims(lists: ToldLists, side: str, rank: int, request: int, group: int) -> Iterator[Trimmed]:
    """A rank's list, and what every step of its producer and its reader that drops blocks leaves of it."""
    told, stride = lists.told(side, rank, request, group), lists.case.side(side).topology.cp
    span = as_span(lists, told)
    if told is None or span is None:
        return
    whole = lists.slots(told)
    yield told, whole, rank, stride
    blocks = lists.extent(side, rank, request, group).blocks
    for ordinal in range(blocks + 2):
        behind = {block: slot for block, slot in whole.items() if block >= ordinal}
        before = {block: slot for block, slot in whole.items() if block < ordinal}
        if isinstance(span, BlockTable):
            yield mask_head(span, ordinal), behind, rank, stride
            continue
        steps = lists.how.lists
        if isinstance(steps, Anchors):
            yield steps.cut_to_chunk(span, ordinal, blocks), behind, rank, stride
            yield steps.cut_to_chunk(span, 0, ordinal), before, rank, stride
        elif isinstance(steps, Suffixes):
            yield steps.clamp(span, ordinal), behind, rank, stride
            yield steps.mask_head(span, ordinal), behind, rank, stride
            yield steps.project(span, ordinal, blocks), behind, rank, stride
            yield steps.project(span, 0, ordinal), before, rank, stride
        yield from ((built, slots, rank, stride) for built, slots in reuses(lists, side, rank, request, group, ordinal))
    if isinstance(span, Span):
        yield from strides(lists, span, whole, stride)


def reuses(
    lists: ToldLists, side: str, rank: int, request: int, group: int, cached: int
) -> Iterator[tuple[Told, Slots]]:
    """What a rank would list if that many blocks of the whole prompt, or none, were there already."""
    assert lists.how.lists is not None
    held, translate = lists.holdings.listed(side, rank, request, group), lists.translate(side, rank, group)
    extent = lists.extent(side, rank, request, group)
    try:
        none, some = (lists.how.lists.build(held, replace(extent, cached=n), translate) for n in (0, cached))
    except Inexpressible:
        return
    yield some, {block: slot for block, slot in lists.slots(none).items() if block >= cached}


def strides(lists: ToldLists, span: Span, whole: Slots, stride: int) -> Iterator[Trimmed]:
    """The shares that ranks of a larger stride take of a list."""
    steps = lists.how.lists
    assert steps is not None
    larger = lcm(*(lists.case.side(side).topology.cp for side in SIDES))
    for phase in range(span.start % stride, larger, stride):
        share = {block: slot for block, slot in whole.items() if block % larger == phase}
        yield steps.take_stride(span, phase, larger), share, phase, larger


def law_E3(case: Case, how: How) -> None:
    """Context-parallel ranks together get what one rank gets without context parallelism."""
    alone = replace(
        case,
        **{side: replace(case.side(side), topology=replace(case.side(side).topology, cp=1)) for side in SIDES},
    )
    plans = [how.plan(each) for each in (case, alone)]
    moved = [moves_of(each, plan) for each, plan in zip((case, alone), plans, strict=True)]
    for (request, group, rank), moves in moved[1].items():
        if rank or any(request in refused(plan) for plan in plans):
            continue
        joined = [move for key, found in moved[0].items() if key[:2] == (request, group) for move in found]
        assert sorted(joined, key=repr) == sorted(moves, key=repr)
