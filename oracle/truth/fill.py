"""Filling the memory of both sides with ids, and each destination byte with the sender that must send it."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from oracle.model.case import Case
from oracle.model.pages import PageTable
from oracle.model.topology import Rank
from oracle.truth.blocks import FORBIDDEN, OPTIONAL, block_classes, resident_blocks
from oracle.truth.reserved import INCOMPATIBLE, PADDING
from oracle.truth.rows import Blocks, blocks_of, tails_of
from oracle.truth.stacks import FlatSide, Stack, stacks
from oracle.truth.target import Target

if TYPE_CHECKING:
    from oracle.truth.elements import Frame, Truth


def present(frame: Frame, side: str, request: int, ranks: tuple[Rank, ...]) -> list[int]:
    """Positions in ``ranks`` of those that the request is on."""
    if not frame.case.side(side).topology.attention_dp:
        return list(range(len(ranks)))
    home = frame.case.requests[request].dp_rank(side)
    return [position for position, rank in enumerate(ranks) if rank.tp == home]


def owned(frame: Frame, side: str, ranks: list[Rank], group: int, blocks: int) -> np.ndarray | None:
    """Whether each rank owns each block ordinal (ranks x blocks): under Helix every cp-th; None: all own all."""
    cp = frame.case.side(side).topology.cp
    if cp == 1 or not frame.case.model.groups[group].is_paged:
        return None
    return np.arange(blocks) % cp == np.array([rank.cp for rank in ranks])[:, None]


def together(case: Case) -> list[list[int]]:
    """Requests that are on the same ranks of both sides."""
    if len(case.requests) == 1:
        return [[0]]
    found: dict[tuple[int, int], list[int]] = {}
    for number, request in enumerate(case.requests):
        found.setdefault((request.context_dp, request.generation_dp), []).append(number)
    return list(found.values())


def _slots_of(flat: FlatSide, ranks: list[Rank], group: int, requests: list[int]) -> np.ndarray:
    """Slots of the blocks of ``requests``, one request after another: ranks x blocks."""
    slots = flat.side.slots
    if len(requests) == 1:
        (request,) = requests
        return np.array([slots[rank.number][group][request] for rank in ranks])
    own = [slots[rank.number][group] for rank in ranks]
    if len(requests) == len(own[0]):
        return np.array([np.concatenate(by_request) for by_request in own])
    return np.array([np.concatenate([by_request[request] for request in requests]) for by_request in own])


def _per_request(parts: list[np.ndarray | None]) -> np.ndarray | None:
    known = [part for part in parts if part is not None]
    if len(known) < 2:
        return known[0] if known else None
    return np.concatenate(known, axis=-1)


def fill_source(truth: Truth) -> None:
    """Write the id of every resident block's bytes into ``truth.source``."""
    case, flat, memory = truth.case, truth.context, truth.source
    shift = 0 if truth.comparable else INCOMPATIBLE
    explicit = bool(case.tables) and any(row.side == "context" for row in case.tables)
    alike = together(case)
    for table, members in flat.alike:
        for requests in alike:
            here = present(truth, "context", requests[0], members)
            if not here:
                continue
            ranks = [members[position] for position in here]
            for group in flat.side.slots[members[0].number]:
                rows = _blocks(truth, "context", group, requests)
                if not len(rows.ordinals):
                    continue
                slots = _slots_of(flat, ranks, group, requests)
                mask = _per_request([owned(truth, "context", ranks, group, count) for count in rows.counts])
                if explicit or case.model.groups[group].window is not None:
                    ends = np.cumsum(rows.counts)[:-1]
                    split = zip(requests, np.split(slots, ends, axis=1), strict=True)
                    held = np.concatenate([resident_blocks(case, r, group, own) for r, own in split], axis=1)
                    mask = held if mask is None else mask & held
                parts = [(rows, slots, mask)]
                if flat.side.spare:
                    parts += [(own, places, None) for own, places in tails_of(truth, "context", group, requests, ranks)]
                for stack in _stacks(truth, "context", group, table, members):
                    pool = table.pools[stack.pool]
                    ids = stack.ids if len(stack.ids) == 1 else stack.ids[here]
                    for own, places, chosen in parts:
                        target = Target(flat, stack, ranks, places, pool.slot_stride, chosen)
                        if stack.padded and not pool.layer_stride:
                            memory[target.edges(pool.slot_bytes)] = PADDING
                        ahead = own.ids(stack)
                        target.put(memory, ids[:, None, :], (ahead + shift if shift else ahead)[None])


def _blocks(truth: Truth, side: str, group: int, requests: list[int]) -> Blocks:
    """The blocks of requests that are on the same ranks, kept: sides of one block length have the same."""
    key = (group, requests[0], truth.case.side(side).tokens_per_block)
    found = truth.blocks.get(key)
    if found is None:
        found = truth.blocks[key] = blocks_of(truth, side, group, requests)
    return found


def _stacks(truth: Truth, side: str, group: int, table: PageTable, ranks: tuple[Rank, ...]) -> list[Stack]:
    """The stacks of one side, kept: requests on other ranks, and who elects senders, ask for them again."""
    key = (side, id(table), group)
    found = truth.kept.get(key)
    if found is None:
        base = (truth.context_keys if side == "context" else truth.generation_keys).base
        found = truth.kept[key] = stacks(truth.case, side, group, table, ranks, base)
    return found


def fill_destination(truth: Truth, padding: str) -> None:
    """Write what is due at every destination byte, its class and its elected sender."""
    case, flat = truth.case, truth.generation
    explicit = bool(case.tables) and any(row.side == "generation" for row in case.tables)
    alike = together(case)
    sent_from: dict[tuple[int, int], Sources] = {}
    wanted_of: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    for table, members in flat.alike:
        for requests in alike:
            here = present(truth, "generation", requests[0], members)
            if not here:
                continue
            cached = max([case.requests[request].generation.cached for request in requests])
            ranks = [members[position] for position in here]
            for group in flat.side.slots[members[0].number]:
                key = (group, requests[0])
                rows = _blocks(truth, "generation", group, requests)
                if key not in wanted_of:
                    classes = _per_request([block_classes(case, request, group) for request in requests])
                    wanted_of[key] = classes, _row_classes(rows, classes, padding)
                    sent_from[key] = Sources(truth, requests, group)
                classes, by_row = wanted_of[key]
                sources = sent_from[key]
                what = case.model.groups[group]
                slots = _slots_of(flat, ranks, group, requests)
                mask = _per_request([owned(truth, "generation", ranks, group, count) for count in rows.counts])
                if explicit or cached or what.window is not None:
                    wanted = (slots >= 0) & (classes != FORBIDDEN)
                    mask = wanted if mask is None else mask & wanted
                parts = [(rows, by_row, slots, mask)]
                if truth.with_tails and flat.side.spare:
                    found = tails_of(truth, "generation", group, requests, ranks)
                    optional = np.full((1, 1), OPTIONAL, dtype=np.uint8)
                    parts += [(own, optional, places, None) for own, places in found]
                if not len(rows.ordinals):
                    continue
                filled = [_moving(stack) for stack in _stacks(truth, "generation", group, table, members)]
                filled = [stack for stack in filled if len(stack.offsets)]
                all_ids = [stack.ids if len(stack.ids) == 1 else stack.ids[here] for stack in filled]
                for stack, ids, senders in zip(filled, all_ids, sources.elect(ranks, all_ids), strict=True):
                    for own, klass, places, chosen in parts:
                        target = Target(flat, stack, ranks, places, table.pools[stack.pool].slot_stride, chosen)
                        target.put(truth.due, ids[:, None, :], own.ids(stack)[None])
                        target.put(truth.klass, (klass.take(stack.rows, axis=1) if klass.shape[1] > 1 else klass)[None])
                        target.put(truth.elected, _by_block(senders, own.ordinals))
                        truth.owned.append((target.forgetting(), own.owners))


def _row_classes(rows: Blocks, classes: np.ndarray, padding: str) -> np.ndarray:
    """Class of each block's rows by the last token of a row: rows past the prompt may be optional.

    (blocks, 1) where all rows of a block have one class, else (blocks, tokens + 1): the last column, which -1
    finds too, is of bytes without a token.
    """
    if padding != "optional" or rows.left is None:
        return classes[:, None]
    tokens = rows.by_token.shape[1]
    found = classes[:, None].repeat(tokens + 1, axis=1)
    found[:, :tokens][np.arange(tokens) >= rows.left[:, None]] = OPTIONAL
    return found


def _by_block(senders: list[np.ndarray], ordinals: np.ndarray) -> np.ndarray:
    """Elected senders of each block's bytes: ranks x (blocks or 1) x bytes."""
    if len(senders) == 1:
        return senders[0][:, None, :]
    return np.stack(senders, axis=1)[:, ordinals % len(senders)]


def _moving(stack: Stack) -> Stack:
    """What of the stack a transfer brings."""
    if stack.all_move:
        return stack
    keep = stack.moves
    return Stack(
        stack.ranks,
        stack.pool,
        stack.offsets[keep],
        stack.ids[:, keep],
        stack.rows[keep],
        keep[keep],
        True,
        stack.padded,
    )


class Sources:
    """The context ranks that requests on the same ranks are on, in rank order, and what each holds of a group."""

    def __init__(self, truth: Truth, requests: list[int], group: int) -> None:
        self.truth = truth
        self.requests = requests
        self.group = group
        case, flat = truth.case, truth.context
        self.paged = case.model.groups[group].is_paged
        found: list[tuple[Rank, np.ndarray]] = []
        stacked: np.ndarray | tuple[()] = ()
        for table, members in flat.alike:
            here = present(truth, "context", requests[0], members)
            if not here:
                continue
            masks = np.zeros((len(here), truth.context_keys.width), dtype=bool)
            if truth.comparable:
                for stack in _stacks(truth, "context", group, table, members):
                    if len(stack.ids) == 1:
                        masks[:, stack.ids[0]] = True
                    else:
                        masks[np.arange(len(here))[:, None], stack.ids[here]] = True
            found += [(members[position], masks[index]) for index, position in enumerate(here)]
            stacked = masks
        if len(found) != len(stacked):
            found.sort(key=lambda pair: pair[0].number)
            stacked = np.array([mask for _, mask in found])
        self.ranks = [rank for rank, _ in found]
        self.numbers = np.array([rank.number for rank in self.ranks], dtype=np.int32)
        self.masks = stacked
        """whether each rank holds each id of a block: ranks x width"""

    def elect(self, ranks: list[Rank], parts: list[np.ndarray]) -> list[list[np.ndarray]]:
        """Elected source ranks of the bytes of each of ``parts``, ids in a block (ranks or 1 x bytes).

        For each part, by ordinal residue of the source's context parallelism: ranks x bytes.
        """
        if not parts:
            return []
        case = self.truth.case
        cp = case.context.topology.cp if self.paged else 1
        key = case.requests[self.requests[0]].generation_dp
        heard = [self.truth.heard[self.requests[0]][rank.number] for rank in ranks]
        paired = [[rank.number in own for own in heard] for rank in self.ranks]
        ids = parts[0]
        if len(parts) > 1:
            height = max([len(ids) for ids in parts])
            ids = np.concatenate([own if len(own) == height else own.repeat(height, axis=0) for own in parts], axis=1)
        held = self.masks.take(ids, axis=1)
        if not all(map(all, paired)):
            held = held & np.array(paired)[:, :, None]
        found: list[list[np.ndarray]] = [[] for _ in parts]
        for residue in range(cp):
            able = held if cp == 1 else held & np.array([rank.cp == residue for rank in self.ranks])[:, None, None]
            first = able
            if key:
                # The elected candidate is the first whose running number of holders reaches the pick.
                running = able.cumsum(axis=0, dtype=np.int32)
                first = running == key % np.maximum(running[-1], 1) + 1
            elected = self.numbers[first.argmax(axis=0)]
            served = able.any(axis=0)
            lacking = not served.all()
            if lacking:
                elected[~served] = -1
            begin = 0
            for own, mine in zip(found, parts, strict=True):
                end = begin + mine.shape[1]
                own.append(elected[:, begin:end])
                if lacking:
                    self._note_unserved(residue, ranks, mine, ~served[:, begin:end])
                begin = end
        return found

    def _note_unserved(self, residue: int, ranks: list[Rank], ids: np.ndarray, none: np.ndarray) -> None:
        """Remember the first index that no source holds, if an ordinal of this residue would show it."""
        truth, case = self.truth, self.truth.case
        if case.model.groups[self.group].native_only or not none.any():
            return
        cp, own = (side.topology.cp if self.paged else 1 for side in (case.context, case.generation))
        for position, rank in enumerate(ranks):
            mine = rank.cp if self.paged else 0
            shown = [o for o in range(lcm(cp, own)) if o % cp == residue and o % own == mine]
            lacking = none[position if len(none) > 1 else 0]
            if shown and lacking.any():
                row = ids[position if len(ids) > 1 else 0]
                number = shown[0] * truth.generation_keys.width + int(row[lacking].min())
                truth.unserved += [(each, rank.number, number) for each in self.requests]
