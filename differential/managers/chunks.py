"""The slices that a context side sends while it still prefills (spec: blocks, chunked prefill)."""

from __future__ import annotations

from functools import lru_cache

from differential.managers.facts import Chunk
from oracle.model.case import Request


class Slices:
    """The steps of cutting a prompt into slices. Who overrides one cuts it wrongly.

    The first slice starts at block 0, for a reused prefix must be sent too. Every other boundary is
    rounded down: a block is sent once it is full. Only the last slice sends a partial block; it is
    sent even if it is empty, because it closes the session.
    """

    def first_block(self, start: int, reused: int, tokens_per_block: int) -> int:
        return 0 if start == reused else start // tokens_per_block

    def end_block(self, end: int, last: bool, tokens_per_block: int) -> int:
        return -(-end // tokens_per_block) if last else end // tokens_per_block

    def is_sent(self, first: int, end: int, last: bool) -> bool:
        return last or first < end


RIGHT = Slices()


def chunks_of(
    request: Request, tokens_per_block: int, look_ahead: int = 0, slices: Slices = RIGHT
) -> tuple[Chunk, ...]:
    """The slices of ``request`` in sending order; block ordinals count prompt blocks.

    Prefill starts behind the prefix that the context side had cached, so cuts inside it cut nothing.
    ``look_ahead``: blocks that the scheduler has allocated beyond the chunk that runs.
    """
    most = request.prompt + request.context.drafts
    return _cut(request.prompt, request.context.cached, request.cuts, tokens_per_block, look_ahead, most, slices)


@lru_cache(maxsize=1024)
def _cut(
    prompt: int, reused: int, cuts: tuple[int, ...], tokens_per_block: int, look_ahead: int, most: int, slices: Slices
) -> tuple[Chunk, ...]:
    found: list[Chunk] = []
    start = reused
    for end in (*(cut for cut in cuts if cut > reused), prompt):
        last = end == prompt
        low = slices.first_block(start, reused, tokens_per_block)
        high = slices.end_block(end, last, tokens_per_block)
        if slices.is_sent(low, high, last):
            capacity = most if last else min(most, end + look_ahead * tokens_per_block)
            found.append(Chunk(low, high, last, capacity))
        start = end
    return tuple(found)
