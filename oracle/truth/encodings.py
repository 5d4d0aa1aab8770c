"""Which states an encoding of block lists cannot say, so that refusing them is right for who uses it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oracle.model.case import SIDES, Case
from oracle.model.encodings import (
    CHUNKS_WITH_CONTEXT_PARALLELISM,
    CODES,
    HOLE_IN_A_LIST,
    SINKS_BEFORE_A_GAP,
    TAIL_COUNTS_DIFFER,
    TAILS_NOT_TOLD_APART,
    WINDOW_WITH_CONTEXT_PARALLELISM,
    Encoding,
)
from oracle.model.sides import lay_out
from oracle.truth.blocks import FORBIDDEN, block_classes
from oracle.truth.holding import first_tokens, within_reach
from oracle.truth.stacks import moves_between


def may_refuse(case: Case, request: int, encoding: Encoding, code: str) -> bool:
    """Whether a subject of this encoding rightly refuses the request with this code."""
    known = CODES.get(code)
    return known is not None and encoding in known[0] and _CONDITIONS[code](case, request)


def goes_in_slices(case: Case, request: int) -> bool:
    """Whether the prompt is cut into slices, whatever of them its groups have to send.

    It is by a cut that has a whole block in front of it; what the sender reused is there before any cut.
    """
    asked = case.requests[request]
    return any(cut > asked.context.cached and cut >= case.context.tokens_per_block for cut in asked.cuts)


def _paged(case: Case) -> list[int]:
    """The groups of blocks of which a transfer brings anything: nobody lists what stays where it is."""
    return [
        group
        for group, what in enumerate(case.model.groups)
        if what.is_paged
        and not what.native_only
        and any(moves_between(case, buffer, layer) for buffer in what.buffers for layer in buffer.layers)
    ]


def _leaves_a_block(case: Case, side: str, request: int, group: int) -> bool:
    """Whether the window, with the reserve of the side, no longer reaches a block.

    At the prompt's end that is block 0, even if it has sinks, for lists are trimmed to the window. V2 goes
    on to its history, but for sinks, which stay.
    """
    what = case.model.groups[group]
    if what.window is None or not len(first_tokens(case, side, request, group)):
        return False
    instance, asked = case.side(side), case.requests[request]
    tokens, last = asked.tokens(what.length), instance.tokens_per_block - 1
    reach = what.window + instance.reserve_of(what.name) - 1
    if last < tokens - reach:
        return True
    if instance.manager != "v2" or what.length != "prompt":
        return False
    history = max(tokens, asked.state(side).reached)
    front = next(first for first in range(0, history + last + 1, last + 1) if first >= min(what.sinks, history))
    return front + last < history - reach


def _sinks_before_a_gap(case: Case, request: int) -> bool:
    return any(
        case.model.groups[group].sinks and _leaves_a_block(case, side, request, group)
        for group in _paged(case)
        for side in SIDES
    )


def _hole_in_a_list(case: Case, request: int) -> bool:
    for row in (*case.tables, *case.presented):
        if row.request != request or not case.model.groups[case.model.group_index(row.group)].is_paged:
            continue
        topology = case.side(row.side).topology
        own = row.slots[topology.rank(row.rank).cp :: topology.cp]
        first = next((place for place, slot in enumerate(own) if slot >= 0), len(own))
        group = case.model.group_index(row.group)
        blocks = len(first_tokens(case, row.side, request, group))
        mine = len(range(topology.rank(row.rank).cp, blocks, topology.cp))
        if first < len(own) and (-1 in own[first:mine] or len(own) < mine):
            return True
    return False


def _has_context_parallelism(case: Case) -> bool:
    return any(case.side(side).topology.cp > 1 for side in SIDES)


def _window_with_context_parallelism(case: Case, request: int) -> bool:
    return _has_context_parallelism(case) and any(
        _leaves_a_block(case, side, request, group) for group in _paged(case) for side in SIDES
    )


def _chunks_with_context_parallelism(case: Case, request: int) -> bool:
    return _has_context_parallelism(case) and goes_in_slices(case, request)


def _tails(case: Case, side: str, request: int, group: int) -> int:
    """Beam tails that a side lists of the prompt's last block."""
    place = lay_out(case, side)
    for rank, slots in enumerate(place.slots):
        if group in slots:
            beyond, tails = place.spare_slots(rank, group, request)
            return 0 if len(beyond) else len(tails)
    return 0


def _tail_counts_differ(case: Case, request: int) -> bool:
    return case.requests[request].beams > 1 and any(
        _tails(case, SIDES[0], request, group) != _tails(case, SIDES[1], request, group) for group in _paged(case)
    )


def _tails_not_told_apart(case: Case, request: int) -> bool:
    """A list longer than the prompt is taken to end in a tail for every beam but the first, any other to have none."""
    beams = case.requests[request].beams
    for group in _paged(case) if beams > 1 else ():
        for side in SIDES:
            tails = _tails(case, side, request, group)
            blocks = len(first_tokens(case, side, request, group))
            what = case.model.groups[group]
            if side == "generation":
                live = block_classes(case, request, group) != FORBIDDEN
            else:
                tokens, reserve = case.requests[request].tokens(what.length), case.context.reserve_of(what.name)
                live = within_reach(case, side, request, group, reserve=reserve, tokens=tokens)
            listed = int(np.count_nonzero(live))
            if tails and (tails != beams - 1 or listed + tails <= blocks):
                return True
    return False


_CONDITIONS: dict[str, Callable[[Case, int], bool]] = {
    SINKS_BEFORE_A_GAP: _sinks_before_a_gap,
    HOLE_IN_A_LIST: _hole_in_a_list,
    WINDOW_WITH_CONTEXT_PARALLELISM: _window_with_context_parallelism,
    CHUNKS_WITH_CONTEXT_PARALLELISM: _chunks_with_context_parallelism,
    TAIL_COUNTS_DIFFER: _tail_counts_differ,
    TAILS_NOT_TOLD_APART: _tails_not_told_apart,
}
