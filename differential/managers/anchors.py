"""Explicit anchors: one run of slots without holes, and the ordinal of its first (spec: blocks, 2.3, 3.2, 3.4).

A producer takes a manager's list to a span: split the beam tails off, cut at the prompt's end, drop
what was detached, and only then ask which slots the rest lies in; the slice builder then trims. The
consumer intersects two spans. Every step is a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from differential.managers.extents import Extent
from differential.managers.holes import behind_last_hole, check_holes
from differential.managers.spans import (
    NONE,
    Aligned,
    Disagreement,
    Inexpressible,
    Span,
    drop_below,
    drop_from,
    intersect,
    take_stride,
    with_tails,
)
from differential.managers.v1 import BlockList
from differential.managers.v2 import PageList
from oracle.model.encodings import (
    SINKS_BEFORE_A_GAP,
    TAIL_COUNTS_DIFFER,
    WINDOW_WITH_CONTEXT_PARALLELISM,
)

Translate = Callable[[Sequence[int]], np.ndarray]


def build(held: BlockList | PageList, extent: Extent, translate: Translate) -> Span:
    """The span that a side offers or asks for. Raises ``Inexpressible``."""
    require_expressible(held, extent)
    span = span_of_list(held, extent, translate) if isinstance(held, BlockList) else span_of_pages(held, extent)
    return trim(span, extent)


def require_expressible(held: BlockList | PageList, extent: Extent) -> None:
    """Refuse what one anchor cannot say, before anything is cut: half of these cases would go through in silence."""
    stale = max(extent.stale, held.left_behind if isinstance(held, PageList) else 0)
    if extent.sinks and stale:
        raise Inexpressible(SINKS_BEFORE_A_GAP, f"sinks, and a window that begins at block {stale}")
    if extent.parallel and stale:
        reason = f"context-parallel ranks, and a window that begins at block {stale}"
        raise Inexpressible(WINDOW_WITH_CONTEXT_PARALLELISM, reason)


def span_of_list(held: BlockList, extent: Extent, translate: Translate) -> Span:
    """The span of a V1 list."""
    own, tails = split_tails(held)
    cut = cut_to_prompt(own, extent)
    if len(cut) < len(own):
        tails = ()  # they belong to a block behind the prompt
    kept = drop_detached(cut, held.removed, extent)
    reconcile(kept, held.removed, extent)
    if not kept:
        return Span(extent.phase, NONE, extent.stride)
    start = extent.phase + extent.local(held.removed) * extent.stride
    return Span(start, translate(kept), extent.stride, translate(tails))


def split_tails(held: BlockList) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(blocks of the first beam, tails of the others): the manager knows how many are which."""
    return held.ids[: held.own], held.ids[held.own :]


def cut_to_prompt(own: tuple[int, ...], extent: Extent) -> tuple[int, ...]:
    """The blocks of the prompt: entry i of a V1 list is the rank's i-th block, so its place says which those are."""
    return own[: extent.local(extent.blocks)]


def drop_detached(own: tuple[int, ...], removed: int, extent: Extent) -> tuple[int, ...]:
    """Without the front that was detached: its ids may name anybody's blocks by now."""
    return own[extent.local(removed) :]


def reconcile(own: tuple[int, ...], removed: int, extent: Extent) -> None:
    """The list must end where the prompt does."""
    expected = max(0, extent.local(extent.blocks) - extent.local(removed))
    if len(own) != expected:
        raise Disagreement(f"{len(own)} blocks of the prompt are left, expected {expected} behind {removed} detached")


def span_of_pages(held: PageList, extent: Extent) -> Span:
    """The span of a V2 list: what follows its last hole."""
    slots = held.usable()[: extent.local(extent.blocks)]
    check_holes(slots, held, extent)
    kept = behind_last_hole(slots)
    first = len(slots) - len(kept) if len(kept) else 0
    return Span(extent.phase + first * extent.stride, kept, extent.stride)


def trim(span: Span, extent: Extent) -> Span:
    """Without what has left the window, and what a receiver has already; tails go with the last block."""
    return drop_below(span, max(extent.stale, extent.cached))


def build_chunk(held: BlockList | PageList, extent: Extent, first: int, end: int, translate: Translate) -> Span:
    """What one slice of a prefill offers of a group that stays whole: block ordinals [first, end).

    The list of that moment may go on beyond the chunk.
    """
    return cut_to_chunk(build(held, replace(extent, blocks=end), translate), first, end)


def cut_to_chunk(span: Span, first: int, end: int) -> Span:
    """The part of an offered span that one slice sends: block ordinals [first, end)."""
    return drop_from(drop_below(span, first), end)


def align(source: Span, destination: Span) -> Aligned:
    """Which slot goes to which. Raises ``Inexpressible`` for unequal numbers of beam tails."""
    if len(source.tails) != len(destination.tails) and len(source.slots) and len(destination.slots):
        reason = f"{len(source.tails)} beam tails on the source, {len(destination.tails)} on the destination"
        raise Inexpressible(TAIL_COUNTS_DIFFER, reason)
    source, destination = to_one_stride(source, destination)
    return with_tails(intersect(source, destination), source, destination)


def to_one_stride(source: Span, destination: Span) -> tuple[Span, Span]:
    """The spans in the larger stride of the two: a whole list is strided by ordinal, never from its first entry."""
    if source.stride < destination.stride:
        return take_stride(source, destination.start % destination.stride, destination.stride), destination
    if destination.stride < source.stride:
        return source, take_stride(destination, source.start % source.stride, source.stride)
    return source, destination
