"""Block lists in the ledger: what it says the suffix sender takes for which block, and entries about cache states."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from differential.ledger import check_case, entries, find_entry
from differential.ledger.legacy.lists import asked_blocks, is_misplaced, offered_blocks, sent_for
from differential.ledger.legacy.sides import is_helix
from differential.managers.tables import gather_facts
from differential.subjects.registry import find_subject
from oracle.model.case import SIDES, Case, Native, Request, SideState
from oracle.model.writes import Writes
from strategies.cases import decode
from strategies.kinds import find_kind
from strategies.numbers import WIDTH
from tests.ledger_cases import compared
from tests.small_cases import case_of, group

WINDOWED = tuple(map(find_kind, ("vswa", "gemma4", "csa2", "deepseek_v4")))
SUFFIX = find_subject("native:suffix")
KEY = "key @ 0 : T D(1) ; 8"
NATIVE = Native((("all", "indexed"),))


def declared(case: Case) -> Case:
    return replace(case, native=NATIVE)


def windowed(prompt: int, window: int, size: int = 1, *, sinks: int = 0, cp: int = 1, **sides: object) -> Case:
    request = Request(
        0, prompt, context=sides.pop("context", SideState()), generation=sides.pop("generation", SideState())
    )  # type: ignore[arg-type]
    what = group(KEY, window=window, sinks=sinks)
    return declared(case_of(what, "tp1", f"tp1 cp{cp}", size=size, requests=(request,), **sides))  # type: ignore[arg-type]


def accepted(case: Case, name: str = "native:suffix") -> set[str]:
    """The entries that explain how a legacy sender differs in ``case``; all that it does is explained."""
    checked = check_case(case, [find_subject("mapping"), find_subject(name)])
    assert checked.passed, [line for each in checked.settled for line in each.open.lines()]
    return {entry for each in checked.settled for entry in each.accepted}


def sent_by_plan(case: Case, plan: Writes, request: int, group: int, destination: int, source: int) -> dict[int, int]:
    """Block of the receiver -> block that a rank sends for it, read off the slots of the plan."""
    facts = gather_facts(case)
    tables = facts.context[source].blocks[request, group], facts.generation[destination].blocks[request, group]
    strides = [facts.context[source].table.pools, facts.generation[destination].table.pools]
    found = {}
    for segment in plan.segments:
        place = segment.request, segment.group, segment.source_rank, segment.destination_rank
        if place != (request, group, source, destination):
            continue
        pools = segment.source_pool, segment.destination_pool
        slots = [
            bases // pool[number].slot_stride
            for bases, pool, number in zip(
                (segment.source_bases, segment.destination_bases), strides, pools, strict=True
            )
        ]
        ordinals = [
            [table.first + table.stride * int(np.flatnonzero(table.slots == slot)[0]) for slot in own]
            for table, own in zip(tables, slots, strict=True)
        ]
        found.update(zip(ordinals[1], ordinals[0], strict=True))
    return found


def test_the_suffix_sender_takes_for_each_block_what_the_ledger_says() -> None:
    random = Random(21)
    compared_lists = moved = 0
    for _ in range(600):
        case = decode(random.randbytes(WIDTH), kinds=WINDOWED)
        plan = SUFFIX.plan(case, gather_facts(case))
        if not isinstance(plan, Writes) or not (case.context.topology.cp == 1 or is_helix(case)):
            continue
        refused = {each.request for each in plan.refusals}
        for place in {(s.request, s.group, s.destination_rank, s.source_rank) for s in plan.segments}:
            request, group, destination = place[:3]
            what = case.model.groups[group]
            if request in refused or what.window is None or case.requests[request].cuts:
                continue
            asked = asked_blocks(case, request, group, destination)
            offered = offered_blocks(case, request, group, destination)
            said = [sent_for(case, request, group, each, asked) for each in offered]
            found = sent_by_plan(case, plan, *place)
            assert found in said
            compared_lists += 1
            moved += any(block != own for block, own in found.items())
    assert compared_lists > 300 and moved > 20


# ---- a lost block


@pytest.mark.parametrize("name", ["native", "native:suffix", "native:suffix,no-helix"])
@pytest.mark.parametrize("manager", ["v1", "v2"])
def test_a_sender_that_lost_a_due_block_goes_on_without_it(name: str, manager: str) -> None:
    lost = windowed(8, 5, 2, context=SideState(reached=12), context_side={"manager": manager})
    assert accepted(lost, name) == {"lost-block-is-not-noticed"}
    kept = windowed(8, 5, 2, context=SideState(reached=9), context_side={"manager": manager})
    assert accepted(kept, name) == set()


# ---- sinks


def test_sinks_stand_where_blocks_are_that_only_the_receiver_lists() -> None:
    case = windowed(6, 2, sinks=1, generation_side={"reserve": (("kv", 2),)})
    assert accepted(case) == {"sinks-in-a-suffix-list"}
    assert accepted(case, "native") == set()
    assert accepted(windowed(6, 2, sinks=1)) == set()
    assert accepted(windowed(6, 2, generation_side={"reserve": (("kv", 2),)})) == set()


def test_a_sender_that_lists_more_is_told_by_another_entry() -> None:
    case = windowed(6, 2, sinks=1, context_side={"reserve": (("kv", 2),)})
    assert accepted(case) == {"window-start-without-trim"}


# ---- Helix


@pytest.mark.parametrize(("reserve", "shifts"), [(0, False), (1, True), (2, False), (3, True)])
def test_blocks_shift_where_the_sender_keeps_an_odd_number_of_them(reserve: int, shifts: bool) -> None:
    """Eight tokens, of which the window has left four: what begins where is decided by the sender's own reserve."""
    case = windowed(8, 5, cp=2, context_side={"reserve": (("kv", reserve),)})
    assert ("suffix-strided-from-its-start" in accepted(case)) == shifts


def test_a_receiver_of_which_one_rank_is_right_differs_on_the_others_alone() -> None:
    case = windowed(4, 2, cp=2)
    entry = find_entry("suffix-strided-from-its-start")
    found = compared(case, "native:suffix").bytes
    assert found and all(entry.covers(case, each) and is_misplaced(case, each) for each in found)
    assert not any(entry.covers(case, replace(each, ordinal=each.ordinal + 2)) for each in found)  # type: ignore[operator]


# ---- chunks and context-parallel senders


def test_chunks_of_a_sender_with_stages_are_refused_by_the_newest_sender_alone() -> None:
    stages = ("tp1 pp1+1", "tp1 pp2")
    case = declared(case_of(group("key @ 0..1 : T D(1) ; 8"), *stages, size=1, requests=(Request(0, 3, cuts=(1,)),)))
    assert accepted(case, "native") == {"chunks-with-pipeline"}
    assert accepted(case, "native:suffix") == set()
    sides = {side: replace(case.side(side), tokens_per_block=4) for side in SIDES}
    within = replace(case, **sides)
    assert accepted(within, "native") == set()  # no block is full before the last chunk


def test_several_context_parallel_senders_each_send_the_end_of_their_list() -> None:
    request = Request(0, 4, generation=SideState(2))
    case = declared(case_of(KEY, "tp1 cp2", "tp1", size=1, requests=(request,)))
    assert accepted(case) == {"suffixes-of-context-parallel-senders"}
    assert accepted(replace(case, requests=(Request(0, 4),))) == {"context-parallel-sender-of-suffixes"}


def test_every_entry_about_lists_is_one_of_the_suffix_sender() -> None:
    about = [entry for entry in entries() if entry.component == "legacy suffix alignment"]
    assert len(about) == 4
    assert all("native" not in entry.second for entry in about)
