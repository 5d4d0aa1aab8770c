"""The grid that upstream names: every manager with every pair of split instances (spec: mapping, the grid).

16 managers, 7 context and 9 generation topologies. Managers whose kind is not declared yet are named
as not run. Served and refused are counted apart, with the code of the refusal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from differential.ledger import Checked, check_case
from differential.runner import Verdict
from differential.subjects.protocol import Subject
from oracle.model.case import SIDES, Case, Request, Slots
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from strategies import kinds as registry
from strategies.instances import has_heads
from strategies.kinds import gqa, mla
from strategies.kinds.protocol import Declaration, Kind
from strategies.requests import lengths_of
from strategies.topologies import NAMED_GRIDS, Grid, Shape, check_allowed, cuts, even_cut, with_extra

TOKENS_PER_BLOCK = 4
PROMPTS = (9, 12)
"""Three blocks each, the last one with a single token and full: enough for two context-parallel ranks."""
LAYERS = 4
UNEVEN_LAYERS = 3
"""Two stages of them are uneven either way."""


@dataclass(frozen=True, slots=True)
class Manager:
    """A cache manager of the grid. ``declare``: its small model; None: the first of its kind's small scope.

    ``cut``: which of the ways to cut the layers, (context, generation); 0 is even. ``layout`` and
    ``packing`` are those of both instances.
    """

    name: str
    kind: str
    declare: Callable[[], Declaration] | None = None
    cut: tuple[int, int] = (0, 0)
    layout: str = "HND"
    packing: str = ""


MANAGERS = (
    Manager("MHA", "gqa", lambda: gqa.declare(LAYERS, 8, 2, 16)),
    Manager("GQA, also with duplicated heads", "gqa", lambda: gqa.declare(LAYERS, 2, 2, 16)),
    Manager("MLA", "mla", lambda: mla.declare(LAYERS, 6, 16)),
    Manager("VSWA, separate groups", "vswa"),
    Manager("VSWA, shared pool group", "vswa"),
    Manager("uneven PP", "gqa", lambda: gqa.declare(UNEVEN_LAYERS, 4, 2, 16), cut=(0, 1)),
    Manager("MiniMax M3, index key separate, HND", "minimax_m3", packing="separate"),
    Manager("MiniMax M3, index key separate, NHD", "minimax_m3", layout="NHD", packing="separate"),
    Manager("MiniMax M3, index key coalesced, HND", "minimax_m3"),
    Manager("MiniMax M3, index key coalesced, NHD", "minimax_m3", layout="NHD"),
    Manager("Mamba V2", "mamba2"),
    Manager("Mamba V2, no attention on a stage", "mamba2"),
    Manager("Qwen4Exp with PLE", "qwen4_exp"),
    Manager("FP4 MLA", "fp4_mla"),
    Manager("CSA2", "csa2"),
    Manager("DeepSeek-V4", "deepseek_v4"),
)


@dataclass(frozen=True, slots=True)
class GridCell:
    """One manager between two split instances: a ``case``, or why there is none.

    ``refused``: the manager itself cannot be split so. ``not_run``: its kind is not declared yet.
    """

    manager: str
    context: Shape
    generation: Shape
    case: Case | None = None
    refused: str = ""
    not_run: str = ""

    def __str__(self) -> str:
        return f"{self.manager}: {self.context} → {self.generation}"


def upstream_grid(kinds: Iterable[Kind | str] | None = None) -> Iterator[GridCell]:
    """All 16 × 7 × 9 cells, manager by manager; ``kinds``: those to run, by default all that are declared."""
    chosen = registry.kinds() if kinds is None else kinds
    by_name = {kind.name: kind for kind in (registry.find_kind(k) if isinstance(k, str) else k for k in chosen)}
    known = {kind.name for kind in registry.kinds()}
    for manager in MANAGERS:
        kind = by_name.get(manager.kind)
        why = f"kind {manager.kind} {'was not asked for' if manager.kind in known else 'is not declared yet'}"
        for grid in NAMED_GRIDS:
            if kind is None:
                yield GridCell(manager.name, grid.context, grid.generation, not_run=why)
            else:
                yield _cell(manager, kind, grid)


def _cell(manager: Manager, kind: Kind, grid: Grid) -> GridCell:
    for side, shape in (("context", grid.context), ("generation", grid.generation)):
        try:
            check_allowed(kind, shape, side)
        except InvalidCase as error:
            return GridCell(manager.name, grid.context, grid.generation, refused=str(error))
    if manager.declare is not None:
        declaration = manager.declare()
    else:
        around = grid.surroundings(max(LAYERS, kind.layers[0]), TOKENS_PER_BLOCK, max(PROMPTS))
        declaration = kind.declare(kind.scope[0], around)
    model = declaration.model
    context, generation = (
        _topology(shape, model.layers - declaration.extra, cut, declaration.extra_of(side))
        for side, shape, cut in zip(SIDES, (grid.context, grid.generation), manager.cut, strict=True)
    )
    requests = tuple(
        Request(
            number,
            prompt,
            last * (context.data_parallel - 1),
            last * (generation.data_parallel - 1),
            tuple((name, prompt - 1) for name in lengths_of(model)),
        )
        for number, (prompt, last) in enumerate(zip(PROMPTS, (0, 1), strict=True))
    )
    case = Case(
        model,
        *(
            Instance(
                topology,
                TOKENS_PER_BLOCK,
                manager.layout if has_heads(model) else "",
                packing=tuple((group.name, manager.packing) for group in model.groups) if manager.packing else (),
                without=without,
            )
            for topology, without in zip((context, generation), declaration.without, strict=True)
        ),
        requests,
        slots=Slots(mul=2, add=1),
        native=declaration.native,
        kind=kind.name,
    )
    return GridCell(manager.name, grid.context, grid.generation, case)


def _topology(shape: Shape, layers: int, cut: int, extra: int) -> Topology:
    if not cut or shape.pp == 1:
        return shape.topology(with_extra(even_cut(layers, shape.pp), extra))
    full = [stages for stages in cuts(layers, shape.pp) if 0 not in stages]
    return shape.topology(with_extra(full[cut % len(full)], extra))


@dataclass(slots=True)
class GridRow:
    """What became of one manager's cells.

    ``served`` and ``refused`` (by code, or the manager's own reason) are counts by subject, ``compared``
    counts by pair of subjects of ``identical``, ``accepted`` and ``different``; ``accepted`` counts cells
    by ledger entry, pair by pair, ``not_run`` by reason, ``left_out`` by subject that was not asked, since the kind
    declares nothing for it. ``failures``: cells with a difference or a failed verdict
    that the ledger does not cover.
    """

    manager: str
    cells: int = 0
    served: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Counter[str]] = field(default_factory=dict)
    compared: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    accepted: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    not_run: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[GridCell, Checked]] = field(default_factory=list)

    def add(self, cell: GridCell, subjects: Sequence[Subject]) -> None:
        """Run ``cell`` and count it."""
        self.cells += 1
        if cell.not_run:
            self.not_run[cell.not_run] += 1
            return
        if cell.case is None:
            for subject in subjects:
                self.refused.setdefault(subject.name, Counter())[cell.refused] += 1
            return
        checked = check_case(cell.case, subjects)
        self.left_out.update(checked.left_out)
        for name, verdict in checked.result.verdicts.items():
            code = _refusal_of_all(cell.case, verdict)
            if code:
                self.refused.setdefault(name, Counter())[code] += 1
            else:
                self.served[name] += 1
        for settled in checked.settled:
            pair = settled.open.first, settled.open.second
            self.compared.setdefault(pair, Counter())[settled.verdict] += 1
            self.accepted.setdefault(pair, Counter()).update(settled.accepted.keys())
        if not checked.passed:
            self.failures.append((cell, checked))


def _refusal_of_all(case: Case, verdict: Verdict) -> str:
    """The code under which a whole case was refused; empty where some request was served."""
    refused = {refusal.request for refusal in verdict.refusals}
    if None not in refused and len(refused) < len(case.requests):
        return ""
    return verdict.refusals[0].code


@dataclass(frozen=True, slots=True)
class GridReport:
    """The rows of a grid, in the order of its managers."""

    subjects: tuple[str, ...]
    rows: tuple[GridRow, ...]

    @property
    def failures(self) -> list[tuple[GridCell, Checked]]:
        return [failure for row in self.rows for failure in row.failures]

    @property
    def passed(self) -> bool:
        """Whether some cell ran and no cell failed; managers that did not run did not fail."""
        return not self.failures and any(row.cells > sum(row.not_run.values()) for row in self.rows)

    def lines(self) -> tuple[str, ...]:
        """The grid in words, a few lines a manager."""
        found: list[str] = []
        for row in self.rows:
            if row.not_run:
                found += [f"{row.manager}: {count} cells not run ({why})" for why, count in row.not_run.items()]
            if row.cells == sum(row.not_run.values()):
                continue
            found.append(f"{row.manager}: {row.cells} cells")
            for name in self.subjects:
                if row.left_out[name]:
                    found.append(f"  {name}: {row.left_out[name]} not run (nothing is declared for it)")
                if row.left_out[name] == row.cells - sum(row.not_run.values()):
                    continue
                refused = row.refused.get(name, Counter())
                why = "; ".join(f"{count} {code}" for code, count in sorted(refused.items()))
                why = f" ({why})" if why else ""
                found.append(f"  {name}: {row.served[name]} served, {refused.total()} refused{why}")
            for (first, second), counts in row.compared.items():
                found.append(
                    f"  {first} and {second}: {counts['identical']} identical, {counts['accepted']} accepted, "
                    f"{counts['different']} different"
                )
                known = sorted(row.accepted[first, second].items())
                found += [f"    accepted in {count} cells: {name}" for name, count in known]
            found += [f"  fails: {cell}" for cell, _ in row.failures]
        return tuple(found)


def run_grid(
    subjects: Sequence[Subject],
    *,
    kinds: Iterable[Kind | str] | None = None,
    watch: Callable[[GridCell], None] = lambda cell: None,
) -> GridReport:
    """Run every cell: each subject judged, every two compared. ``watch`` is told of each cell before it runs."""
    rows: dict[str, GridRow] = {}
    for cell in upstream_grid(kinds):
        watch(cell)
        rows.setdefault(cell.manager, GridRow(cell.manager)).add(cell, subjects)
    return GridReport(tuple(subject.name for subject in subjects), tuple(rows.values()))
