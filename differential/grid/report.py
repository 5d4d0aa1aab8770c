"""What became of a grid, manager by manager: served, refused, compared and not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from differential.grid.cells import GridCell, grid_cells
from differential.ledger import Checked, check_case
from differential.runner import Verdict
from differential.subjects.protocol import Subject
from oracle.model.case import Case
from strategies.kinds.protocol import Kind


@dataclass(slots=True)
class GridRow:
    """What became of one manager's cells.

    ``served`` and ``refused`` (by code, or the manager's own reason) are counts by subject, ``compared``
    counts by pair of subjects of ``identical``, ``accepted``, ``different`` and ``cannot say``; ``accepted`` counts
    cells by ledger entry, pair by pair, ``not_run`` by reason, ``left_out`` by subject that was not asked, since
    the kind declares nothing for it. ``failures``: cells with a difference or a failed verdict that the ledger
    does not cover.
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

    grid: str
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
                found += [f"{row.manager}: {_cells(number)} not run ({why})" for why, number in row.not_run.items()]
            if row.cells == sum(row.not_run.values()):
                continue
            found.append(f"{row.manager}: {_cells(row.cells)}")
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
                    + (f", {counts['cannot say']} cannot be said" if counts["cannot say"] else "")
                )
                known = sorted(row.accepted[first, second].items())
                found += [f"    accepted in {_cells(number)}: {name}" for name, number in known]
            found += [f"  fails: {cell}" for cell, _ in row.failures]
        return tuple(found)


def _cells(number: int) -> str:
    return f"{number} {'cell' if number == 1 else 'cells'}"


def run_grid(
    subjects: Sequence[Subject],
    grid: str = "upstream",
    *,
    kinds: Iterable[Kind | str] | None = None,
    watch: Callable[[GridCell], None] = lambda cell: None,
) -> GridReport:
    """Run every cell of ``grid``: each subject judged, every two compared.

    ``watch`` is told of each cell before it runs.
    """
    rows: dict[str, GridRow] = {}
    for cell in grid_cells(grid, kinds):
        watch(cell)
        rows.setdefault(cell.manager, GridRow(cell.manager)).add(cell, subjects)
    return GridReport(grid, tuple(subject.name for subject in subjects), tuple(rows.values()))
