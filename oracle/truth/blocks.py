"""Which block of a request is due on a receiver, may arrive, or must not be touched (spec: blocks, decisions).

By asking the tokens of each block: the model's window decides what is due, the receiver's own
reserve, as far as it still holds that, what may arrive besides. What the source still holds plays no part.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oracle.model.case import Case
from oracle.truth.holding import held_blocks, within_reach

FORBIDDEN, OPTIONAL, DUE, NATIVE_ONLY = 0, 1, 2, 3
"""What a plan owes a byte. ``NATIVE_ONLY``: due of a subject with an election of its own, else optional."""


def is_required(klass: np.ndarray | int, *, paired: bool) -> np.ndarray | bool:
    """Whether bytes of these classes must arrive (bool), by whether the plan's election is that of the mapping."""
    return klass == DUE if paired else klass >= DUE


@lru_cache(maxsize=1024)
def block_classes(case: Case, request: int, group: int) -> np.ndarray:
    """Class of every block of the request in ``group`` by ordinal (uint8); a state group has one block."""
    what = case.model.groups[group]
    if not what.is_paged:
        return np.array([NATIVE_ONLY if what.native_only else DUE], dtype=np.uint8)
    asked = case.requests[request]
    tokens = asked.tokens(what.length)
    reserve = case.generation.reserve_of(what.name)
    wanted = kept = within_reach(case, "generation", request, group, reserve=0, tokens=tokens)
    if reserve:
        kept = within_reach(case, "generation", request, group, reserve=reserve, tokens=tokens)
    if not asked.generation.is_plain:
        kept = kept & held_blocks(case, "generation", request, group)
    size = case.generation.tokens_per_block
    past_end = (np.arange(len(wanted)) + 1) * size
    missing = past_end > (asked.generation.cached if what.length == "prompt" else 0)
    classes = np.full(len(wanted), FORBIDDEN, dtype=np.uint8)
    classes[kept & missing] = OPTIONAL
    classes[wanted & missing] = DUE
    return classes


def resident_blocks(case: Case, request: int, group: int, slots: np.ndarray) -> np.ndarray:
    """Whether the context side still holds each block readable: it has a slot and was not dropped.

    Where the case gives slots, those are what is held.
    """
    held = slots >= 0
    if not case.model.groups[group].is_paged or any(row.side == "context" for row in case.tables):
        return held
    return held & held_blocks(case, "context", request, group)


def may_lose(case: Case) -> bool:
    """Whether the context side may have lost a block that is due: slots are given, or it came beyond the prompt."""
    if any(row.side == "context" for row in case.tables):
        return True
    if all(group.window is None for group in case.model.groups):
        return False
    return case.context.scratch is not None or not all(request.context.is_plain for request in case.requests)


@lru_cache(maxsize=256)
def token_codes(case: Case, request: int, length: str, end: int) -> np.ndarray:
    """Content code of each token position below ``end``: its node of the prefix tree.

    Positions past the prompt, and all of a group that is not as long as the prompt, have the
    request's own code, which is the number of contents plus the request's.
    """
    asked = case.requests[request]
    codes = np.full(end, len(case.contents) + request, dtype=np.int64)
    if length != "prompt":
        return codes
    node, reach = asked.content, asked.prompt
    while node >= 0:
        codes[:reach] = node
        reach = min(reach, case.contents[node].length)
        node = case.contents[node].parent
    return codes
