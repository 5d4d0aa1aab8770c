"""What block lists are to say, written down by definition: sets of ordinals, token by token (spec: blocks, 0 and 1).

Nothing here is shared with truth, managers or encodings: those are compared with these sets.
"""

from __future__ import annotations

from oracle.model.case import Case
from oracle.model.encodings import (
    CHUNKS_WITH_CONTEXT_PARALLELISM,
    SINKS_BEFORE_A_GAP,
    TAIL_COUNTS_DIFFER,
    TAILS_NOT_TOLD_APART,
    WINDOW_WITH_CONTEXT_PARALLELISM,
    Encoding,
)

Ordinals = frozenset[int]
SIDES = ("context", "generation")


def size_of(case: Case, side: str) -> int:
    return case.side(side).tokens_per_block


def all_blocks(case: Case, side: str, request: int, group: int) -> Ordinals:
    """The blocks that tokens of the prompt lie in."""
    tokens = case.requests[request].tokens(case.model.groups[group].length)
    return frozenset(token // size_of(case, side) for token in range(tokens))


def live(case: Case, side: str, request: int, group: int, *, reserve: int, tokens: int) -> Ordinals:
    """The prompt blocks with a sink or a token that the one at position ``tokens``, or a later one, attends to."""
    what, size = case.model.groups[group], size_of(case, side)
    blocks = all_blocks(case, side, request, group)
    if what.window is None:
        return blocks
    oldest = tokens - (what.window + reserve) + 1
    return frozenset(
        block
        for block in blocks
        if any(t >= oldest or t < what.sinks for t in range(block * size, block * size + size))
    )


def kept(case: Case, side: str, request: int, group: int) -> Ordinals:
    """The prompt blocks that the side's window, its reserve included, still reaches at the prompt's end."""
    reserve = case.side(side).reserve_of(case.model.groups[group].name)
    tokens = case.requests[request].tokens(case.model.groups[group].length)
    return live(case, side, request, group, reserve=reserve, tokens=tokens)


def present(case: Case, side: str, request: int, group: int) -> Ordinals:
    """The prompt blocks of which the side holds a page of its own."""
    what, instance, asked = case.model.groups[group], case.side(side), case.requests[request]
    blocks, size = all_blocks(case, side, request, group), size_of(case, side)
    if what.window is None:
        return blocks
    reserve = instance.reserve_of(what.name)
    if instance.manager == "v1":
        front, window = 0, what.window + reserve
        for count in range(asked.prompt + 1, asked.room(side) + 1):
            while count - front * size >= window + size:
                front += 1
        return frozenset(block for block in blocks if block >= front)
    history = max(asked.prompt, asked.state(side).reached)
    there = live(case, side, request, group, reserve=reserve, tokens=history)
    return there - written_to_scratch(case, side, request, group)


def written_to_scratch(case: Case, side: str, request: int, group: int) -> Ordinals:
    """V2: the prompt blocks that some step of the prefill wrote to slots that nobody reads."""
    instance, asked = case.side(side), case.requests[request]
    size = size_of(case, side)
    if instance.scratch is None:
        return frozenset()
    most = asked.prompt + asked.state(side).drafts
    steps = [(asked.prompt, most)]
    if side == "context":
        starts = [asked.context.cached, *(cut for cut in asked.cuts if cut > asked.context.cached)]
        ends = [*starts[1:], asked.prompt]
        steps = [
            (start, most if end == asked.prompt else min(most, end + instance.look_ahead * size))
            for start, end in zip(starts, ends, strict=True)
        ]
    gone: set[int] = set()
    for done, capacity in steps:
        reserve = instance.reserve_of(case.model.groups[group].name)
        tokens = max(0, capacity - instance.scratch)
        stale = all_blocks(case, side, request, group) - live(
            case, side, request, group, reserve=reserve, tokens=tokens
        )
        gone |= {block for block in stale if done <= block * size < capacity}
    return frozenset(gone)


def missing(case: Case, request: int, group: int) -> Ordinals:
    """The prompt blocks of which the receiver lacks a token."""
    size, cached = size_of(case, "generation"), case.requests[request].generation.cached
    return frozenset(
        block
        for block in all_blocks(case, "generation", request, group)
        if any(token >= cached for token in range(block * size, block * size + size))
    )


def due(case: Case, request: int, group: int) -> Ordinals:
    """The prompt blocks that must arrive: the model's window decides, whatever either side keeps."""
    tokens = case.requests[request].prompt
    wanted = live(case, "generation", request, group, reserve=0, tokens=tokens)
    return wanted & missing(case, request, group)


def asked(case: Case, request: int, group: int) -> Ordinals:
    """The prompt blocks that a receiver asks for: what it keeps, holds and lacks."""
    return (
        kept(case, "generation", request, group)
        & present(case, "generation", request, group)
        & missing(case, request, group)
    )


def offered(case: Case, request: int, group: int, encoding: Encoding = "tables") -> Ordinals:
    """The prompt blocks that a sender offers: what it keeps and holds; as a run, what follows its rank's last hole."""
    there = kept(case, "context", request, group) & present(case, "context", request, group)
    if encoding == "tables":
        return there
    holes = all_blocks(case, "context", request, group) - there
    ranks = case.context.topology.cp
    return frozenset(
        block for block in there if not any(hole > block and hole % ranks == block % ranks for hole in holes)
    )


def lost(case: Case, request: int) -> bool:
    """Whether a block that is due is no longer held by the sender."""
    return any(due(case, request, g) - present(case, "context", request, g) for g in range(len(case.model.groups)))


def leaves_a_block(case: Case, side: str, request: int, group: int) -> bool:
    """Whether a window, with the side's reserve, has left a block behind.

    At the prompt's end, sinks or not, for what is listed is trimmed to the window. With V2 at its history,
    sinks apart: those stay.
    """
    what, instance, asked_for = case.model.groups[group], case.side(side), case.requests[request]
    if what.window is None:
        return False
    size, window = size_of(case, side), what.window + instance.reserve_of(what.name)

    def is_left(block: int, tokens: int) -> bool:
        return all(token <= tokens - window for token in range(block * size, block * size + size))

    history = max(asked_for.prompt, asked_for.state(side).reached if instance.manager == "v2" else 0)
    sinks = {token // size for token in range(min(what.sinks, history))}
    return is_left(0, asked_for.prompt) or is_left(len(sinks), history)


def is_parallel(case: Case) -> bool:
    return any(case.side(side).topology.cp > 1 for side in SIDES)


def has_prompt_tails(case: Case, side: str, request: int) -> int:
    """Beam tails that hold tokens of the prompt: those of a block behind it are of no use."""
    room, size = case.requests[request].room(side), size_of(case, side)
    last = (case.requests[request].prompt - 1) // size
    return case.requests[request].state(side).tails if (room - 1) // size == last else 0


def slice_of(case: Case, request: int) -> tuple[dict[int, int], int]:
    """(block -> number of the slice that sends it where groups stream, number of slices), by definition.

    A block goes with the first chunk that fills it, what no chunk fills with the last; a chunk that no
    block goes with is no slice, unless it is the last.
    """
    asked, size = case.requests[request], size_of(case, "context")
    ends = [*(cut for cut in asked.cuts if cut > asked.context.cached), asked.prompt]
    blocks = {token // size for token in range(asked.prompt)}
    chunk = {
        block: next((n for n, end in enumerate(ends) if end >= block * size + size), len(ends) - 1) for block in blocks
    }
    sent = sorted({*chunk.values(), len(ends) - 1})
    return {block: sent.index(number) for block, number in chunk.items()}, len(sent)


def cannot_say(case: Case, encoding: Encoding, request: int) -> frozenset[str]:
    """The codes with which an encoding has to refuse a request; none where it can say what both sides have."""
    codes: set[str] = set()
    asked_for, groups = case.requests[request], range(len(case.model.groups))
    if encoding == "tables":
        return frozenset()
    for group in groups:
        gap = any(leaves_a_block(case, side, request, group) for side in SIDES)
        if gap and case.model.groups[group].sinks:
            codes.add(SINKS_BEFORE_A_GAP)
        if gap and is_parallel(case) and encoding == "anchors":
            codes.add(WINDOW_WITH_CONTEXT_PARALLELISM)
        sides = {
            "context": offered(case, request, group, encoding),
            "generation": asked(case, request, group),
        }
        tails = {side: has_prompt_tails(case, side, request) for side in SIDES}
        if all(sides.values()) and len(set(tails.values())) > 1:
            codes.add(TAIL_COUNTS_DIFFER)
        if encoding != "suffix":
            continue
        for side in SIDES:
            blocks = len(all_blocks(case, side, request, group))
            full = tails[side] == asked_for.beams - 1 and len(sides[side]) + tails[side] > blocks
            if tails[side] and sides[side] and not full:
                codes.add(TAILS_NOT_TOLD_APART)
    if is_parallel(case) and slice_of(case, request)[1] > 1:
        codes.add(CHUNKS_WITH_CONTEXT_PARALLELISM)
    return frozenset(codes)
