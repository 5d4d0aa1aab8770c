"""The slices that a context side sends while it still prefills (spec: blocks, chunked prefill)."""

from __future__ import annotations

from functools import lru_cache

from differential.managers.facts import Chunk
from oracle.model.case import Request


def chunks_of(request: Request, tokens_per_block: int) -> tuple[Chunk, ...]:
    """The slices of ``request`` in sending order; block ordinals count prompt blocks.

    Prefill starts behind the prefix that the context side had cached, so cuts inside it cut nothing.
    The first slice starts at block 0, for a reused prefix must be sent too. Every other boundary is
    rounded down: a block is sent once it is full. Only the last slice sends a partial block; it is
    sent even if it is empty, because it closes the session.
    """
    return _slices(request.prompt, request.context.cached, request.cuts, tokens_per_block)


@lru_cache(maxsize=1024)
def _slices(prompt: int, reused: int, cuts: tuple[int, ...], tokens_per_block: int) -> tuple[Chunk, ...]:
    found: list[Chunk] = []
    start = reused
    for end in (*(cut for cut in cuts if cut > reused), prompt):
        last = end == prompt
        low = 0 if start == reused else start // tokens_per_block
        high = -(-end // tokens_per_block) if last else end // tokens_per_block
        if last or low < high:
            found.append(Chunk(low, high, last))
        start = end
    return tuple(found)
