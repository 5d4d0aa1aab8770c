"""The shapes of cache states that known failures need (spec: blocks, 6.2 and "reaching it"), by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oracle.model.buffers import LayerGroup
from oracle.model.case import SIDES, Case, Request

Shape = Callable[[Case], bool]
SHAPES: dict[str, Shape] = {}


def shape(name: str) -> Callable[[Shape], Shape]:
    def keep(holds: Shape) -> Shape:
        SHAPES[name] = holds
        return holds

    return keep


def size_of(case: Case) -> int:
    return case.context.tokens_per_block


def blocks_of(case: Case, request: Request) -> int:
    return -(-request.prompt // size_of(case))


def windows(case: Case) -> Iterator[tuple[Request, LayerGroup, int]]:
    """(request, group, blocks that the model's window has left behind) of every window of a prompt."""
    for request in case.requests:
        for group in case.model.groups:
            if group.window is not None and group.length == "prompt":
                yield request, group, stale(case, request, group)


def stale(case: Case, request: Request, group: LayerGroup, reserve: int = 0) -> int:
    assert group.window is not None
    oldest = request.prompt - (group.window + reserve - 1)  # the oldest token that the next one attends to
    return sum((ordinal + 1) * size_of(case) <= oldest for ordinal in range(blocks_of(case, request)))


def removed(case: Case, request: Request, group: LayerGroup) -> int:
    """Front blocks that the context side's V1 manager has detached: one by one, as tokens were added."""
    assert group.window is not None
    kept = group.window + case.context.reserve_of(group.name)
    gone = 0
    for count in range(request.prompt + 1, request.room("context") + 1):
        while count - gone * size_of(case) >= kept + size_of(case):
            gone += 1
    return gone


def is_detaching(case: Case) -> bool:
    return case.context.manager == "v1"


# ---- V1: the counter and the window


@shape("counter below the window's end")
def counter_below(case: Case) -> bool:
    return is_detaching(case) and any(removed(case, r, g) < end for r, g, end in windows(case))


@shape("counter at the window's end")
def counter_equal(case: Case) -> bool:
    return is_detaching(case) and any(removed(case, r, g) == end > 0 for r, g, end in windows(case))


@shape("I6: counter beyond the window's end")
def counter_above(case: Case) -> bool:
    return is_detaching(case) and any(removed(case, r, g) > end for r, g, end in windows(case))


@shape("V1 to V2")
def first_to_second(case: Case) -> bool:
    return (case.context.manager, case.generation.manager) == ("v1", "v2")


@shape("V2 to V1")
def second_to_first(case: Case) -> bool:
    return (case.context.manager, case.generation.manager) == ("v2", "v1")


# ---- speculation


@shape("extra and drafts end in different blocks")
def straddles(case: Case) -> bool:
    return any(
        -(-(request.prompt + state.extra) // size_of(case)) != -(-(request.prompt + state.drafts) // size_of(case))
        for request in case.requests
        for state in (request.context, request.generation)
        if state.extra and state.drafts
    )


def goes_past_its_block(case: Case, request: Request, side: str) -> bool:
    return request.room(side) > blocks_of(case, request) * size_of(case)


@shape("I1: blocks past the prompt behind holes")
def scratch_behind_holes(case: Case) -> bool:
    return any(
        case.side(side).manager == "v2" and end and goes_past_its_block(case, request, side)
        for request, _, end in windows(case)
        for side in SIDES
    )


@shape("I2: a V1 list that goes on past the prompt, and a window")
def overhang(case: Case) -> bool:
    return any(
        case.side(side).manager == "v1" and end and goes_past_its_block(case, request, side)
        for request, _, end in windows(case)
        for side in SIDES
    )


@shape("I3: more blocks for drafts than the manager reports")
def drafts_undercounted(case: Case) -> bool:
    size = size_of(case)
    return any(
        end and -(-(request.prompt + state.drafts) // size) > -(-(request.prompt + state.extra) // size)
        for request, _, end in windows(case)
        for state in (request.context, request.generation)
    )


# ---- windows


def window_ends(beside: int) -> Shape:
    """Whether a window leaves whole blocks behind and ends ``beside`` tokens from a block's end."""

    def holds(case: Case) -> bool:
        size = size_of(case)
        return size > 2 and any(
            (request.prompt + 1 - group.window - beside) % size == 0 and request.prompt + 1 - group.window >= size - 1
            for request, group, _ in windows(case)
        )

    return holds


SHAPES["window ends a token before a block does"] = window_ends(-1)
SHAPES["window ends where a block does"] = window_ends(0)
SHAPES["window ends a token past a block"] = window_ends(1)


@shape("windows of several lengths in a request")
def several_windows(case: Case) -> bool:
    return len({group.window for request, group, _ in windows(case) if request is case.requests[0]}) > 1


@shape("I4: a sender that keeps what its receiver has dropped")
def sender_keeps_more(case: Case) -> bool:
    return is_detaching(case) and any(
        removed(case, request, group) < stale(case, request, group, case.generation.reserve_of(group.name))
        for request, group, _ in windows(case)
    )


@shape("I5: a receiver with the wider window")
def wider_receiver(case: Case) -> bool:
    return any(
        stale(case, request, group, case.generation.reserve_of(group.name))
        < stale(case, request, group, case.context.reserve_of(group.name))
        for request, group, _ in windows(case)
    )


@shape("a receiver that goes on beyond the prompt with less reserve than that")
def goes_on_without_reserve(case: Case) -> bool:
    return any(
        request.room("generation") - request.prompt > case.generation.reserve_of(group.name) + 1
        for request, group, _ in windows(case)
    )


@shape("I11, m22: sinks before a gap")
def sinks_before_a_gap(case: Case) -> bool:
    return any(group.sinks and end * size_of(case) > group.sinks for _, group, end in windows(case))


@shape("the prompt's end in scratch that a rewind does not cover")
def scratch_takes_due_blocks(case: Case) -> bool:
    context = case.context
    return context.scratch is not None and any(
        request.context.drafts > context.scratch + context.reserve_of(group.name) for request, group, _ in windows(case)
    )


@shape("a block that reuse began, and that drafts would let the window leave behind")
def begun_before_scratch(case: Case) -> bool:
    context, size = case.context, size_of(case)
    if context.scratch is None:
        return False
    for request, group, _ in windows(case):
        begun, kept = request.context.cached // size, group.window + context.reserve_of(group.name)
        most = request.prompt + request.context.drafts - context.scratch
        is_within = begun >= stale(case, request, group, context.reserve_of(group.name))
        if request.context.cached % size and is_within and (begun + 1) * size <= most + 1 - kept:
            return True
    return False


# ---- reuse


@shape("the receiver has part of what left the window")
def cached_within(case: Case) -> bool:
    return any(0 < request.generation.cached < end * size_of(case) for request, _, end in windows(case))


@shape("the receiver has a block more than left the window")
def cached_past(case: Case) -> bool:
    return any(request.generation.cached // size_of(case) == end + 1 > 1 for request, _, end in windows(case))


@shape("m15b: the sender reused more than the receiver, and cuts")
def own_prefix(case: Case) -> bool:
    size = size_of(case)
    return any(
        request.context.cached // size > request.generation.cached // size and request.cuts[-1] > request.context.cached
        for request in case.requests
        if request.cuts
    )


# ---- chunks


@shape("m16: a cut inside the window")
def cut_in_window(case: Case) -> bool:
    size = size_of(case)
    return any(0 < end < cut // size for request, _, end in windows(case) for cut in request.cuts)


@shape("m21: nothing of a window is left to send with the last chunk")
def empty_last_chunk(case: Case) -> bool:
    return any(request.cuts and end == blocks_of(case, request) for request, _, end in windows(case))


@shape("several cuts in one block")
def cuts_in_a_block(case: Case) -> bool:
    return any(len({cut // size_of(case) for cut in request.cuts}) < len(request.cuts) for request in case.requests)


@shape("I10: blocks ahead of a chunk, and a window")
def look_ahead(case: Case) -> bool:
    return case.context.look_ahead > 0 and any(request.cuts and end for request, _, end in windows(case))


# ---- beams


@shape("I7: equal tails, fewer than the beams could have, and reuse")
def equal_tails_and_reuse(case: Case) -> bool:
    return any(
        0 < request.context.tails == request.generation.tails < request.beams - 1
        and 0 < request.generation.cached // size_of(case) < blocks_of(case, request)
        and request.prompt % size_of(case)
        for request in case.requests
    )


@shape("unequal tails")
def unequal_tails(case: Case) -> bool:
    return any(request.context.tails != request.generation.tails for request in case.requests)


@shape("X5: tails behind a prompt that fills its blocks")
def tails_past_the_prompt(case: Case) -> bool:
    return any(
        request.prompt % size_of(case) == 0 and (request.context.tails or request.generation.tails)
        for request in case.requests
    )


@shape("four beams")
def four_beams(case: Case) -> bool:
    return any(request.beams == 4 for request in case.requests)


# ---- context parallelism


def is_helix(case: Case) -> bool:
    return case.generation.topology.cp > 1 and case.context.topology.cp == 1


@shape("Helix and reuse")
def helix_and_reuse(case: Case) -> bool:
    return is_helix(case) and any(request.generation.cached >= size_of(case) for request in case.requests)


@shape("Helix and a window")
def helix_and_window(case: Case) -> bool:
    return is_helix(case) and any(end for _, _, end in windows(case))


@shape("I8, I9: Helix, a window and reuse")
def helix_window_and_reuse(case: Case) -> bool:
    return is_helix(case) and any(end and r.generation.cached >= size_of(case) for r, _, end in windows(case))


@shape("Helix and chunks")
def helix_and_chunks(case: Case) -> bool:
    return is_helix(case) and any(request.cuts for request in case.requests)


@shape("stages of the sender and chunks")
def stages_and_chunks(case: Case) -> bool:
    return case.context.topology.pp > 1 and any(request.cuts for request in case.requests)
