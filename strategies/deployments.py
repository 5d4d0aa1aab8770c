"""Cases of real deployments: a published model, how each side is split, and a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TypeVar

from oracle.model.buffers import Model
from oracle.model.case import Case, Native, Request, SideState, Slots
from oracle.model.errors import InvalidCase, require_whole
from oracle.model.instance import LAYOUTS, Instance
from oracle.model.topology import Topology
from strategies.instances import has_heads
from strategies.kinds import find_model
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, of_kind
from strategies.requests import lengths_of
from strategies.topologies import Shape, check_allowed, even_cut

PARAMETERS = ("tp", "pp", "cp", "dp", "layout")
"""What may be given for a side. ``pp``: a number of stages, or the layers of each: ``27+27+26``, ``[27, 27, 26]``."""

T = TypeVar("T")

_SWITCH = {"on": True, "off": False, "true": True, "false": False}


def deployment(
    model: str | Model,
    context: Mapping[str, object],
    generation: Mapping[str, object],
    *,
    prompt: int | Sequence[int],
    tokens_per_block: int | None = None,
    layout: str = "HND",
    element_bits: int | None = None,
    cached: int = 0,
    lengths: Mapping[str, int] | None = None,
    native: Native | None = None,
    slots: Slots | None = None,
) -> Case:
    """The case of one deployment.

    ``model`` is the name of a published model, or a model (then with its ``native`` declaration, if any). ``context``
    and ``generation`` give ``PARAMETERS``, by default 1, ``off`` and ``layout``. Stages given by number are cut evenly,
    the first ones longer by a layer; extra layers (MTP) then stand on the last one, as they do where the stages are
    listed without them. ``prompt`` is the length of a request in tokens, or the lengths of several; under attention DP
    the i-th request is on rank i. ``cached`` are the tokens that the generation side had already of each request.
    ``tokens_per_block`` and ``element_bits`` are the model's usual ones unless given, 32 for a ``Model``. ``lengths``
    are further lengths of each request in tokens, such as ``encoder``; those that the model needs and that are not
    given are as long as the prompt.

    Raises ``InvalidCase`` that names the parameter and says what would be accepted.

    >>> case = deployment("llama-3-70b", {"tp": 4}, {"tp": 8, "pp": 3}, prompt=1000)
    >>> case.generation.topology.stages
    (27, 27, 26)
    """
    kind = published = None
    if isinstance(model, str):
        kind, published = find_model(model)
        bits = published.element_width(element_bits)
        declaration = _of(kind, published, lambda: published.declare(bits))
        tokens_per_block = published.block_length(tokens_per_block)
    elif isinstance(model, Model):
        declaration = Declaration(model, native)
        tokens_per_block = 32 if tokens_per_block is None else tokens_per_block
    else:
        raise InvalidCase("model", model, "expected the name of a published model, or a Model")
    model = declaration.model
    sides = []
    for (side, parameters), without in zip(
        (("context", context), ("generation", generation)), declaration.without, strict=True
    ):
        extra = declaration.extra_of(side)
        topology, own_layout = _side(side, parameters, model.layers - declaration.extra + extra, extra, layout)
        if kind is not None:
            check_allowed(kind, Shape.of(topology), side)
        own_layout = own_layout if has_heads(model) else ""
        sides.append(Instance(topology, tokens_per_block, own_layout, without=without))
    prompts = (prompt,) if isinstance(prompt, int) else tuple(prompt)
    for tokens in prompts:
        require_whole("prompt", tokens, least=1)
    require_whole("cached", cached)
    for name, tokens in (lengths or {}).items():
        if name not in lengths_of(model):
            accepted = ", ".join(lengths_of(model)) or "none: the groups of the model are as long as the prompt"
            raise InvalidCase("lengths", name, f"expected {accepted}")
        require_whole(f"lengths of {name}", tokens)
    requests = tuple(
        Request(
            index,
            tokens,
            index % sides[0].topology.data_parallel,
            index % sides[1].topology.data_parallel,
            tuple((name, (lengths or {}).get(name, tokens)) for name in lengths_of(model)),
            generation=SideState(min(cached, tokens)),
        )
        for index, tokens in enumerate(prompts)
    )
    case = partial(Case, model, *sides, requests, slots=slots or Slots(), native=declaration.native)
    return case() if kind is None else _of(kind, published, lambda: case(kind=kind.name))


def _of(kind: Kind, model: PublishedModel, build: Callable[[], T]) -> T:
    """What ``build`` returns; where it refuses, the reason with the kind and the model that it is about."""
    try:
        return build()
    except InvalidCase as error:
        whose = f"model {model.name}"
        raise of_kind(f"kind {kind.name}", of_kind(whose, error)) from error


def _side(side: str, parameters: Mapping[str, object], layers: int, extra: int, layout: str) -> tuple[Topology, str]:
    for name in parameters:
        if name not in PARAMETERS:
            near = get_close_matches(str(name), PARAMETERS, n=1)
            accepted = f"did you mean {near[0]}? " if near else ""
            raise InvalidCase(f"{side} parameter", name, f"{accepted}expected {', '.join(PARAMETERS)}")
    sizes = {name: _whole(f"{side}.{name}", parameters.get(name, 1)) for name in ("tp", "cp")}
    own = parameters.get("layout", layout)
    if own not in LAYOUTS[1:]:
        raise InvalidCase(f"{side}.layout", own, f"expected {' or '.join(LAYOUTS[1:])}")
    stages = _stages(f"{side}.pp", parameters.get("pp", 1), layers, extra)
    return Topology(sizes["tp"], stages, sizes["cp"], _switch(f"{side}.dp", parameters.get("dp", False))), str(own)


def _whole(where: str, value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    require_whole(where, value, least=1)
    return value  # type: ignore[return-value]


def _switch(where: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCH:
        return _SWITCH[value.lower()]
    raise InvalidCase(where, value, "expected on or off")


def _stages(where: str, value: object, layers: int, extra: int) -> tuple[int, ...]:
    """Layers by stage, from their number or a list of them; ``extra`` layers of the model stand on the last stage."""
    if isinstance(value, str) and "+" in value:
        value = [int(part) if part.strip().isdecimal() else part for part in value.split("+")]
    if not isinstance(value, list | tuple):
        count = _whole(where, value)
        if count > layers - extra:
            raise InvalidCase(where, count, f"expected at most one stage for each of {layers - extra} layers")
        value = even_cut(layers - extra, count)
    for size in value:
        require_whole(where, size)
    stages = list(value)
    if extra and sum(stages) == layers - extra:
        stages[-1] += extra
    if not stages or sum(stages) != layers:
        without = f", or {layers - extra} without the {extra} appended to the last stage" if extra else ""
        raise InvalidCase(where, "+".join(map(str, stages)), f"expected stages of {layers} layers in all{without}")
    return tuple(stages)
