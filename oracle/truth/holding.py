"""What a cache manager still holds of a request's prompt, token by token (spec: blocks, both managers).

Nothing here is read off an encoding or a list: a side's state says how far it came, and each token of
a block is asked whether it is still wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from oracle.model.case import Case


def within_reach(case: Case, side: str, request: int, group: int, *, reserve: int, tokens: int) -> np.ndarray:
    """Whether any token of each prompt block is a sink or still within the window (bool by ordinal).

    ``tokens`` are in the cache; the token about to be computed, at that position, attends to itself
    and to the ``window - 1`` before it; ``reserve`` widens the window.
    """
    what = case.model.groups[group]
    first = first_tokens(case, side, request, group)
    if what.window is None:
        return np.ones(len(first), dtype=bool)
    oldest_seen = tokens - (what.window + reserve - 1)
    return (first + case.side(side).tokens_per_block - 1 >= oldest_seen) | (first < what.sinks)


def first_tokens(case: Case, side: str, request: int, group: int) -> np.ndarray:
    """The first token of each block that the request's tokens lie in (int64 by ordinal)."""
    tokens = case.requests[request].tokens(case.model.groups[group].length)
    return np.arange(0, tokens, case.side(side).tokens_per_block)


@lru_cache(maxsize=2048)
def held_blocks(case: Case, side: str, request: int, group: int) -> np.ndarray:
    """Whether the side still has a page of its own for each prompt block of a paged group (bool by ordinal).

    V1 allocates a prompt whole; a front block leaves only as a token is added. V2 keeps what its
    history still reaches, but for blocks that prefill wrote to scratch. Blocks that are listed though
    they left (V1), or are parked until they are committed (V2), are not held.
    """
    what = case.model.groups[group]
    instance = case.side(side)
    asked = case.requests[request]
    if what.window is None:
        return np.ones(len(first_tokens(case, side, request, group)), dtype=bool)
    reserve = instance.reserve_of(what.name)
    state = asked.state(side)
    if instance.manager == "v1":
        first = first_tokens(case, side, request, group)
        if what.length != "prompt":
            return np.ones(len(first), dtype=bool)
        return np.arange(len(first)) >= _detached(
            asked.prompt, asked.room(side), what.window + reserve, instance.tokens_per_block
        )
    prompt = what.length == "prompt"
    tokens = max(asked.prompt, state.reached) if prompt else asked.tokens(what.length)
    held = within_reach(case, side, request, group, reserve=reserve, tokens=tokens)
    if instance.scratch is not None and prompt:
        for done, capacity in _prefill_steps(case, side, request):
            held &= ~scratch_blocks(case, side, request, group, done=done, capacity=capacity)
    return held


def _detached(prompt: int, most: int, window: int, size: int) -> int:
    """Front blocks that V1 has let go of when a sequence of ``prompt`` tokens has had ``most``: add them one by one."""
    gone = 0
    for count in range(prompt + 1, most + 1):
        while count - gone * size >= window + size:
            gone += 1
    return gone


def _prefill_steps(case: Case, side: str, request: int) -> Iterator[tuple[int, int]]:
    """(tokens done before, tokens that there is room for) of each step of a prefill; a receiver has done it all."""
    asked = case.requests[request]
    instance = case.side(side)
    most = asked.prompt + asked.state(side).drafts
    if side == "generation":
        yield asked.prompt, most
        return
    done = asked.context.cached
    for end in asked.cuts:
        if end > done:
            yield done, min(most, end + instance.look_ahead * instance.tokens_per_block)
            done = end
    yield done, most


def scratch_blocks(case: Case, side: str, request: int, group: int, *, done: int, capacity: int) -> np.ndarray:
    """Which prompt blocks are written to shared slots in a step that begins behind ``done`` tokens (bool by ordinal).

    Those that it begins, that there is room for, and whose tokens all fall out of the window before
    ``capacity``, as far as a rewind may take it back.
    """
    what = case.model.groups[group]
    instance = case.side(side)
    assert what.window is not None and instance.scratch is not None
    first = first_tokens(case, side, request, group)
    end = max(0, capacity - instance.scratch)
    kept = within_reach(case, side, request, group, reserve=instance.reserve_of(what.name), tokens=end)
    return ~kept & (first >= done) & (first < capacity)
