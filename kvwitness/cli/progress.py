"""Telling how far a search has come: a bar on a terminal, plain lines anywhere else. Both go to stderr."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kvwitness.search import Watcher
from kvwitness.words import count, in_seconds

EVERY = 10.0
"""Seconds between plain lines."""


def watcher(stream: TextIO | None = None) -> Watcher:
    """The watcher that suits ``stream`` (stderr)."""
    stream = sys.stderr if stream is None else stream
    return Bars(stream) if stream.isatty() else Lines(stream)


class Bars:
    """One bar a stage, gone when the stage ends."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False)
        self._progress: Progress | None = None
        self._bar: TaskID | None = None

    def begin(self, what: str, total: float | None, unit: str) -> None:
        amount = MofNCompleteColumn() if unit == "cases" else TextColumn("{task.fields[cases]} cases")
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            amount,
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._bar = self._progress.add_task(what, total=total, cases="0")
        self._progress.start()

    def advance(self, done: float, cases: int) -> None:
        if self._progress is not None and self._bar is not None:
            self._progress.update(self._bar, completed=done, cases=f"{cases:,}")

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class Lines:
    """A line where a stage begins and ends, and one every few seconds between."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._what = ""
        self._cases = 0
        self._began = self._said = 0.0

    def begin(self, what: str, total: float | None, unit: str) -> None:
        self._what, self._cases = what, 0
        self._began = self._said = time.monotonic()
        bound = "" if total is None else f": {count(int(total), 'case')}" if unit == "cases" else f": {total:g} s"
        self._say(f"{what}{bound}")

    def advance(self, done: float, cases: int) -> None:
        self._cases = cases
        if time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            self._say(f"{self._what}: {count(cases, 'case')} so far")

    def end(self) -> None:
        seconds = in_seconds(time.monotonic() - self._began)
        self._say(f"{self._what}: {count(self._cases, 'case')} in {seconds}")

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
