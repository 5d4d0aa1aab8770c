"""Positional block tables: what a cache manager of today hands over (spec: blocks, positional tables)."""

from __future__ import annotations

import numpy as np

from differential.managers import chunks
from differential.managers.chunks import chunks_of
from differential.managers.facts import BlockTable, Facts, RankFacts
from differential.managers.holdings import v2_holes
from differential.managers.v1 import removed_blocks
from oracle.model.buffers import LayerGroup
from oracle.model.case import Case, Request, SlotList
from oracle.model.sides import Side, lay_out


class Tables:
    """The steps of leaving blocks out of a table. Who overrides one lists wrong ones."""

    def first_listed(self, prompt: int, most: int, window: int, tokens_per_block: int) -> int:
        """The first block of a window that V1 lists, of a prompt that grew to ``most`` tokens.

        The query about to run sits at position ``prompt``: of the keys it sees, the oldest is ``window``
        - 1 further back. What left the window is of no use even where it was not detached yet, and what
        was detached is dangling even where the window of the prompt would still reach it.
        """
        return max((prompt + 1 - window) // tokens_per_block, removed_blocks(prompt, most, window, tokens_per_block))

    def reused_blocks(self, side: str, cached: int, tokens_per_block: int) -> int:
        """Blocks at the front that a receiver does not ask for; a sender offers all that it has."""
        return cached // tokens_per_block if side == "generation" else 0


RIGHT = Tables()


def gather_facts(case: Case, tables: Tables = RIGHT, slices: chunks.Slices = chunks.RIGHT) -> Facts:
    """The facts of ``case``: page tables and block tables of every rank of both sides, and the chunks of each request.

    A block table names a slot for each prompt block that is there to send, or to receive into, and -1
    for every other. Presented lists replace it as they are. Raises ``InvalidCase`` where the slots or
    page tables of the case cannot be.
    """
    ahead = case.context.look_ahead
    return Facts(
        _rank_facts(case, "context", tables),
        _rank_facts(case, "generation", tables),
        tuple(chunks_of(each, case.context.tokens_per_block, ahead, slices) for each in case.requests),
    )


def _rank_facts(case: Case, side: str, tables: Tables) -> tuple[RankFacts, ...]:
    layout: Side = lay_out(case, side)
    instance = case.side(side)
    topology = instance.topology
    presented = {(row.rank, row.group, row.request): row for row in case.presented if row.side == side}
    explicit = any(row.side == side for row in case.tables)
    holes = [
        [] if not group.is_paged else [_holes(case, side, group, each, explicit, tables) for each in case.requests]
        for group in case.model.groups
    ]
    found: list[RankFacts] = []
    for rank in topology.ranks():
        blocks: dict[tuple[int, int], BlockTable] = {}
        for group, by_request in layout.slots[rank.number].items():
            gone = holes[group]
            for index, slots in enumerate(by_request):
                if topology.attention_dp and case.requests[index].dp_rank(side) != rank.tp:
                    continue
                row = presented.get((rank.number, case.model.groups[group].name, index)) if presented else None
                if row is not None:
                    slots = _as_given(row)
                elif gone and gone[index]:
                    slots = slots.copy()
                    for first, end in gone[index]:
                        slots[first:end] = -1
                if topology.cp > 1 and gone:
                    blocks[index, group] = BlockTable(rank.cp, topology.cp, slots[rank.cp :: topology.cp])
                else:
                    blocks[index, group] = BlockTable(0, 1, slots)
        found.append(RankFacts(rank, layout.tables[rank.number], blocks))
    return tuple(found)


def _holes(
    case: Case, side: str, group: LayerGroup, request: Request, explicit: bool, tables: Tables
) -> list[tuple[int, int]]:
    """Block ordinals [first, end) that the manager of this side does not list, whichever rank it is."""
    instance = case.side(side)
    size = instance.tokens_per_block
    gone: list[tuple[int, int]] = []
    # A receiver's manager never lists a block that left its window, wherever slots lie; what a
    # sender's lists hold beyond its window only a receiver that asked for it would get.
    if group.window is not None and not (explicit and side == "context"):
        kept = group.window + instance.reserve_of(group.name)
        if group.length == "prompt" and instance.manager == "v2":
            gone += v2_holes(case, side, group, request)
        else:
            tokens = request.tokens(group.length)
            most = request.room(side) if group.length == "prompt" else tokens
            sinks = -(-group.sinks // size)
            first = tables.first_listed(tokens, most, kept, size)
            if first > sinks:
                gone.append((sinks, first))
    if group.length == "prompt":
        reused = tables.reused_blocks(side, request.state(side).cached, size)
        if reused:
            gone.append((0, reused))
    return gone


def _as_given(row: SlotList) -> np.ndarray:
    return np.array(row.slots, dtype=np.int64)
