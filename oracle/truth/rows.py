"""The blocks of requests as rows of ids: one row a block, whatever slot it lies in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from oracle.model.case import Case
from oracle.model.slots import number_spare
from oracle.model.topology import Rank
from oracle.truth.blocks import token_codes
from oracle.truth.stacks import Stack

if TYPE_CHECKING:
    from oracle.truth.elements import Frame, Keys


@dataclass(slots=True, eq=False)
class Blocks:
    """All blocks, in one group, of requests that are on the same data-parallel ranks: one row a block.

    ``first`` (blocks) is the id of a block's first byte where all its rows have one content; where
    not, ``first`` is None and ``by_token`` (blocks x tokens) says it for a row that ends there.
    ``left`` (blocks): how many tokens there still are from the start of the block on; None where they fill all blocks.
    """

    requests: list[int]
    counts: list[int]
    ordinals: np.ndarray
    owners: np.ndarray
    first: np.ndarray | None
    by_token: np.ndarray
    left: np.ndarray | None = None

    def ids(self, stack: Stack) -> np.ndarray:
        """What to add to the stack's ids: (blocks, 1), or (blocks, bytes) where rows differ in content."""
        if self.first is not None:
            return self.first[:, None]
        # A byte without a token has row -1, which is the last: it is of what the whole block is of.
        return self.by_token.take(stack.rows, axis=1)


def blocks_of(truth: Frame, side: str, group: int, requests: list[int]) -> Blocks:
    """The blocks of ``requests``, one request after another."""
    case = truth.case
    keys = truth.context_keys if side == "context" else truth.generation_keys
    what = case.model.groups[group]
    size = case.side(side).tokens_per_block if what.is_paged else 1
    if what.is_paged and len(requests) == 1:
        return _blocks_of_one(case, keys, requests, what.length, size)
    owners = np.array(requests)
    if not what.is_paged:
        ordinals = np.zeros_like(owners)
        first = (keys.private + owners) * keys.ordinals * keys.width
        return Blocks(requests, [1] * len(requests), ordinals, owners, first, first[:, None])
    tokens = [case.requests[r].tokens(what.length) for r in requests]
    counts = [-(-count // size) for count in tokens]
    ordinals = np.concatenate([np.arange(count) for count in counts])
    owners = owners.repeat(counts)
    codes = [token_codes(case, r, what.length, n * size) for r, n in zip(requests, counts, strict=True)]
    by_token = np.concatenate(codes).reshape(len(ordinals), size)
    by_token = (by_token * keys.ordinals + ordinals[:, None]) * keys.width
    first = by_token[:, 0] if bool((by_token[:, :1] == by_token).all()) else None
    left = np.array(tokens).repeat(counts) - ordinals * size if any(count % size for count in tokens) else None
    return Blocks(requests, counts, ordinals, owners, first, by_token, left)


def _blocks_of_one(case: Case, keys: Keys, requests: list[int], length: str, size: int) -> Blocks:
    """The blocks of a single request, as most are asked for: nothing to be put one after another."""
    (request,) = requests
    tokens = case.requests[request].tokens(length)
    count = -(-tokens // size)
    ordinals = np.arange(count)
    by_token = token_codes(case, request, length, count * size).reshape(count, size) * keys.ordinals
    by_token += ordinals[:, None]
    by_token *= keys.width
    first = by_token[:, 0] if bool((by_token[:, 1:] == by_token[:, :1]).all()) else None
    left = tokens - ordinals * size if tokens % size else None
    return Blocks(requests, [count], ordinals, np.full(count, request), first, by_token, left)


def tails_of(
    truth: Frame, side: str, group: int, requests: list[int], ranks: list[Rank]
) -> Iterator[tuple[Blocks, np.ndarray]]:
    """(the beam tails of a request, their slots: ranks x tails), for those of ``requests`` that have any.

    A tail is the last block of the prompt once more: the tokens of the prompt are the same, the rows
    behind them are that beam's own.
    """
    case = truth.case
    keys = truth.context_keys if side == "context" else truth.generation_keys
    flat = truth.context if side == "context" else truth.generation
    size = case.side(side).tokens_per_block
    for request in requests:
        ordinal = tail_ordinal(case, side, group, request)
        slots = np.array([flat.side.spare_slots(rank.number, group, request)[1] for rank in ranks])
        if ordinal is None or not slots.size:
            continue
        beams = range(1, slots.shape[1] + 1)
        by_token = np.array([tail_codes(truth, request, beam, ordinal, size) for beam in beams])
        by_token = (by_token * keys.ordinals + ordinal) * keys.width
        left = np.full(len(beams), case.requests[request].prompt - ordinal * size)
        ordinals = np.full(len(beams), ordinal)
        yield Blocks([request], [len(beams)], ordinals, np.full(len(beams), request), None, by_token, left), slots


def tail_ordinal(case: Case, side: str, group: int, request: int) -> int | None:
    """The ordinal of the request's beam tails; None if it has none that holds tokens of the prompt."""
    spare = number_spare(case, side, group)[1][request]
    return spare.tail_ordinal if len(spare.tails) and not len(spare.beyond) else None


def tail_codes(truth: Frame, request: int, beam: int, ordinal: int, size: int) -> np.ndarray:
    """Content code of each token of a beam tail (int64, ``size``); beams count from 1 behind the first."""
    case = truth.case
    codes = token_codes(case, request, "prompt", (ordinal + 1) * size)[ordinal * size :].copy()
    codes[case.requests[request].prompt - ordinal * size :] = truth.context_keys.code_of_tail(request, beam)
    return codes
