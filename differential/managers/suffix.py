"""The implicit suffix: a list of slots that ends where the prompt, or the chunk, does (spec: blocks, 2.1, decision 1).

Where a list begins follows from its length, so a producer must list all blocks from its first one to
the end, and nothing else: it cuts at the prompt's end by position before it closes any hole. Older
senders went wrong in single steps; here each step is a method of its own and leaves labels right.
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
from oracle.model.records import frozen

Translate = Callable[[Sequence[int]], np.ndarray]


@frozen(eq=False)
class Suffix:
    """A list of slots (int64) as it is sent: blocks without holes, then beam tails, with no word of which is which.

    ``end``: the block ordinal at which it ends. ``beams``, ``phase`` and ``stride`` are the request's
    and the rank's, known to both sides. ``start``: the first block that a receiver asks for, whatever the
    list has in front of it; 0 leaves that to its length. A block of the prompt, over all ranks.
    """

    slots: np.ndarray
    end: int
    beams: int = 1
    phase: int = 0
    stride: int = 1
    start: int = 0


class Suffixes:
    """The steps of this encoding, those of a producer first. Who overrides one has an encoding with that step wrong."""

    def build(self, held: BlockList | PageList, extent: Extent, translate: Translate) -> Suffix:
        """The list that a side offers or asks for. Raises ``Inexpressible``."""
        self.require_expressible(held, extent)
        return self.list_blocks(held, extent, translate)

    def build_chunk(
        self, held: BlockList | PageList, extent: Extent, first: int, end: int, translate: Translate
    ) -> Suffix:
        """What one slice of a prefill offers of a group that stays whole: block ordinals [first, end).

        The list of that moment may go on beyond the chunk: it is cut by place, and ends where the chunk does.
        """
        self.require_expressible(held, extent)
        return self.list_blocks(held, replace(extent, blocks=end, stale=first), translate)

    def require_expressible(self, held: BlockList | PageList, extent: Extent) -> None:
        stale = max(extent.stale, held.left_behind if isinstance(held, PageList) else 0)
        if extent.sinks and stale:
            raise Inexpressible(SINKS_BEFORE_A_GAP, f"sinks, and a window that begins at block {stale}")

    def list_blocks(self, held: BlockList | PageList, extent: Extent, translate: Translate) -> Suffix:
        tails = NONE
        if isinstance(held, BlockList):
            own, tails = self.list_of_ids(held, extent, translate)
        else:
            own = self.list_of_pages(held, extent)
        own = self.drop_cached(self.keep_window(own, extent), extent)
        return self.pack(own, tails, extent)

    def list_of_ids(self, held: BlockList, extent: Extent, translate: Translate) -> tuple[np.ndarray, np.ndarray]:
        """(slots of the prompt's blocks that a V1 list still has, slots of its beam tails)."""
        own, tails = held.ids[: held.own], held.ids[held.own :]
        cut = self.cut_to_prompt(own, extent)
        if len(cut) < len(own):
            tails = ()  # they belong to a block behind the prompt
        return translate(self.drop_detached(cut, held.removed, extent)), translate(tails)

    def list_of_pages(self, held: PageList, extent: Extent) -> np.ndarray:
        """Slots of the prompt's blocks that a V2 list has without a hole up to the prompt's end."""
        slots = self.cut_to_prompt(held.usable(), extent)
        self.check_holes(slots, held, extent)
        return behind_last_hole(slots)

    def cut_to_prompt(self, listed, extent: Extent):  # type: ignore[no-untyped-def]
        """Ids, or pages with their holes, up to the end of the prompt: by place, while a place still is an ordinal."""
        return listed[: extent.local(extent.blocks)]

    def drop_detached(self, own: tuple[int, ...], removed: int, extent: Extent) -> tuple[int, ...]:
        """Without the front that was detached: its ids may name anybody's blocks by now."""
        return own[extent.local(removed) :]

    def check_holes(self, slots: np.ndarray, held: PageList, extent: Extent) -> None:
        check_holes(slots, held, extent)

    def keep_window(self, own: np.ndarray, extent: Extent) -> np.ndarray:
        """The blocks that the window still reaches: as many from the end as there are."""
        reached = max(0, extent.local(extent.blocks) - extent.local(extent.stale))
        return own[len(own) - min(reached, len(own)) :]

    def drop_cached(self, own: np.ndarray, extent: Extent) -> np.ndarray:
        """Without what a receiver has already, counted from where its list begins."""
        begins = extent.local(extent.blocks) - len(own)
        return own[max(0, extent.local(extent.cached) - begins) :]

    def pack(self, own: np.ndarray, tails: np.ndarray, extent: Extent) -> Suffix:
        """The list as it is sent; tails go with the last block."""
        if not len(own):
            tails = NONE
        packed = Suffix(np.concatenate((own, tails)), extent.blocks, extent.beams, extent.phase, extent.stride)
        if len(tails) and self.count_own(len(packed.slots), packed) != len(own):
            blocks = f"{len(own)} {'block' if len(own) == 1 else 'blocks'}"
            behind = f"{len(tails)} {'tail' if len(tails) == 1 else 'tails'}"
            reason = f"{blocks} and {behind} of {extent.beams} beams look like another split"
            raise Inexpressible(TAILS_NOT_TOLD_APART, reason)
        return packed

    # ---- the other side of the wire

    def align(self, source: Suffix, destination: Suffix, stale: int, first: int = 0) -> Aligned:
        """Which slot goes to which.

        ``stale``: the first block that the sender's window reaches; ``first``: the first block of the
        chunk that ``source`` is. Raises ``Inexpressible`` for unequal numbers of beam tails.
        """
        ours, theirs = self.place(source), self.place(destination)
        if len(ours.tails) != len(theirs.tails) and len(ours.slots) and len(theirs.slots):
            reason = f"{len(ours.tails)} beam tails on the source, {len(theirs.tails)} on the destination"
            raise Inexpressible(TAIL_COUNTS_DIFFER, reason)
        if ours.stride < theirs.stride:
            ours = self.take_stride(ours, destination.phase, theirs.stride)
        elif theirs.stride < ours.stride:
            theirs = self.take_stride(theirs, source.phase, ours.stride)
        if first or source.end < destination.end:
            theirs = self.project(theirs, first, source.end)
        asked = theirs.ordinals
        if stale:
            theirs = self.shorten(theirs, ours)
            ours, theirs = self.clamp(ours, stale), self.clamp(theirs, stale)
        return replace(with_tails(self.intersect(ours, theirs), ours, theirs), asked=asked)

    def count_own(self, length: int, listed: Suffix) -> int:
        """How many entries of a list of this length are blocks of the first beam, as far as a length can tell."""
        if listed.beams == 1 or length <= count_below(listed.end, listed.phase, listed.stride):
            return length
        return max(0, length - (listed.beams - 1))

    def place(self, listed: Suffix) -> Span:
        """The list with ordinals: it ends at its end, so its length says where it begins; what is masked goes."""
        own = self.count_own(len(listed.slots), listed)
        if not own:
            return Span(listed.phase, NONE, listed.stride)
        before = count_below(listed.end, listed.phase, listed.stride) - own
        start = listed.phase + before * listed.stride
        return self.mask_head(Span(start, listed.slots[:own], listed.stride, listed.slots[own:]), listed.start)

    def mask_head(self, span: Span, start: int) -> Span:
        """Without what stands before the block at which the receiver starts; tails go with the last block."""
        return drop_below(span, start)

    def take_stride(self, span: Span, phase: int, stride: int) -> Span:
        """The blocks of a whole list that a context-parallel rank of the other side has."""
        return take_stride(span, phase, stride)

    def project(self, destination: Span, first: int, end: int) -> Span:
        """What a receiver's list has of the blocks of a chunk."""
        return drop_from(drop_below(destination, first), end)

    def shorten(self, destination: Span, source: Span) -> Span:
        """A receiver that keeps more than its sender gives up the front of its list: both end alike."""
        surplus = len(destination.slots) - len(source.slots)
        if surplus <= 0:
            return destination
        return drop_below(destination, destination.start + surplus * destination.stride)

    def clamp(self, span: Span, stale: int) -> Span:
        """Without what the sender's window has left behind: the entries go, not only their number."""
        return drop_below(span, stale)

    def intersect(self, source: Span, destination: Span) -> Aligned:
        return intersect(source, destination)


RIGHT = Suffixes()
build, build_chunk, align, place = RIGHT.build, RIGHT.build_chunk, RIGHT.align, RIGHT.place
