"""The block lists of a case as one encoding makes and reads them, told back as maps from ordinals to slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from differential.managers import chunks, tables
from differential.managers.anchors import Anchors
from differential.managers.chunks import Slices
from differential.managers.extents import Extent, extent_of
from differential.managers.facts import BlockTable, Facts
from differential.managers.holdings import Holdings
from differential.managers.spans import Aligned, Inexpressible, Span
from differential.managers.suffix import Suffix, Suffixes
from differential.managers.tables import Tables, gather_facts
from differential.subjects.mapping import Mapping
from differential.subjects.mapping.blocks import is_due, share_blocks
from differential.subjects.mapping.encoded import LISTS
from differential.subjects.mapping.plan import IsDue
from oracle.model.case import Case
from oracle.model.encodings import ENCODINGS, Encoding
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from tests.block_moves import block_names

Told = Span | Suffix | BlockTable
Slots = dict[int, int]
Pairs = list[tuple[int, int]]
Move = tuple[int, object, object]
"""(chunk, block of the source, block of the destination); blocks as ``block_names`` names them."""


@dataclass(frozen=True, slots=True)
class How:
    """An encoding, and its steps: the right ones unless others are given."""

    encoding: Encoding
    lists: Anchors | Suffixes | None = None
    tables: Tables = tables.RIGHT
    slices: Slices = chunks.RIGHT
    is_due: IsDue = is_due
    gather: Callable[[Case, Tables, Slices], Facts] = gather_facts

    def facts(self, case: Case) -> Facts:
        return self.gather(case, self.tables, self.slices)

    def plan(self, case: Case) -> Writes:
        """The plan; one that refuses everything for instances that cannot be served."""
        subject = Mapping(self.encoding, lists=self.lists, is_due=self.is_due)
        plan = subject.plan(case, self.facts(case))
        return Writes(refusals=(plan,)) if isinstance(plan, Refusal) else plan

    def __repr__(self) -> str:
        return self.encoding


RIGHT: tuple[How, ...] = tuple(How(encoding, LISTS.get(encoding)) for encoding in ENCODINGS)
TABLES, ANCHORS, SUFFIX = RIGHT


class ToldLists:
    """What both sides of a case tell each other of a whole prompt, list by list, made by real producers."""

    def __init__(self, case: Case, how: How) -> None:
        self.case = case
        self.how = how
        self.holdings = Holdings(case)
        self.facts = how.facts(case)

    def ranks(self, side: str) -> range:
        return range(self.case.side(side).topology.size)

    def groups(self) -> range:
        return range(len(self.case.model.groups))

    def requests(self) -> range:
        return range(len(self.case.requests))

    def extent(self, side: str, rank: int, request: int, group: int) -> Extent:
        return extent_of(self.case, side, rank, request, group)

    def translate(self, side: str, rank: int, group: int) -> Callable[[Sequence[int]], np.ndarray]:
        window = self.case.model.groups[group].name
        return lambda ids: self.holdings.translation(side, rank).translate(ids, window)

    def tell(self, side: str, rank: int, request: int, group: int) -> Told:
        """The list of a whole prompt. Raises ``Inexpressible``."""
        if self.how.lists is None:
            ranks = self.facts.context if side == "context" else self.facts.generation
            return ranks[rank].blocks[request, group]
        held = self.holdings.listed(side, rank, request, group)
        translate = self.translate(side, rank, group)
        return self.how.lists.build(held, self.extent(side, rank, request, group), translate)

    def told(self, side: str, rank: int, request: int, group: int) -> Told | None:
        """The same, None where the encoding cannot say it."""
        try:
            return self.tell(side, rank, request, group)
        except Inexpressible:
            return None

    def slots(self, told: Told) -> Slots:
        """What a list says, read by the real consumer: ordinal -> slot. An ordinal that it says twice is an error."""
        if isinstance(told, Suffix):
            assert isinstance(self.how.lists, Suffixes)
            told = self.how.lists.place(told)
        if isinstance(told, BlockTable):
            said = [(told.first + i * told.stride, slot) for i, slot in enumerate(told.slots.tolist()) if slot >= 0]
        else:
            said = list(zip(told.ordinals.tolist(), told.slots.tolist(), strict=True))
        found = dict(said)
        assert len(found) == len(said)
        return found

    def align(self, source: Told, destination: Told, request: int, group: int) -> tuple[Pairs, Pairs]:
        """(pairs of slots of blocks, pairs of slots of beam tails), of two lists that were told.

        Raises ``Inexpressible``.
        """
        if isinstance(source, BlockTable) and isinstance(destination, BlockTable):
            blocks = self.extent("context", 0, request, group).blocks
            return align_tables(source, destination, blocks), []
        return self.align_lists(source, destination, self.extent("context", 0, request, group).stale)

    def align_lists(self, source: Told, destination: Told, stale: int) -> tuple[Pairs, Pairs]:
        """The same for runs, and for suffix lists whose sender's window begins at block ``stale``."""
        lists = self.how.lists
        if isinstance(lists, Anchors):
            assert isinstance(source, Span) and isinstance(destination, Span)
            return as_pairs(lists.align(source, destination))
        assert isinstance(lists, Suffixes) and isinstance(source, Suffix) and isinstance(destination, Suffix)
        return as_pairs(lists.align(source, destination, stale))


def align_tables(source: BlockTable, destination: BlockTable, blocks: int) -> Pairs:
    found = share_blocks(destination, {0: source}, (0,), blocks)
    return [
        pair
        for shared in found
        if shared.sources
        for pair in zip(shared.source_slots[0].tolist(), shared.slots.tolist(), strict=True)
    ]


def as_pairs(aligned: Aligned) -> tuple[Pairs, Pairs]:
    blocks = list(zip(aligned.source.tolist(), aligned.destination.tolist(), strict=True))
    return blocks, [(source, destination) for source, destination in aligned.tails.tolist()]


def slot_of(case: Case, side: str, rank: int, request: int, group: int) -> Slots:
    """Where the model puts each prompt block, present or not."""
    return dict(enumerate(lay_out(case, side).slots[rank][group][request].tolist()))


def own(case: Case, side: str, rank: int, ordinals: frozenset[int]) -> list[int]:
    """Those of ``ordinals`` that a rank is to hold, in order."""
    topology = case.side(side).topology
    return sorted(ordinal for ordinal in ordinals if ordinal % topology.cp == topology.rank(rank).cp)


def moves_of(case: Case, plan: Writes) -> dict[tuple[int, int, int], list[Move]]:
    """(request, group, destination rank) -> what a plan moves there, in plan order."""
    found: dict[tuple[int, int, int], list[Move]] = {
        (request, group, rank): []
        for request in range(len(case.requests))
        for group in range(len(case.model.groups))
        for rank in range(case.generation.topology.size)
    }
    for segment in plan.segments:
        sides = (
            ("context", segment.source_rank, segment.source_pool, segment.source_bases),
            ("generation", segment.destination_rank, segment.destination_pool, segment.destination_bases),
        )
        blocks = []
        for side, rank, pool, bases in sides:
            names = block_names(case, side, rank, segment.request, segment.group)
            stride = lay_out(case, side).tables[rank].pools[pool].slot_stride
            blocks.append([names[base // stride] for base in bases.tolist()])
        key = segment.request, segment.group, segment.destination_rank
        found[key] += [(segment.chunk, *pair) for pair in zip(*blocks, strict=True)]
    return found


def refused(plan: Writes) -> dict[int, str]:
    """Request -> code of its refusal; all of them where the instances are refused."""
    assert all(refusal.request is not None for refusal in plan.refusals), plan.refusals
    return {refusal.request: refusal.code for refusal in plan.refusals if refusal.request is not None}
