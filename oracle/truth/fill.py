"""Filling the memory of both sides with ids, and each destination byte with the sender that must send it."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from oracle.model.pages import PageTable
from oracle.model.topology import Rank
from oracle.truth.blocks import DUE, FORBIDDEN, OPTIONAL, block_classes, resident_blocks, token_codes
from oracle.truth.reserved import INCOMPATIBLE, PADDING
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


def block_ids(truth: Truth, side: str, request: int, group: int, blocks: int, stack: Stack) -> np.ndarray:
    """What to add to the stack's ids in each block: (blocks, 1) where a block has one content, else (blocks, bytes)."""
    case = truth.case
    keys = truth.context_keys if side == "context" else truth.generation_keys
    what = case.model.groups[group]
    if not what.is_paged:
        return np.array([[(keys.private + request) * keys.ordinals * keys.width]])
    size = case.side(side).tokens_per_block
    codes = token_codes(case, request, what.length, blocks * size)
    ordinals = np.arange(blocks)
    if codes[0] == codes[-1] and (codes == codes[0]).all():
        return ((codes[0] * keys.ordinals + ordinals) * keys.width)[:, None]
    rows = np.where(stack.rows < 0, size - 1, stack.rows)
    return (codes.reshape(blocks, size)[:, rows] * keys.ordinals + ordinals[:, None]) * keys.width


def _addresses(flat: FlatSide, stack: Stack, ranks: list[Rank], slots: np.ndarray, stride: int) -> np.ndarray:
    """Flat address of every byte: ranks x blocks x bytes."""
    base = np.array([flat.starts[rank.number][stack.pool] for rank in ranks])
    return (base[:, None] + slots * stride)[:, :, None] + stack.offsets


def fill_source(truth: Truth) -> None:
    """Write the id of every resident block's bytes into ``truth.source``."""
    case, flat, memory = truth.case, truth.context, truth.source
    shift = 0 if truth.comparable else INCOMPATIBLE
    explicit = any(row.side == "context" for row in case.tables)
    for table, members in flat.alike:
        for group in flat.side.slots[members[0].number]:
            what = case.model.groups[group]
            for stack in _source_stacks(truth, group, table, members):
                pool = table.pools[stack.pool]
                for request in range(len(case.requests)):
                    here = present(truth, "context", request, members)
                    if not here:
                        continue
                    ranks = [members[position] for position in here]
                    slots = np.array([flat.side.slots[rank.number][group][request] for rank in ranks])
                    if not slots.shape[1]:
                        continue
                    ids = stack.ids if len(stack.ids) == 1 else stack.ids[here]
                    values = ids[:, None, :] + (
                        block_ids(truth, "context", request, group, slots.shape[1], stack) + shift
                    )
                    where = _addresses(flat, stack, ranks, slots, pool.slot_stride)
                    mask = owned(truth, "context", ranks, group, slots.shape[1])
                    if explicit or what.window is not None:
                        held = resident_blocks(case, request, group, slots)
                        mask = held if mask is None else mask & held
                    if stack.padded and not pool.layer_stride:
                        edge = where[:, :, :1] + (np.arange(pool.slot_bytes) - stack.offsets[0])
                        memory[edge if mask is None else edge[mask]] = PADDING
                    if mask is None:
                        memory[where] = values
                    else:
                        memory[where[mask]] = np.broadcast_to(values, where.shape)[mask]


def _source_stacks(truth: Truth, group: int, table: PageTable, ranks: tuple[Rank, ...]) -> list[Stack]:
    """The stacks of the context side, kept: filling and electing both ask for them."""
    key = (id(table), group)
    found = truth.kept.get(key)
    if found is None:
        found = stacks(truth.case, "context", group, table, ranks, truth.context_keys.base)
        truth.kept[key] = found
    return found


def fill_destination(truth: Truth, padding: str) -> None:
    """Write what is due at every destination byte, its class and its elected sender."""
    case, flat = truth.case, truth.generation
    explicit = any(row.side == "generation" for row in case.tables)
    sent_from: dict[tuple[int, int], tuple[list[Rank], np.ndarray]] = {}
    for table, members in flat.alike:
        for group in flat.side.slots[members[0].number]:
            what = case.model.groups[group]
            for stack in stacks(case, "generation", group, table, members, truth.generation_keys.base):
                if not stack.all_move:
                    stack = _moving(stack)
                if not len(stack.offsets):
                    continue
                pool = table.pools[stack.pool]
                for request, asked in enumerate(case.requests):
                    here = present(truth, "generation", request, members)
                    if not here:
                        continue
                    ranks = [members[position] for position in here]
                    slots = np.array([flat.side.slots[rank.number][group][request] for rank in ranks])
                    if not slots.shape[1]:
                        continue
                    ids = stack.ids if len(stack.ids) == 1 else stack.ids[here]
                    key = (asked.context_dp, group)
                    if key not in sent_from:
                        sent_from[key] = _holding(truth, request, group)
                    senders = _senders(truth, request, ranks, group, ids, sent_from[key])
                    blocks = slots.shape[1]
                    classes = block_classes(case, request, group)
                    mask = owned(truth, "generation", ranks, group, blocks)
                    if explicit or asked.generation.cached or what.window is not None:
                        wanted = (slots >= 0) & (classes != FORBIDDEN)
                        mask = wanted if mask is None else mask & wanted
                    where = _addresses(flat, stack, ranks, slots, pool.slot_stride)
                    values = ids[:, None, :] + block_ids(truth, "generation", request, group, blocks, stack)
                    klass = classes[:, None]
                    size = case.generation.tokens_per_block
                    tokens = asked.tokens(what.length)
                    if padding == "optional" and what.is_paged and blocks * size > tokens:
                        past = (np.arange(blocks) * size)[:, None] + stack.rows >= tokens
                        klass = np.where(past & (stack.rows >= 0), OPTIONAL, klass)
                    elected = senders[0][:, None, :] if len(senders) == 1 else _by_residue(senders, blocks)
                    _store(truth, where, values, klass, elected, request, mask)
    note_lost(truth)


def _store(
    truth: Truth,
    where: np.ndarray,
    values: np.ndarray,
    klass: np.ndarray,
    elected: np.ndarray,
    request: int,
    mask: np.ndarray | None,
) -> None:
    if mask is None:
        truth.due[where] = values
        truth.klass[where] = klass
        truth.elected[where] = elected
        truth.owner[where] = request
        return
    chosen = where[mask]
    truth.due[chosen] = np.broadcast_to(values, where.shape)[mask]
    truth.klass[chosen] = np.broadcast_to(klass, where.shape)[mask]
    truth.elected[chosen] = np.broadcast_to(elected, where.shape)[mask]
    truth.owner[chosen] = request


def _by_residue(senders: list[np.ndarray], blocks: int) -> np.ndarray:
    return np.stack([senders[ordinal % len(senders)] for ordinal in range(blocks)], axis=1)


def _moving(stack: Stack) -> Stack:
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


def _holding(truth: Truth, request: int, group: int) -> tuple[list[Rank], np.ndarray]:
    """(source ranks of the request in rank order, whether each holds each id of a block: ranks x width)."""
    flat = truth.context
    found: list[tuple[Rank, np.ndarray]] = []
    for table, members in flat.alike:
        here = present(truth, "context", request, members)
        if not here:
            continue
        masks = np.zeros((len(here), truth.context_keys.width), dtype=bool)
        if truth.comparable:
            for stack in _source_stacks(truth, group, table, members):
                ids = stack.ids if len(stack.ids) == 1 else stack.ids[here]
                masks[np.arange(len(here))[:, None], ids] = True
        found += [(members[position], masks[index]) for index, position in enumerate(here)]
    found.sort(key=lambda pair: pair[0].number)
    return [rank for rank, _ in found], np.array([mask for _, mask in found])


def _senders(
    truth: Truth,
    request: int,
    ranks: list[Rank],
    group: int,
    ids: np.ndarray,
    sources: tuple[list[Rank], np.ndarray],
) -> list[np.ndarray]:
    """Elected source rank of each byte (ranks x bytes), by ordinal residue of the source's context parallelism."""
    case = truth.case
    candidates, masks = sources
    paged = case.model.groups[group].is_paged
    cp = case.context.topology.cp if paged else 1
    own = case.generation.topology.cp if paged else 1
    key = case.requests[request].generation_dp
    heard = truth.heard[request]
    paired = np.array([[source.number in heard[rank.number] for rank in ranks] for source in candidates], dtype=bool)
    if masks.shape[1] == truth.generation_keys.width:
        held = masks[:, ids] & paired[:, :, None]
    else:
        held = np.zeros((len(candidates), len(ranks), ids.shape[1]), dtype=bool)
    numbers = np.array([source.number for source in candidates], dtype=np.int32)
    found: list[np.ndarray] = []
    for residue in range(cp):
        able = held if cp == 1 else held & np.array([s.cp == residue for s in candidates])[:, None, None]
        running = able.cumsum(axis=0, dtype=np.int32)
        count = running[-1]
        pick = key % np.maximum(count, 1) + 1 if key else 1
        # The elected candidate is the first whose running number of holders reaches the pick.
        elected = numbers[(running == pick).argmax(axis=0)]
        none = count == 0
        if none.any():
            elected = np.where(none, np.int32(-1), elected)
            for position, rank in enumerate(ranks):
                mine = rank.cp if paged else 0
                shown = [o for o in range(lcm(cp, own)) if o % cp == residue and o % own == mine]
                if shown and none[position].any():
                    row = ids[position if len(ids) > 1 else 0]
                    first = shown[0] * truth.generation_keys.width
                    truth.unserved.append((request, rank.number, first + int(row[none[position]].min())))
        found.append(elected)
    return found


def note_lost(frame: Frame) -> None:
    """Remember due blocks that no paired source rank holds: only explicit tables can lose one."""
    case = frame.case
    if not any(row.side == "context" for row in case.tables):
        return
    for request in range(len(case.requests)):
        for number, sources in frame.heard[request].items():
            rank = case.generation.topology.rank(number)
            for group, rows in frame.generation.side.slots[number].items():
                classes = block_classes(case, request, group)
                due = (classes == DUE) & (rows[request] >= 0)
                mine = owned(frame, "generation", [rank], group, len(classes))
                due = due if mine is None else due & mine[0]
                found = np.zeros(len(classes), dtype=bool)
                for source in sources:
                    held = frame.context.side.slots[source].get(group)
                    if held is not None and len(held[request]) == len(found):
                        place = case.context.topology.rank(source)
                        theirs = owned(frame, "context", [place], group, len(found))
                        here = resident_blocks(case, request, group, held[request])
                        found |= here if theirs is None else here & theirs[0]
                gone = np.flatnonzero(due & ~found)
                if len(gone) and sources:
                    frame.lost.setdefault(request, (number, group, int(gone[0])))
