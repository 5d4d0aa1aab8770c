"""A case's request infos: block lists of a receiving rank as one info, back again, and what each side knows of it.

A receiver makes its lists, packs them by ``info_of``, checks them against ``expected_of`` and sends them;
a sender decodes, checks against what it knows itself, its own lists among it, and reads ``lists_of``:
from there on, what a record masks is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from differential.managers.extents import Extent, extent_of, stale_blocks
from differential.managers.facts import BlockTable, Chunk
from differential.managers.spans import NONE, Span, count_below, take_stride
from differential.managers.suffix import Suffix, place
from differential.managers.tables import mask_head
from differential.managers.wire.expected import Expected, ExpectedGroup
from differential.managers.wire.info import AnchorInfo, RequestInfo, SuffixInfo, TableInfo
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out

BlockLists = Mapping[int, BlockTable | Span | Suffix]
"""One side's lists of a request on one rank, by group index. State groups have a ``BlockTable`` in any encoding."""

_STATE = Extent(1)


def info_of(case: Case, rank: int, request: int, lists: BlockLists) -> RequestInfo:
    """What generation rank ``rank`` sends of ``request``: ``lists`` are all that it has of it, in one encoding.

    Anchors count the rank's own blocks. A list of state alone goes as a table. What a receiver has
    already is missing from its lists, so only suffix lists that were told a start say one. Raises
    ``InvalidCase`` for lists of different encodings or starts, or of other groups than the rank's.
    """
    groups = _groups(case, rank)
    if sorted(lists) != groups:
        raise InvalidCase("lists", sorted(lists), f"rank {rank} has the groups {groups}")
    kinds = {type(lists[group]) for group in groups if case.model.groups[group].is_paged} or {BlockTable}
    if len(kinds) > 1:
        raise InvalidCase("lists", sorted(kind.__name__ for kind in kinds), "expected lists of one encoding")
    arrays = tuple(_entries(lists[group]) for group in groups)
    common = {
        "sender_req_id": request,
        "instance_name": "generation",
        "instance_rank": rank,
        "block_ids_per_layer_groups": arrays,
        "unique_rid": request,
    }
    (kind,) = kinds
    if kind is Span:
        anchors = tuple(_anchor(lists[group]) for group in groups)
        return AnchorInfo(**common, first_ordinals=anchors)  # type: ignore[arg-type]
    if kind is Suffix:
        return SuffixInfo(**common, dst_start_token=_start_token(case, lists))  # type: ignore[arg-type]
    return TableInfo(**common)  # type: ignore[arg-type]


def lists_of(info: RequestInfo, case: Case, rank: int, request: int) -> dict[int, BlockTable | Span | Suffix]:
    """The lists in a checked ``info`` of generation rank ``rank``, by group index.

    Without what the record masks: blocks of the whole prompt that lie before its start, whoever of
    several ranks has them. A start behind the prompt leaves nothing. State has no blocks, and other
    lengths than the prompt's none that a token of the prompt could number: those are not masked.
    """
    start = 0 if isinstance(info, AnchorInfo) else _start_block(info, case)
    found: dict[int, BlockTable | Span | Suffix] = {}
    for number, group in enumerate(_groups(case, rank)):
        slots = info.block_ids_per_layer_groups[number]
        extent = _extent(case, "generation", rank, request, group)
        masked = start if _is_masked(case, group) else 0
        if isinstance(info, TableInfo) or not case.model.groups[group].is_paged:
            found[group] = mask_head(BlockTable(extent.phase, extent.stride, slots), masked)
        elif isinstance(info, AnchorInfo):
            anchor = info.first_ordinals[number]
            # What goes on behind the prompt's last block is tails.
            own = extent.local(extent.blocks) - anchor
            start = extent.phase + anchor * extent.stride
            found[group] = Span(start, slots[:own], extent.stride, slots[own:]) if len(slots) else _nothing(extent)
        else:
            found[group] = Suffix(slots, extent.blocks, extent.beams, extent.phase, extent.stride, masked)
    return found


def expected_of(
    case: Case, rank: int, request: int, *, offered: BlockLists | None = None, chunk: Chunk | None = None
) -> Expected:
    """What a side knows of ``request`` on generation rank ``rank``.

    Without ``offered`` the receiver before it sends; with it a sender, whose own lists those are.
    ``chunk``: the slice that it is about to send, None for a whole prompt.
    """
    table = lay_out(case, "generation").tables[rank]
    pools = {pool.pool_group: pool.count for pool in table.pools}
    instance, asked = case.generation, case.requests[request]
    size = case.context.tokens_per_block
    ahead = (
        None if chunk is None else (chunk.first * size, max(chunk.first * size, min(chunk.end * size, asked.prompt)))
    )
    return Expected(
        groups=tuple(_expected_group(case, rank, request, group, offered or {}) for group in _groups(case, rank)),
        pools=tuple(pools.get(number, 0) for number in range(max(pools, default=-1) + 1)),
        tokens_per_block=instance.tokens_per_block,
        peer_tokens_per_block=size,
        beams=asked.beams,
        helix=instance.topology.cp > 1,
        counts_own_blocks=True,
        token_range=ahead,
    )


def _expected_group(case: Case, rank: int, request: int, group: int, offered: BlockLists) -> ExpectedGroup:
    what = case.model.groups[group]
    extent = _extent(case, "generation", rank, request, group)
    table = lay_out(case, "generation").tables[rank]
    (pool_group,) = {table.pools[entry.pool].pool_group for entry in table.entries if entry.group == group}
    tokens = case.requests[request].tokens(what.length) if what.is_paged else 0
    cut = what.window is not None and stale_blocks(tokens, what.window, case.generation.tokens_per_block) > 0
    own = offered.get(group)
    count, tails = (None, None) if own is None else _offer(own, extent)
    return ExpectedGroup(extent.local(extent.blocks), pool_group, cut, count, tails)


def _offer(own: BlockTable | Span | Suffix, extent: Extent) -> tuple[int | None, int | None]:
    """(entries of the sender's own list for such a receiver, its tails); None where it cannot tell."""
    if own.stride > extent.stride:
        return None, None  # one of several ranks that send to this receiver
    if isinstance(own, BlockTable):
        step = extent.stride // own.stride
        return len(own.slots[count_below(extent.phase, own.first, own.stride) :: step]), None
    span = place(own) if isinstance(own, Suffix) else own
    # A sender with nothing to send asks for no tails.
    tails = len(span.tails) if len(span.slots) else None
    return len(take_stride(span, extent.phase, extent.stride).slots), tails


def _is_masked(case: Case, group: int) -> bool:
    what = case.model.groups[group]
    return what.is_paged and what.length == "prompt"


def _start_block(info: RequestInfo, case: Case) -> int:
    """The first block that an info of tables or suffix lists leaves; 0 where it masks nothing."""
    assert isinstance(info, TableInfo | SuffixInfo)
    return 0 if info.dst_start_token is None else info.dst_start_token // case.generation.tokens_per_block


def _start_token(case: Case, lists: BlockLists) -> int | None:
    """The token at which suffix lists start; None where none of them was told so. A record says one for all."""
    starts = {
        group: told.start if isinstance(told, Suffix) else 0
        for group, told in lists.items()
        if case.model.groups[group].is_paged
    }
    start = max(starts.values())
    expected = {group: start if _is_masked(case, group) else 0 for group in starts}
    if starts != expected:
        accepted = f"expected the start of each group to be {expected}: a record says one for all"
        raise InvalidCase("lists", starts, accepted)
    return start * case.generation.tokens_per_block if start else None


def _groups(case: Case, rank: int) -> list[int]:
    return sorted(lay_out(case, "generation").slots[rank])


def _extent(case: Case, side: str, rank: int, request: int, group: int) -> Extent:
    return extent_of(case, side, rank, request, group) if case.model.groups[group].is_paged else _STATE


def _entries(told: BlockTable | Span | Suffix) -> np.ndarray:
    return np.concatenate((told.slots, told.tails)) if isinstance(told, Span) else told.slots


def _anchor(told: BlockTable | Span | Suffix) -> int:
    return told.start // told.stride if isinstance(told, Span) and len(told.slots) else 0


def _nothing(extent: Extent) -> Span:
    return Span(extent.phase, NONE, extent.stride)
