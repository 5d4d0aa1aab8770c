"""Small siblings of large cases: the same instances and layout with short prompts and narrow elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, lcm

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Model, Part
from oracle.model.case import SIDES, Case, Request, SideState, Slots
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.slots import number_blocks
from oracle.truth.decide import method_for

PERIODS = (4, 2, 1)
"""Blocks of a rank that a sibling's prompt has at most, besides those that a window reaches over: as many as fit."""

WIDE = 16
"""Payload axes from this length on are divided by what all of them have in common."""

TRIES = 12


def is_large(case: Case) -> bool:
    """Whether the memory of ``case`` is judged in closed form, without naming each byte."""
    return method_for(case) != "elements"


def small_sibling(case: Case) -> Case | None:
    """The same instances, requests and heads with short prompts and narrow elements; None where there is none.

    A prompt keeps how far it reaches into its last block and beyond a window. Buffers that share a pool still do, in
    the same order, and others still do not; what is cut evenly is still cut in as many parts.
    """
    if case.tables or case.presented or any(case.side(side).page_tables for side in SIDES):
        return None
    case = _nearer(case)
    alike = list(_packed_alike(case))
    for periods in PERIODS:
        requests = tuple(_shorter(case, request, periods) for request in case.requests)
        for model in alike:
            small = replace(case, model=model, requests=requests, slots=Slots())
            small = replace(small, slots=_tight(small))
            if not is_large(small):
                return small
    return None


def _packed_alike(case: Case) -> Iterator[Model]:
    """The narrower models that are packed as the model of ``case`` is."""
    packed = _packed(case)
    for model in _narrower(case):
        try:
            if _packed(replace(case, model=model)) == packed:
                yield model
        except InvalidCase:
            continue


def _packed(case: Case) -> list[list[object]]:
    """Rank by rank, what stands in one pool and which groups share a pool group; not sizes, nor the order of pools."""
    found: list[list[object]] = []
    known: dict[int, list[object]] = {}
    for side in SIDES:
        for table in lay_out(case, side).tables:
            if id(table) in known:
                found.append(known[id(table)])
                continue
            pools: dict[int, list[tuple[int, int, int, str]]] = {}
            for entry in table.entries:
                pools.setdefault(entry.pool, []).append((entry.group, entry.offset, entry.layer, entry.role))
            members = [[(group, layer, role) for group, _, layer, role in sorted(own)] for own in pools.values()]
            shared: dict[int, set[int]] = {}
            for entry in table.entries:
                shared.setdefault(table.pools[entry.pool].pool_group, set()).add(entry.group)
            known[id(table)] = [sorted(members), sorted(map(sorted, shared.values()))]
            found.append(known[id(table)])
    return found


def _tight(case: Case) -> Slots:
    """Hardly more slots than blocks, an odd number of them: every second one in turn, and one is left over."""
    counts: dict[str, int] = {}
    for side in SIDES:
        used = [number_blocks(case, side, group)[0] for group in range(len(case.model.groups))]
        for table in lay_out(case, side).tables:
            shared: dict[int, set[int]] = {}
            for entry in table.entries:
                shared.setdefault(table.pools[entry.pool].pool_group, set()).add(entry.group)
            for groups in shared.values():
                least = (sum(used[group] for group in groups) + 1) | 1
                for group in groups:
                    name = case.model.groups[group].name
                    counts[name] = max(least, counts.get(name, 0))
    return Slots(mul=2, add=1, counts=tuple(counts.items()))


def _period(case: Case) -> int:
    """Tokens after which blocks are owned by the same ranks of both sides again."""
    return lcm(case.context.topology.cp, case.generation.topology.cp) * case.generation.tokens_per_block


def _nearer(case: Case) -> Case:
    """``case`` with windows that prompts reach, and all prompts, shorter by as many tokens.

    So each prompt still leaves as many blocks behind. Where there are sinks they stay as they are.
    """
    longest = max(request.prompt for request in case.requests)
    windowed = [group for group in case.model.groups if group.window is not None and group.window <= longest]
    if not windowed or any(group.sinks or group.length != "prompt" for group in windowed):
        return case
    most = min(*(group.window or 1 for group in windowed), *(request.prompt for request in case.requests)) - 1
    less = most // _period(case) * _period(case)
    groups = [
        replace(group, window=group.window - less) if group in windowed and group.window else group
        for group in case.model.groups
    ]
    requests = tuple(_of_prompt(request, request.prompt - less) for request in case.requests)
    return replace(case, model=replace(case.model, groups=tuple(groups)), requests=requests)


def _shorter(case: Case, request: Request, periods: int) -> Request:
    period = _period(case)
    reached = [group for group in case.model.groups if group.window is not None and group.window <= request.prompt]
    windows = [group.window + group.sinks for group in reached]  # type: ignore[operator]
    most = (periods + -(-max(windows, default=0) // period)) * period
    prompt = request.prompt if request.prompt <= most else most - period + (request.prompt - 1) % period + 1
    return _of_prompt(request, prompt)


def _of_prompt(request: Request, prompt: int) -> Request:
    """``request`` with a shorter ``prompt``."""
    states = {side: _reaching(request.state(side), request.prompt, prompt) for side in SIDES}
    return replace(request, prompt=prompt, cuts=tuple(cut for cut in request.cuts if cut < prompt), **states)


def _reaching(state: SideState, before: int, prompt: int) -> SideState:
    """``state`` of a request of ``before`` tokens for one of ``prompt``: what goes beyond it still does as far."""
    reached = state.reached and max(0, state.reached - before + prompt)
    return replace(state, cached=min(state.cached, prompt), reached=reached)


def _narrower(case: Case) -> Iterator[Model]:
    """Models with other sizes, in which sizes that differ still do: in proportion first, then by their order."""
    parts = [part for group in case.model.groups for buffer in group.buffers for part in buffer.parts]
    payload = sorted({axis.size for part in parts for axis in part.axes if _is_payload(axis)})
    even = sorted({size for part in parts for axis in part.axes for size in _even_sizes(axis)})
    whole = max([8 // gcd(8, part.bits) for part in parts])
    common = gcd(*[size for size in payload if size >= WIDE])
    shares = [{size: number + first for number, size in enumerate(even)} for first in range(1, TRIES)]
    if common > 1:
        width = {size: size // common if size >= WIDE else size for size in payload}
        for share in shares if even else shares[:1]:
            yield _with_sizes(case, width, share)
    for first in range(1, TRIES):
        width = {size: (number + first) * whole for number, size in enumerate(payload)}
        yield _with_sizes(case, width, shares[0])


def _is_payload(axis: Axis) -> bool:
    """Whether the length of ``axis`` decides nothing but the width of an element."""
    return not axis.is_split and not axis.is_token and not axis.sections


def _even_sizes(axis: Axis) -> list[int]:
    """Lengths that every rank has an equal part of, or all of: those of sections, or of the whole axis."""
    if axis.sections:
        splits = {section.split for section in axis.sections}
        return [section.size for section in axis.sections] if splits <= {Split.EVEN, Split.ALL} else []
    return [axis.size] if axis.split is Split.EVEN else []


def _parts(instance: Instance, grid: Grid) -> int:
    topology = instance.topology
    if topology.attention_dp:
        return 1
    return topology.tp if grid is Grid.TP else topology.tp * topology.cp


def _with_sizes(case: Case, width: dict[int, int], shares: dict[int, int]) -> Model:
    """The model of ``case`` with payload axes as ``width`` says, and ``shares`` indices on each rank of even ones."""

    def resized(axis: Axis) -> Axis:
        if _is_payload(axis):
            return replace(axis, size=width[axis.size])
        if not _even_sizes(axis):
            return axis
        period = lcm(*[_parts(case.side(side), axis.grid) for side in SIDES])
        if not axis.sections:
            return replace(axis, size=shares[axis.size] * period)
        sections = tuple(Section(each.name, shares[each.size] * period, each.split) for each in axis.sections)
        return Axis(axis.name, grid=axis.grid, sections=sections)

    def narrowed(part: Part) -> Part:
        return replace(part, axes=tuple(map(resized, part.axes)))

    groups = []
    for group in case.model.groups:
        buffers = tuple(replace(b, parts=tuple(map(narrowed, b.parts))) for b in group.buffers)
        groups.append(replace(group, buffers=buffers))
    return replace(case.model, groups=tuple(groups))
