"""Which slot a content block has: the running number of distinct content blocks, and the affine rule."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from oracle.model.case import Case, Content, Request


@lru_cache(maxsize=4096)
def content_spans(contents: tuple[Content, ...], content: int, tokens: int) -> tuple[tuple[int, int, int], ...]:
    """(content, first token, end token) of a prompt, in order: which node of the prefix tree each token is of."""
    spans: list[tuple[int, int, int]] = []
    end = tokens
    while content >= 0:
        node = contents[content]
        first = min(node.length, end)
        if first < end:
            spans.append((content, first, end))
        end = first
        content = node.parent
    return tuple(reversed(spans))


def block_count(request: Request, length: str, tokens_per_block: int) -> int:
    return -(-request.tokens(length) // tokens_per_block)


@lru_cache(maxsize=512)
def number_blocks(case: Case, side: str, group_index: int) -> tuple[int, tuple[np.ndarray, ...]]:
    """(distinct content blocks, their running numbers by request and ordinal) of one group.

    A block that lies wholly within a request's prompt is shared by content; one that is not full
    yet belongs to its request. On the generation side only the whole blocks a request has cached
    are shared: what is received lands in slots of its own. A group with a length of its own (an
    encoder's) shares nothing: contents speak of prompts. A state group has one block a request.
    """
    group = case.model.groups[group_index]
    if not group.is_paged:
        return len(case.requests), tuple([np.array([index]) for index in range(len(case.requests))])
    return _number_paged(case, side, group.length)


@lru_cache(maxsize=512)
def _number_paged(case: Case, side: str, length: str) -> tuple[int, tuple[np.ndarray, ...]]:
    numbers: list[np.ndarray] = []
    tokens_per_block = case.side(side).tokens_per_block
    shared: dict[int, np.ndarray] = {}
    used = 0
    for request in case.requests:
        tokens = request.tokens(length)
        blocks = -(-tokens // tokens_per_block)
        limit = tokens if side == "context" else min(tokens, request.generation.cached)
        full = limit // tokens_per_block if length == "prompt" else 0
        spans = content_spans(case.contents, request.content, tokens) if full else ()
        if not spans or (len(spans) == 1 and spans[0][0] not in shared):
            own = np.arange(used, used + blocks)
            used += blocks
            numbers.append(own)
            if spans:
                shared[spans[0][0]] = own[:full]
            continue
        own = np.full(blocks, -1, dtype=np.int64)
        for content, first, end in spans:
            start, stop = first // tokens_per_block, min(end // tokens_per_block, full)
            if start >= stop:
                continue
            known = shared.get(content)
            if known is None or len(known) < stop:
                grown = np.full(stop, -1, dtype=np.int64)
                if known is not None:
                    grown[: len(known)] = known
                shared[content] = known = grown
            part = known[start:stop]
            new = part < 0
            fresh = int(new.sum())
            part[new] = np.arange(used, used + fresh)
            used += fresh
            own[start:stop] = part
        private = own < 0
        fresh = int(private.sum())
        own[private] = np.arange(used, used + fresh)
        used += fresh
        numbers.append(own)
    return used, tuple(numbers)


class Spare(NamedTuple):
    """Running numbers of blocks of one request and group that hold nothing of the prompt that a transfer owes.

    ``beyond``: the blocks after the prompt's, in order. ``tails``: the last block of each beam that
    has one of its own, besides the first beam; the block is that of ordinal ``tail_ordinal``.
    """

    beyond: np.ndarray
    tails: np.ndarray
    tail_ordinal: int


_NO_BLOCKS = np.zeros(0, dtype=np.int64)
NO_SPARE = Spare(_NO_BLOCKS, _NO_BLOCKS, -1)


@lru_cache(maxsize=512)
def number_spare(case: Case, side: str, group_index: int) -> tuple[int, tuple[Spare, ...]]:
    """(spare blocks, those of each request) of one group; they are numbered after all blocks of prompts.

    A side has them where its state says so: drafts, tokens already generated, beams. Every block is a
    request's own.
    """
    group = case.model.groups[group_index]
    if not group.is_paged or group.length != "prompt" or all(request.is_plain for request in case.requests):
        return 0, (NO_SPARE,) * len(case.requests)
    size = case.side(side).tokens_per_block
    first = used = number_blocks(case, side, group_index)[0]
    found: list[Spare] = []
    for request in case.requests:
        listed = -(-request.room(side) // size)
        beyond = np.arange(used, used + listed - block_count(request, "prompt", size))
        used += len(beyond)
        tails = np.arange(used, used + request.state(side).tails)
        used += len(tails)
        found.append(Spare(beyond, tails, listed - 1))
    return used - first, tuple(found)


@lru_cache(maxsize=4096)
def slot_count(blocks: int, mul: int) -> int:
    """The smallest prime of at least three times ``blocks`` that does not divide ``mul``."""
    candidate = max(2, 3 * blocks)
    while not _is_prime(candidate) or mul % candidate == 0:
        candidate += 1
    return candidate


def _is_prime(number: int) -> bool:
    if number < 4:
        return number > 1
    if number % 2 == 0:
        return False
    return all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))
