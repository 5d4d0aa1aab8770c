"""The nearest passing neighbours of a failure: one small change of the case at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from differential.compare.sibling import is_large
from kvwitness.reduce import exists
from kvwitness.smaller_models import with_layers
from kvwitness.trial import Trial
from kvwitness.words import joined
from oracle.model.buffers import Model, Part
from oracle.model.case import SIDES, Case, Request, SideState
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from strategies.topologies import even_cut

MOST_TP = 16


@dataclass(frozen=True, slots=True)
class Change:
    """One thing changed: ``what`` (``generation tp``), to ``value``; the case that comes of it."""

    what: str
    value: str
    case: Case


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Changes by what becomes of the case: it passes, it still fails, it is refused."""

    passing: tuple[Change, ...] = ()
    failing: tuple[Change, ...] = ()
    refused: tuple[Change, ...] = ()

    def lines(self) -> list[str]:
        """``passes with generation tp=1, 2 or 4; prompt=2``, then what makes no difference, then what is refused."""
        told = [
            (f"passes with {_listed(self.passing)}" if self.passing else "no small change of the case passes"),
            (f"fails still with {_listed(self.failing)}" if self.failing else ""),
            (f"is refused with {_listed(self.refused)}" if self.refused else ""),
        ]
        return [line for line in told if line]


def _listed(changes: tuple[Change, ...]) -> str:
    by_what: dict[str, list[str]] = {}
    for change in changes:
        by_what.setdefault(change.what, []).append(change.value)
    return "; ".join(f"{what}={joined(values, 'or')}" for what, values in by_what.items())


def find_neighbours(case: Case, trial: Trial, *, carry: bool) -> Neighbours:
    """Judge every small change of ``case`` as ``trial`` does; none of a case of large memory."""
    found: dict[str, list[Change]] = {"passing": [], "failing": [], "refused": []}
    if is_large(case):
        return Neighbours()
    seen = {case}
    for change in changes(case):
        if change.case in seen or not exists(change.case) or is_large(change.case):
            continue
        seen.add(change.case)
        judgement = trial(change.case, carry=carry)
        if judgement.failure is not None:
            found["failing"].append(change)
        elif any(verdict.refusals for verdict in judgement.result.verdicts.values()):
            found["refused"].append(change)
        else:
            found["passing"].append(change)
    return Neighbours(**{name: tuple(listed) for name, listed in found.items()})


def changes(case: Case) -> Iterator[Change]:
    """Cases that differ from ``case`` in one thing, those that exist at all."""
    for what, value, build in _builders(case):
        try:
            yield Change(what, value, build())
        except InvalidCase:
            continue


Builder = tuple[str, str, Callable[[], Case]]


def _builders(case: Case) -> Iterator[Builder]:
    if case.tables or case.presented or any(case.side(side).page_tables for side in SIDES):
        return  # what is given explicitly belongs to these instances and requests
    for side in SIDES:
        for what, value, instance in _instances(case, side):
            yield f"{side} {what}", value, lambda s=side, i=instance: _with_side(case, s, i)
    yield from _blocks(case)
    yield from _requests(case)
    yield from _model(case)


def _with_side(case: Case, side: str, instance: Instance) -> Case:
    """The case with another instance; requests on an attention-DP rank that is gone move to the first."""
    ranks = instance.topology.data_parallel
    name = f"{side}_dp"
    requests = tuple(
        request if getattr(request, name) < ranks else replace(request, **{name: 0}) for request in case.requests
    )
    return replace(case, **{side: instance}, requests=requests)


def _instances(case: Case, side: str) -> Iterator[tuple[str, str, Instance]]:
    instance = case.side(side)
    topology = instance.topology
    for tp in _around(topology.tp, MOST_TP):
        yield "tp", str(tp), replace(instance, topology=replace(topology, tp=tp))
    layers = sum(topology.stages)
    for pp in _around(topology.pp, min(layers, topology.pp + 1)):
        stages = even_cut(layers, pp)
        yield "pp", str(pp), replace(instance, topology=replace(topology, stages=stages))
    even = even_cut(layers, topology.pp)
    if topology.stages != even:
        yield "stages", "+".join(map(str, even)), replace(instance, topology=replace(topology, stages=even))
    for cp in {1, 2} - {topology.cp}:
        yield "cp", str(cp), replace(instance, topology=replace(topology, cp=cp))
    other = replace(topology, attention_dp=not topology.attention_dp)
    yield "attention DP", "off" if topology.attention_dp else "on", replace(instance, topology=other)
    if instance.layout:
        layout = "NHD" if instance.layout == "HND" else "HND"
        yield "layout", layout, replace(instance, layout=layout)
    for field in ("packing", "layer_order", "element_bits"):
        if getattr(instance, field):
            yield field.replace("_", " "), "plain", replace(instance, **{field: ()})
    if instance.manager == "v1":
        yield "manager", "v2", replace(instance, manager="v2")
    for field, word, none in (("reserve", "none", ()), ("scratch", "off", None), ("look_ahead", "0", 0)):
        if getattr(instance, field) != none:
            yield field.replace("_", " "), word, replace(instance, **{field: none})


def _around(number: int, most: int) -> list[int]:
    """Its neighbours, its half and its double, and 1; ascending."""
    near = {1, number - 1, number // 2, number + 1, 2 * number} - {number}
    return sorted(each for each in near if 1 <= each <= most)


def _blocks(case: Case) -> Iterator[Builder]:
    sizes = {case.side(side).tokens_per_block for side in SIDES}
    for size in sorted({near for each in sizes for near in _around(each, 2 * each)} - sizes):
        both = {side: replace(case.side(side), tokens_per_block=size) for side in SIDES}
        yield "tokens per block", str(size), lambda b=both: replace(case, **b)


def _requests(case: Case) -> Iterator[Builder]:
    if len(case.requests) > 1:
        for index in range(len(case.requests)):
            yield "only request", str(index), lambda i=index: replace(case, requests=(case.requests[i],))
    size = case.generation.tokens_per_block
    for index, request in enumerate(case.requests):
        whose = "" if len(case.requests) == 1 else f" of request {index}"
        near = {
            1,
            request.prompt - 1,
            request.prompt + 1,
            request.prompt - request.prompt % size,
            request.prompt + size,
        }
        for prompt in sorted(each for each in near - {request.prompt} if each >= 1):
            yield f"prompt{whose}", str(prompt), lambda i=index, p=prompt: _with_prompt(case, i, p)
        for side in SIDES:
            ranks = case.side(side).topology.data_parallel
            for rank in sorted({0, ranks - 1} - {request.dp_rank(side)}):
                moved = replace(request, **{f"{side}_dp": rank})
                what = f"{side} attention-DP rank{whose}"
                yield what, str(rank), lambda i=index, r=moved: _with_request(case, i, r)
            for name in ("cached", "extra", "drafts", "reached", "tails"):
                if getattr(request.state(side), name):
                    fresh = replace(request, **{side: replace(request.state(side), **{name: 0})})
                    yield f"{side} {name}{whose}", "0", lambda i=index, r=fresh: _with_request(case, i, r)
        if request.beams > 1:
            sides = {side: replace(request.state(side), tails=0) for side in SIDES}
            alone = replace(request, beams=1, **sides)
            yield f"beams{whose}", "1", lambda i=index, r=alone: _with_request(case, i, r)
        if request.cuts:
            whole = replace(request, cuts=())
            yield f"cuts{whose}", "none", lambda i=index, r=whole: _with_request(case, i, r)


def _with_prompt(case: Case, index: int, prompt: int) -> Case:
    request = case.requests[index]
    states = {side: _of_prompt(request.state(side), request.prompt, prompt) for side in SIDES}
    cuts = tuple(cut for cut in request.cuts if cut < prompt)
    return _with_request(case, index, replace(request, prompt=prompt, cuts=cuts, **states))


def _of_prompt(state: SideState, prompt: int, other: int) -> SideState:
    """``state`` as far beyond another prompt as it is beyond its own."""
    reached = state.reached - prompt + other if state.reached else 0
    return replace(state, cached=min(state.cached, other), reached=reached)


def _with_request(case: Case, index: int, request: Request) -> Case:
    return replace(case, requests=(*case.requests[:index], request, *case.requests[index + 1 :]))


def _model(case: Case) -> Iterator[Builder]:
    split = {
        axis.name: axis.size
        for group in case.model.groups
        for buffer in group.buffers
        for part in buffer.parts
        for axis in part.axes
        if axis.is_split and not axis.sections
    }
    for name, size in sorted(split.items()):
        word = {"H": "heads", "C": "channels"}.get(name, name)
        for other in _around(size, 2 * size):
            yield word, str(other), lambda n=name, s=other: replace(case, model=_with_axis(case.model, n, s))
    if case.model.layers > 1 and not case.model.draft:
        for layers in sorted({1, case.model.layers - 1}):
            yield "layers", str(layers), lambda n=layers: with_layers(case, range(n))


def _with_axis(model: Model, name: str, size: int) -> Model:
    """The model with all axes of a name that are split, and not by sections, as long as ``size``."""

    def resized(part: Part) -> Part:
        axes = tuple(
            replace(axis, size=size) if axis.name == name and axis.is_split and not axis.sections else axis
            for axis in part.axes
        )
        return replace(part, axes=axes)

    groups = []
    for group in model.groups:
        buffers = tuple(replace(b, parts=tuple(resized(part) for part in b.parts)) for b in group.buffers)
        groups.append(replace(group, buffers=buffers))
    return replace(model, groups=tuple(groups))
