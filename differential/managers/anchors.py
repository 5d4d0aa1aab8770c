"""Explicit anchors: one run of slots without holes, and the ordinal of its first (spec: blocks, 2.3, 3.2, 3.4).

A producer takes a manager's list to a span: split the beam tails off, cut at the prompt's end, drop
what was detached, and only then ask which slots the rest lies in; the slice builder then trims. The
consumer intersects two spans. Every step is a method of its own.
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


class Anchors:
    """The steps of this encoding, those of a producer first. Who overrides one has an encoding with that step wrong."""

    def build(self, held: BlockList | PageList, extent: Extent, translate: Translate) -> Span:
        """The span that a side offers or asks for. Raises ``Inexpressible``."""
        self.require_expressible(held, extent)
        if isinstance(held, BlockList):
            span = self.span_of_list(held, extent, translate)
        else:
            span = self.span_of_pages(held, extent)
        return self.trim(span, extent)

    def build_chunk(
        self, held: BlockList | PageList, extent: Extent, first: int, end: int, translate: Translate
    ) -> Span:
        """What one slice of a prefill offers of a group that stays whole: block ordinals [first, end).

        The list of that moment may go on beyond the chunk.
        """
        return self.cut_to_chunk(self.build(held, replace(extent, blocks=end), translate), first, end)

    def require_expressible(self, held: BlockList | PageList, extent: Extent) -> None:
        """Refuse what one anchor cannot say, before anything is cut: half of these cases would go through unseen."""
        stale = max(extent.stale, held.left_behind if isinstance(held, PageList) else 0)
        if extent.sinks and stale:
            raise Inexpressible(SINKS_BEFORE_A_GAP, f"sinks, and a window that begins at block {stale}")
        if extent.parallel and stale:
            reason = f"context-parallel ranks, and a window that begins at block {stale}"
            raise Inexpressible(WINDOW_WITH_CONTEXT_PARALLELISM, reason)

    def span_of_list(self, held: BlockList, extent: Extent, translate: Translate) -> Span:
        """The span of a V1 list."""
        own, tails = self.split_tails(held)
        cut = self.cut_to_prompt(own, extent)
        if len(cut) < len(own):
            tails = ()  # they belong to a block behind the prompt
        kept = self.drop_detached(cut, held.removed, extent)
        self.reconcile(kept, held.removed, extent)
        if not kept:
            return Span(extent.phase, NONE, extent.stride)
        start = extent.phase + extent.local(held.removed) * extent.stride
        return Span(start, translate(kept), extent.stride, translate(tails))

    def split_tails(self, held: BlockList) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(blocks of the first beam, tails of the others): the manager knows how many are which."""
        return held.ids[: held.own], held.ids[held.own :]

    def cut_to_prompt(self, own: tuple[int, ...], extent: Extent) -> tuple[int, ...]:
        """The blocks of the prompt: entry i of a V1 list is the rank's i-th, so its place says which those are."""
        return own[: extent.local(extent.blocks)]

    def drop_detached(self, own: tuple[int, ...], removed: int, extent: Extent) -> tuple[int, ...]:
        """Without the front that was detached: its ids may name anybody's blocks by now."""
        return own[extent.local(removed) :]

    def reconcile(self, own: tuple[int, ...], removed: int, extent: Extent) -> None:
        """The list must end where the prompt does."""
        expected = max(0, extent.local(extent.blocks) - extent.local(removed))
        if len(own) != expected:
            raise Disagreement(
                f"{len(own)} blocks of the prompt are left, expected {expected} behind {removed} detached"
            )

    def span_of_pages(self, held: PageList, extent: Extent) -> Span:
        """The span of a V2 list: what follows its last hole."""
        slots = held.usable()[: extent.local(extent.blocks)]
        self.check_holes(slots, held, extent)
        kept = behind_last_hole(slots)
        first = len(slots) - len(kept) if len(kept) else 0
        return Span(extent.phase + first * extent.stride, kept, extent.stride)

    def check_holes(self, slots: np.ndarray, held: PageList, extent: Extent) -> None:
        check_holes(slots, held, extent)

    def trim(self, span: Span, extent: Extent) -> Span:
        """Without what has left the window, and what a receiver has already; tails go with the last block."""
        return drop_below(span, max(extent.stale, extent.cached))

    def cut_to_chunk(self, span: Span, first: int, end: int) -> Span:
        """The part of an offered or wanted span that one slice sends: block ordinals [first, end)."""
        return drop_from(drop_below(span, first), end)

    # ---- the other side of the wire

    def align(self, source: Span, destination: Span) -> Aligned:
        """Which slot goes to which. Raises ``Inexpressible`` for unequal numbers of beam tails."""
        if len(source.tails) != len(destination.tails) and len(source.slots) and len(destination.slots):
            reason = f"{len(source.tails)} beam tails on the source, {len(destination.tails)} on the destination"
            raise Inexpressible(TAIL_COUNTS_DIFFER, reason)
        # In the larger stride of the two.
        if source.stride < destination.stride:
            source = self.take_stride(source, destination.start % destination.stride, destination.stride)
        elif destination.stride < source.stride:
            destination = self.take_stride(destination, source.start % source.stride, source.stride)
        return with_tails(self.intersect(source, destination), source, destination)

    def take_stride(self, span: Span, phase: int, stride: int) -> Span:
        """A whole list is strided by ordinal, never from its first entry."""
        return take_stride(span, phase, stride)

    def intersect(self, source: Span, destination: Span) -> Aligned:
        return intersect(source, destination)


RIGHT = Anchors()
build, build_chunk, align = RIGHT.build, RIGHT.build_chunk, RIGHT.align
