"""Mutants of the encodings: one function each gone wrong, and the laws that kill it (spec: blocks, 6.4).

A mutant changes nothing of the truth, nor of the sets that laws compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from differential.faults.block_alignment.cap_by_length import CapByLength
from differential.faults.block_alignment.cap_full_only import CapFullOnly
from differential.faults.block_alignment.helix_reuse_by_global_count import HelixReuseByGlobalCount
from differential.faults.block_alignment.partial_block_twice import PartialBlockTwice
from differential.faults.block_alignment.sinks_before_the_anchor import SinksBeforeTheAnchor
from differential.faults.block_alignment.strip_by_extra import StripByExtra
from differential.faults.block_alignment.tail_trim import TailTrim
from differential.faults.block_alignment.whole_prompt_kept import WholePromptKept
from differential.faults.block_alignment.window_alone import WindowAlone
from differential.managers import extents, holdings
from differential.managers.anchors import Anchors
from differential.managers.chunks import Slices
from differential.managers.extents import Extent
from differential.managers.facts import Chunk, Facts
from differential.managers.spans import NONE, Aligned, Span
from differential.managers.suffix import Suffix, Suffixes
from differential.managers.tables import Tables, Translate, gather_facts
from differential.managers.v1 import BlockList
from differential.managers.v2 import stale_range
from differential.subjects.mapping import plan
from differential.subjects.mapping.blocks import Shared
from oracle.model.case import Case
from tests.encoded_lists import ANCHORS, SUFFIX, TABLES, How

Patch = Callable[[pytest.MonkeyPatch], None]


def no_patch(patch: pytest.MonkeyPatch) -> None:
    return


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong function under one encoding.

    ``how`` has it as a step, or ``patch`` puts it in its place. ``laws``: those that must fail. ``features``:
    which states it takes, as ``tests.encoding_states.states`` names them.
    """

    number: str
    what: str
    how: How
    laws: tuple[str, ...]
    patch: Patch = no_patch
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.number} {self.how}: {self.what}"


# ---- m1: what is stale


def stale_without_one(tokens: int, window: int, size: int) -> int:
    return max(0, (tokens - window) // size)


def stale_range_without_one(history: int, window: int | None, sinks: int, tokens_per_block: int) -> tuple[int, int]:
    return stale_range(history, None if window is None else window + 1, sinks, tokens_per_block)


def forget_one_in_extents(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(extents, "stale_blocks", stale_without_one)


def forget_one_in_pages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(holdings, "stale_range", stale_range_without_one)


class ListedWithoutOne(Tables):
    def first_listed(self, prompt: int, most: int, window: int, tokens_per_block: int) -> int:
        return super().first_listed(prompt, most, window + 1, tokens_per_block)


# ---- m5, m8: the trim to the window


class StartRaised(Anchors):
    def trim(self, span: Span, extent: Extent) -> Span:
        if not len(span.slots):
            return span
        return replace(span, start=max(span.start, extent.stale, extent.cached))


class NothingTrimmed(Anchors):
    def trim(self, span: Span, extent: Extent) -> Span:
        return super().trim(span, replace(extent, stale=0))


class NothingLeftOut(Suffixes):
    def keep_window(self, own: np.ndarray, extent: Extent) -> np.ndarray:
        return own


# ---- m9: beam tails


class TailsGuessed(Suffixes):
    """The count is not checked before it is sent, so what the reader makes of it is a guess from the beam width."""

    def pack(self, own: np.ndarray, tails: np.ndarray, extent: Extent) -> Suffix:
        packed = np.concatenate((own, tails if len(own) else NONE))
        return Suffix(packed, extent.blocks, extent.beams, extent.phase, extent.stride)


# ---- m7, m10: what V1 detached


class DetachedKept(Suffixes):
    def drop_detached(self, own: tuple[int, ...], removed: int, extent: Extent) -> tuple[int, ...]:
        return own


class TranslatedFirst(Tables):
    """Every id is asked for, and what is not wanted is left out afterwards."""

    def slots_of_ids(self, held: BlockList, first: int, blocks: int, translate: Translate) -> np.ndarray:
        slots = translate(held.ids[: held.own])[:blocks]
        slots[:first] = -1
        return slots


# ---- m14: context parallelism


def count_all_blocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Extent, "local", lambda self, ordinal: max(0, ordinal))


class ContiguousShares(Anchors):
    def take_stride(self, span: Span, phase: int, stride: int) -> Span:
        right = super().take_stride(span, phase, stride)
        before = sum(len(super(ContiguousShares, self).take_stride(span, each, stride).slots) for each in range(phase))
        return replace(right, slots=span.slots[before : before + len(right.slots)])


class PhaseUnchecked(Anchors):
    def intersect(self, source: Span, destination: Span) -> Aligned:
        place = destination.start - destination.start % destination.stride + source.start % source.stride
        return super().intersect(source, replace(destination, start=place))


# ---- m15, m16: chunks


class FirstChunkFromReuse(Slices):
    def first_block(self, start: int, reused: int, tokens_per_block: int) -> int:
        return start // tokens_per_block


def clip_windows_to_the_last_chunk(patch: pytest.MonkeyPatch) -> None:
    right = plan._RequestPlan._slices

    def clipped(self: plan._RequestPlan, group: int, shared: Shared) -> list[tuple[int, int, int]]:
        found = right(self, group, shared)
        last = len(self.chunks) - 1
        if found != [(last, 0, len(shared.slots))] or not self.case.model.groups[group].is_paged:
            return found
        bounds = self.chunks[last].first, self.chunks[last].end
        first, end = np.searchsorted(shared.numbers(), bounds).tolist()
        return [(last, first, end)] if first < end else []

    patch.setattr(plan._RequestPlan, "_slices", clipped)


# ---- m17: what a receiver has already


class ReusedRoundedUp(Tables):
    def reused_blocks(self, side: str, cached: int, tokens_per_block: int) -> int:
        return super().reused_blocks(side, cached + tokens_per_block - 1, tokens_per_block)


class ReusedOnBothSides(Tables):
    def reused_blocks(self, side: str, cached: int, tokens_per_block: int) -> int:
        return super().reused_blocks("generation", cached, tokens_per_block)


# ---- m21: the last slice


def drop_what_carries_nothing(case: Case, tables: Tables, slices: Slices) -> Facts:
    """Facts without the slices of which no sender lists a block."""
    facts = gather_facts(case, tables, slices)

    def is_sent(request: int, chunk: Chunk) -> bool:
        lists = [table.slots for rank in facts.context for key, table in rank.blocks.items() if key[0] == request]
        return not chunk.last or any((slots >= 0).any() for slots in lists)

    kept = [tuple(chunk for chunk in chunks if is_sent(request, chunk)) for request, chunks in enumerate(facts.chunks)]
    return replace(facts, chunks=tuple(kept))


def lists(how: How, wrong: Anchors | Suffixes) -> How:
    return replace(how, lists=wrong)


V1_LISTS = "V1 lists begin one block too early"
MUTANTS: Sequence[Mutant] = (
    Mutant("m1", "a window ends without the + 1", ANCHORS, ("A3", "A4"), forget_one_in_extents),
    Mutant("m1", "a window ends without the + 1", SUFFIX, ("A3", "A4"), forget_one_in_extents),
    Mutant("m1", "V2 pages leave without the + 1", TABLES, ("A3", "A4"), forget_one_in_pages),
    Mutant("m1", V1_LISTS, replace(TABLES, tables=ListedWithoutOne()), ("A3", "A4")),
    Mutant("m2", "only full attention is cut at the prompt", lists(SUFFIX, CapFullOnly()), ("A2",)),
    Mutant("m3", "a list without holes keeps its last blocks", lists(SUFFIX, CapByLength()), ("A2", "B1")),
    Mutant("m4", "scratch is counted from the extra tokens", lists(SUFFIX, StripByExtra()), ("A2",)),
    Mutant("m5", "a start is raised and no entry dropped", lists(ANCHORS, StartRaised()), ("B1",)),
    Mutant("m6", "a longer receiver loses its tail", lists(SUFFIX, TailTrim()), ("B1",)),
    Mutant("m7", "the window alone says what is left", replace(TABLES, tables=WindowAlone()), ("A7", "D3")),
    Mutant("m7", "the window alone says what is left", lists(SUFFIX, DetachedKept()), ("A7", "D3")),
    Mutant("m8", "only what was detached is left out", replace(TABLES, tables=WholePromptKept()), ("A3",)),
    Mutant("m8", "only what was detached is left out", lists(ANCHORS, NothingTrimmed()), ("A3",)),
    Mutant("m8", "only what was detached is left out", lists(SUFFIX, NothingLeftOut()), ("A3",)),
    Mutant("m9", "every other beam has a tail", lists(SUFFIX, TailsGuessed()), ("B7",), features=("beams",)),
    # Nothing is on the host here; where a detached block is, this raises.
    Mutant("m10", "ids are translated before any is left out", replace(TABLES, tables=TranslatedFirst()), ("A7",)),
    Mutant("m14", "Helix skips by the global count", SUFFIX, ("E1", "E2"), count_all_blocks, ("helix",)),
    Mutant(
        "m14", "reuse by the global count", lists(ANCHORS, HelixReuseByGlobalCount()), ("E1", "E2"), features=("helix",)
    ),
    Mutant(
        "m14", "neighbouring blocks", lists(ANCHORS, ContiguousShares()), ("B1", "E1", "E2", "E3"), features=("helix",)
    ),
    Mutant("m14", "no check of the phase", lists(ANCHORS, PhaseUnchecked()), ("E2",), features=("helix",)),
    Mutant(
        "m15", "chunks end rounded up", replace(TABLES, slices=PartialBlockTwice()), ("C1", "C2"), features=("chunks",)
    ),
    Mutant("m15", "the first chunk begins behind reuse", replace(TABLES, slices=FirstChunkFromReuse()), ("C1", "C2")),
    Mutant(
        "m16", "windows are clipped to the last chunk", TABLES, ("C2",), clip_windows_to_the_last_chunk, ("chunks",)
    ),
    Mutant("m17", "a prefix is rounded up", replace(TABLES, tables=ReusedRoundedUp()), ("A4",)),
    Mutant("m17", "a sender leaves out its own prefix", replace(TABLES, tables=ReusedOnBothSides()), ("A3",)),
    Mutant("m21", "a last slice without a page is dropped", replace(TABLES, gather=drop_what_carries_nothing), ("C3",)),
    Mutant("m22", "sinks stand before the last hole", lists(ANCHORS, SinksBeforeTheAnchor()), ("A3",)),
)
