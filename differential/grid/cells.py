"""The cells of a grid: one manager between two split instances each, as a case, or refused by the manager itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from differential.grid.managers import LAYERS, Manager, managers_of
from oracle.model.case import SIDES, Case, Request, Slots
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from strategies import kinds as registry
from strategies.instances import has_heads
from strategies.kinds.protocol import Kind
from strategies.requests import lengths_of
from strategies.topologies import NAMED_GRIDS, Grid, Shape, check_allowed, cuts, even_cut, with_extra


@dataclass(frozen=True, slots=True)
class GridCell:
    """One manager between two split instances: a ``case``, or why there is none.

    ``refused``: the manager itself cannot be split so. ``not_run``: its kind was not asked for.
    """

    manager: str
    context: Shape
    generation: Shape
    case: Case | None = None
    refused: str = ""
    not_run: str = ""

    def __str__(self) -> str:
        return f"{self.manager}: {self.context} → {self.generation}"


def grid_cells(grid: str, kinds: Iterable[Kind | str] | None = None) -> Iterator[GridCell]:
    """All cells, 7 × 9 a manager, manager by manager; ``kinds``: those to run, by default all."""
    asked = None if kinds is None else {registry.find_kind(kind) if isinstance(kind, str) else kind for kind in kinds}
    own = {} if asked is None else {kind.name: kind for kind in asked}
    for manager in managers_of(grid):
        kind = own.get(manager.kind) if asked is not None else registry.find_kind(manager.kind)
        for split in NAMED_GRIDS:
            if kind is None:
                why = f"kind {manager.kind} was not asked for"
                yield GridCell(manager.name, split.context, split.generation, not_run=why)
            else:
                yield _cell(manager, kind, split)


def prompts_of(tokens_per_block: int) -> tuple[int, int]:
    """Three blocks each, the last one with a single token and full: enough for two context-parallel ranks."""
    return 2 * tokens_per_block + 1, 3 * tokens_per_block


def _cell(manager: Manager, kind: Kind, split: Grid) -> GridCell:
    for side, shape in (("context", split.context), ("generation", split.generation)):
        try:
            check_allowed(kind, shape, side)
        except InvalidCase as error:
            what = error.argument.partition(".")[2]
            return GridCell(manager.name, split.context, split.generation, refused=f"{kind.name} takes no {what}")
    tokens_per_block, prompts = manager.tokens_per_block, prompts_of(manager.tokens_per_block)
    around = split.surroundings(max(LAYERS, kind.layers[0]), tokens_per_block, max(prompts))
    declaration = manager.declaration(kind, around)
    model = declaration.model
    topologies = tuple(
        _topology(shape, model.layers - declaration.extra, cut, declaration.extra_of(side))
        for side, shape, cut in zip(SIDES, (split.context, split.generation), manager.cut, strict=True)
    )
    requests = tuple(
        Request(
            number,
            prompt,
            *(last * (topology.data_parallel - 1) for topology in topologies),
            lengths=tuple((name, prompt - 1) for name in lengths_of(model)),
        )
        for number, (prompt, last) in enumerate(zip(prompts, (0, 1), strict=True))
    )
    case = Case(
        model,
        *(
            Instance(topology, tokens_per_block, manager.layout if has_heads(model) else "", without=without)
            for topology, without in zip(topologies, declaration.without, strict=True)
        ),
        requests,
        slots=Slots(mul=2, add=1),
        native=declaration.native,
        kind=kind.name,
    )
    return GridCell(manager.name, split.context, split.generation, case)


def _topology(shape: Shape, layers: int, cut: int, extra: int) -> Topology:
    if not cut or shape.pp == 1:
        return shape.topology(with_extra(even_cut(layers, shape.pp), extra))
    full = [stages for stages in cuts(layers, shape.pp) if 0 not in stages]
    return shape.topology(with_extra(full[cut % len(full)], extra))
