"""Where text goes: results to stdout, progress and trouble to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_OF_LOGS = 120
"""Columns where nobody knows the width: a log, a file, a pipe."""


STYLES = {"pass": "bold green", "fail": "bold red", "not run": "bold yellow"}
"""Styles of verdicts."""


class Output(Console):
    """A console that leaves it to the command what a closed pipe means; rich would exit as for violations.

    Lines of tables end where their text does: rich would fill them up with blanks.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        if len(objects) != 1 or not isinstance(objects[0], Table):
            super().print(*objects, **options)
            return
        for segments in self.render_lines(objects[0], pad=False):
            row = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
            row.rstrip()
            super().print(row, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """A console for ``stream`` (stdout); made when it is needed, for tests and callers swap streams."""
    stream = sys.stdout if stream is None else stream
    known = stream.isatty() or "COLUMNS" in os.environ
    return Output(file=stream, width=None if known else WIDTH_OF_LOGS, highlight=False, markup=False, emoji=False)


def write_lines(to: Console, lines: Iterable[str], *, style: str = "") -> None:
    """Lines as they are, however wide: what is copied from a terminal must not be broken or cut."""
    for line in lines:
        to.print(Text(line, style=style), soft_wrap=True)


def write_text(to: Console, text: str, *, indent: int = 0, hang: int = 0, style: str = "") -> None:
    """A sentence, wrapped to the width; later lines are indented by ``hang`` more."""
    width = max(20, to.width - indent - hang)
    rows = Text(text, style=style).wrap(to, width)
    for number, row in enumerate(rows):
        row.rstrip()
        to.print(Text(" " * (indent + (hang if number else 0))) + row, soft_wrap=True)


def fits(to: Console, table: Table) -> bool:
    """Whether a table can be printed without breaking or cutting a cell."""
    wide = to.options.update(max_width=100 * WIDTH_OF_LOGS)
    return to.measure(table, options=wide).maximum <= to.width
