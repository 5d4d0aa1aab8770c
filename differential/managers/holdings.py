"""What each side's cache manager lists of a request, in its own terms: V1's block ids or V2's pages.

This is what the encodings start from. It is worked out for a rank when somebody asks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from differential.managers.facts import Chunk
from differential.managers.v1 import BlockList, Translation, removed_blocks
from differential.managers.v2 import PageList, Range, make_holes, scratch_range, stale_range
from oracle.model.buffers import LayerGroup
from oracle.model.case import Case, Request
from oracle.model.sides import Side, lay_out
from oracle.model.slots import number_blocks, number_spare


class Holdings:
    """The lists of all ranks of a case, by (side, rank, request, group index)."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._given = {(row.side, row.rank, row.group, row.request): row.slots for row in case.presented}
        self._explicit = {row.side for row in case.tables}
        self._lists: dict[tuple[str, int, int, int], BlockList | PageList] = {}
        self._translations: dict[tuple[str, int], Translation] = {}

    def listed(self, side: str, rank: int, request: int, group: int) -> BlockList | PageList:
        """What the manager lists once the prompt is done, or what the case says that it does.

        With context parallelism, of the rank's own blocks.
        """
        key = (side, rank, request, group)
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = self._find(*key)
        return found

    def listed_at(self, chunk: Chunk, rank: int, request: int, group: int) -> BlockList | PageList:
        """What the context side's manager lists when a chunk is sent that is not the last.

        V1 has the whole prompt from the start; V2 what there is room for by then. What explains a hole
        goes with the list: a look-ahead may have written to scratch what an early chunk holds.
        """
        held = self.listed("context", rank, request, group)
        if isinstance(held, BlockList) or held.given or chunk.last:
            return held
        room = -(-chunk.capacity // self.case.context.tokens_per_block)
        return replace(held, slots=held.slots[:room], parked=tuple(page for page in held.parked if page < room))

    def translation(self, side: str, rank: int) -> Translation:
        """Where the blocks of a rank's V1 manager lie; windows go by the names of their groups."""
        found = self._translations.get((side, rank))
        if found is None:
            found = self._translations[side, rank] = self._translate(side, rank)
        return found

    def _find(self, side: str, rank: int, request: int, group: int) -> BlockList | PageList:
        case = self.case
        instance, what, asked = case.side(side), case.model.groups[group], case.requests[request]
        place = instance.topology.rank(rank)
        mine = slice(place.cp, None, instance.topology.cp)
        given = self._given.get((side, rank, what.name, request))
        if given is not None:
            return PageList(np.array(given, dtype=np.int64)[mine], given=True)
        layout = lay_out(case, side)
        slots = layout.slots[rank][group][request]
        if side in self._explicit:
            return PageList(slots[mine], given=True)
        if instance.manager == "v1" and not what.sinks:
            ids, own = _ids(case, side, request, group)
            removed = 0
            if what.window is not None and what.length == "prompt":
                kept = what.window + instance.reserve_of(what.name)
                removed = removed_blocks(asked.prompt, asked.room(side), kept, instance.tokens_per_block)
            local = ids[:own][mine]
            return BlockList((*local, *ids[own:]), len(local), removed)
        return self._pages(layout, side, rank, request, group, mine)

    def _pages(self, layout: Side, side: str, rank: int, request: int, group: int, mine: slice) -> PageList:
        case = self.case
        instance, what, asked = case.side(side), case.model.groups[group], case.requests[request]
        slots, beyond = layout.slots[rank][group][request], layout.spare_slots(rank, group, request)[0]
        if len(beyond):
            slots = np.concatenate((slots, beyond))
        if what.window is None:
            return PageList(slots[mine])
        if what.length == "prompt":
            stale, *scratch = v2_holes(case, side, what, asked)
        else:
            window = what.window + instance.reserve_of(what.name)
            stale, scratch = stale_range(asked.tokens(what.length), window, what.sinks, instance.tokens_per_block), []
        return PageList(make_holes(slots, stale, *scratch)[mine], stale=stale, scratch=tuple(scratch))

    def _translate(self, side: str, rank: int) -> Translation:
        case = self.case
        layout = lay_out(case, side)
        where: dict[str, dict[int, int | None]] = {}
        for group, by_request in layout.slots[rank].items():
            known: dict[int, int | None] = {}
            for request, slots in enumerate(by_request):
                if not case.model.groups[group].is_paged:
                    continue
                ids, own = _ids(case, side, request, group)
                beyond, tails = layout.spare_slots(rank, group, request)
                known.update(zip(ids[: len(slots)], slots.tolist(), strict=True))
                known.update(zip(ids[len(slots) : own], beyond.tolist(), strict=True))
                known.update(zip(ids[own:], tails.tolist(), strict=True))
            where[case.model.groups[group].name] = known
        return Translation(tuple(where), where)


@lru_cache(maxsize=64)
def holdings_of(case: Case) -> Holdings:
    """The lists of ``case``; the latest ones are kept."""
    return Holdings(case)


@lru_cache(maxsize=1024)
def _ids(case: Case, side: str, request: int, group: int) -> tuple[tuple[int, ...], int]:
    """(packed ids of a request's blocks on all ranks, how many of them are the first beam's).

    A block's id is its running number in its window; no id says where the block lies.
    """
    spare = number_spare(case, side, group)[1][request]
    own = (*number_blocks(case, side, group)[1][request].tolist(), *spare.beyond.tolist())
    return (*own, *spare.tails.tolist()), len(own)


def v2_holes(case: Case, side: str, group: LayerGroup, request: Request) -> list[Range]:
    """Ordinals of the prompt that V2 has no page for: what left the window, then what prefill wrote to scratch."""
    instance = case.side(side)
    assert group.window is not None
    window, size = group.window + instance.reserve_of(group.name), instance.tokens_per_block
    state = request.state(side)
    found = [stale_range(max(request.prompt, state.reached), window, group.sinks, size)]
    if instance.scratch is None:
        return found
    most = request.prompt + state.drafts
    if side == "generation":
        return [*found, scratch_range(request.prompt, most, instance.scratch, window, group.sinks, size)]
    done = state.cached
    for end in (*(cut for cut in request.cuts if cut > done), request.prompt):
        capacity = most if end == request.prompt else min(most, end + instance.look_ahead * size)
        found.append(scratch_range(done, capacity, instance.scratch, window, group.sinks, size))
        done = end
    return found
