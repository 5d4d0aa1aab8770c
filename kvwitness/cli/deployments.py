"""``kvwitness deployments``: the table of published models between many pairs of splits."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from kvwitness.cli.broken import warn_of_broken_kinds
from kvwitness.cli.options import cores, split_names, split_subjects
from kvwitness.cli.progress import watcher
from kvwitness.cli.status import PASS, VIOLATIONS
from kvwitness.deployments import TableRow, deployments_of, judge_table, model_names, render
from kvwitness.errors import CannotRun
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from kvwitness.witness import check_writable
from oracle.model.errors import require_whole
from strategies.kinds import find_model


@click.command("deployments")
@click.option("--models", "names", metavar="NAMES", help="Published models, by comma; default: all.")
@click.option("--subjects", default=",".join(Judged().subjects), show_default=True, help="Who is judged, by comma.")
@click.option("--jobs", type=int, help="Processes; default: all cores.")
@click.option("--out", metavar="FILE", help="Where the table is written; default: to stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list of rows instead of the table.")
def command(names: str | None, subjects: str, jobs: int | None, out: str | None, as_json: bool) -> int:
    """Judge each published model between up to 40 pairs of splits, and make a table of it in Markdown.

    Exit status: 0 each is served or rightly refused and differs in known ways alone, 1 one is not.
    """
    jobs = cores() if jobs is None else jobs
    require_whole("--jobs", jobs, least=1)
    warn_of_broken_kinds()
    chosen = model_names() if names is None else [find_model(name) and name for name in split_names("--models", names)]
    if out is not None:
        check_writable(Path(out).parent)
    judged = Judged(split_subjects(subjects))
    Trial(judged)  # what cannot run as asked is said before anything does
    progress = watcher()
    progress.begin("deployments", sum(1 for name in chosen for _ in deployments_of(name)), "cases")
    rows: list[TableRow] = []

    def watch(row: TableRow) -> None:
        rows.append(row)
        progress.advance(len(rows), len(rows))

    table = judge_table(chosen, judged, jobs=jobs, watch=watch)
    progress.end()
    arguments = ([f"--models {names}"] if names is not None else []) + ([f"--out {out}"] if out is not None else [])
    said = (
        json.dumps([_plain(row) for row in rows], indent=1)
        if as_json
        else "\n".join(render(table, " ".join(("kvwitness deployments", *arguments))))
    )
    if out is None:
        print(said)
    else:
        _write(Path(out), f"{said}\n")
    for row in rows:
        if row.trouble:
            wanted = row.deployment
            print(f"{wanted.model} {wanted.context} to {wanted.generation}: {row.trouble}", file=sys.stderr)
    return VIOLATIONS if any(row.trouble for row in rows) else PASS


def _plain(row: TableRow) -> dict[str, object]:
    plain = asdict(row)
    return {**plain.pop("deployment"), **plain, "others": dict(row.others)}


def _write(path: Path, text: str) -> None:
    """Nobody ever reads half a table."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except OSError as error:
        raise CannotRun(f"--out {str(path)!r} cannot be written: {error.strerror or error}") from None
