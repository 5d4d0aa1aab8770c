"""The implicit suffix: a list of slots that ends where the prompt, or the chunk, does (spec: blocks, 2.1, decision 1).

Where a list begins follows from its length, so a producer must list all blocks from its first one to
the end, and nothing else: it cuts at the prompt's end by position before it closes any hole. Older
senders went wrong in single steps; here each step is a function of its own and leaves labels right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from differential.managers.extents import Extent
from differential.managers.holes import behind_last_hole, check_holes
from differential.managers.spans import (
    NONE,
    Aligned,
    Inexpressible,
    Span,
    count_below,
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
    TAILS_NOT_TOLD_APART,
)

Translate = Callable[[Sequence[int]], np.ndarray]


@dataclass(frozen=True, slots=True, eq=False)
class Suffix:
    """A list of slots (int64) as it is sent: blocks without holes, then beam tails, with no word of which is which.

    ``end``: the block ordinal at which it ends. ``beams``, ``phase`` and ``stride`` are the request's
    and the rank's, known to both sides.
    """

    slots: np.ndarray
    end: int
    beams: int = 1
    phase: int = 0
    stride: int = 1


def build(held: BlockList | PageList, extent: Extent, translate: Translate) -> Suffix:
    """The list that a side offers or asks for. Raises ``Inexpressible``."""
    require_expressible(held, extent)
    return list_blocks(held, extent, translate)


def list_blocks(held: BlockList | PageList, extent: Extent, translate: Translate) -> Suffix:
    tails = NONE
    if isinstance(held, BlockList):
        own, tails = list_of_ids(held, extent, translate)
    else:
        own = list_of_pages(held, extent)
    own = drop_cached(keep_window(own, extent), extent)
    return pack(own, tails, extent)


def require_expressible(held: BlockList | PageList, extent: Extent) -> None:
    stale = max(extent.stale, held.left_behind if isinstance(held, PageList) else 0)
    if extent.sinks and stale:
        raise Inexpressible(SINKS_BEFORE_A_GAP, f"sinks, and a window that begins at block {stale}")


def list_of_ids(held: BlockList, extent: Extent, translate: Translate) -> tuple[np.ndarray, np.ndarray]:
    """(slots of the prompt's blocks that a V1 list still has, slots of its beam tails)."""
    own, tails = held.ids[: held.own], held.ids[held.own :]
    cut = cut_to_prompt(own, extent)
    if len(cut) < len(own):
        tails = ()  # they belong to a block behind the prompt
    return translate(drop_detached(cut, held.removed, extent)), translate(tails)


def cut_to_prompt(listed, extent: Extent):  # type: ignore[no-untyped-def]
    """Ids, or pages with their holes, up to the end of the prompt: by place, while a place still is an ordinal."""
    return listed[: extent.local(extent.blocks)]


def drop_detached(own: tuple[int, ...], removed: int, extent: Extent) -> tuple[int, ...]:
    """Without the front that was detached: its ids may name anybody's blocks by now."""
    return own[extent.local(removed) :]


def list_of_pages(held: PageList, extent: Extent) -> np.ndarray:
    """Slots of the prompt's blocks that a V2 list has without a hole up to the prompt's end."""
    slots = cut_to_prompt(held.usable(), extent)
    check_holes(slots, held, extent)
    return behind_last_hole(slots)


def keep_window(own: np.ndarray, extent: Extent) -> np.ndarray:
    """The blocks that the window still reaches: as many from the end as there are."""
    reached = max(0, extent.local(extent.blocks) - extent.local(extent.stale))
    return own[len(own) - min(reached, len(own)) :]


def drop_cached(own: np.ndarray, extent: Extent) -> np.ndarray:
    """Without what a receiver has already, counted from where its list begins."""
    begins = extent.local(extent.blocks) - len(own)
    return own[max(0, extent.local(extent.cached) - begins) :]


def pack(own: np.ndarray, tails: np.ndarray, extent: Extent) -> Suffix:
    """The list as it is sent; tails go with the last block."""
    if not len(own):
        tails = NONE
    packed = Suffix(np.concatenate((own, tails)), extent.blocks, extent.beams, extent.phase, extent.stride)
    if len(tails) and count_own(len(packed.slots), packed) != len(own):
        reason = f"{len(own)} blocks and {len(tails)} tails of {extent.beams} beams look like another split"
        raise Inexpressible(TAILS_NOT_TOLD_APART, reason)
    return packed


def build_chunk(held: BlockList | PageList, extent: Extent, first: int, end: int, translate: Translate) -> Suffix:
    """What one slice of a prefill offers of a group that stays whole: block ordinals [first, end).

    The list of that moment may go on beyond the chunk: it is cut by place, and ends where the chunk does.
    """
    require_expressible(held, extent)
    return list_blocks(held, replace(extent, blocks=end, stale=first), translate)


# ---- the other side of the wire


def count_own(length: int, listed: Suffix) -> int:
    """How many entries of a list of this length are blocks of the first beam, as far as a length can tell."""
    if listed.beams == 1 or length <= count_below(listed.end, listed.phase, listed.stride):
        return length
    return max(0, length - (listed.beams - 1))


def place(listed: Suffix) -> Span:
    """The list with ordinals: it ends at its end, so its length says where it begins."""
    own = count_own(len(listed.slots), listed)
    if not own:
        return Span(listed.phase, NONE, listed.stride)
    before = count_below(listed.end, listed.phase, listed.stride) - own
    start = listed.phase + before * listed.stride
    return Span(start, listed.slots[:own], listed.stride, listed.slots[own:])


def clamp(span: Span, stale: int) -> Span:
    """Without what the sender's window has left behind: the entries go, not only their number."""
    return drop_below(span, stale)


def shorten(destination: Span, source: Span) -> Span:
    """A receiver that keeps more than its sender gives up the front of its list: both end alike."""
    surplus = len(destination.slots) - len(source.slots)
    return drop_below(destination, destination.start + surplus * destination.stride) if surplus > 0 else destination


def project(destination: Span, first: int, end: int) -> Span:
    """What a receiver's list has of the blocks of a chunk."""
    return drop_from(drop_below(destination, first), end)


def align(source: Suffix, destination: Suffix, stale: int, first: int = 0) -> Aligned:
    """Which slot goes to which.

    ``stale``: the first block that the sender's window reaches; ``first``: the first block of the
    chunk that ``source`` is. Raises ``Inexpressible`` for unequal numbers of beam tails.
    """
    ours, theirs = place(source), place(destination)
    if len(ours.tails) != len(theirs.tails) and len(ours.slots) and len(theirs.slots):
        reason = f"{len(ours.tails)} beam tails on the source, {len(theirs.tails)} on the destination"
        raise Inexpressible(TAIL_COUNTS_DIFFER, reason)
    if ours.stride < theirs.stride:
        ours = take_stride(ours, destination.phase, theirs.stride)
    elif theirs.stride < ours.stride:
        theirs = take_stride(theirs, source.phase, ours.stride)
    if first or source.end < destination.end:
        theirs = project(theirs, first, source.end)
    asked = theirs.ordinals
    if stale:
        theirs = shorten(theirs, ours)
        ours, theirs = clamp(ours, stale), clamp(theirs, stale)
    return replace(with_tails(intersect(ours, theirs), ours, theirs), asked=asked)
