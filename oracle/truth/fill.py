"""Filling the memory of both sides with ids, and each destination byte with the sender that must send it."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from oracle.model.pages import PageTable
from oracle.model.topology import Rank
from oracle.truth.blocks import FORBIDDEN, OPTIONAL, block_classes, resident_blocks
from oracle.truth.reserved import INCOMPATIBLE, PADDING
from oracle.truth.rows import Blocks, blocks_of, tails_of
from oracle.truth.stacks import FlatSide, Stack, stacks

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


def together(truth: Truth, side: str, ranks: tuple[Rank, ...]) -> list[tuple[list[int], list[int]]]:
    """(requests, positions in ``ranks`` of those that they are on), for requests on the same ranks of both sides."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, request in enumerate(truth.case.requests):
        found.setdefault((request.context_dp, request.generation_dp), []).append(number)
    placed = [(requests, present(truth, side, requests[0], ranks)) for requests in found.values()]
    return [(requests, here) for requests, here in placed if here]


class Target:
    """Where the blocks of some requests lie in the flat memory of one side, for one stack of ranks.

    ``mask`` (ranks x blocks): which of them there are; None: all.
    """

    __slots__ = ("_by_row", "_flat", "_picked", "_ranks", "_slots", "_where", "mask", "stack", "stride")

    BIG = 1 << 15
    """bytes from which rows of memory are written as they are, instead of each byte by its address"""

    def __init__(
        self, flat: FlatSide, stack: Stack, ranks: list[Rank], slots: np.ndarray, stride: int, mask: np.ndarray | None
    ) -> None:
        self.stack = stack
        self.stride = stride
        self.mask = mask
        self._flat = flat
        self._ranks = ranks
        self._slots = slots
        self._by_row = stack.whole and slots.size * len(stack.offsets) > self.BIG
        self._where: np.ndarray | None = None
        self._picked: tuple[np.ndarray, ...] = ()

    def put(self, memory: np.ndarray, values: np.ndarray, added: np.ndarray | None = None) -> None:
        """Write ``values`` plus ``added``, each of a shape that broadcasts to ranks x blocks x bytes."""
        if self._by_row:
            self._put_rows(memory, values, added)
            return
        if added is not None:
            values = values + added
        where = self.addresses()
        if self.mask is not None:
            # Which rank and block each row of addresses is of; an axis of length 1 stands for all.
            ranks, blocks = self._picked
            values = values[ranks if len(values) > 1 else 0, blocks if values.shape[1] > 1 else 0]
        memory[where] = values

    def _put_rows(self, memory: np.ndarray, values: np.ndarray, added: np.ndarray | None) -> None:
        width = len(self.stack.offsets)
        for position, rank in enumerate(self._ranks):
            start = self._flat.starts[rank.number][self.stack.pool]
            chosen = slice(None) if self.mask is None else self.mask[position]
            slots = self._slots[position][chosen]
            end = start + (int(slots.max(initial=-1)) + 1) * self.stride
            rows = memory[start:end].reshape(-1, self.stride)[:, :width]
            own = values[position if len(values) > 1 else 0]
            own = own[chosen] if len(own) > 1 else own
            if added is None:
                rows[slots] = own
                continue
            more = added[0] if added.shape[1] == 1 else added[0][chosen]
            if len(own) > 1:
                rows[slots] = own + more
                continue
            # Row by row straight into memory: a sum of its own would be as large as the memory.
            for slot, ahead in zip(slots.tolist(), np.broadcast_to(more, (len(slots), more.shape[1])), strict=True):
                np.add(own[0], ahead, out=rows[slot])

    def edges(self, width: int) -> np.ndarray:
        """Addresses of all ``width`` bytes of every slot, where the stack's ``offsets`` are not all of them."""
        return self.addresses()[..., :1] - self.stack.offsets[0] + np.arange(width)

    def addresses(self) -> np.ndarray:
        """Addresses of every byte: ranks x blocks x bytes, or blocks of ``mask`` x bytes."""
        if self._where is None:
            base = np.array([self._flat.starts[rank.number][self.stack.pool] for rank in self._ranks])
            start = base[:, None] + self._slots * self.stride
            if self.mask is not None:
                self._picked = self.mask.nonzero()
                start = start[self._picked]
            self._where = start[..., None] + self.stack.offsets
        return self._where


def _slots_of(flat: FlatSide, ranks: list[Rank], group: int, requests: list[int]) -> np.ndarray:
    """Slots of the blocks of ``requests``, one request after another: ranks x blocks."""
    rows = [[flat.side.slots[rank.number][group][request] for rank in ranks] for request in requests]
    return np.array(rows[0]) if len(rows) == 1 else np.concatenate([np.array(row) for row in rows], axis=1)


def _per_request(parts: list[np.ndarray | None]) -> np.ndarray | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=-1) if known else None


def fill_source(truth: Truth) -> None:
    """Write the id of every resident block's bytes into ``truth.source``."""
    case, flat, memory = truth.case, truth.context, truth.source
    shift = 0 if truth.comparable else INCOMPATIBLE
    explicit = any(row.side == "context" for row in case.tables)
    for table, members in flat.alike:
        for requests, here in together(truth, "context", members):
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
                        target.put(memory, ids[:, None, :], (own.ids(stack) + shift)[None])


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
    explicit = any(row.side == "generation" for row in case.tables)
    sent_from: dict[tuple[int, int], Sources] = {}
    wanted_of: dict[tuple[int, int], np.ndarray] = {}
    for table, members in flat.alike:
        for requests, here in together(truth, "generation", members):
            ranks = [members[position] for position in here]
            for group in flat.side.slots[members[0].number]:
                key = (group, requests[0])
                if key not in wanted_of:
                    wanted_of[key] = np.concatenate([block_classes(case, request, group) for request in requests])
                    sent_from[key] = Sources(truth, requests, group)
                rows, classes = _blocks(truth, "generation", group, requests), wanted_of[key]
                sources = sent_from[key]
                what = case.model.groups[group]
                slots = _slots_of(flat, ranks, group, requests)
                mask = _per_request([owned(truth, "generation", ranks, group, count) for count in rows.counts])
                cached = any(case.requests[request].generation.cached for request in requests)
                if explicit or cached or what.window is not None:
                    wanted = (slots >= 0) & (classes != FORBIDDEN)
                    mask = wanted if mask is None else mask & wanted
                parts = [(rows, classes, slots, mask)]
                if truth.with_tails and flat.side.spare:
                    found = tails_of(truth, "generation", group, requests, ranks)
                    parts += [(own, np.full(len(own.ordinals), OPTIONAL), places, None) for own, places in found]
                if not len(rows.ordinals):
                    continue
                filled = [_moving(stack) for stack in _stacks(truth, "generation", group, table, members)]
                filled = [stack for stack in filled if len(stack.offsets)]
                all_ids = [stack.ids if len(stack.ids) == 1 else stack.ids[here] for stack in filled]
                for stack, ids, senders in zip(filled, all_ids, sources.elect(ranks, all_ids), strict=True):
                    for own, klass, places, chosen in parts:
                        target = Target(flat, stack, ranks, places, table.pools[stack.pool].slot_stride, chosen)
                        target.put(truth.due, ids[:, None, :], own.ids(stack)[None])
                        target.put(truth.klass, _row_classes(own, klass, stack, padding)[None])
                        target.put(truth.elected, _by_block(senders, own.ordinals))
                        target.put(truth.owner, own.owners[None, :, None])


def _row_classes(rows: Blocks, classes: np.ndarray, stack: Stack, padding: str) -> np.ndarray:
    """Class of each block's bytes, (blocks, 1) or (blocks, bytes): rows past the prompt may be optional."""
    if padding != "optional" or rows.left is None:
        return classes[:, None]
    return np.where((stack.rows >= rows.left[:, None]) & (stack.rows >= 0), OPTIONAL, classes[:, None])


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
        for table, members in flat.alike:
            here = present(truth, "context", requests[0], members)
            if not here:
                continue
            masks = np.zeros((len(here), truth.context_keys.width), dtype=bool)
            if truth.comparable:
                for stack in _stacks(truth, "context", group, table, members):
                    ids = stack.ids if len(stack.ids) == 1 else stack.ids[here]
                    masks[np.arange(len(here))[:, None], ids] = True
            found += [(members[position], masks[index]) for index, position in enumerate(here)]
        found.sort(key=lambda pair: pair[0].number)
        self.ranks = [rank for rank, _ in found]
        self.numbers = np.array([rank.number for rank in self.ranks], dtype=np.int32)
        self.masks = np.array([mask for _, mask in found])
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
        paired = np.array([[[rank.number in own] for own in heard] for rank in self.ranks], dtype=bool)
        height = max([len(ids) for ids in parts])
        ids = parts[0]
        if len(parts) > 1:
            ids = np.concatenate([own if len(own) == height else own.repeat(height, axis=0) for own in parts], axis=1)
        ends = list(accumulate([own.shape[1] for own in parts], initial=0))
        held = self.masks[:, ids] & paired
        found: list[list[np.ndarray]] = [[] for _ in parts]
        for residue in range(cp):
            able = held if cp == 1 else held & np.array([rank.cp == residue for rank in self.ranks])[:, None, None]
            running = able.cumsum(axis=0, dtype=np.int32)
            count = running[-1]
            pick = key % np.maximum(count, 1) + 1 if key else 1
            # The elected candidate is the first whose running number of holders reaches the pick.
            elected = self.numbers[(running == pick).argmax(axis=0)]
            none = count == 0
            lacking = bool(none.any())
            if lacking:
                elected[none] = -1
            for own, mine, (begin, end) in zip(found, parts, pairwise(ends), strict=True):
                own.append(elected[:, begin:end])
                if lacking:
                    self._note_unserved(residue, ranks, mine, none[:, begin:end])
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
            if shown and none[position].any():
                row = ids[position if len(ids) > 1 else 0]
                number = shown[0] * truth.generation_keys.width + int(row[none[position]].min())
                truth.unserved += [(each, rank.number, number) for each in self.requests]
