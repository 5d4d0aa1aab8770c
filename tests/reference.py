"""A slow second reading of the layouts and of what is due, element by element in plain Python.

Written from the specifications, with their closed forms, and sharing no code with ``oracle.truth``:
dictionaries from (rank, pool, byte in the pool) to a tuple that names the element. It takes from
``oracle.model`` the declarations, the page tables and the slots, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby, product

import numpy as np

from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, MoveState
from oracle.model.case import Case
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.topology import Rank, Topology
from oracle.model.writes import Pair, Segment, Writes

Address = tuple[int, int, int]
"""(rank, pool, byte in the pool)"""
Identity = tuple
"""(content, group, layer or -1, role, ordinal, part, global indices, byte)"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is due at one byte of the destination."""

    identity: Identity
    required: bool
    request: int
    sender: int | None
    candidates: tuple[int, ...]


@dataclass(slots=True)
class Reference:
    """All bytes of the source's resident blocks (None: padding), all bytes wanted, and the pairs by request."""

    source: dict[Address, Identity | None] = field(default_factory=dict)
    wanted: dict[Address, Wanted] = field(default_factory=dict)
    pairs: dict[int, set[tuple[int, int]]] = field(default_factory=dict)


def share(size: int, split: Split, part: int, parts: int) -> range:
    """The indices of part ``part``, by the closed forms of the vocabulary."""
    if split is Split.ALL:
        return range(size)
    if split is Split.CYCLIC:
        return range(part, size, parts)
    start = part * size // parts
    if split is Split.HEADS:
        return range(start, start - (-size // parts))
    return range(start, max(start + 1, (part + 1) * size // parts))


def local_indices(axis: Axis, topology: Topology, rank: Rank) -> list[int]:
    """The global indices that a rank stores of an axis that is not the token axis, in order."""
    if topology.attention_dp:
        part, parts = 0, 1
    elif axis.grid is Grid.TP:
        part, parts = rank.tp, topology.tp
    else:
        part, parts = rank.tp * topology.cp + rank.cp, topology.tp * topology.cp
    if not axis.sections:
        return list(share(axis.size, axis.split, part, parts))
    found, start = [], 0
    for section in axis.sections:
        found += [start + index for index in share(section.size, section.split, part, parts)]
        start += section.size
    return found


def stored_bytes(buffer: Buffer, instance: Instance, rank: Rank) -> Iterator[tuple[int, tuple, int, int | None]]:
    """(part, global indices by declared axis, byte, last token in the block) of each byte, in stored order.

    Where elements are narrower than a byte, the innermost index is the tuple of those that share it.
    """
    rows = instance.tokens_per_block // (buffer.tokens_per_row or 1)
    rows_a_page = rows // buffer.expansion
    if buffer.sub_rows:
        rows_a_page = min(rows, buffer.sub_rows)
    pages = rows // rows_a_page if buffer.tokens_per_row else 1
    for page in range(pages):
        for number, part in enumerate(buffer.parts):
            bits = instance.bits_of(buffer.role, part.bits)
            names = [axis.name for axis in part.axes]
            order = list(range(len(names)))
            layout = instance.layout_of(buffer.role)
            if layout and {"H", "T"} <= set(names):
                head, token = names.index("H"), names.index("T")
                if (head < token) != (layout == "HND"):
                    order[head], order[token] = token, head
            lists: list[list] = []
            for place in order:
                axis = part.axes[place]
                if axis.is_token:
                    lists.append([page * rows_a_page + row for row in range(rows_a_page)])
                else:
                    lists.append(local_indices(axis, instance.topology, rank))
            if bits < 8:
                each = 8 // bits
                lists[-1] = [tuple(lists[-1][i : i + each]) for i in range(0, len(lists[-1]), each)]
            for stored in product(*lists):
                declared = [None] * len(names)
                for place, index in zip(order, stored, strict=True):
                    declared[place] = index
                last = None
                if "T" in names:
                    last = (declared[names.index("T")] + 1) * buffer.tokens_per_row - 1
                for byte in range(max(1, bits // 8)):
                    yield number, tuple(declared), byte, last


def content_of(case: Case, request: int, length: str, token: int) -> object:
    """The node of the prefix tree that a token belongs to; past the prompt, the request itself."""
    asked = case.requests[request]
    if length != "prompt" or token >= asked.prompt:
        return ("request", request)
    node = asked.content
    while case.contents[node].parent >= 0 and token < case.contents[node].length:
        node = case.contents[node].parent
    return node


def stale_end(tokens: int, window: int | None, size: int) -> int:
    return 0 if window is None else max(0, (tokens + 1 - window) // size)


def live(case: Case, request: int, group: int, side: str, extra: int) -> list[int]:
    """Ordinals that are sinks or still in the model's window plus ``extra`` tokens."""
    what = case.model.groups[group]
    size = case.side(side).tokens_per_block
    tokens = case.requests[request].tokens(what.length)
    blocks = -(-tokens // size)
    end = stale_end(tokens, None if what.window is None else what.window + extra, size)
    return [o for o in range(blocks) if o < -(-what.sinks // size) or o >= end]


def wanted_blocks(case: Case, request: int, group: int) -> dict[int, bool]:
    """Ordinal -> whether it is due (else optional)."""
    what = case.model.groups[group]
    if not what.is_paged:
        return {0: True}
    from_ordinal = case.requests[request].generation.cached // case.generation.tokens_per_block
    due = live(case, request, group, "generation", 0)
    kept = live(case, request, group, "generation", dict(case.generation.reserve).get(what.name, 0))
    return {o: o in due for o in kept if o >= from_ordinal}


def held_blocks(case: Case, request: int, group: int, slots: list[int]) -> list[int]:
    """Ordinals that the context side still holds."""
    what = case.model.groups[group]
    here = [ordinal for ordinal, slot in enumerate(slots) if slot >= 0]
    if not what.is_paged or any(row.side == "context" for row in case.tables):
        return here
    kept = live(case, request, group, "context", dict(case.context.reserve).get(what.name, 0))
    return [ordinal for ordinal in here if ordinal in kept]


def ranks_with(case: Case, side: str, request: int) -> list[Rank]:
    topology = case.side(side).topology
    home = case.requests[request].dp_rank(side)
    return [rank for rank in topology.ranks() if not topology.attention_dp or rank.tp == home]


def are_paired(case: Case, source: Rank, destination: Rank) -> bool:
    """Stages with a layer in common, and shares of tp and cp, as fractions of the whole, that overlap."""
    ours, theirs = case.context.topology, case.generation.topology
    if not set(ours.stage_layers(source.pp)) & set(theirs.stage_layers(destination.pp)):
        return False
    shares = [(source.cp, ours.cp, destination.cp, theirs.cp)]
    s, sources = (0, 1) if ours.attention_dp else (source.tp, ours.tp)
    d, destinations = (0, 1) if theirs.attention_dp else (destination.tp, theirs.tp)
    shares.append((s, sources, d, destinations))
    return all(
        max(Fraction(s, n), Fraction(d, m)) < min(Fraction(s + 1, n), Fraction(d + 1, m)) for s, n, d, m in shares
    )


def moves(case: Case, buffer: Buffer, layer: int) -> bool:
    state = buffer.move_on(layer).state
    if state not in (MoveState.SEND, MoveState.OPTIONAL):
        return False
    return not case.context.lacks(layer, buffer.role) and not case.generation.lacks(layer, buffer.role)


def regions(case: Case, side: str, rank: Rank, group: int) -> Iterator[tuple[Buffer, int, object]]:
    """(buffer, layer, page table entry) of what a rank holds of a group."""
    table = lay_out(case, side).tables[rank.number]
    for entry in table.entries:
        if entry.group == group:
            for buffer in case.model.groups[group].buffers:
                if buffer.role == entry.role and entry.layer in buffer.layers:
                    yield buffer, entry.layer, entry


def block_bytes(
    case: Case, side: str, rank: Rank, request: int, group: int, ordinal: int, slot: int, moving: bool = False
) -> Iterator[tuple[Address, Identity, int | None]]:
    """(address, identity, last token of the row in the prompt) of every byte of one block on one rank."""
    instance = case.side(side)
    table = lay_out(case, side).tables[rank.number]
    what = case.model.groups[group]
    size = instance.tokens_per_block
    for buffer, layer, entry in regions(case, side, rank, group):
        if moving and not moves(case, buffer, layer):
            continue
        start = slot * table.pools[entry.pool].slot_stride + entry.offset
        for offset, (part, indices, byte, last) in enumerate(stored_bytes(buffer, instance, rank)):
            token = ordinal * size + (size - 1 if last is None else last)
            content = content_of(case, request, what.length, token) if what.is_paged else ("request", request)
            key = -1 if buffer.request_scope else layer
            identity = (content, group, key, buffer.role, ordinal, part, indices, byte)
            yield (rank.number, entry.pool, start + offset), identity, None if last is None else token


def owns(case: Case, side: str, rank: Rank, group: int, ordinal: int) -> bool:
    cp = case.side(side).topology.cp
    return not case.model.groups[group].is_paged or ordinal % cp == rank.cp


def read(case: Case, padding: str = "optional") -> Reference:
    """The reference of a case whose sides agree on tokens per block and element widths."""
    found = Reference()
    context, generation = lay_out(case, "context"), lay_out(case, "generation")
    holders: dict[int, set[Identity]] = {}
    for request in range(len(case.requests)):
        for rank in ranks_with(case, "context", request):
            for group, lists in context.slots[rank.number].items():
                slots = [int(slot) for slot in lists[request]]
                for ordinal in held_blocks(case, request, group, slots):
                    if not owns(case, "context", rank, group, ordinal):
                        continue
                    for entry_pool in {e.pool for e in context.tables[rank.number].entries if e.group == group}:
                        pool = context.tables[rank.number].pools[entry_pool]
                        if not pool.layer_stride:
                            for byte in range(pool.slot_bytes):
                                place = (rank.number, entry_pool, slots[ordinal] * pool.slot_stride + byte)
                                found.source.setdefault(place, None)
                    for place, identity, _ in block_bytes(
                        case, "context", rank, request, group, ordinal, slots[ordinal]
                    ):
                        found.source[place] = identity
                        holders.setdefault(rank.number, set()).add(identity)
    for request, asked in enumerate(case.requests):
        sources = ranks_with(case, "context", request)
        for rank in ranks_with(case, "generation", request):
            paired = [source.number for source in sources if are_paired(case, source, rank)]
            found.pairs.setdefault(request, set()).update((source, rank.number) for source in paired)
            for group, lists in generation.slots[rank.number].items():
                what = case.model.groups[group]
                for ordinal, due in wanted_blocks(case, request, group).items():
                    slot = int(lists[request][ordinal])
                    if slot < 0 or not owns(case, "generation", rank, group, ordinal):
                        continue
                    for place, identity, token in block_bytes(
                        case, "generation", rank, request, group, ordinal, slot, moving=True
                    ):
                        able = tuple(source for source in paired if identity in holders.get(source, ()))
                        past = token is not None and what.is_paged and token >= asked.tokens(what.length)
                        required = due and not (past and padding == "optional")
                        sender = able[asked.generation_dp % len(able)] if able else None
                        found.wanted[place] = Wanted(identity, required, request, sender, able)
    return found


def right_rows(case: Case, reference: Reference, *, optional: bool = True) -> list[list[int]]:
    """A right plan, one row of ``oracle.model.writes.COLUMNS`` for each byte: the elected sender sends it."""
    places: dict[tuple[int, Identity], Address] = {}
    for place, identity in sorted(reference.source.items()):
        if identity is not None:
            places.setdefault((place[0], identity), place)
    rows = []
    for (rank, pool, offset), wanted in sorted(reference.wanted.items()):
        if wanted.sender is None or not (wanted.required or optional):
            continue
        source, source_pool, source_offset = places[wanted.sender, wanted.identity]
        group = wanted.identity[1]
        rows.append([wanted.request, 0, group, source, rank, source_pool, pool, source_offset, offset, 1])
    return rows


def plan_of(rows: list[list[int]], reference: Reference) -> Writes:
    """``rows`` in their order as a plan that names the right pairs, one run a row."""
    zero = np.zeros(1, dtype=np.int64)
    segments = tuple(
        Segment(*key, zero, zero, np.array([row[7:] for row in run], dtype=np.int64))
        for key, run in groupby(rows, key=lambda row: row[:7])
    )
    pairs = tuple(Pair(request, *pair) for request, found in reference.pairs.items() for pair in sorted(found))
    return Writes(pairs, segments)


def room(case: Case, side: str, rank: int, pool: int, offset: int) -> int:
    """Bytes from a place to the end of its slot; 0 where there is no such place."""
    tables = lay_out(case, side).tables
    if not (0 <= rank < len(tables) and 0 <= pool < len(tables[rank].pools)):
        return 0
    what = tables[rank].pools[pool]
    if offset < 0 or offset >= tables[rank].pool_extent(pool):
        return 0
    within = offset % what.layer_stride if what.layer_stride else offset
    if within >= what.count * what.slot_stride:
        return 0
    return max(0, what.slot_bytes - within % what.slot_stride)


def judged(case: Case, reference: Reference, rows: list[list[int]]) -> dict[str, int]:
    """Bytes by kind of violation of a plan of ``rows`` that names the right pairs, one byte after another."""
    counts: dict[str, int] = {}
    written: set[Address] = set()

    def count(kind: str, nbytes: int = 1) -> None:
        if nbytes:
            counts[kind] = counts.get(kind, 0) + nbytes

    for request, _, _, source, destination, source_pool, pool, start, end, nbytes in rows:
        if (source, destination) not in reference.pairs[request]:
            count("unpaired sender", nbytes)
        inside = min(
            nbytes,
            room(case, "context", source, source_pool, start),
            room(case, "generation", destination, pool, end),
        )
        count("out of bounds", nbytes - inside)
        for byte in range(inside):
            origin, place = (source, source_pool, start + byte), (destination, pool, end + byte)
            if origin not in reference.source:
                count("stale source")
            wanted = reference.wanted.get(place)
            if wanted is None:
                count("stray")
            elif place in written:
                count("duplicate")
            elif reference.source.get(origin) != wanted.identity:
                count("wrong element")
            elif wanted.sender != source:
                count("not elected")
            written.add(place)
    count("missing", sum(want.required and place not in written for place, want in reference.wanted.items()))
    return counts
