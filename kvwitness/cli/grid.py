"""``kvwitness verify --grid``: what became of the grid, in words and a table, or as a JSON object."""

from __future__ import annotations

import json
from collections import Counter

from rich import box
from rich.console import Console
from rich.table import Table

from differential.grid import GridRow
from kvwitness.cli.compared import plain_compared
from kvwitness.cli.output import STYLES, console, fits, write_text
from kvwitness.cli.progress import watcher
from kvwitness.cli.report import tell_failure, tell_stale
from kvwitness.cli.status import COULD_NOT_RUN, PASS, VIOLATIONS
from kvwitness.grid import GridOutcome, judge_grid
from kvwitness.settings import Judged
from kvwitness.tally import Compared
from kvwitness.words import count, joined

VERDICTS = ("identical", "accepted", "different", "cannot say")


def run_the_grid(judged: Judged, grid: str, kinds: tuple[str, ...] | None, out: str, as_object: bool) -> int:
    """Judge ``grid``, tell what became of it and return the exit status."""
    outcome = judge_grid(judged, grid, kinds, out, watcher())
    if as_object:
        print(json.dumps(_plain(outcome)))
    else:
        _tell(console(), outcome)
    return {"pass": PASS, "fail": VIOLATIONS, "not run": COULD_NOT_RUN}[outcome.verdict]


def _tell(to: Console, outcome: GridOutcome) -> None:
    for finding in outcome.findings:
        tell_failure(to, finding, f"found in {finding.cell}, shrunk")
    tell_stale(to, outcome.stale)
    to.print()
    report = outcome.report
    what = f"grid {report.grid}: {count(len(report.rows), 'manager')}, 7 context and 9 generation splits"
    write_text(to, f"{what}; judged: {joined(outcome.judged.subjects)}")
    to.print()
    table = _table(outcome)
    if fits(to, table):
        to.print(table)
        told = {row.manager: _reasons(row, outcome.report.subjects) for row in outcome.report.rows}
        if any(told.values()):
            to.print()
        for manager, reasons in told.items():
            if reasons:
                write_text(to, f"{manager}: {'; '.join(reasons)}", hang=2)
    else:
        told = tuple(f"{manager}: " for manager in outcome.not_run)
        for line in outcome.report.lines():
            if line.startswith(told):
                continue  # told below
            indent = len(line) - len(line.lstrip())
            write_text(to, line.strip(), indent=indent, hang=2)
    not_run = outcome.not_run
    if not_run:
        to.print()
        write_text(to, "not run:", style="yellow")
        for manager, why in not_run.items():
            write_text(to, f"{manager} ({why})", indent=2, hang=2, style="yellow")
    to.print()
    for note in outcome.notes:
        write_text(to, note, style="yellow")
    ran = [row for row in outcome.report.rows if row.manager not in not_run]
    cells = sum(row.cells for row in ran)
    what = f"{count(cells, 'cell')} of {count(len(ran), 'manager')}"
    rest = f"; {count(len(not_run), 'manager')} not run" if not_run else ""
    failed = f"{count(len(outcome.report.failures), 'failing cell')} in " if outcome.verdict == "fail" else ""
    write_text(to, f"{outcome.verdict}: {failed}{what}{rest}", style=STYLES[outcome.verdict])


def _table(outcome: GridOutcome) -> Table:
    subjects = outcome.report.subjects
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("manager", no_wrap=True)
    for name in ("cells", *(f"{subject}\n{what}" for subject in subjects for what in ("served", "refused"))):
        table.add_column(name, justify="right", no_wrap=True)
    pairs = list(dict.fromkeys(names for row in outcome.report.rows for names in row.compared))
    unsaid = any(counts["cannot say"] for row in outcome.report.rows for counts in row.compared.values())
    verdicts = VERDICTS if unsaid else VERDICTS[:3]
    for names in pairs:
        for verdict in verdicts:
            name = verdict if len(pairs) == 1 else "\n".join((*names, verdict))
            table.add_column(name, justify="right", no_wrap=True)
    for row in outcome.report.rows:
        if row.manager in outcome.not_run:
            continue
        cells = [f"{row.cells:,}"]
        for subject in subjects:
            cells += [f"{row.served[subject]:,}", f"{row.refused.get(subject, Counter()).total():,}"]
        for names in pairs:
            counts = row.compared.get(names, Counter())
            cells += [f"{counts[verdict]:,}" for verdict in verdicts]
        table.add_row(row.manager, *cells)
    return table


def _reasons(row: GridRow, subjects: tuple[str, ...]) -> list[str]:
    """Why cells of a manager were refused, left out or accepted; what all subjects refuse alike is said once."""
    found = []
    refused = {subject: row.refused.get(subject, Counter()) for subject in subjects}
    for code in sorted({code for counts in refused.values() for code in counts}):
        cells = {subject: counts[code] for subject, counts in refused.items() if counts[code]}
        if len(subjects) > 1 and len(cells) == len(subjects) and len(set(cells.values())) == 1:
            found.append(f"all refuse {cells[subjects[0]]}: {code}")
        else:
            found += [f"{subject} refuses {number}: {code}" for subject, number in cells.items()]
    for subject in subjects:
        if row.left_out[subject]:
            found.append(f"{subject} not run in {row.left_out[subject]}: nothing is declared for it")
    for names, entries in row.accepted.items():
        between = "" if len(row.accepted) == 1 else f" between {' and '.join(names)}"
        found += [f"{cells} accepted{between}: {name}" for name, cells in sorted(entries.items())]
    return found + [f"fails: {cell.context} → {cell.generation}" for cell, _ in row.failures]


def _plain(outcome: GridOutcome) -> dict[str, object]:
    together: dict[tuple[str, str], Compared] = {}
    for row in outcome.report.rows:
        for names, compared in _compared(row).items():
            together.setdefault(names, Compared()).merge(compared)
    return {
        "verdict": outcome.verdict,
        "grid": outcome.report.grid,
        "judged": list(outcome.report.subjects),
        "cells": sum(row.cells - row.not_run.total() for row in outcome.report.rows),
        "subjects": plain_compared(together),
        "managers": {row.manager: _plain_row(row, outcome) for row in outcome.report.rows},
        "not_run": outcome.not_run,
        "stale": outcome.stale,
        "witnesses": [str(finding.path) for finding in outcome.findings],
        "notes": outcome.notes,
    }


def _plain_row(row: GridRow, outcome: GridOutcome) -> dict[str, object]:
    return {
        "cells": row.cells,
        "served": {name: row.served[name] for name in outcome.report.subjects},
        "refused": {name: dict(row.refused.get(name, Counter())) for name in outcome.report.subjects},
        "subjects": plain_compared(_compared(row)),
        "not_run": dict(row.not_run),
        "left_out": dict(row.left_out),
        "failures": [str(cell) for cell, _ in row.failures],
    }


def _compared(row: GridRow) -> dict[tuple[str, str], Compared]:
    return {
        names: Compared(*(counts[verdict] for verdict in VERDICTS), entries=row.accepted[names])
        for names, counts in row.compared.items()
    }
