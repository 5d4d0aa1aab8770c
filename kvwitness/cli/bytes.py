"""A byte map in the terminal: two pages side by side, a letter for each byte, coloured where there is colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from kvwitness.bytemap import MEANINGS, ONLY_FIRST, ONLY_SECOND, WRONG, ByteMap, Page
from kvwitness.cli.output import write_text
from kvwitness.words import count

GROUP = 8
"""Bytes between two blanks."""
MOST_ROWS = 16
MOST_SPANS = 12

STYLES = {
    "W": "bold red",
    "w": "red",
    "M": "bold magenta",
    "S": "bold yellow",
    "D": "bold cyan",
    "E": "bold blue",
    "U": "bold red",
    "X": "bold yellow",
    "O": "bold magenta",
    "A": "bold blue",
    "B": "bold cyan",
    "Z": "bold red",
}


def tell_map(to: Console, found: ByteMap, names: tuple[str, str] = ("", "")) -> None:
    """The map under a heading; ``names`` are those of the two subjects where it shows what they differ in."""
    pages = [page for page in (found.sender, found.receiver) if page is not None]
    wide = 4 * GROUP if to.width >= 120 else 2 * GROUP
    panels = [list(_panel(page, wide)) for page in pages]
    width = max(line.cell_len for panel in panels for line in panel) + 4
    if 2 + width * len(panels) <= to.width:
        for number in range(max(map(len, panels))):
            line = Text("  ")
            for panel in panels:
                cell = panel[number].copy() if number < len(panel) else Text("")
                cell.pad_right(width - cell.cell_len)
                line.append_text(cell)
            line.rstrip()
            to.print(line, soft_wrap=True)
    else:
        for panel in panels:
            for line in panel:
                to.print(Text("  ") + line, soft_wrap=True)
    _tell_letters(to, pages, names)
    for page in pages:
        listed = [f"+{offset} {name} ({nbytes} B)" for offset, nbytes, name in page.regions[:MOST_SPANS]]
        more = len(page.regions) - MOST_SPANS
        told = ", ".join(listed) + (f" and {more} more" if more > 0 else "")
        write_text(to, f"the {page.side} page holds {told or 'no buffer'}", indent=2, hang=2)
    for span in found.spans[:MOST_SPANS]:
        write_text(to, f"{span.letter} {count(span.nbytes, 'byte')} at {span.place}", indent=2, hang=2)
        if span.source is not None:
            write_text(to, f"{'held' if span.letter == 'M' else 'read'} at {span.source}", indent=6, hang=2)
    if len(found.spans) > MOST_SPANS:
        write_text(to, f"and {len(found.spans) - MOST_SPANS} stretches of wrong bytes more", indent=2)


def _panel(page: Page, wide: int) -> Iterator[Text]:
    """The page's name and its rows; rows in which nothing is wrong are left out of a long page."""
    yield Text(page.name, style="bold")
    digits = len(str(page.first + len(page.letters)))
    rows = [page.letters[start : start + wide] for start in range(0, len(page.letters), wide)]
    shown = _shown(rows)
    last = -1
    for number in shown:
        if number != last + 1:
            yield Text("⋮")
        last = number
        line = Text(f"+{page.first + number * wide:<{digits}} ")
        for at, letter in enumerate(rows[number]):
            if at and at % GROUP == 0:
                line.append(" ")
            line.append(letter, style=STYLES.get(letter, ""))
        yield line
    if last != len(rows) - 1:
        yield Text("⋮")


def _shown(rows: list[str]) -> list[int]:
    if len(rows) <= MOST_ROWS:
        return list(range(len(rows)))
    wrong = [number for number, row in enumerate(rows) if not WRONG.isdisjoint(row)]
    near = {each for number in wrong for each in (number - 1, number, number + 1) if 0 <= each < len(rows)}
    return sorted({0} | near)[:MOST_ROWS]


def _tell_letters(to: Console, pages: Iterable[Page], names: tuple[str, str]) -> None:
    used = {letter for page in pages for letter in page.letters}
    own = {ONLY_FIRST: f"only {names[0]} writes it", ONLY_SECOND: f"only {names[1]} writes it"} if any(names) else {}
    line = Text("  ")
    for letter, meaning in (MEANINGS | own).items():
        if letter in used:
            line.append(letter, style=STYLES.get(letter, "")).append(f" {meaning}   ")
    line.rstrip()
    for row in line.wrap(to, max(20, to.width)):
        to.print(row, soft_wrap=True)
