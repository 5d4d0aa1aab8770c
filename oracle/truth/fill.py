"""Filling the memory of both sides with ids, and each destination byte with the sender that must send it."""

from __future__ import annotations

from math import lcm

import numpy as np

from oracle.model.topology import Rank
from oracle.truth.blocks import DUE, FORBIDDEN, OPTIONAL, block_classes, resident_blocks
from oracle.truth.elements import PADDING, Template, Truth, templates, token_codes

INCOMPATIBLE = 1 << 60
"""added to source ids where the two sides cut elements or blocks differently: no byte means the same"""


def ranks_of(truth: Truth, side: str, request: int) -> list[Rank]:
    """Ranks of a side that the request is on."""
    topology = truth.case.side(side).topology
    ranks = topology.ranks()
    if not topology.attention_dp:
        return list(ranks)
    home = truth.case.requests[request].dp_rank(side)
    return [rank for rank in ranks if rank.tp == home]


def templates_of(truth: Truth, side: str, rank: Rank, group: int) -> list[Template]:
    flat = truth.context if side == "context" else truth.generation
    keys = truth.context_keys if side == "context" else truth.generation_keys
    return templates(truth.case, side, rank, group, flat.side.tables[rank.number], keys)


def owned(truth: Truth, side: str, rank: Rank, group: int, blocks: int) -> np.ndarray:
    """Whether the rank owns each block ordinal: under Helix every cp-th, and a state group's on every rank."""
    cp = truth.case.side(side).topology.cp
    if cp == 1 or not truth.case.model.groups[group].is_paged:
        return np.ones(blocks, dtype=bool)
    return np.arange(blocks) % cp == rank.cp


def block_ids(
    truth: Truth, side: str, request: int, group: int, ordinals: np.ndarray, template: Template
) -> np.ndarray:
    """Ids of the template's bytes in each of the blocks (int64, blocks x bytes)."""
    case = truth.case
    keys = truth.context_keys if side == "context" else truth.generation_keys
    what = case.model.groups[group]
    if not what.is_paged:
        return ((keys.private + request) * keys.ordinals * keys.width + template.ids)[None, :]
    size = case.side(side).tokens_per_block
    codes = token_codes(case, request, what.length, (int(ordinals[-1]) + 1) * size)
    rows = np.where(template.rows < 0, size - 1, template.rows)
    first = codes[0]
    if (codes == first).all():
        block = first * keys.ordinals + ordinals
        return (block * keys.width)[:, None] + template.ids
    block = codes[(ordinals * size)[:, None] + rows] * keys.ordinals + ordinals[:, None]
    return block * keys.width + template.ids


def fill_source(truth: Truth) -> None:
    """Write the id of every resident block's bytes into ``truth.source``."""
    case = truth.case
    flat = truth.context
    same = (
        case.context.tokens_per_block == case.generation.tokens_per_block
        and truth.context_keys.width == truth.generation_keys.width
        and case.context.element_bits == case.generation.element_bits
    )
    for request in range(len(case.requests)):
        for rank in ranks_of(truth, "context", request):
            table = flat.side.tables[rank.number]
            for group, rows in flat.side.slots[rank.number].items():
                slots = rows[request]
                here = resident_blocks(case, request, group, slots) & owned(truth, "context", rank, group, len(slots))
                ordinals = np.flatnonzero(here)
                if not len(ordinals):
                    continue
                chosen = slots[ordinals]
                for template in templates_of(truth, "context", rank, group):
                    pool = table.pools[template.pool]
                    starts = flat.starts[rank.number][template.pool] + chosen * pool.slot_stride
                    if len(template.offsets) < pool.slot_bytes and not pool.layer_stride:
                        truth.source[starts[:, None] + np.arange(pool.slot_bytes)] = PADDING
                    ids = block_ids(truth, "context", request, group, ordinals, template)
                    truth.source[starts[:, None] + template.offsets] = ids if same else ids + INCOMPATIBLE


def fill_destination(truth: Truth, padding: str) -> None:
    """Write what is due at every destination byte, its class and its elected sender."""
    case = truth.case
    flat = truth.generation
    masks: dict[tuple[int, int], np.ndarray] = {}
    unserved: list[tuple[int, int, int]] = []
    for request, asked in enumerate(case.requests):
        for rank in ranks_of(truth, "generation", request):
            sources = truth.heard[request][rank.number]
            table = flat.side.tables[rank.number]
            for group, rows in flat.side.slots[rank.number].items():
                slots = rows[request]
                what = case.model.groups[group]
                classes = block_classes(case, request, group)
                here = (classes != FORBIDDEN) & (slots >= 0) & owned(truth, "generation", rank, group, len(slots))
                ordinals = np.flatnonzero(here)
                _note_lost(truth, request, rank, group, ordinals[classes[ordinals] == DUE], sources)
                for template in templates_of(truth, "generation", rank, group):
                    sends = template.moves
                    if not sends.any():
                        continue
                    senders = _senders(truth, request, rank, group, template, sources, masks, unserved)
                    if not len(ordinals):
                        continue
                    if not sends.all():
                        template = Template(
                            template.pool,
                            template.offsets[sends],
                            template.ids[sends],
                            template.rows[sends],
                            sends[sends],
                        )
                    pool = table.pools[template.pool]
                    starts = flat.starts[rank.number][template.pool] + slots[ordinals] * pool.slot_stride
                    where = starts[:, None] + template.offsets
                    truth.due[where] = block_ids(truth, "generation", request, group, ordinals, template)
                    truth.owner[where] = request
                    klass = np.broadcast_to(classes[ordinals][:, None], where.shape)
                    size = case.generation.tokens_per_block
                    tokens = asked.tokens(what.length)
                    if padding == "optional" and what.is_paged and (int(ordinals[-1]) + 1) * size > tokens:
                        past = (ordinals * size)[:, None] + template.rows >= tokens
                        past &= template.rows >= 0
                        klass = np.where(past, OPTIONAL, klass)
                    truth.klass[where] = klass
                    period = len(senders)
                    if period == 1:
                        truth.elected[where] = senders[0][sends]
                    else:
                        for residue in range(period):
                            chosen = ordinals % period == residue
                            truth.elected[where[chosen]] = senders[residue][sends]
    truth.unserved = tuple(unserved)


def _senders(
    truth: Truth,
    request: int,
    rank: Rank,
    group: int,
    template: Template,
    sources: tuple[int, ...],
    masks: dict[tuple[int, int], np.ndarray],
    unserved: list[tuple[int, int, int]],
) -> list[np.ndarray]:
    """Elected source rank of each byte of the template, by ordinal residue of the source's context parallelism."""
    case = truth.case
    topology = case.context.topology
    paged = case.model.groups[group].is_paged
    cp = topology.cp if paged else 1
    key = case.requests[request].generation_dp
    held: list[tuple[int, np.ndarray]] = []
    for source in sources:
        mask = masks.get((source, group))
        if mask is None:
            mask = np.zeros(truth.context_keys.width, dtype=bool)
            for other in templates_of(truth, "context", topology.rank(source), group):
                mask[other.ids] = True
            masks[(source, group)] = mask
        ids = template.ids
        held.append((source, mask[ids] if truth.context_keys.width == truth.generation_keys.width else ids < 0))
    found: list[np.ndarray] = []
    for residue in range(cp):
        able = [(source, has) for source, has in held if cp == 1 or topology.rank(source).cp == residue]
        count = np.zeros(len(template.ids), dtype=np.int64)
        for _, has in able:
            count += has
        elected = np.full(len(template.ids), -1, dtype=np.int32)
        pick = key % np.maximum(count, 1)
        running = np.zeros(len(template.ids), dtype=np.int64)
        for source, has in able:
            elected[has & (running == pick)] = source
            running += has
        found.append(elected)
        own = case.generation.topology.cp if paged else 1
        if any(
            ordinal % cp == residue and ordinal % own == (rank.cp if paged else 0) for ordinal in range(lcm(cp, own))
        ):
            without = template.moves & (count == 0)
            if without.any():
                unserved.append((request, rank.number, int(template.ids[int(np.argmax(without))])))
    return found


def _note_lost(truth: Truth, request: int, rank: Rank, group: int, due: np.ndarray, sources: tuple[int, ...]) -> None:
    """Remember a due block that no paired source rank holds any more."""
    if request in truth.lost or not len(due) or not sources:
        return
    case = truth.case
    found = np.zeros(len(block_classes(case, request, group)), dtype=bool)
    for source in sources:
        rows = truth.context.side.slots[source].get(group)
        if rows is None:
            continue
        place = case.context.topology.rank(source)
        slots = rows[request]
        if len(slots) != len(found):
            return
        found |= resident_blocks(case, request, group, slots) & owned(truth, "context", place, group, len(slots))
    gone = due[~found[due]]
    if len(gone):
        truth.lost[request] = (rank.number, group, int(gone[0]))
