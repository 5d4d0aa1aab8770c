"""Where text goes: what is printed has no blanks at the ends of its lines."""

from __future__ import annotations

import io

import pytest
from rich import box
from rich.table import Table
from rich.text import Text

from kvwitness.cli.output import console


def table() -> Table:
    """A table whose cells are of unequal width, one of them styled, one empty."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    made.add_column("name", no_wrap=True)
    made.add_column("what", no_wrap=True)
    made.add_row("a", Text("a long cell", style="bold red"))
    made.add_row("long", Text("b", style="bold"))
    made.add_row("c", "")
    return made


@pytest.mark.parametrize("columns", ["40", "120"])
def test_lines_of_a_table_end_where_their_text_does(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    stream = io.StringIO()
    console(stream).print(table())
    assert stream.getvalue().splitlines() == [
        "name   what",
        "──────────────────",
        "a      a long cell",
        "long   b",
        "c",
    ]


def test_styles_of_a_table_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    console(stream).print(table())
    assert "\x1b[1;31ma long cell\x1b[0m" in stream.getvalue()
