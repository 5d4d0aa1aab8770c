"""Positional block tables: what a cache manager of today hands over (spec: blocks, positional tables)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from differential.managers import chunks
from differential.managers.chunks import chunks_of
from differential.managers.facts import BlockTable, Facts, RankFacts
from differential.managers.holdings import Holdings, holdings_of, v2_holes
from differential.managers.spans import NONE, count_below
from differential.managers.v1 import BlockList, removed_blocks
from differential.managers.v2 import Range
from oracle.model.buffers import LayerGroup
from oracle.model.case import Case, Request, SlotList
from oracle.model.sides import Side, lay_out
from oracle.model.topology import Rank

Translate = Callable[[Sequence[int]], np.ndarray]


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

    def slots_of_ids(self, held: BlockList, first: int, blocks: int, translate: Translate) -> np.ndarray:
        """Slots of a V1 list's entries [first, blocks), -1 in front of them.

        Only those ids are asked for: one in front may name anybody's block by now, one behind is none of
        the prompt. Raises what ``translate`` raises.
        """
        ids = held.ids[: held.own][first:blocks]
        if len(ids) == blocks:
            return translate(ids) if ids else NONE
        slots = np.full(blocks, -1, dtype=np.int64)
        if ids:
            slots[first : first + len(ids)] = translate(ids)
        return slots


RIGHT = Tables()


def mask_head(table: BlockTable, start: int) -> BlockTable:
    """``table`` with nothing in front of block ``start`` of the whole prompt; other entries stay as they are."""
    slots = table.slots.copy()
    slots[: count_below(start, table.first, table.stride)] = -1
    return replace(table, slots=slots)


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
    holdings = holdings_of(case) if instance.manager == "v1" and not explicit else None
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
                elif gone and holdings is not None:
                    blocks[index, group] = _table_of_ids(holdings, side, rank, index, group, gone[index], tables)
                    continue
                elif gone and (gone[index].left or gone[index].reused):
                    slots = slots.copy()
                    for first, end in gone[index].left:
                        slots[first:end] = -1
                    slots[: gone[index].reused] = -1
                if topology.cp > 1 and gone:
                    blocks[index, group] = BlockTable(rank.cp, topology.cp, slots[rank.cp :: topology.cp])
                else:
                    blocks[index, group] = BlockTable(0, 1, slots)
        found.append(RankFacts(rank, layout.tables[rank.number], blocks))
    return tuple(found)


class _Holes(NamedTuple):
    """Blocks of a whole prompt that a side does not list.

    ``left``: ordinals [first, end) of those that its manager has no page for, or no use; ``reused``: how
    many at the front are not asked for.
    """

    left: list[Range]
    reused: int


def _holes(case: Case, side: str, group: LayerGroup, request: Request, explicit: bool, tables: Tables) -> _Holes:
    """What the manager of this side does not list, whichever rank it is."""
    instance = case.side(side)
    size = instance.tokens_per_block
    left: list[Range] = []
    # A receiver's manager never lists a block that left its window, wherever slots lie; what a
    # sender's lists hold beyond its window only a receiver that asked for it would get.
    if group.window is not None and not (explicit and side == "context"):
        kept = group.window + instance.reserve_of(group.name)
        if group.length == "prompt" and instance.manager == "v2":
            left = v2_holes(case, side, group, request)
        else:
            tokens = request.tokens(group.length)
            most = request.room(side) if group.length == "prompt" else tokens
            sinks = -(-group.sinks // size)
            first = tables.first_listed(tokens, most, kept, size)
            if first > sinks:
                left = [(sinks, first)]
    reused = tables.reused_blocks(side, request.state(side).cached, size) if group.length == "prompt" else 0
    return _Holes(left, reused)


def _table_of_ids(
    holdings: Holdings, side: str, rank: Rank, request: int, group: int, gone: _Holes, tables: Tables
) -> BlockTable:
    """What V1 tells of a rank's blocks: the ids of those that are left, and where they lie (spec: blocks, 2.4)."""
    case = holdings.case
    held = holdings.listed(side, rank.number, request, group)
    assert isinstance(held, BlockList)
    blocks, stride = len(lay_out(case, side).slots[rank.number][group][request]), case.side(side).topology.cp
    # V1 keeps no sinks, so whatever it does not list is the front.
    first, reused = gone.left[0][1] if gone.left else 0, gone.reused
    if stride > 1:
        first, blocks, reused = (count_below(ordinal, rank.cp, stride) for ordinal in (first, blocks, reused))
    where, window = holdings.translation(side, rank.number), case.model.groups[group].name
    slots = tables.slots_of_ids(held, first, blocks, lambda ids: where.translate(ids, window))
    slots[:reused] = -1
    return BlockTable(rank.cp, stride, slots)


def _as_given(row: SlotList) -> np.ndarray:
    return np.array(row.slots, dtype=np.int64)
