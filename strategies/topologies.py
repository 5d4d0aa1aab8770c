"""How both instances are split: shapes of the two grids of ranks, and cuts of the layers into stages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from oracle.model.errors import InvalidCase, require_whole
from oracle.model.topology import Topology
from strategies import numbers as n
from strategies.kinds.protocol import Declaration, Kind, Surroundings
from strategies.numbers import Concept, Numbers

MOST_RANKS = 8
"""Ranks of one side of a drawn case."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How one side is split, whatever its layers: the sizes of a topology, with a number of stages instead of a cut."""

    tp: int = 1
    pp: int = 1
    cp: int = 1
    attention_dp: bool = False

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "cp"):
            require_whole(name, getattr(self, name), least=1)

    @property
    def size(self) -> int:
        return self.tp * self.pp * self.cp

    @property
    def tensor(self) -> int:
        """Shares of a split axis: 1 under attention DP."""
        return 1 if self.attention_dp else self.tp

    @property
    def whole(self) -> int:
        """Shares of an axis that is split over the TP×CP grid."""
        return 1 if self.attention_dp else self.tp * self.cp

    @classmethod
    def of(cls, topology: Topology) -> Shape:
        return cls(topology.tp, topology.pp, topology.cp, topology.attention_dp)

    def topology(self, stages: tuple[int, ...]) -> Topology:
        return make_topology(self.tp, stages, self.cp, self.attention_dp)

    def __str__(self) -> str:
        parts = [f"{name} {size}" for name, size in (("tp", self.tp), ("pp", self.pp), ("cp", self.cp)) if size > 1]
        return " · ".join(parts + ["attention DP"] * self.attention_dp) or "tp 1"


@dataclass(frozen=True, slots=True)
class Grid:
    """The shapes of both sides."""

    context: Shape = Shape()
    generation: Shape = Shape()

    @property
    def size(self) -> int:
        """Ranks of both sides together."""
        return self.context.size + self.generation.size

    def suits(self, kind: Kind) -> bool:
        """Whether ``kind`` can be split so on both sides."""
        return not (_refused(kind, self.context) or _refused(kind, self.generation))

    def surroundings(self, layers: int, tokens_per_block: int = 0, prompt: int = 0) -> Surroundings:
        """What a model of ``layers`` layers has to fit on these shapes."""
        tensor, whole = _shares(self)
        return Surroundings(layers, tensor, whole, tokens_per_block, prompt)

    def __str__(self) -> str:
        return f"{self.context} → {self.generation}"


@lru_cache(maxsize=8192)
def _shares(grid: Grid) -> tuple[tuple[int, int], tuple[int, int]]:
    context, generation = grid.context, grid.generation
    return (context.tensor, generation.tensor), (context.whole, generation.whole)


_SIDES = (
    Shape(),
    Shape(2),
    Shape(4),
    Shape(pp=2),
    Shape(2, 2),
    Shape(2, attention_dp=True),
    Shape(4, attention_dp=True),
)
NAMED_GRIDS = tuple(
    Grid(context, generation) for context, generation in product(_SIDES, (*_SIDES, Shape(cp=2), Shape(2, cp=2)))
)
"""The 7 context × 9 generation topologies of the grid that upstream names (spec: mapping, the grid)."""

TENSOR_SIZES = (1, 2, 3, 4, 6, 8)


@lru_cache(maxsize=4096)
def make_topology(tp: int, stages: tuple[int, ...], cp: int, attention_dp: bool) -> Topology:
    return Topology(tp, stages, cp, attention_dp)


def draw_grid(numbers: Numbers, kind: Kind) -> Grid:
    """The shapes of both sides, at most ``MOST_RANKS`` ranks each and, but for a few percent, such that they pair up.

    Tensor sizes depend on their own numbers; cp and then pp take the room that is left. So a number is not lowered at
    the price of what another one gives.
    """
    context_dp = numbers(n.CONTEXT_DP) > 0 and kind.attention_dp
    generation_dp = numbers(n.GENERATION_DP) > 0 and kind.attention_dp
    helix = numbers(n.HELIX) if kind.helix else 0
    context_pp = 1 + numbers(n.CONTEXT_STAGES)
    generation_pp = 1 + numbers(n.GENERATION_STAGES)
    if numbers.must_meet(n.CHUNKS):
        # A chunked prefill needs one stage on the context side, and no Helix.
        context_pp = context_pp if numbers.must_meet(n.CONTEXT_STAGES) else 1
        helix = helix if numbers.must_meet(n.HELIX) else 0
    context_tp, context_dp = _tensor(numbers, n.CONTEXT_TP, context_dp, n.CONTEXT_DP)
    generation_tp, generation_dp = _tensor(numbers, n.GENERATION_TP, generation_dp, n.GENERATION_DP)
    # NO_DIVISOR, HELIX_WITH_DP and HELIX_TWICE are for instances that cannot be paired, or by one subject alone. They
    # only let happen what other numbers ask for: without them, the case keeps the feature that it shows.
    if not (context_dp or generation_dp or numbers(n.NO_DIVISOR)):
        less, more = sorted((context_tp, generation_tp))
        if more % less:
            context_tp = generation_tp = less
    if helix and generation_dp and not numbers(n.HELIX_WITH_DP):
        if numbers.must_meet(n.GENERATION_DP):
            helix = 0
        else:
            generation_dp = False
    cp = min(1 + helix, MOST_RANKS // generation_tp)
    context_cp, twice = 1, numbers(n.HELIX_TWICE) if cp > 1 and not context_dp else 0
    if twice == 1:
        context_cp = min(2, MOST_RANKS // context_tp)
    elif twice == 2 and numbers.must_meet(n.HELIX):
        context_cp = 2 * cp if 2 * cp * context_tp <= MOST_RANKS else 1
    elif twice == 2:
        context_cp, cp = min(cp, MOST_RANKS // context_tp), 1
    context_pp = min(context_pp, MOST_RANKS // (context_tp * context_cp)) if kind.stages else 1
    generation_pp = min(generation_pp, MOST_RANKS // (generation_tp * cp)) if kind.stages else 1
    return _grid((context_tp, context_pp, context_cp, context_dp), (generation_tp, generation_pp, cp, generation_dp))


def _tensor(numbers: Numbers, size: Concept, attention_dp: bool, feature: Concept) -> tuple[int, bool]:
    """Tensor size and attention DP of one side: over one rank there is none, unless it is among what must meet."""
    tp = TENSOR_SIZES[numbers(size)]
    if attention_dp and tp == 1:
        return (2, True) if numbers.must_meet(feature) else (1, False)
    return tp, attention_dp


_Sizes = tuple[int, int, int, bool]


@lru_cache(maxsize=8192)
def _grid(context: _Sizes, generation: _Sizes) -> Grid:
    return Grid(Shape(*context), Shape(*generation))


@lru_cache(maxsize=256)
def even_cut(layers: int, stages: int) -> tuple[int, ...]:
    """Stages of one size; the first ``layers % stages`` of them have a layer more."""
    least, more = divmod(layers, stages)
    return tuple(least + (stage < more) for stage in range(stages))


@lru_cache(maxsize=256)
def cuts(layers: int, stages: int) -> tuple[tuple[int, ...], ...]:
    """All ways to cut ``layers`` into ``stages``, the even one first, those with empty stages last."""
    found = [()]
    for left in range(stages - 1, -1, -1):
        found = [
            (*cut, size) for cut in found for size in (range(layers - sum(cut) + 1) if left else (layers - sum(cut),))
        ]
    even = even_cut(layers, stages)
    return tuple(sorted(found, key=lambda cut: (cut != even, cut.count(0), max(cut) - min(cut), cut)))


EMPTY_FROM = 71
"""The least value of a cut that asks for an empty stage; those below ask for uneven stages that all hold layers."""


def least_layers(numbers: Numbers, grid: Grid) -> int:
    """The number of layers that ``grid`` needs for stages as they are drawn: none is empty unless it has to be."""
    least = 1
    for shape, concept in ((grid.context, n.CONTEXT_CUT), (grid.generation, n.GENERATION_CUT)):
        if shape.pp > 1 and (cut := numbers(concept)) < EMPTY_FROM:
            least = max(least, shape.pp + (cut > 0))
    return least


def draw_topologies(numbers: Numbers, grid: Grid, declaration: Declaration) -> tuple[Topology, Topology]:
    """The topologies of both sides: stages cut evenly, or any other way, some may be empty; extra layers come last."""
    layers = declaration.model.layers - declaration.extra
    context = _cut(layers, grid.context.pp, numbers(n.CONTEXT_CUT))
    generation = _cut(layers, grid.generation.pp, numbers(n.GENERATION_CUT))
    if declaration.extra:
        context = with_extra(context, declaration.extra_of("context"))
        generation = with_extra(generation, declaration.extra_of("generation"))
    return grid.context.topology(context), grid.generation.topology(generation)


def with_extra(stages: tuple[int, ...], extra: int) -> tuple[int, ...]:
    """``stages`` with ``extra`` more layers on the last one."""
    return (*stages[:-1], stages[-1] + extra)


def _cut(layers: int, stages: int, uneven: int) -> tuple[int, ...]:
    if stages == 1:
        return (layers,)
    if not uneven:
        return even_cut(layers, stages)
    full, empty = _uneven_cuts(layers, stages)
    if full and uneven < EMPTY_FROM:
        return full[(uneven - 1) % len(full)]
    return empty[(uneven - EMPTY_FROM) % len(empty)]


@lru_cache(maxsize=256)
def _uneven_cuts(layers: int, stages: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """The cuts other than the even one: (those without, those with an empty stage)."""
    others = cuts(layers, stages)[1:]
    return tuple(cut for cut in others if 0 not in cut), tuple(cut for cut in others if 0 in cut)


def check_allowed(kind: Kind, shape: Shape, side: str) -> None:
    """Raise ``InvalidCase`` where ``kind`` cannot be split as ``shape`` says."""
    for name in _refused(kind, shape)[:1]:
        raise InvalidCase(f"{side}.{name}", getattr(shape, name), f"kind {kind.name} takes none")


def _refused(kind: Kind, shape: Shape) -> list[str]:
    """The sizes of ``shape`` that ``kind`` cannot have."""
    return [
        name
        for name, wanted, allowed in (
            ("pp", shape.pp > 1, kind.stages),
            ("cp", shape.cp > 1, kind.helix),
            ("attention_dp", shape.attention_dp, kind.attention_dp),
        )
        if wanted and not allowed
    ]
