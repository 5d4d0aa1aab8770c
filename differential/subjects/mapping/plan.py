"""Planning a case: slot bases of the blocks that move, times the runs in a slot of each pair of ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from differential.managers.facts import BlockTable, Chunk, Facts
from differential.managers.spans import Inexpressible
from differential.subjects.mapping.blocks import Shared, is_due, share_blocks, stale_end
from differential.subjects.mapping.encoded import LISTS, EncodedBlocks, Lists
from differential.subjects.mapping.pages import Pages
from differential.subjects.mapping.refusals import BLOCK_LOST, Refused
from differential.subjects.mapping.relation import PoolRuns, Relation, relate
from differential.subjects.protocol import Election
from oracle.model.buffers import LayerGroup
from oracle.model.case import Case
from oracle.model.encodings import CHUNKS_WITH_CONTEXT_PARALLELISM, ENCODINGS, Encoding
from oracle.model.errors import InvalidCase
from oracle.model.writes import Pair, Refusal, Segment, Writes

Tables = list[dict[tuple[int, int], BlockTable]]


IsDue = Callable[[LayerGroup, int, int, np.ndarray], np.ndarray]


class Mapping:
    """The new layout mapping as a subject. ``encoding``: how the block lists of both sides reach it.

    ``lists`` and ``is_due`` are the steps that make and read those lists, and that ask which blocks
    must not be lost; faults are planted by giving others.
    """

    election: Election = "paired"

    def __init__(self, encoding: Encoding = "tables", *, lists: Lists | None = None, is_due: IsDue = is_due) -> None:
        if encoding not in ENCODINGS:
            raise InvalidCase("mapping encoding", encoding, f"expected one of {', '.join(ENCODINGS)}")
        self.encoding: Encoding = encoding
        self.lists = lists or LISTS.get(encoding)
        self.is_due = is_due
        self.name = "mapping" if encoding == "tables" else f"mapping:{encoding}"

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        """The plan of ``case``: one segment per request, chunk, group, pair of ranks and pair of pools.

        Blocks that fewer sources hold make a segment of their own, for the election is another. A
        ``Refusal`` answers a pair of instances that cannot be served; a request that lost a due block,
        goes in chunks to or from context-parallel ranks, or whose lists cannot be said in the encoding, is
        refused alone and sends nothing.
        """
        source = Pages(case.model, case.context, tuple([rank.table for rank in facts.context]))
        destination = Pages(case.model, case.generation, tuple([rank.table for rank in facts.generation]))
        relation = relate(source, destination)
        request = case.requests[0]
        refusal = relation.why_refused(request.context_dp, request.generation_dp)
        if refusal is not None:
            return refusal
        there = [rank.blocks for rank in facts.context]
        here = [rank.blocks for rank in facts.generation]
        pairs: list[Pair] = []
        segments: list[Segment] = []
        refusals: list[Refusal] = []
        for number in range(len(case.requests)):
            planner = _RequestPlan(case, number, relation, facts.chunks[number], self.is_due)
            if self.lists is not None:
                planner.encoded = EncodedBlocks(case, number, self.lists, facts.chunks[number])
            try:
                planner.add_ranks(there, here)
                segments += planner.in_sending_order()
            except Refused as refused:
                refusals.append(refused.refusal)
            except Inexpressible as no:
                refusals.append(Refusal(no.code, no.reason, number))
            pairs += planner.pairs
        return Writes(tuple(pairs), tuple(segments), tuple(refusals))


class _RequestPlan:
    """Segments of one request, as they are found."""

    def __init__(self, case: Case, number: int, relation: Relation, chunks: tuple[Chunk, ...], is_due: IsDue) -> None:
        self.case = case
        self.is_due = is_due
        self.number = number
        self.request = case.requests[number]
        self.relation = relation
        self.chunks = chunks
        self.pairs: list[Pair] = []
        self.segments: list[Segment] = []
        self.encoded: EncodedBlocks | None = None

    def in_sending_order(self) -> list[Segment]:
        if len(self.chunks) > 1:
            self.segments.sort(key=lambda segment: segment.chunk)
        return self.segments

    def add_ranks(self, there: Tables, here: Tables) -> None:
        """Add all pairs of ranks; raises ``Refused`` if a due block is lost, or chunks meet context parallelism."""
        number = self.number
        relation = self.relation
        ranks = relation.ranks(self.request.generation_dp)
        paired = [relation.paired(rank, self.request.context_dp) for rank in ranks]
        self.pairs = [
            Pair(number, source, rank) for rank, sources in zip(ranks, paired, strict=True) for source in sources
        ]
        self._check_chunks()
        groups = self.case.model.groups
        for rank, sources in zip(ranks, paired, strict=True):
            for group in relation.groups_of(rank):
                table = here[rank].get((number, group))
                if table is None:
                    continue
                tables = {s: found for s in sources if (found := there[s].get((number, group))) is not None}
                if self.encoded is not None and groups[group].is_paged:
                    for holders in relation.holders(rank, group, sources):
                        for chunk, shared in self.encoded.share(rank, group, holders, tables.keys()):
                            self._add(rank, group, shared, holders, chunk)
                    continue
                blocks = 1
                if groups[group].is_paged:
                    tokens = self.request.tokens(groups[group].length)
                    blocks = -(-tokens // self.case.context.tokens_per_block)
                for holders in relation.holders(rank, group, sources):
                    for shared in share_blocks(table, tables, holders, blocks):
                        self._add(rank, group, shared, holders)

    def _check_chunks(self) -> None:
        """Raise ``Refused`` for several chunks with context parallelism on either side, whatever the encoding."""
        sizes = self.case.context.topology.cp, self.case.generation.topology.cp
        if len(self.chunks) > 1 and sizes != (1, 1):
            reason = f"{len(self.chunks)} chunks with context-parallel sizes {sizes[0]} and {sizes[1]}"
            raise Refused(Refusal(CHUNKS_WITH_CONTEXT_PARALLELISM, reason, self.number))

    def _add(self, rank: int, group: int, shared: Shared, holders: tuple[int, ...], chunk: int | None = None) -> None:
        """Add the segments of the blocks that ``rank`` lists and ``shared.sources``, some of ``holders``, hold.

        ``chunk``: the one that they go with; None where that is still to be said.
        """
        found = self.relation.runs(rank, group, shared.sources, self.request.generation_dp)
        if found.unheld and len(shared.sources) < len(holders):
            self._refuse_lost(rank, group, shared, holders, found.unheld)
        slices = self._slices(group, shared) if chunk is None and len(self.chunks) > 1 else None
        own: dict[int, np.ndarray] = {}
        for source, slots in zip(shared.sources, shared.source_slots, strict=True):
            for part in found.by_source.get(source, ()):
                own_bases = own.get(part.destination_stride)
                if own_bases is None:
                    own_bases = own[part.destination_stride] = shared.slots * part.destination_stride
                bases = slots * part.source_stride
                if slices is None:
                    self._append(chunk or 0, source, rank, part, bases, own_bases)
                    continue
                for piece, first, end in slices:
                    self._append(piece, source, rank, part, bases[first:end], own_bases[first:end])

    def _append(
        self, chunk: int, source: int, rank: int, part: PoolRuns, bases: np.ndarray, own_bases: np.ndarray
    ) -> None:
        group, pool, own_pool, _, _, runs = part
        self.segments.append(Segment(self.number, chunk, group, source, rank, pool, own_pool, bases, own_bases, runs))

    def _slices(self, group: int, shared: Shared) -> list[tuple[int, int, int]]:
        """(chunk, first, end) among the blocks: a group whose front falls out of its window waits for the last chunk.

        So do state, and groups that are not as long as the prompt: a chunk says nothing of their blocks.
        """
        last = len(self.chunks) - 1
        declared = self.case.model.groups[group]
        tokens_per_block = self.case.context.tokens_per_block
        if (
            not declared.is_paged
            or declared.length != "prompt"
            or stale_end(declared, self.request.prompt, tokens_per_block)
        ):
            return [(last, 0, len(shared.slots))]
        bounds = np.searchsorted(shared.numbers(), [(chunk.first, chunk.end) for chunk in self.chunks]).tolist()
        return [(number, first, end) for number, (first, end) in enumerate(bounds) if first < end]

    def _refuse_lost(self, rank: int, group: int, shared: Shared, holders: tuple[int, ...], unheld: str) -> None:
        """Raise ``Refused`` if one of the blocks is due: the receiver would wait for it and get a hole."""
        declared = self.case.model.groups[group]
        what = "the state"
        if declared.is_paged:
            tokens = self.request.tokens(declared.length)
            numbers = shared.numbers()
            due = numbers[self.is_due(declared, tokens, self.case.context.tokens_per_block, numbers)]
            if not len(due):
                return
            what = f"block {due[0]}"
        reason = (
            f"generation rank {rank} lists {what} of group {declared.name}, paired context ranks {list(holders)} "
            f"lost it: {unheld} is held by none of them"
        )
        raise Refused(Refusal(BLOCK_LOST, reason, self.number))
