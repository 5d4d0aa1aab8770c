"""The plan of a case: requests through aligned block lists and in-slot runs (spec: legacy sender, 6)."""

from __future__ import annotations

from collections.abc import Iterator

from differential.managers.facts import BlockTable, Facts
from differential.subjects.native.alignment import (
    NOTHING,
    Lists,
    Piece,
    Slots,
    Stride,
    align_states,
    align_suffixes,
    align_tables,
)
from differential.subjects.native.link import Link, Part
from differential.subjects.native.refusals import Refused
from differential.subjects.native.requests import check_request, request_pieces
from differential.subjects.native.settings import Settings
from differential.subjects.protocol import Election
from oracle.model.case import Case
from oracle.model.writes import Pair, Refusal, Segment, Writes

KEPT_LINKS = 32


class NativeSender:
    """The legacy sender as a subject. It keeps what it derived of the last instance pairs, and nothing of requests."""

    election: Election = "own"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.name
        self._links: dict[tuple[int, ...], tuple[Link, tuple[object, ...]]] = {}

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        """The plan of ``case``, or the first refusal of the two instances.

        Pairs are the ranks that receivers ask or senders await; data passes where the receiver asks
        and the sender exists.
        """
        if case.native is None:
            return Refusal("no_legacy_rule", f"the legacy sender has no rule for kind {case.kind!r}")
        try:
            link = self._link(case, facts)
            return self._plan(case, facts, link)
        except Refused as no:
            return Refusal(no.code, no.reason)

    def _link(self, case: Case, facts: Facts) -> Link:
        """The link of these very objects: they are kept with it, so that their ids stay theirs."""
        kept = (case.model, case.native, case.context, case.generation)
        kept += tuple([rank.table for rank in (*facts.context, *facts.generation)])
        key = tuple(map(id, kept))
        found = self._links.get(key)
        if found is None:
            if len(self._links) >= KEPT_LINKS:
                self._links.clear()
            found = self._links[key] = (Link(case, facts, self.settings), kept)
        return found[0]

    def _plan(self, case: Case, facts: Facts, link: Link) -> Writes:
        pairs: list[Pair] = []
        segments: list[Segment] = []
        refusals: list[Refusal] = []
        for index, request in enumerate(case.requests):
            seen = link.pairs(request.context_dp, request.generation_dp)
            sends = [
                (source, destination, link.parts(source, destination))
                for source, destination, seen_by in seen
                if seen_by != "sender" and source < len(facts.context)
            ]
            try:
                check_request(case, request, len(facts.chunks[index]), link.helix, self.settings)
                found = list(self._segments(case, index, facts, link, sends))
            except Refused as no:
                refusals.append(Refusal(no.code, no.reason, index))
                continue
            pairs += [Pair(index, *pair) for pair in seen]
            segments.extend(found)
        return Writes(tuple(pairs), tuple(segments), tuple(refusals))

    def _segments(
        self, case: Case, index: int, facts: Facts, link: Link, sends: list[tuple[int, int, tuple[Part, ...]]]
    ) -> Iterator[Segment]:
        chunks = facts.chunks[index]
        lists: Lists = {}
        for number, chunk in enumerate(chunks):
            pieces = request_pieces(case, case.requests[index], chunk if len(chunks) > 1 else None)
            for source, destination, parts in sends:
                offered, receiver = facts.context[source].blocks, facts.generation[destination]
                stride = (receiver.rank.cp, case.generation.topology.cp) if link.helix else None
                aligned: dict[tuple[int, int], Slots] = {}
                for part in parts:
                    groups = part.group, part.peer_group
                    slots = aligned.get(groups)
                    if slots is None:
                        tables = offered.get((index, part.group)), receiver.blocks.get((index, part.peer_group))
                        slots = aligned[groups] = self._align(pieces[part.group], *tables, stride, lists)
                    if len(slots[0]):
                        yield Segment(
                            index,
                            number,
                            part.group,
                            source,
                            destination,
                            part.source_pool,
                            part.destination_pool,
                            slots[0] * part.source_stride,
                            slots[1] * part.destination_stride,
                            part.runs,
                        )

    def _align(
        self,
        piece: Piece | None,
        source: BlockTable | None,
        destination: BlockTable | None,
        stride: Stride,
        lists: Lists,
    ) -> Slots:
        if piece is None or source is None or destination is None:
            return NOTHING, NOTHING
        if not piece.paged:
            return align_states(source, destination)
        if self.settings.suffix:
            return align_suffixes(source, destination, piece, stride)
        return align_tables(source, destination, piece, stride, lists)
