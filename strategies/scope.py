"""The small scope: every pair of topologies up to a bound, smallest first, each with a few small models and layouts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from oracle.model.case import Case, Request, Slots
from oracle.model.errors import InvalidCase
from oracle.model.topology import Topology
from strategies import kinds as registry
from strategies.instances import LAYOUTS, has_heads, make_instance
from strategies.kinds.protocol import Declaration, Kind, Surroundings, of_kind
from strategies.requests import lengths_of
from strategies.topologies import TENSOR_SIZES, Grid, Shape, cuts, make_topology, with_extra

CONTEXT_PARALLEL = 2

# The most cases of a scope, for each of its layer counts; models of a kind that are combined with every pair.
_BOUNDS = {"small": ((2_000,), 1), "large": ((12_000, 9_000), 2)}
_SLOTS = Slots(mul=2, add=1)


@dataclass(frozen=True, slots=True)
class Extent:
    """All pairs of topologies with at most ``ranks`` ranks a side over ``layers`` layers."""

    layers: int
    ranks: int


def small_scope(kind: Kind | str, bound: str = "small") -> Iterator[Case]:
    """All cases of the scope, in the order of (ranks of both sides, layers, blocks).

    ``bound`` is ``small`` (about 1,800 cases a kind) or ``large`` (about 20,000); :func:`describe` says what is in it.
    """
    kind = registry.find_kind(kind) if isinstance(kind, str) else kind
    extents, variants = _extents(kind, bound), _BOUNDS[bound][1]
    pairs = [
        (context.size + generation.size, extent.layers, generation.cp, context, generation)
        for extent in extents
        for context, generation in product(_sides(kind, extent, False), _sides(kind, extent, True))
    ]
    pairs.sort(key=lambda pair: pair[:3])
    for _, layers, _, context, generation in pairs:
        grid = Grid(Shape.of(context), Shape.of(generation))
        for declaration in _declarations(kind, grid.surroundings(layers, _block(kind), _prompt(kind, grid)), variants):
            for layouts in LAYOUTS if has_heads(declaration.model) else LAYOUTS[:1]:
                try:
                    case = _case(kind, declaration, context, generation, layouts)
                except InvalidCase as error:
                    raise of_kind(f"kind {kind.name}", error) from error
                yield case


def describe(bound: str = "small", kinds: Kind | str | Iterable[Kind | str] | None = None) -> str:
    """The sentence that states the bound, of one kind or several, by default of all."""
    _check(bound)
    variants = _BOUNDS[bound][1]
    if kinds is None:
        kinds = registry.kinds()
    chosen = [
        registry.find_kind(kind) if isinstance(kind, str) else kind
        for kind in ((kinds,) if isinstance(kinds, Kind | str) else kinds)
    ]
    alike: dict[tuple[Extent, ...], list[str]] = {}
    for kind in chosen:
        alike.setdefault(_extents(kind, bound), []).append(kind.name)
    sizes = []
    for extents, names in alike.items():
        said = " and ".join(f"at most {extent.ranks} ranks a side over {_layers(extent.layers)}" for extent in extents)
        sizes.append(said if len(alike) == 1 else f"{said} ({', '.join(names)})")
    most = max(extent.ranks for extents in alike for extent in extents)
    tensor = ", ".join(str(size) for size in TENSOR_SIZES if size <= most)
    models = f"{variants} small model{'s' * (variants > 1)} of {chosen[0].name if len(chosen) == 1 else 'each'}"
    return (
        f"all pairs of topologies with {'; '.join(sizes)}: tp in {tensor}, the layers cut into stages "
        "in every way that leaves at most one stage empty, attention DP on either side, "
        f"cp {CONTEXT_PARALLEL} on the receiver, as far as a kind can be split so; {models}, every pair of HND and NHD "
        "where there are heads; one request that ends one token into its second block, with cp into its third"
    )


def _layers(number: int) -> str:
    return "1 layer" if number == 1 else f"{number} layers"


def topology_class(case: Case) -> Hashable:
    """What the topologies of two cases must share for one of them to do: kind and shapes, whatever the cuts."""
    return case.kind, Shape.of(case.context.topology), Shape.of(case.generation.topology)


def _check(bound: str) -> None:
    if bound not in _BOUNDS:
        raise InvalidCase("bound", bound, f"expected {' or '.join(_BOUNDS)}")


@lru_cache(maxsize=256)
def _extents(kind: Kind, bound: str) -> tuple[Extent, ...]:
    """For each layer count of the bound the largest number of ranks with which the cases stay few enough."""
    _check(bound)
    limits, variants = _BOUNDS[bound]
    fewest = max(2, kind.layers[0])
    found = []
    for layers, limit in enumerate(limits, fewest):
        if layers > kind.layers[1]:
            break
        extents = [Extent(layers, ranks) for ranks in TENSOR_SIZES[1:]]
        found.append(max((extent for extent in extents if _count(kind, extent, variants) <= limit), key=_ranks))
    return tuple(found)


def _ranks(extent: Extent) -> int:
    return extent.ranks


def _count(kind: Kind, extent: Extent, variants: int) -> int:
    """Cases of ``extent``, had every pair all variants."""
    models = [
        kind.declare(numbers, Surroundings(extent.layers, (1, 1), (1, 1), _block(kind), 3 * _block(kind))).model
        for numbers in kind.scope[:variants]
    ]
    each = sum(len(LAYOUTS) if has_heads(model) else 1 for model in models)
    return each * len(_sides(kind, extent, False)) * len(_sides(kind, extent, True))


@lru_cache(maxsize=256)
def _sides(kind: Kind, extent: Extent, receiver: bool) -> tuple[Topology, ...]:
    """All topologies of one side."""
    found = []
    for tp, cp, attention_dp in product(
        TENSOR_SIZES,
        (1, CONTEXT_PARALLEL) if receiver and kind.helix else (1,),
        (False, True) if kind.attention_dp else (False,),
    ):
        if attention_dp and (tp == 1 or cp > 1):
            continue
        for pp in range(1, extent.layers + 2 if kind.stages else 2):
            if tp * cp * pp <= extent.ranks:
                found += [
                    make_topology(tp, cut, cp, attention_dp) for cut in cuts(extent.layers, pp) if cut.count(0) <= 1
                ]
    return tuple(found)


@lru_cache(maxsize=4096)
def _declarations(kind: Kind, around: Surroundings, variants: int) -> tuple[Declaration, ...]:
    """The first ``variants`` different models that fit."""
    return tuple(dict.fromkeys(kind.declare(numbers, around) for numbers in kind.scope[:variants]))


def _block(kind: Kind) -> int:
    """Tokens a block: more than one where the kind can, or the layouts would be one."""
    return next((tokens for tokens in kind.tokens_per_block if tokens > 1), kind.tokens_per_block[0])


def _prompt(kind: Kind, grid: Grid) -> int:
    """Tokens that end one token into the second block, or with Helix into the third: then every rank has a block."""
    return _block(kind) * grid.generation.cp + 1


def _case(
    kind: Kind, declaration: Declaration, context: Topology, generation: Topology, layouts: tuple[str, str]
) -> Case:
    tokens_per_block = _block(kind)
    model = declaration.model
    prompt = _prompt(kind, Grid(Shape.of(context), Shape.of(generation)))
    # The last attention-DP rank of each side holds the request: with the first, no election would be seen.
    request = Request(
        0,
        prompt,
        context.data_parallel - 1,
        generation.data_parallel - 1,
        tuple((name, prompt) for name in lengths_of(model)),
    )
    without = declaration.without
    context, generation = (
        make_topology(topology.tp, with_extra(topology.stages, extra), topology.cp, topology.attention_dp)
        if (extra := declaration.extra_of(side))
        else topology
        for side, topology in (("context", context), ("generation", generation))
    )
    return Case(
        model,
        make_instance(model, context, tokens_per_block, layout=layouts[0], without=without[0]),
        make_instance(model, generation, tokens_per_block, layout=layouts[1], without=without[1]),
        (request,),
        slots=_SLOTS,
        native=declaration.native,
        kind=kind.name,
    )
