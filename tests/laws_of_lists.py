"""Laws A1 to A10: what one side's list says of its blocks (spec: blocks, 6.1); see ``tests.encoding_laws``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from differential.managers.holdings import holdings_of
from differential.managers.spans import Inexpressible, Span
from differential.managers.v1 import BlockList, Translation
from differential.managers.v2 import HOLE, PageList
from oracle.model.case import SIDES, Case
from oracle.model.encodings import HOLE_IN_A_LIST
from oracle.model.sides import lay_out
from tests import block_definitions as by_definition
from tests.encoded_lists import How, Slots, Told, ToldLists, moves_of, own, refused, slot_of


def all_lists(lists: ToldLists, side: str) -> list[tuple[int, int, int]]:
    """(rank, request, group) of each list of one side."""
    return [(rank, r, g) for rank in lists.ranks(side) for r in lists.requests() for g in lists.groups()]


def expected_slots(case: Case, how: How, side: str, rank: int, request: int, group: int) -> Slots:
    """What a list of one side must say, by definition."""
    if side == "context":
        ordinals = by_definition.offered(case, request, group, how.encoding)
    else:
        ordinals = by_definition.asked(case, request, group)
    slots = slot_of(case, side, rank, request, group)
    return {ordinal: slots[ordinal] for ordinal in own(case, side, rank, ordinals)}


def law_A1(case: Case, how: How) -> None:
    """Decoding what was encoded gives it back, for every map that the encoding can say; every other is refused.

    For cases with presented lists: any set of blocks. As one run: those that reach the end without a hole.
    """
    lists = ToldLists(case, how)
    for row in case.presented:
        group = case.model.group_index(row.group)
        given = {ordinal: slot for ordinal, slot in enumerate(row.slots) if slot >= 0}
        mine = own(case, row.side, row.rank, frozenset(range(len(row.slots))))
        there = [ordinal for ordinal in mine if ordinal in given]
        runs = not there or there == [ordinal for ordinal in mine if ordinal >= there[0]]
        try:
            told = lists.tell(row.side, row.rank, row.request, group)
        except Inexpressible as no:
            assert no.code == HOLE_IN_A_LIST and not runs and how.encoding != "tables"
            continue
        assert runs or how.encoding == "tables"
        assert lists.slots(told) == {ordinal: given[ordinal] for ordinal in there}


def law_A2(case: Case, how: How) -> None:
    """Only blocks of the prompt that the source holds are offered: none stale, scratch, detached or parked."""
    lists = ToldLists(case, how)
    for rank, request, group in all_lists(lists, "context"):
        told = lists.told("context", rank, request, group)
        if told is None:
            continue
        held = own(case, "context", rank, by_definition.present(case, "context", request, group))
        where = slot_of(case, "context", rank, request, group)
        for ordinal, slot in lists.slots(told).items():
            assert ordinal in held and slot == where[ordinal]
    for (request, group, _), moves in moves_of(case, how.plan(case)).items():
        held = by_definition.present(case, "context", request, group)
        tails = by_definition.has_prompt_tails(case, "context", request)
        assert all(source in held or source in [("tail", n) for n in range(tails)] for _, source, _ in moves)


def law_A3(case: Case, how: How) -> None:
    """Everything live that the source holds is offered, and of what has left its window nothing; or it is refused."""
    lists = ToldLists(case, how)
    for rank, request, group in all_lists(lists, "context"):
        told = lists.told("context", rank, request, group)
        if told is None:
            assert by_definition.cannot_say(case, how.encoding, request)
            continue
        offered = lists.slots(told)
        assert offered == expected_slots(case, how, "context", rank, request, group)
        live = by_definition.live(case, "context", request, group, reserve=0, tokens=case.requests[request].prompt)
        if live <= by_definition.present(case, "context", request, group):
            assert set(own(case, "context", rank, live)) <= offered.keys()


def law_A4(case: Case, how: How) -> None:
    """A receiver asks for exactly what it keeps and lacks, all that is due among it."""
    lists = ToldLists(case, how)
    for rank, request, group in all_lists(lists, "generation"):
        told = lists.told("generation", rank, request, group)
        if told is None:
            assert by_definition.cannot_say(case, how.encoding, request)
            continue
        asked = lists.slots(told)
        assert asked == expected_slots(case, how, "generation", rank, request, group)
        assert set(own(case, "generation", rank, by_definition.due(case, request, group))) <= asked.keys()


def named_slots(told: Told) -> list[int]:
    """Every slot that a list names, tails too."""
    slots = [slot for slot in told.slots.tolist() if slot != HOLE]
    return slots + (told.tails.tolist() if isinstance(told, Span) else [])


def law_A5(case: Case, how: How) -> None:
    """The slots of a list are distinct, and lie in the pool."""
    lists = ToldLists(case, how)
    for side in SIDES:
        for rank, request, group in all_lists(lists, side):
            told = lists.told(side, rank, request, group)
            slots = named_slots(told) if told is not None else []
            (count,) = {
                lay_out(case, side).tables[rank].pools[entry.pool].count
                for entry in lay_out(case, side).tables[rank].entries
                if entry.group == group
            }
            assert len(set(slots)) == len(slots) and all(0 <= slot < count for slot in slots)


def law_A6(case: Case, how: How) -> None:
    """A run reaches from its anchor to the prompt's end; it is empty just where it is anchored at 0 and has nothing."""
    lists = ToldLists(case, how)
    for side in SIDES if how.encoding == "anchors" else ():
        for rank, request, group in all_lists(lists, side):
            told = lists.told(side, rank, request, group)
            if told is None or case.side(side).topology.cp > 1:
                continue
            assert isinstance(told, Span) and told.stride == 1
            blocks = len(by_definition.all_blocks(case, side, request, group))
            if len(told.slots):
                assert told.start + len(told.slots) == blocks
            else:
                assert told.start == 0 and not len(told.tails)


def law_A7(case: Case, how: How) -> None:
    """With V1, slots are asked for of the prompt's blocks that were not detached, and of beam tails, of no other id.

    For tables neither of what has left the window, nor of beam tails.
    """
    lists = ToldLists(case, how)
    if how.lists is None:
        translated_for_tables(lists)
        return
    for side in SIDES:
        for rank, request, group in all_lists(lists, side):
            held = lists.holdings.listed(side, rank, request, group)
            if not isinstance(held, BlockList):
                continue
            translated: list[int] = []
            known = lists.translate(side, rank, group)

            def spy(ids: Sequence[int], translated: list[int] = translated, known: Callable = known) -> np.ndarray:
                translated += ids
                return known(ids)

            try:
                how.lists.build(held, lists.extent(side, rank, request, group), spy)
            except Inexpressible:
                continue
            mine = own(case, side, rank, by_definition.all_blocks(case, side, request, group))
            there = by_definition.present(case, side, request, group)
            allowed = [held.ids[place] for place, ordinal in enumerate(mine) if ordinal in there]
            tails = by_definition.has_prompt_tails(case, side, request)
            assert translated in (allowed, [*allowed, *held.ids[len(held.ids) - tails :]] if tails else allowed)


def translated_for_tables(lists: ToldLists) -> None:
    """A7 of tables: rank by rank and window by window, the ids that are asked for while they are made."""
    case = lists.case
    asked: dict[tuple[int, Hashable], list[int]] = {}
    right = Translation.translate

    def spy(self: Translation, ids: Sequence[int], window: Hashable = None) -> np.ndarray:
        asked.setdefault((id(self), window), []).extend(ids)
        return right(self, ids, window)

    with patch.object(Translation, "translate", spy):
        lists.how.facts(case)
    for side in SIDES:
        for rank in lists.ranks(side):
            known = id(holdings_of(case).translation(side, rank))
            for group in lists.groups():
                expected: list[int] = []
                for request in lists.requests():
                    held = lists.holdings.listed(side, rank, request, group)
                    if not isinstance(held, BlockList):
                        continue
                    mine = own(case, side, rank, by_definition.all_blocks(case, side, request, group))
                    left = by_definition.present(case, side, request, group)
                    left &= by_definition.kept(case, side, request, group)
                    expected += [held.ids[place] for place, ordinal in enumerate(mine) if ordinal in left]
                assert asked.get((known, case.model.groups[group].name), []) == expected


def law_A8(case: Case, how: How) -> None:
    """V2 has a hole just where a block left the window or went to scratch; a list with another hole is refused."""
    lists = ToldLists(case, how)
    for side in SIDES:
        for rank, request, group in all_lists(lists, side):
            held = lists.holdings.listed(side, rank, request, group)
            if not isinstance(held, PageList):
                continue
            mine = own(case, side, rank, by_definition.all_blocks(case, side, request, group))
            there = by_definition.present(case, side, request, group)
            assert [slot != HOLE for slot in held.slots.tolist()[: len(mine)]] == [o in there for o in mine]
            first = next((place for place, ordinal in enumerate(mine) if ordinal in there), len(mine))
            for place in range(first + 1, len(mine)) if how.lists is not None else ():
                if mine[place] not in there:
                    continue
                holed = held.slots.copy()
                holed[place] = HOLE
                extent = lists.extent(side, rank, request, group)
                try:
                    told = how.lists.build(replace(held, slots=holed), extent, lists.translate(side, rank, group))
                except Inexpressible:
                    continue
                raise AssertionError(f"a hole at {mine[place]} was passed over: {told}")


def by_ordinal(case: Case, how: How, request: int) -> dict[tuple[int, int], list[tuple[object, object]]] | None:
    """(group, destination rank) -> due blocks that move for a request; None where it is refused."""
    plan = how.plan(case)
    if request in refused(plan):
        return None
    return {
        (group, rank): sorted((s, d) for _, s, d in moves if d in by_definition.due(case, request, group))  # type: ignore[type-var]
        for (number, group, rank), moves in moves_of(case, plan).items()
        if number == request
    }


def stays_within_reserve(case: Case, request: int) -> bool:
    """Whether no token that the sender added can have cost a due block, nor a step of its prefill."""
    asked, instance = case.requests[request], case.context
    beyond = asked.room("context") - asked.prompt - 1 if instance.manager == "v1" else asked.context.reached
    beyond = beyond if instance.manager == "v1" else beyond - asked.prompt
    ahead = asked.context.drafts - instance.scratch if instance.scratch is not None else 0
    return all(max(beyond, ahead) <= instance.reserve_of(group.name) for group in case.model.groups)


def law_A9(case: Case, how: How, other: Case) -> None:
    """What is due moves alike in ``other``: a state that differs in tokens beyond the prompt, neighbours or slots."""
    for request in range(min(len(case.requests), len(other.requests))):
        both = case, other
        if not all(stays_within_reserve(each, request) for each in both):
            continue
        if any(by_definition.cannot_say(each, how.encoding, request) for each in both):
            continue
        moved = [by_ordinal(each, how, request) for each in both]
        assert moved[0] is not None and moved[0] == moved[1]


def law_A10(case: Case, how: How) -> None:
    """A token more in the sequence never adds a block to what a sender offers."""
    if any(asked.beams > 1 for asked in case.requests):
        return  # where a window drops nothing
    requests = tuple(
        replace(asked, context=replace(asked.context, reached=asked.room("context") + 1)) for asked in case.requests
    )
    now, then = (ToldLists(each, how) for each in (case, replace(case, requests=requests)))
    for rank, request, group in all_lists(now, "context"):
        told = [lists.told("context", rank, request, group) for lists in (now, then)]
        if told[0] is not None and told[1] is not None:
            assert then.slots(told[1]).keys() <= now.slots(told[0]).keys()
