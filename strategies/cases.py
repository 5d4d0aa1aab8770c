"""Cases drawn from a few small numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial

from hypothesis import strategies as st

from oracle.model.case import Case, Slots
from oracle.model.errors import InvalidCase
from strategies import kinds as registry
from strategies import numbers as n
from strategies.instances import draw_block_lengths, draw_instances
from strategies.kinds.protocol import Declaration, Kind, Surroundings, of_kind
from strategies.numbers import WIDTH, Numbers
from strategies.requests import draw_lengths, draw_places, draw_requests, lengths_of
from strategies.states import draw_states
from strategies.topologies import Grid, check_allowed, draw_grid, draw_topologies, least_layers

_NUMBERS = st.binary(min_size=WIDTH, max_size=WIDTH)


def cases(
    kinds: Iterable[Kind | str] | None = None, *, grid: Grid | None = None, states: bool = True
) -> st.SearchStrategy[Case]:
    """Cases of ``kinds``, simplest first; ``grid`` fixes the shapes of both sides.

    Kinds that are not given are all, or all that can be split as ``grid`` says. ``states``: whether cache states are
    drawn too; without them both sides hold the prompt and no more, but for a prefix that the receiver has.

    Every drawn case exists: nothing is filtered. It costs one draw. Equal arguments give one and the same strategy.
    """
    chosen = (
        _possible(grid)
        if kinds is None
        else tuple(registry.find_kind(kind) if isinstance(kind, str) else kind for kind in kinds)
    )
    return _cases(chosen, grid, states)


def cases_of(kind: Kind | str, *, grid: Grid | None = None, states: bool = True) -> st.SearchStrategy[Case]:
    """Cases of one kind."""
    return cases((kind,), grid=grid, states=states)


@lru_cache(maxsize=1024)
def _cases(kinds: tuple[Kind, ...], grid: Grid | None, states: bool) -> st.SearchStrategy[Case]:
    if grid is not None:
        for kind in kinds:
            check_allowed(kind, grid.context, "context")
            check_allowed(kind, grid.generation, "generation")
    return _NUMBERS.map(partial(decode, kinds=kinds, grid=grid, states=states))


def _possible(grid: Grid | None) -> tuple[Kind, ...]:
    """All kinds that can be split as ``grid`` says."""
    return registry.kinds() if grid is None else tuple(kind for kind in registry.kinds() if grid.suits(kind))


def decode(
    numbers: Sequence[int], *, kinds: Sequence[Kind] | None = None, grid: Grid | None = None, states: bool = True
) -> Case:
    """The case that ``WIDTH`` numbers in 0..255 stand for; it needs no Hypothesis.

    >>> from strategies.numbers import simplest
    >>> decode(simplest()).requests[0].prompt
    1
    """
    read = Numbers(numbers, states=states)
    chosen = _possible(grid) if kinds is None else kinds
    kind = chosen[read(n.KIND) % len(chosen)]
    if states and kind.places:
        read.choose(n.WITH_WINDOWS)
    try:
        return _decode(read, kind, grid)
    except InvalidCase as error:
        raise of_kind(f"kind {kind.name}", error) from error


def _decode(read: Numbers, kind: Kind, grid: Grid | None) -> Case:
    if grid is None:
        grid = draw_grid(read, kind)
    fewest, most = kind.layers
    layers = min(max(fewest + read(n.LAYERS), least_layers(read, grid)), most)
    block = kind.tokens_per_block
    tokens_per_block = block[min(read(n.TOKENS_PER_BLOCK), len(block) - 1)]
    own = tuple(read(concept) % bound for concept, bound in zip(n.OF_KIND, kind.bounds, strict=False))
    places = draw_places(read)
    requests, contents = draw_requests(read, grid, tokens_per_block, places)
    if kind.places:
        around = grid.surroundings(layers, tokens_per_block, max(request.prompt for request in requests))
    else:
        around = grid.surroundings(layers)
    declaration = _declare(kind, own, around)
    topologies = draw_topologies(read, grid, declaration)
    sizes = draw_block_lengths(read, tokens_per_block)
    model, requests, managed = draw_states(read, declaration.model, topologies, sizes, requests, places)
    context, generation = draw_instances(read, model, declaration.without, topologies, sizes, managed)
    if names := lengths_of(model):
        requests = draw_lengths(read, requests, names, tokens_per_block)
    return Case(
        model,
        context,
        generation,
        requests,
        contents,
        _slots(1 + read(n.SLOT_MUL), read(n.SLOT_ADD)),
        native=declaration.native,
        kind=kind.name,
    )


@lru_cache(maxsize=16384)
def _declare(kind: Kind, numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    return _only_one(kind.declare(numbers, around))


@lru_cache(maxsize=16384)
def _only_one(declaration: Declaration) -> Declaration:
    """The first declaration that is equal: others are then told from it, and their models, without a look inside."""
    return declaration


@lru_cache(maxsize=256)
def _slots(mul: int, add: int) -> Slots:
    return Slots(mul, add)
