"""Which blocks each side's cache manager lists of a request, and in which slots, for people to read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

from differential.managers.facts import Facts
from differential.managers.holdings import holdings_of
from differential.managers.tables import gather_facts
from differential.managers.v1 import BlockList
from kvwitness.words import count
from oracle.model.case import PLAIN, Case
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.truth.verdict import Kind, Violation


def may_differ(case: Case) -> bool:
    """Whether a manager of ``case`` may list other blocks than all of the prompt: windows, states, given lists."""
    stated = any(
        request.beams > 1 or request.context != PLAIN or request.generation != PLAIN for request in case.requests
    )
    return stated or bool(case.presented) or any(group.window is not None for group in case.model.groups)


@lru_cache(maxsize=4)
def _facts(case: Case) -> Facts:
    return gather_facts(case)


def prompt_slots(case: Case, side: str, rank: int, group: int, request: int) -> list[int]:
    """Slots by block ordinal, -1 where ``rank`` lists none; empty where the request or the group is not on it."""
    facts = _facts(case)
    ranks = facts.context if side == "context" else facts.generation
    table = ranks[rank].blocks.get((request, group))
    if table is None:
        return []
    length = len(lay_out(case, side).slots[rank][group][request])
    slots = [-1] * max(length, table.first + (len(table.slots) - 1) * table.stride + 1)
    for index, slot in enumerate(table.slots.tolist()):
        slots[table.first + index * table.stride] = slot
    return slots


def slots_beyond(case: Case, side: str, rank: int, group: int, request: int) -> list[int]:
    """Slots of the blocks after the prompt's, in order, -1 where ``rank`` does not list one."""
    layout = lay_out(case, side)
    beyond = layout.spare_slots(rank, group, request)[0].tolist()
    if not beyond:
        return []
    topology = case.side(side).topology
    first = len(layout.slots[rank][group][request])
    place = topology.rank(rank).cp
    mine = [ordinal for ordinal in range(first, first + len(beyond)) if ordinal % topology.cp == place]
    held = holdings_of(case).listed(side, rank, request, group)
    if isinstance(held, BlockList):
        listed = {ordinal for ordinal in mine if ordinal >= held.removed}
    elif held.given:
        return []
    else:
        slots = held.slots.tolist()
        listed = {ordinal for ordinal in mine if slots[(ordinal - place) // topology.cp] >= 0}
    return [slot if first + index in listed else -1 for index, slot in enumerate(beyond)]


def slots_text(case: Case, side: str, rank: int, group: int, request: int, most: int) -> str:
    """``- - 3 4 | drafts 5 | tails 8``: blocks of the prompt by ordinal, then those that are none of it."""
    slots = prompt_slots(case, side, rank, group, request)
    if not slots:
        return "(none)"
    said = [_slots(slots, most)]
    state, size = case.requests[request].state(side), case.side(side).tokens_per_block
    beyond = slots_beyond(case, side, rank, group, request)
    drafted = max(0, -(-(case.requests[request].prompt + state.drafts) // size) - len(slots))
    for word, some in (
        ("drafts", beyond[:drafted]),
        ("reached", beyond[drafted:]),
        ("tails", _tails(case, side, rank, group, request)),
    ):
        said += [f"| {word} {_slots(some, most)}"] if some else []
    return " ".join(said)


def _tails(case: Case, side: str, rank: int, group: int, request: int) -> list[int]:
    tails = lay_out(case, side).spare_slots(rank, group, request)[1].tolist()
    held = holdings_of(case).listed(side, rank, request, group) if tails else None
    return tails if isinstance(held, BlockList) else []  # given lists have those that they name


def _slots(slots: list[int], most: int) -> str:
    """Slots, ``-`` where there is none; in a list of more than ``most``, holes in a row are counted: ``-x12``."""
    if len(slots) <= most:
        return " ".join("-" if slot < 0 else str(slot) for slot in slots)
    said: list[str] = []
    shown = 0
    for is_hole, run in groupby(slots, lambda slot: slot < 0):
        some = list(run)
        if not is_hole:
            some = some[: most - len(said)]
        said += [f"-x{len(some)}" if len(some) > 1 else "-"] if is_hole else map(str, some)
        shown += len(some)
        if len(said) >= most:
            break
    return " ".join(said) + (f" and {len(slots) - shown} more" if shown < len(slots) else "")


def listed_blocks(case: Case, side: str, group: int, request: int, ranks: Iterable[int], *, beyond: bool) -> list[int]:
    """Ordinals that any of ``ranks`` lists of a group of blocks; with ``beyond`` those after the prompt too."""
    found: set[int] = set()
    for rank in ranks:
        slots = prompt_slots(case, side, rank, group, request)
        if slots and beyond:
            slots = slots + slots_beyond(case, side, rank, group, request)
        found |= {ordinal for ordinal, slot in enumerate(slots) if slot >= 0}
    return sorted(found)


def blocks_text(case: Case, side: str, request: int, *, beyond: bool) -> str:
    """``3 blocks``, or ``full 4, local 2 blocks`` where groups differ; empty without a group of the prompt's length."""
    ranks = range(case.side(side).topology.size)
    found = {
        group.name: len(listed_blocks(case, side, index, request, ranks, beyond=beyond))
        for index, group in enumerate(case.model.groups)
        if group.is_paged and group.length == "prompt"
    }
    if len(set(found.values())) < 2:
        return count(max(found.values()), "block") if found else ""
    return f"{', '.join(f'{name} {number}' for name, number in found.items())} blocks"


def wrong_block(case: Case, it: Violation) -> str:
    """What both sides list where a block came in place of another; empty where it says nothing.

    ``context rank 0 lists blocks 0-1 of request 0; generation rank 0 lists blocks 1-2``.
    """
    if it.kind is not Kind.WRONG_ELEMENT or it.due is None or it.found is None or not may_differ(case):
        return ""
    if it.due.ordinal == it.found.ordinal or it.due.group != it.found.group:
        return ""
    if it.request is None or it.source is None or it.destination is None:
        return ""
    ours, theirs = (
        _lists(case, side, rank, it.due.group, it.request)
        for side, rank in (("context", it.source), ("generation", it.destination))
    )
    return f"context rank {it.source} {ours} of request {it.request}; generation rank {it.destination} {theirs}"


def with_lists(case: Case, it: Violation, lines: Iterable[str]) -> tuple[str, ...]:
    """``lines`` of the argument of a violation; where a wrong block came, what both sides list stands below that."""
    found, said = list(lines), wrong_block(case, it)
    differs = next((index for index, line in enumerate(found) if line.startswith("  differs ")), None)
    if said and differs is not None:
        found.insert(differs + 1, f"  {'because':<8} {said}")
    return tuple(found)


def _lists(case: Case, side: str, rank: int, group: int, request: int) -> str:
    blocks = listed_blocks(case, side, group, request, [rank], beyond=True)
    ranges = str(LayerSet.of(blocks)).replace("..", "-")
    return f"lists block{'s' * (len(blocks) != 1)} {ranges}" if blocks else "lists no blocks"
