"""Laws C1 to C5 and D1 to D3: slices, and what lands in memory (spec: blocks, 6.1); see ``tests.encoding_laws``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from differential.engines.host import HostEngine
from oracle.model.case import SIDES, Case
from oracle.model.sides import lay_out
from oracle.model.writes import Writes
from tests import block_definitions as by_definition
from tests.encoded_lists import How, Move, moves_of, own, refused

# ---- C: slices


def streams(case: Case, request: int, group: int) -> bool:
    """Whether the model's window still reaches block 0, so that its blocks need not wait for the last slice."""
    window = case.model.groups[group].window
    size = by_definition.size_of(case, "context")
    return window is None or any(token > case.requests[request].prompt - window for token in range(size))


def scratch_spares_the_window(case: Case, request: int) -> bool:
    """Whether no step of the prefill writes to scratch what the window still reaches at the prompt's end."""
    return case.context.scratch is None or case.requests[request].context.drafts <= case.context.scratch


def from_rank(case: Case, phase: int, moves: list[Move]) -> list[tuple[object, object]]:
    """What comes from the context-parallel ranks of a coordinate, in order: the order between ranks says nothing."""
    ranks = case.context.topology.cp
    return [(s, d) for _, s, d in moves if not isinstance(s, int) or s % ranks == phase]


def law_C1(case: Case, how: How) -> None:
    """The slices of a prompt together move what one slice of it moves, in the same order, each block with its chunk."""
    whole = replace(case, requests=tuple(replace(asked, cuts=()) for asked in case.requests))
    plans = [how.plan(each) for each in (case, whole)]
    cut, uncut = (moves_of(each, plan) for each, plan in zip((case, whole), plans, strict=True))
    for (request, group, rank), moves in cut.items():
        if request in refused(plans[0]):
            continue
        chunks = [chunk for chunk, *_ in moves]
        assert chunks == sorted(chunks)
        if streams(case, request, group):
            goes_with, _ = by_definition.slice_of(case, request)
            assert [(goes_with[d], d) for _, _, d in moves if isinstance(d, int)] == [
                (chunk, d) for chunk, _, d in moves if isinstance(d, int)
            ]
        if scratch_spares_the_window(case, request) and request not in refused(plans[1]):
            for phase in range(case.context.topology.cp):
                assert from_rank(case, phase, moves) == from_rank(case, phase, uncut[request, group, rank])


def law_C2(case: Case, how: How) -> None:
    """All that is due is written once when the last slice has gone; where any of it is lost, the request is refused."""
    plan = how.plan(case)
    for (request, group, rank), moves in moves_of(case, plan).items():
        if by_definition.lost(case, request):
            assert request in refused(plan)
        if request in refused(plan):
            assert by_definition.lost(case, request) or by_definition.cannot_say(case, how.encoding, request)
            continue
        written = [block for _, _, block in moves if isinstance(block, int)]
        assert len(set(written)) == len(written)
        assert set(own(case, "generation", rank, by_definition.due(case, request, group))) <= set(written)


def law_C3(case: Case, how: How) -> None:
    """One slice is the last, and is the final one; it goes out even if it carries nothing.

    Of the slices that the sender is told to send: a plan lists writes, and a slice without any leaves none,
    so whether it went out is to be seen in what drives the slices alone.
    """
    for request, slices in enumerate(how.facts(case).chunks):
        assert [each.last for each in slices] == [False] * (len(slices) - 1) + [True]
        assert len(slices) == by_definition.slice_of(case, request)[1]


def law_C4(case: Case, how: How) -> None:
    """A group whose front falls out of its window goes whole with the last slice."""
    plan = how.plan(case)
    for (request, group, _), moves in moves_of(case, plan).items():
        if not streams(case, request, group):
            last = len(how.facts(case).chunks[request]) - 1
            assert all(chunk == last for chunk, *_ in moves)


def law_C5(case: Case, how: How, cuts: tuple[int, ...], cached: int) -> None:
    """What moves depends neither on where a prefill is cut nor on what the sender itself had cached."""
    requests = tuple(
        replace(
            asked,
            cuts=tuple(cut for cut in cuts if cut < asked.prompt) if asked.beams == 1 else (),
            context=replace(asked.context, cached=min(cached, asked.prompt)),
        )
        for asked in case.requests
    )
    other = replace(case, requests=requests)
    plans = [how.plan(each) for each in (case, other)]
    moved = [moves_of(each, plan) for each, plan in zip((case, other), plans, strict=True)]
    for key in moved[0]:
        if scratch_spares_the_window(case, key[0]) and not any(key[0] in refused(plan) for plan in plans):
            for phase in range(case.context.topology.cp):
                first, second = (from_rank(case, phase, moves[key]) for moves in moved)
                assert first == second


# ---- D: bytes

POISON = 255


class Memory:
    """Both sides' pools, filled so that each byte of the source says where it lies."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.pools: dict[str, list[list[np.ndarray]]] = {}
        for side in SIDES:
            self.pools[side] = [
                [np.full(table.pool_extent(pool), POISON, dtype=np.uint8) for pool in range(len(table.pools))]
                for table in lay_out(case, side).tables
            ]

    def landed(self, plan: Writes) -> list[list[np.ndarray]]:
        """Number of the source byte that each byte of the destination was copied from, -1 where nothing was written.

        A byte holds too little, so the plan is carried out once for each digit of such a number.
        """
        digits, count = 0, sum(len(pool) for rank in self.pools["context"] for pool in rank)
        found = [[np.zeros(len(pool), dtype=np.int64) for pool in rank] for rank in self.pools["generation"]]
        untouched = [[np.ones(len(pool), dtype=bool) for pool in rank] for rank in self.pools["generation"]]
        while POISON**digits < count:
            first = 0
            for rank in self.pools["context"]:
                for pool in rank:
                    pool[:] = np.arange(first, first + len(pool)) // POISON**digits % POISON
                    first += len(pool)
            for rank in self.pools["generation"]:
                for pool in rank:
                    pool[:] = POISON
            HostEngine().carry(plan, self.pools["context"], self.pools["generation"])
            for rank, numbers, kept in zip(self.pools["generation"], found, untouched, strict=True):
                for pool, number, still in zip(rank, numbers, kept, strict=True):
                    number += pool.astype(np.int64) * POISON**digits
                    still &= pool == POISON
            digits += 1
        return [
            [np.where(still, -1, number) for number, still in zip(numbers, kept, strict=True)]
            for numbers, kept in zip(found, untouched, strict=True)
        ]

    def numbers(self, rank: int, group: int, slot: int) -> np.ndarray:
        """Numbers of the source's bytes in a slot."""
        pool, part = place_of(self.case, "context", rank, group, slot)
        before = [len(each) for other in self.pools["context"][:rank] for each in other]
        first = sum(before) + sum(len(each) for each in self.pools["context"][rank][:pool])
        return np.arange(first + part.start, first + part.stop)


def place_of(case: Case, side: str, rank: int, group: int, slot: int) -> tuple[int, slice]:
    """(pool, bytes of a slot that are a group's)."""
    table = lay_out(case, side).tables[rank]
    (entry,) = [entry for entry in table.entries if entry.group == group]
    start = slot * table.pools[entry.pool].slot_stride + entry.offset
    return entry.pool, slice(start, start + entry.nbytes)


def slots_by_block(case: Case, side: str, rank: int, request: int, group: int) -> dict[Any, int]:
    """Slot of each prompt block of a rank, and of each beam tail that holds tokens of the prompt."""
    layout = lay_out(case, side)
    _, tails = layout.spare_slots(rank, group, request)
    blocks = own(case, side, rank, by_definition.all_blocks(case, side, request, group))
    found: dict[Any, int] = {block: int(layout.slots[rank][group][request][block]) for block in blocks}
    wanted = by_definition.has_prompt_tails(case, side, request)
    return {**found, **{("tail", number): slot for number, slot in enumerate(tails.tolist()[:wanted])}}


def senders(case: Case, rank: int) -> list[int]:
    """Source ranks that hold any block of a destination rank."""
    ours, theirs = case.context.topology, case.generation.topology
    return [
        source
        for source in range(ours.size)
        if any(
            block % ours.cp == ours.rank(source).cp and block % theirs.cp == theirs.rank(rank).cp
            for block in range(ours.cp * theirs.cp)
        )
    ]


def law_D1(case: Case, how: How) -> None:
    """What is due lands from its own block; what is optional, and tails, right or not at all; all else stays."""
    plan = how.plan(case)
    memory = Memory(case)
    landed = memory.landed(plan)
    allowed = [[np.zeros(len(pool), dtype=bool) for pool in rank] for rank in memory.pools["generation"]]
    for (request, group, rank), _ in moves_of(case, plan).items():
        if request in refused(plan):
            continue
        ours = {
            block: memory.numbers(source, group, slot)
            for source in senders(case, rank)
            for block, slot in slots_by_block(case, "context", source, request, group).items()
        }
        due, asked = by_definition.due(case, request, group), by_definition.asked(case, request, group)
        for block, slot in slots_by_block(case, "generation", rank, request, group).items():
            may_move = block in asked if isinstance(block, int) else how.encoding != "tables" and bool(asked)
            if not may_move:
                continue
            pool, part = place_of(case, "generation", rank, group, slot)
            came = landed[rank][pool][part]
            allowed[rank][pool][part] = True
            size = by_definition.size_of(case, "generation")
            tokens = min(size, case.requests[request].prompt - block * size) if isinstance(block, int) else size
            valid = len(came) // size * tokens
            right = (came == ours[block])[:valid] if block in ours else np.zeros(valid, dtype=bool)
            assert right.all() or (block not in due and (came == -1).all())
    for numbers, may in zip(landed, allowed, strict=True):
        for number, there in zip(numbers, may, strict=True):
            assert (number[~there] == -1).all()


def law_D2(case: Case, how: How) -> None:
    """What is written is a slot of that request alone, and none of what it has from the reuse tree."""
    plan = how.plan(case)
    owners: dict[tuple[int, int, int], set[int]] = {}
    for request in range(len(case.requests)):
        for group in range(len(case.model.groups)):
            for rank in range(case.generation.topology.size):
                for slot in slots_by_block(case, "generation", rank, request, group).values():
                    pool, _ = place_of(case, "generation", rank, group, slot)
                    owners.setdefault((rank, pool, slot), set()).add(request)
    for (request, group, rank), moves in moves_of(case, plan).items():
        slots = slots_by_block(case, "generation", rank, request, group)
        missing = by_definition.missing(case, request, group)
        for _, _, block in moves:
            assert block in slots and (block in missing or not isinstance(block, int))
            pool, _ = place_of(case, "generation", rank, group, slots[block])
            assert owners[rank, pool, slots[block]] == {request}


def law_D3(case: Case, how: How) -> None:
    """What is read is a slot that the source holds at that time for this request."""
    plan = how.plan(case)
    for segment in plan.segments:
        rank, group, request = segment.source_rank, segment.group, segment.request
        held = by_definition.present(case, "context", request, group)
        slots = slots_by_block(case, "context", rank, request, group)
        stride = lay_out(case, "context").tables[rank].pools[segment.source_pool].slot_stride
        readable = {slot * stride for block, slot in slots.items() if block in held or not isinstance(block, int)}
        assert set(segment.source_bases.tolist()) <= readable
