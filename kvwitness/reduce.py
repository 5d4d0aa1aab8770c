"""Making a failing case smaller without knowing how it was drawn: try simpler neighbours, keep what still fails.

Hypothesis shrinks what it drew. This serves every other case (of the small scope, of one
deployment, of a file) and goes on where the numbers that a case is drawn from allow no less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from kvwitness.smaller_models import fewer_buffers, fewer_groups, fewer_layers, halved, is_explicit, made
from oracle.model.axes import Axis
from oracle.model.buffers import Buffer, LayerGroup, Model, Part
from oracle.model.case import PLAIN, SIDES, Case, Request, SideState, Slots
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.topology import Topology

SECONDS = 10.0


def reduce_case(case: Case, still_fails: Callable[[Case], bool], *, seconds: float = SECONDS) -> Case:
    """The smallest case that a greedy walk from ``case`` reaches in ``seconds``, each step one that ``still_fails``.

    Explicit page tables, slots and lists are kept as they are, and with them everything that they name.
    """
    end = time.monotonic() + seconds
    tried: set[Case] = {case}
    moved = True
    while moved:
        moved = False
        for step in STEPS:
            for smaller in step(case):
                if time.monotonic() > end:
                    return case
                if smaller in tried:
                    continue
                tried.add(smaller)
                if exists(smaller) and still_fails(smaller):
                    case, moved = smaller, True
                    break
    return case


def exists(case: Case) -> bool:
    try:
        return all(lay_out(case, side) is not None for side in SIDES)
    except InvalidCase:
        return False


def _fewer_requests(case: Case) -> Iterator[Case]:
    if is_explicit(case) or len(case.requests) == 1:
        return
    for kept in range(len(case.requests)):
        yield from made(lambda kept=kept: replace(case, requests=(case.requests[kept],)))
    for left_out in range(len(case.requests) if len(case.requests) > 2 else 0):
        rest = case.requests[:left_out] + case.requests[left_out + 1 :]
        yield from made(lambda rest=rest: replace(case, requests=rest))


def _own_contents(case: Case) -> Iterator[Case]:
    """Requests that share nothing, numbered in order."""
    requests = tuple(replace(request, content=index) for index, request in enumerate(case.requests))
    yield from made(lambda: replace(case, requests=requests, contents=()))


def _shorter_prompts(case: Case) -> Iterator[Case]:
    if is_explicit(case):
        return
    block = case.generation.tokens_per_block
    for index, request in enumerate(case.requests):
        lengths = {1, block, block + 1, request.prompt - block, request.prompt - 1, request.prompt // 2}
        for prompt in sorted(length for length in lengths if 1 <= length < request.prompt):
            yield from made(lambda i=index, r=request, p=prompt: _with_request(case, i, _shortened(r, p)))
        for place, (name, tokens) in enumerate(request.lengths):
            for shorter in halved(tokens, 0):
                changed = (*request.lengths[:place], (name, shorter), *request.lengths[place + 1 :])
                yield from made(lambda i=index, r=request, c=changed: _with_request(case, i, replace(r, lengths=c)))


def _shortened(request: Request, prompt: int) -> Request:
    return replace(
        request,
        prompt=prompt,
        cuts=tuple(cut for cut in request.cuts if cut < prompt),
        **{side: _with_prompt(request.state(side), request.prompt, prompt) for side in SIDES},
    )


def _with_prompt(state: SideState, prompt: int, shorter: int) -> SideState:
    """``state`` of a shorter prompt, as far beyond it as before."""
    reached = state.reached - prompt + shorter if state.reached else 0
    return replace(state, cached=min(state.cached, shorter), reached=reached)


def _plainer_requests(case: Case) -> Iterator[Case]:
    for index, request in enumerate(case.requests):
        for fields in (
            {"beams": 1, **{side: replace(request.state(side), tails=0) for side in SIDES}},
            {"cuts": ()},
            {"generation": PLAIN},
            {"context": PLAIN},
            {"context_dp": 0},
            {"generation_dp": 0},
            *_fewer_beams(request),
            *({"cuts": request.cuts[:cut] + request.cuts[cut + 1 :]} for cut in range(len(request.cuts))),
            *({side: state} for side in SIDES for state in _plainer_states(request, side)),
        ):
            try:
                plainer = replace(request, **fields)
            except InvalidCase:
                continue
            if plainer != request:
                yield from made(lambda i=index, p=plainer: _with_request(case, i, p))


def _fewer_beams(request: Request) -> Iterator[dict[str, object]]:
    for beams in halved(request.beams, 2) if request.beams > 2 else ():
        states = {side: request.state(side) for side in SIDES}
        yield {
            "beams": beams,
            **{side: replace(state, tails=min(state.tails, beams - 1)) for side, state in states.items()},
        }


def _plainer_states(request: Request, side: str) -> Iterator[SideState]:
    """One number of the state of a side smaller, none at all first."""
    state = request.state(side)
    for name in ("reached", "drafts", "extra", "tails", "cached"):
        number = getattr(state, name)
        if not number:
            continue
        yield replace(state, **{name: 0})
        least = request.prompt + 1 if name == "reached" else 1
        for smaller in halved(number, least):
            yield replace(state, **{name: smaller})


def _with_request(case: Case, index: int, request: Request) -> Case:
    return replace(case, requests=(*case.requests[:index], request, *case.requests[index + 1 :]))


def _smaller_grids(case: Case) -> Iterator[Case]:
    if is_explicit(case):
        return
    for side in SIDES:
        for topology in _simpler(case.side(side).topology):
            yield from made(lambda s=side, t=topology: replace(case, **{s: replace(case.side(s), topology=t)}))
    both = [list(_simpler(case.side(side).topology)) for side in SIDES]
    for context in both[0]:
        for generation in both[1]:
            yield from made(
                lambda c=context, g=generation: replace(
                    case,
                    context=replace(case.context, topology=c),
                    generation=replace(case.generation, topology=g),
                )
            )


def _simpler(topology: Topology) -> Iterator[Topology]:
    stages = topology.stages
    if len(stages) > 1:
        yield replace(topology, stages=(sum(stages),))
        for cut in range(len(stages) - 1):
            yield replace(topology, stages=(*stages[:cut], stages[cut] + stages[cut + 1], *stages[cut + 2 :]))
    for cp in halved(topology.cp, 1):
        yield replace(topology, cp=cp)
    for tp in halved(topology.tp, 1):
        yield replace(topology, tp=tp)
    if topology.attention_dp:
        yield replace(topology, attention_dp=False)


def _smaller_axes(case: Case) -> Iterator[Case]:
    """Fewer heads and narrower elements; sectioned axes stay as they are."""
    if is_explicit(case):
        return
    names = {axis.name for group in case.model.groups for buffer in group.buffers for axis in _axes(buffer)}
    for name in sorted(names - {"T"}):
        largest = max(
            axis.size
            for group in case.model.groups
            for buffer in group.buffers
            for axis in _axes(buffer)
            if axis.name == name
        )
        for size in halved(largest, 1):
            yield from made(lambda n=name, s=size: replace(case, model=_with_axis(case.model, n, s)))
    if any(part.bits > 8 for group in case.model.groups for buffer in group.buffers for part in buffer.parts):
        plain = [replace(case.side(side), element_bits=()) for side in SIDES]
        yield from made(
            lambda: replace(case, model=_map_parts(case.model, _bytes), context=plain[0], generation=plain[1])
        )


def _axes(buffer: Buffer) -> Iterator[Axis]:
    for part in buffer.parts:
        yield from part.axes


def _bytes(part: Part) -> Part:
    return replace(part, bits=min(part.bits, 8))


def _with_axis(model: Model, name: str, size: int) -> Model:
    def smaller(part: Part) -> Part:
        axes = tuple(
            replace(axis, size=size) if axis.name == name and axis.size > size and not axis.sections else axis
            for axis in part.axes
        )
        return replace(part, axes=axes)

    return _map_parts(model, smaller)


def _map_parts(model: Model, change: Callable[[Part], Part]) -> Model:
    groups: list[LayerGroup] = []
    for group in model.groups:
        buffers = tuple(replace(b, parts=tuple(change(part) for part in b.parts)) for b in group.buffers)
        groups.append(replace(group, buffers=buffers))
    return replace(model, groups=tuple(groups))


def _smaller_blocks(case: Case) -> Iterator[Case]:
    """Fewer tokens a block: as many on both sides, or where they are not, on one of them."""
    if is_explicit(case):
        return
    sizes = [case.side(side).tokens_per_block for side in SIDES]
    for side, size in zip(SIDES, sizes, strict=True) if len(set(sizes)) > 1 else ():
        for tokens in halved(size, 1):
            yield from made(lambda s=side, t=tokens: replace(case, **{s: replace(case.side(s), tokens_per_block=t)}))
    least = min(sizes)
    for tokens in halved(least, 1):
        yield from made(
            lambda t=tokens: replace(
                case,
                context=replace(case.context, tokens_per_block=t),
                generation=replace(case.generation, tokens_per_block=t),
            )
        )


def _plainer_instances(case: Case) -> Iterator[Case]:
    """Declared axis order, ascending layers, one packing, the simpler manager and nothing besides, slots in order."""
    for side in SIDES:
        for fields in (
            {"layer_order": ()},
            {"packing": ()},
            {"element_bits": ()},
            {"layout": ""},
            {"manager": "v2"},
            {"reserve": ()},
            {"scratch": None},
            {"look_ahead": 0},
            *({"reserve": reserve} for reserve in _smaller_reserves(case.side(side))),
        ):
            plainer = replace(case.side(side), **fields)
            if plainer != case.side(side):
                yield from made(lambda s=side, p=plainer: replace(case, **{s: p}))
    if case.slots != Slots() and not is_explicit(case):
        yield from made(lambda: replace(case, slots=Slots()))


def _smaller_reserves(instance: Instance) -> Iterator[tuple[tuple[str, int], ...]]:
    for index, (group, tokens) in enumerate(instance.reserve):
        for smaller in halved(tokens, 0):
            yield (*instance.reserve[:index], (group, smaller), *instance.reserve[index + 1 :])


def _smaller_windows(case: Case) -> Iterator[Case]:
    """No window, no sinks or fewer tokens of either."""
    for index, group in enumerate(case.model.groups):
        if group.window is None:
            continue
        fields: list[dict[str, object]] = [{"window": None, "sinks": 0}, {"sinks": 0}]
        fields += [{"window": window} for window in halved(group.window, 1)]
        fields += [{"sinks": sinks} for sinks in halved(group.sinks, 1)]
        for each in fields:
            yield from made(lambda i=index, f=each: replace(case, model=_with_group(case.model, i, f)))


def _with_group(model: Model, index: int, fields: dict[str, object]) -> Model:
    groups = model.groups
    changed = replace(groups[index], **fields)  # type: ignore[arg-type]
    return replace(model, groups=(*groups[:index], changed, *groups[index + 1 :]))


STEPS: tuple[Callable[[Case], Iterator[Case]], ...] = (
    _fewer_requests,
    _smaller_grids,
    fewer_layers,
    fewer_groups,
    fewer_buffers,
    _shorter_prompts,
    _own_contents,
    _plainer_requests,
    _plainer_instances,
    _smaller_windows,
    _smaller_blocks,
    _smaller_axes,
)
"""What is tried, what weighs most first."""
