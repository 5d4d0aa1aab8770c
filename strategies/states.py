"""What cache managers hold of a request before the transfer, and what they keep besides (spec: blocks, strategies).

Lengths are placed where a block, a window or a reserve ends, and the two sides are drawn apart. What no manager would
let happen is not drawn: several beams come with V1, sinks with V2, and a receiver keeps what it is to receive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from oracle.model.buffers import LayerGroup, Model
from oracle.model.case import Request, SideState
from oracle.model.states import reserve_lacking
from oracle.model.topology import Topology
from strategies import numbers as n
from strategies.numbers import Concept, Numbers

Sizes = tuple[int, int]
"""Tokens per block on (context, generation)."""


@dataclass(frozen=True, slots=True)
class Managed:
    """The manager of an instance and what it keeps besides windows, see ``oracle.model.instance.Instance``."""

    manager: str = "v2"
    reserve: tuple[tuple[str, int], ...] = ()
    scratch: int | None = None
    look_ahead: int = 0


UNMANAGED = Managed()
"""V2 with nothing besides."""

# By side, context first.
_REACHED = (n.CONTEXT_REACHED, n.GENERATION_REACHED)
_DRAFTS = (n.CONTEXT_DRAFTS, n.GENERATION_DRAFTS)
_EXTRA = (n.CONTEXT_EXTRA, n.GENERATION_EXTRA)
_RESERVE = (n.CONTEXT_RESERVE, n.GENERATION_RESERVE)
_SCRATCH = (n.CONTEXT_SCRATCH, n.GENERATION_SCRATCH)
_MANAGER = (n.CONTEXT_MANAGER, n.GENERATION_MANAGER)

_TAILS = ((0, 0), (1, 1), (0, 1), (1, 0), (2, 2), (1, 2), (2, 1), (3, 3))
"""Beam tails on both sides: each side cuts its beams apart where it will, and equal numbers are a case of their own."""


def draw_states(
    numbers: Numbers,
    model: Model,
    topologies: tuple[Topology, Topology],
    sizes: Sizes,
    requests: tuple[Request, ...],
    places: tuple[int, ...],
) -> tuple[Model, tuple[Request, ...], tuple[Managed, Managed]]:
    """(the model, with sinks where they are drawn; the requests with what each side has of them; both managers).

    Without states, a receiver has a prefix of each request, and that is all.
    """
    windows = windows_of(model)
    cached = _prefixes(numbers, n.CACHED, windows, sizes[1], requests, places)
    if not numbers.states:
        return model, tuple(map(_with_prefix, requests, cached)), (UNMANAGED, UNMANAGED)
    if windows:
        model = _with_sinks(numbers, model, sizes[0])
        windows = windows_of(model)
    with_sinks = any(group.sinks for group in windows)
    versions = ["v1" if numbers(each) and not with_sinks else "v2" for each in _MANAGER]
    beams = _beams(numbers, versions, topologies, requests[0])
    reserves = [_reserves(numbers(_RESERVE[side]), sizes[side], len(windows)) for side in (0, 1)]
    reused = _prefixes(numbers, n.REUSED, windows, sizes[0], requests, places)
    states: list[list[SideState]] = []
    for side, prefixes in enumerate((reused, cached)):
        kept = tuple(zip([group.window or 0 for group in windows], reserves[side], strict=True))
        own = []
        for index, (place, request, prefix) in enumerate(zip(places, requests, prefixes, strict=True)):
            if beams > 1 and not index:
                own.append(_of_beams(numbers, side, request.prompt, prefix, sizes[side], kept, beams))
            elif kept and not side and not index and numbers(n.CONTEXT_SCRATCH) == 4 and versions[0] == "v2":
                own.append(_begun_before_scratch(request.prompt, sizes[side], kept))
            else:
                # Requests of a case are to differ: the one at the second place has the states of the other side.
                own.append(_of_one(numbers, (side + place) % 2, request.prompt, prefix, sizes[side], kept))
        states.append(own)
    ahead = numbers(n.LOOK_AHEAD) if any(request.cuts for request in requests) else 0
    scratch = [(None, 0, 1, size, 0)[numbers(_SCRATCH[side])] if windows else None for side, size in enumerate(sizes)]
    stated = tuple(
        [
            _stated(request, states[0][index], states[1][index], 1 if index else beams)
            for index, request in enumerate(requests)
        ]
    )
    enough = tuple(
        [
            max(reserve, *[reserve_lacking(group, versions[1], sizes[1], request) for request in stated])
            for group, reserve in zip(windows, reserves[1], strict=True)
        ]
    )
    managed = (
        _managed(versions[0], windows, reserves[0], scratch[0], ahead),
        _managed(versions[1], windows, enough, scratch[1], 0),
    )
    return model, stated, managed


@lru_cache(maxsize=4096)
def windows_of(model: Model) -> tuple[LayerGroup, ...]:
    """The groups that keep a window of the prompt."""
    return tuple(group for group in model.groups if group.window is not None and group.length == "prompt")


# ---- prefixes


def _prefixes(
    numbers: Numbers,
    concepts: tuple[Concept, ...],
    windows: tuple[LayerGroup, ...],
    size: int,
    requests: tuple[Request, ...],
    places: tuple[int, ...],
) -> list[int]:
    """What one side had of each request already, in tokens."""
    found = []
    for place, request in zip(places, requests, strict=True):
        option = numbers(concepts[place])
        if not found and numbers.must_meet(concepts[0]):
            option = numbers.forced(concepts[place])
        found.append(_prefix(option, request.prompt, size, windows) if option else 0)
    return found


def _prefix(option: int, prompt: int, size: int, windows: tuple[LayerGroup, ...]) -> int:
    """One block, part of one, a block and a token, half, all but one, or all; or as the window ends.

    One token less than what a window has left behind, or a block more. Where it has left nothing, that is one block.
    """
    if option <= 6:
        return min(prompt, (size, size // 2 or 1, size + 1, prompt // 2, prompt - 1, prompt)[option - 1])
    behind = next((each for group in windows if (each := stale_blocks(prompt, group.window, size))), 0)
    if not behind:
        return min(prompt, size)
    return min(prompt, behind * size - 1 if option == 7 else (behind + 1) * size)


def stale_blocks(prompt: int, window: int | None, size: int) -> int:
    """Blocks that ``window`` no longer reaches once the prompt is done: where numbers of tokens are worth placing."""
    return 0 if window is None else max(0, (prompt + 1 - window) // size)


@lru_cache(maxsize=16384)
def _with_prefix(request: Request, cached: int) -> Request:
    return replace(request, generation=SideState(cached)) if cached else request


# ---- beyond the prompt


Kept = tuple[tuple[int, int], ...]
"""(window, reserve) of each group that keeps a window."""


def _of_one(numbers: Numbers, side: int, prompt: int, prefix: int, size: int, kept: Kept) -> SideState:
    """The state of a request of one beam; ``side``: whose numbers it has."""
    reached, drafts, extra = numbers(_REACHED[side]), numbers(_DRAFTS[side]), numbers(_EXTRA[side])
    if not (reached or drafts or extra):
        return _state(prefix)
    left = -prompt % size
    return _state(
        prefix,
        (0, 1, left or size, left + 1, size)[extra],
        (0, 1, left + 1, 2, size, left + size + 1, 2 * size)[drafts],
        prompt + _beyond(reached, left, size, kept) if reached else 0,
    )


def _beyond(option: int, left: int, size: int, kept: Kept) -> int:
    """Tokens that a sequence has reached beyond its prompt; the first window with its reserve counts.

    The first; the last that the reserve allows for; the first past the block; a block and a token; one or two blocks
    past the reserve; two blocks and the window.
    """
    window, reserve = kept[0] if kept else (0, 0)
    last = reserve + 1
    return (1, last, left + 1, size + 1, last + size, last + 2 * size, 2 * size + window)[option - 1]


def _begun_before_scratch(prompt: int, size: int, kept: Kept) -> SideState:
    """The state of a request whose first block within the window was begun by what it reused.

    It drafts what lets its window leave that block behind: what is written from there on goes to scratch, but no block
    that holds tokens already.
    """
    window, reserve = kept[0]
    begun = stale_blocks(prompt, window + reserve, size) * size
    return _state(min(prompt, begun + 1), drafts=size)


def _of_beams(numbers: Numbers, side: int, prompt: int, prefix: int, size: int, kept: Kept, beams: int) -> SideState:
    """The state of a request of several beams: no speculation, no window that drops a block."""
    reached = 0
    if option := numbers(_REACHED[side]):
        reached = prompt + _beyond(option, -prompt % size, size, kept)
        if any(reached - window - reserve >= size for window, reserve in kept):
            reached = 0
    # Beams share a prompt that fills its blocks until a token behind it sets them apart.
    tails = min(beams - 1, _TAILS[numbers(n.TAILS)][side]) if reached or prompt % size else 0
    return _state(prefix, reached=reached, tails=tails)


def _beams(numbers: Numbers, versions: list[str], topologies: tuple[Topology, Topology], request: Request) -> int:
    """The beams of the first request: one without V1 on both sides, with context parallelism or with chunks."""
    if versions != ["v1", "v1"] or request.cuts or any(topology.cp > 1 for topology in topologies):
        return 1
    return 1 + numbers(n.BEAMS)


@lru_cache(maxsize=16384)
def _state(cached: int, extra: int = 0, drafts: int = 0, reached: int = 0, tails: int = 0) -> SideState:
    return SideState(cached, extra, drafts, reached, tails)


@lru_cache(maxsize=16384)
def _stated(request: Request, context: SideState, generation: SideState, beams: int) -> Request:
    if request.context == context and request.generation == generation and beams == 1:
        return request
    return replace(request, context=context, generation=generation, beams=beams)


# ---- managers


def _with_sinks(numbers: Numbers, model: Model, size: int) -> Model:
    """The model with sinks in its windowed groups, where it has none of its own."""
    option = numbers(n.SINKS)
    if not option or any(group.sinks for group in model.groups):
        return model
    if any(numbers.must_meet(manager) for manager in _MANAGER) and not numbers.must_meet(n.SINKS):
        return model  # V1 is to be there, and it keeps none
    return _with_tokens_in_front(model, (1, size, size + 1)[option - 1])


@lru_cache(maxsize=4096)
def _with_tokens_in_front(model: Model, sinks: int) -> Model:
    near = windows_of(model)
    return replace(model, groups=tuple(replace(each, sinks=sinks) if each in near else each for each in model.groups))


def _reserves(option: int, size: int, windows: int) -> tuple[int, ...]:
    """Tokens that a side keeps beyond each of its windows.

    One, a block, a token more or less, two blocks and one; or a block and one beyond the last window alone.
    """
    if option == 6:
        return (0,) * (windows - 1) + (size + 1,) * min(windows, 1)
    return ((0, 1, size, size + 1, size - 1, 2 * size + 1)[option],) * windows


@lru_cache(maxsize=16384)
def _managed(
    version: str, windows: tuple[LayerGroup, ...], reserves: tuple[int, ...], scratch: int | None, ahead: int
) -> Managed:
    """The manager of one side; V1 has neither scratch nor blocks ahead."""
    reserve = tuple((group.name, tokens) for group, tokens in zip(windows, reserves, strict=True) if tokens)
    return Managed("v1", reserve) if version == "v1" else Managed("v2", reserve, scratch, ahead)
