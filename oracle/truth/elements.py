"""The enumerating oracle: the id of every byte of both sides' memory.

Ids are dense integers for (content, group, layer, role, block, global index, byte). Memory of a
side is one flat int64 array, rank after rank, pool after pool; ids below zero are reserved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from oracle.model.buffers import Buffer
from oracle.model.case import Case
from oracle.model.pages import PageTable
from oracle.model.sides import Side, lay_out
from oracle.model.topology import Rank
from oracle.truth.blocks import FORBIDDEN
from oracle.truth.identity import global_bytes, place_of_offset, stored_on
from oracle.truth.pairing import paired_sources
from oracle.truth.verdict import Element

NEVER = -1
"""a byte of the destination that nothing may reach: it has no element due"""
FOREIGN = -2
"""a source byte outside every resident block: another owner's, scratch or stale"""
PADDING = -3
"""a source byte of a resident block that belongs to no buffer"""


@dataclass(slots=True, eq=False)
class Keys:
    """The id space of a case: ``base[(group, layer, role)]`` counts in bytes of one block, ``width`` in all."""

    base: dict[tuple[int, int, str], int]
    width: int
    ordinals: int
    private: int
    """first content code that stands for a request of its own"""

    def decode(self, case: Case, side: str, number: int) -> Element | None:
        """The element of one id; None for a reserved id."""
        if number < 0:
            return None
        block, offset = divmod(int(number), self.width)
        code, ordinal = divmod(block, self.ordinals)
        key = max((key for key, base in self.base.items() if base <= offset), key=lambda key: self.base[key])
        group, layer, role = key
        buffer = next(
            b for b in case.model.groups[group].buffers if b.role == role and (layer in b.layers or layer < 0)
        )
        instance = case.side(side)
        bits = tuple(instance.bits_of(role, part.bits) for part in buffer.parts)
        indices, byte = place_of_offset(buffer, bits, instance.tokens_per_block, offset - self.base[key])
        token = None
        for axis, index in indices:
            if axis == "T":
                token = ordinal * instance.tokens_per_block + (index + 1) * buffer.tokens_per_row - 1
        private = code - self.private if code >= self.private else None
        content = case.requests[private].content if private is not None else code
        return Element(content, group, layer, role, ordinal, indices, byte, token, private)


@dataclass(slots=True, eq=False)
class Template:
    """What a rank's slot of one pool holds for one group: in-slot byte offsets and, for each, what it is."""

    pool: int
    offsets: np.ndarray
    ids: np.ndarray
    """id within the block"""
    rows: np.ndarray
    """last token, in the block, of the byte's row"""
    moves: np.ndarray
    """whether a transfer brings the byte (both sides hold it and its state moves)"""


@dataclass(slots=True, eq=False)
class FlatSide:
    """Addresses of one side: ``starts[rank][pool]`` in the flat array of ``size`` bytes."""

    name: str
    side: Side
    starts: list[list[int]]
    size: int
    bounds: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    owners: list[tuple[int, int]] = field(default_factory=list)


def flatten(case: Case, name: str) -> FlatSide:
    side = lay_out(case, name)
    starts: list[list[int]] = []
    bounds: list[int] = []
    owners: list[tuple[int, int]] = []
    size = 0
    extents: dict[int, list[int]] = {}
    for rank, table in enumerate(side.tables):
        sizes = extents.get(id(table))
        if sizes is None:
            sizes = extents[id(table)] = [table.pool_extent(pool) for pool in range(len(table.pools))]
        row = []
        for pool, extent in enumerate(sizes):
            row.append(size)
            bounds.append(size)
            owners.append((rank, pool))
            size += extent
        starts.append(row)
    return FlatSide(name, side, starts, size, np.array(bounds, dtype=np.int64), owners)


def held_layers(case: Case, side: str, rank: Rank, buffer: Buffer) -> tuple[int, ...]:
    """Layers of ``buffer`` that a rank's stage holds and its instance does not lack, in ascending order."""
    instance = case.side(side)
    stage = instance.topology.stage_layers(rank.pp)
    layers = tuple(layer for layer in buffer.layers if layer in stage)
    if instance.without:
        layers = tuple(layer for layer in layers if not instance.lacks(layer, buffer.role))
    return layers[:1] if buffer.first_local else layers


def key_of(buffer: Buffer, layer: int) -> int:
    """The layer of a key; -1 where the role alone is the key."""
    return -1 if buffer.request_scope else layer


@lru_cache(maxsize=256)
def _width_of(model_groups: tuple, bits: tuple[tuple[str, int], ...], tokens_per_block: int) -> tuple[dict, int]:
    base: dict[tuple[int, int, str], int] = {}
    width = 0
    overrides = dict(bits)
    for index, group in enumerate(model_groups):
        for buffer in group.buffers:
            widths = tuple(overrides.get(buffer.role, part.bits) for part in buffer.parts)
            size = global_bytes(buffer, widths, tokens_per_block)
            for layer in (-1,) if buffer.request_scope else buffer.layers:
                base[(index, layer, buffer.role)] = width
                width += size
    return base, width


def keys_of(case: Case, side: str) -> Keys:
    instance = case.side(side)
    base, width = _width_of(case.model.groups, instance.element_bits, instance.tokens_per_block)
    longest = max(request.tokens(group.length) for request in case.requests for group in case.model.groups)
    return Keys(base, width, longest + 1, len(case.contents))


def token_codes(case: Case, request: int, length: str, end: int) -> np.ndarray:
    """Content code of each token position up to ``end``: its node of the prefix tree; past the prompt the request's own."""
    asked = case.requests[request]
    private = len(case.contents) + request
    codes = np.full(end, private, dtype=np.int64)
    if length != "prompt":
        return codes
    node = asked.content
    reach = asked.prompt
    while node >= 0:
        codes[:reach] = node
        reach = min(reach, case.contents[node].length)
        node = case.contents[node].parent
    return codes


def moves_between(case: Case, buffer: Buffer, layer: int) -> bool:
    """Whether a transfer brings this buffer: its state moves, and no side is declared to lack it."""
    if not buffer.move_on(layer).moves:
        return False
    return not any(
        instance.lacks(layer, buffer.role) for instance in (case.context, case.generation) if instance.without
    )


def templates(case: Case, side: str, rank: Rank, group: int, table: PageTable, keys: Keys) -> list[Template]:
    """What each pool's slot of ``rank`` holds of ``group``."""
    parts: dict[int, list[tuple[int, np.ndarray, np.ndarray, bool]]] = {}
    what = case.model.groups[group]
    places = {(entry.layer, entry.role): entry for entry in table.entries if entry.group == group}
    for buffer in what.buffers:
        layers = held_layers(case, side, rank, buffer)
        if not layers:
            continue
        ids, rows = stored_on(case, side, rank, buffer)
        for layer in layers:
            entry = places.get((layer, buffer.role))
            if entry is None:
                continue
            base = keys.base[(group, key_of(buffer, layer), buffer.role)]
            parts.setdefault(entry.pool, []).append(
                (entry.offset, ids + base, rows, moves_between(case, buffer, layer))
            )
    found = []
    for pool, pieces in parts.items():
        offsets = np.concatenate([offset + np.arange(len(ids)) for offset, ids, _, _ in pieces])
        ids = np.concatenate([ids for _, ids, _, _ in pieces])
        rows = np.concatenate([rows for _, _, rows, _ in pieces])
        moves = np.repeat([moves for _, _, _, moves in pieces], [len(ids) for _, ids, _, _ in pieces])
        found.append(Template(pool, offsets, ids, rows, moves))
    return found


@dataclass(slots=True, eq=False)
class Truth:
    """All that the judge compares a plan with.

    ``source`` (int64): the id of every source byte. ``due`` (int64): the id due at every destination
    byte, NEVER where nothing may come. ``klass`` (uint8): forbidden, optional or due. ``elected``
    (int32): the source rank that must send it, -1 for none.
    """

    case: Case
    context: FlatSide
    generation: FlatSide
    context_keys: Keys
    generation_keys: Keys
    source: np.ndarray
    due: np.ndarray
    klass: np.ndarray
    elected: np.ndarray
    owner: np.ndarray
    """request of every destination byte, -1 for none"""
    heard: tuple[dict[int, tuple[int, ...]], ...]
    """by request: destination rank -> paired source ranks"""
    unserved: tuple[tuple[int, int, int], ...]
    """(request, destination rank, id within the block) of an index without a paired holder, over a full period"""
    lost: dict[int, tuple[int, int, int]]
    """request -> (destination rank, group, ordinal) of a due block that no source rank holds any more"""


@lru_cache(maxsize=16)
def truth_of(case: Case, padding: str = "optional") -> Truth:
    """Enumerate both sides of ``case``. ``padding``: whether rows past the prompt are ``optional`` or ``due``."""
    from oracle.truth.fill import fill_destination, fill_source

    context, generation = flatten(case, "context"), flatten(case, "generation")
    context_keys, generation_keys = keys_of(case, "context"), keys_of(case, "generation")
    heard = tuple(
        paired_sources(case.context.topology, case.generation.topology, request.context_dp, request.generation_dp)
        for request in case.requests
    )
    truth = Truth(
        case,
        context,
        generation,
        context_keys,
        generation_keys,
        np.full(context.size, FOREIGN, dtype=np.int64),
        np.full(generation.size, NEVER, dtype=np.int64),
        np.full(generation.size, FORBIDDEN, dtype=np.uint8),
        np.full(generation.size, -1, dtype=np.int32),
        np.full(generation.size, -1, dtype=np.int32),
        heard,
        (),
        {},
    )
    fill_source(truth)
    fill_destination(truth, padding)
    return truth
