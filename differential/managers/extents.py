"""What a slice builder knows of a request besides its manager's list."""

from __future__ import annotations

from differential.managers.spans import count_below
from oracle.model.case import Case
from oracle.model.records import frozen


@frozen()
class Extent:
    """One request in one group on one rank of a side.

    ``blocks``: those of the whole prompt, over all context-parallel ranks; ``stale``: the first one that
    the window, with the side's reserve, still reaches behind the prompt. ``cached``: whole blocks at the
    front that a receiver has; 0 on the sending side. ``sinks``: whether the group has any. ``reported``:
    the blocks of the prompt and of the extra tokens that the manager reports, whatever it really holds.
    ``phase`` and ``stride``: the rank holds blocks phase, phase + stride, ...; ``parallel``: whether
    either side is context parallel; ``receives``: whether the side is the receiver.
    """

    blocks: int
    stale: int = 0
    cached: int = 0
    sinks: bool = False
    beams: int = 1
    reported: int = 0
    phase: int = 0
    stride: int = 1
    parallel: bool = False
    receives: bool = False

    def local(self, ordinal: int) -> int:
        """How many of the rank's own blocks lie below ``ordinal``."""
        return count_below(ordinal, self.phase, self.stride)


def extent_of(case: Case, side: str, rank: int, request: int, group: int) -> Extent:
    """The extent of a paged group."""
    instance = case.side(side)
    what, asked, size = case.model.groups[group], case.requests[request], instance.tokens_per_block
    tokens = asked.tokens(what.length)
    prompt = what.length == "prompt"
    state = asked.state(side)
    stale = 0
    if what.window is not None:
        stale = stale_blocks(tokens, what.window + instance.reserve_of(what.name), size)
    return Extent(
        -(-tokens // size),
        stale,
        state.cached // size if prompt and side == "generation" else 0,
        what.sinks > 0,
        asked.beams if prompt else 1,
        -(-(tokens + state.extra * prompt) // size),
        instance.topology.rank(rank).cp,
        instance.topology.cp,
        case.context.topology.cp > 1 or case.generation.topology.cp > 1,
        side == "generation",
    )


def stale_blocks(tokens: int, window: int, size: int) -> int:
    """Blocks that a window has left once ``tokens`` are in the cache: the next one sees itself and what is before."""
    return max(0, (tokens + 1 - window) // size)
