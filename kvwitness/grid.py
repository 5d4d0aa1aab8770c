"""A grid of managers and splits, judged and compared; what fails becomes a witness, one a manager."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from differential.grid import GridCell, GridReport, grid_cells, run_grid
from kvwitness.difference import entries_to_look_at
from kvwitness.errors import CannotRun
from kvwitness.reduce import reduce_case
from kvwitness.search import Watcher, save_failure
from kvwitness.settings import Judged
from kvwitness.trial import Failure, Trial
from kvwitness.witness import check_writable
from oracle.model.case import Case

SHRINK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class GridFinding:
    """The first failing cell of a manager: its shrunk case is in ``path``."""

    cell: GridCell
    failure: Failure
    path: Path
    argument: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GridOutcome:
    """``stale``: entries of the ledger that are no longer true; ``notes``: what else is to be said."""

    judged: Judged
    report: GridReport
    findings: list[GridFinding] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if self.report.failures or self.stale:
            return "fail"
        return "pass" if self.report.passed else "not run"

    @property
    def not_run(self) -> dict[str, str]:
        """Managers of which no cell ran, with the reason."""
        rows = (row for row in self.report.rows if row.cells == row.not_run.total())
        return {row.manager: "; ".join(row.not_run) for row in rows}


def judge_grid(judged: Judged, grid: str, kinds: Sequence[str] | None, out: str, watcher: Watcher) -> GridOutcome:
    """Run every cell of ``grid``. Raises ``CannotRun`` before anything is judged where it cannot run as asked."""
    if judged.fault:
        raise CannotRun("--fault has no meaning here: the grid compares subjects as they are")
    check_writable(out)
    trial = Trial(judged)
    done = 0

    def watch(cell: GridCell) -> None:
        nonlocal done
        watcher.advance(done, done)
        done += cell.case is not None

    watcher.begin(f"grid {grid}", sum(cell.case is not None for cell in grid_cells(grid, kinds)), "cases")
    report = run_grid(trial.bases, grid, kinds=kinds, watch=watch)
    watcher.advance(done, done)
    watcher.end()
    outcome = GridOutcome(judged, report, stale=trial.stale_entries())
    outcome.notes.extend(entries_to_look_at(trial.bases, date.today()))
    for row in report.rows:
        for cell, _ in row.failures[:1]:
            outcome.findings.append(_finding(cell, trial, out))
    return outcome


def _finding(cell: GridCell, trial: Trial, out: str) -> GridFinding:
    assert cell.case is not None
    failure = trial(cell.case, carry=False).failure
    if failure is None:
        raise CannotRun(f"{cell} failed, but not again: a subject is not deterministic")

    def still_fails(case: Case) -> bool:
        now = trial(case, carry=False).failure
        return now is not None and failure.same_as(now)

    judgement = trial(reduce_case(cell.case, still_fails, seconds=SHRINK_SECONDS), carry=False)
    path, argument = save_failure(judgement, trial, out)
    assert judgement.failure is not None
    return GridFinding(cell, judgement.failure, path, argument)
