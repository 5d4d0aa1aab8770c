"""Which blocks of a request are sent from where, told by anchored runs or by suffix lists instead of tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from differential.managers import anchors, suffix
from differential.managers.anchors import Anchors
from differential.managers.extents import Extent, extent_of
from differential.managers.facts import Chunk
from differential.managers.holdings import Holdings, holdings_of
from differential.managers.spans import Aligned, Span
from differential.managers.suffix import Suffix, Suffixes
from differential.subjects.mapping.blocks import Shared, by_holders, stale_end
from oracle.model.case import Case
from oracle.model.encodings import Encoding

WHOLE = Chunk(0, 0, True)
"""a group that does not go in chunks"""
Lists = Anchors | Suffixes
"""How lists are made and read."""
LISTS: dict[Encoding, Lists] = {"anchors": anchors.RIGHT, "suffix": suffix.RIGHT}


class EncodedBlocks:
    """The block lists of one request as both sides encode them; every message is made once."""

    def __init__(self, case: Case, number: int, lists: Lists, chunks: tuple[Chunk, ...]) -> None:
        self.case = case
        self.number = number
        self.lists = lists
        self.chunks = chunks
        self.holdings: Holdings = holdings_of(case)
        self._offers: dict[tuple[int, int, int], Span | Suffix] = {}
        self._asks: dict[tuple[int, int], Span | Suffix] = {}
        self._extents: dict[tuple[str, int, int], Extent] = {}

    def share(self, rank: int, group: int, sources: tuple[int, ...], there: set[int]) -> Iterator[tuple[int, Shared]]:
        """(chunk, blocks of it that ``rank`` asks for and exactly some of ``sources`` offer).

        ``there``: the sources that have the request. Raises ``Inexpressible``.
        """
        for number, chunk in self._chunks(group):
            aligned = [
                self._align(source, rank, group, number, chunk) if source in there else None for source in sources
            ]
            yield from ((number, shared) for shared in _join(sources, aligned))

    def _chunks(self, group: int) -> list[tuple[int, Chunk]]:
        """The slices of a group: one whose front falls out of its window goes whole with the last."""
        last = len(self.chunks) - 1
        if not last:
            return [(0, WHOLE)]
        declared = self.case.model.groups[group]
        prompt = self.case.requests[self.number].prompt
        if declared.length != "prompt" or stale_end(declared, prompt, self.case.context.tokens_per_block):
            return [(last, WHOLE)]
        return list(enumerate(self.chunks))

    def _align(self, source: int, rank: int, group: int, number: int, chunk: Chunk) -> Aligned:
        offer, ask = self._offer(source, group, number, chunk), self._ask(rank, group)
        if isinstance(self.lists, Anchors):
            if chunk is not WHOLE:
                ask = self.lists.cut_to_chunk(ask, chunk.first, chunk.end)
            return self.lists.align(offer, ask)
        stale = self._extent("context", source, group).stale if chunk is WHOLE else 0
        return self.lists.align(offer, ask, stale, chunk.first)

    def _extent(self, side: str, rank: int, group: int) -> Extent:
        key = (side, rank, group)
        found = self._extents.get(key)
        if found is None:
            found = self._extents[key] = extent_of(self.case, side, rank, self.number, group)
        return found

    def _offer(self, source: int, group: int, number: int, chunk: Chunk) -> Span | Suffix:
        key = (source, group, number)
        found = self._offers.get(key)
        if found is None:
            found = self._offers[key] = self._make_offer(source, group, chunk)
        return found

    def _make_offer(self, source: int, group: int, chunk: Chunk) -> Span | Suffix:
        extent, translate = self._extent("context", source, group), self._translate("context", source, group)
        if chunk is WHOLE:
            held = self.holdings.listed("context", source, self.number, group)
            return self.lists.build(held, extent, translate)
        held = self.holdings.listed_at(chunk, source, self.number, group)
        return self.lists.build_chunk(held, extent, chunk.first, chunk.end, translate)

    def _ask(self, rank: int, group: int) -> Span | Suffix:
        found = self._asks.get((rank, group))
        if found is None:
            held = self.holdings.listed("generation", rank, self.number, group)
            translate = self._translate("generation", rank, group)
            found = self.lists.build(held, self._extent("generation", rank, group), translate)
            self._asks[rank, group] = found
        return found

    def _translate(self, side: str, rank: int, group: int) -> anchors.Translate:
        window = self.case.model.groups[group].name
        return lambda ids: self.holdings.translation(side, rank).translate(ids, window)


def _join(sources: tuple[int, ...], aligned: list[Aligned | None]) -> list[Shared]:
    """What several sources offer a receiver, by the set of those that offer a block; beam tails go with the last."""
    known = [each for each in aligned if each is not None]
    asked = known[0].asked if known else np.zeros(0, dtype=np.int64)
    for each in known[1:]:
        if not np.array_equal(each.asked, asked):
            asked = np.union1d(asked, each.asked)
    if not len(asked):
        return []
    if len(known) == len(sources) and all(len(each.ordinals) == len(asked) for each in known):
        found = [Shared(sources, asked, [each.source for each in known], known[0].destination)]
    else:
        held = [np.full(len(asked), -1, dtype=np.int64) for _ in sources]
        wanted = np.zeros(len(asked), dtype=np.int64)
        for slots, each in zip(held, aligned, strict=True):
            if each is not None:
                places = np.searchsorted(asked, each.ordinals)
                slots[places], wanted[places] = each.source, each.destination
        found = by_holders(sources, asked, held, wanted)
    tails = {source: each.tails for source, each in zip(sources, aligned, strict=True) if each is not None}
    if any(len(pairs) for pairs in tails.values()):
        return [_with_tails(each, tails) if asked[-1] in each.numbers() else each for each in found]
    return found


def _with_tails(shared: Shared, tails: dict[int, np.ndarray]) -> Shared:
    pairs = [tails[source] for source in shared.sources]
    if not pairs:
        return shared
    last = np.full(len(pairs[0]), shared.numbers()[-1])
    slots = [np.concatenate((own, two[:, 0])) for own, two in zip(shared.source_slots, pairs, strict=True)]
    ordinals = np.concatenate((shared.numbers(), last))
    return Shared(shared.sources, ordinals, slots, np.concatenate((shared.slots, pairs[0][:, 1])))
