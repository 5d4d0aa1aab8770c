"""How the subjects compare: kind by kind and pair by pair, and which known differences were met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvwitness.cli.output import STYLES, write_text
from kvwitness.tally import Compared
from kvwitness.words import NO_LEGACY_RULE, count, joined

Pairs = dict[tuple[str, str], Compared]

TABLE_WIDTH = 80
"""Columns below which the tables become lines."""

FEW = 3
"""Kinds up to which what is known stands below each row; more kinds have it in a table of its own."""


def tell_compared(to: Console, compared: dict[str, Pairs], left_out: dict[str, Counter[str]] | None = None) -> None:
    """How the subjects compare, and the known differences that were met.

    ``left_out`` are cases by kind and subject that was not asked: the kind has no legacy rule.
    """
    left_out = left_out or {}
    if len(compared) <= FEW:
        rows = [
            row
            for kind, pairs in compared.items()
            for row in (
                *((kind, " and ".join(names), found) for names, found in pairs.items()),
                *((kind, f"{name}: no ({NO_LEGACY_RULE})", None) for name in left_out.get(kind, ())),
            )
        ]
        _tell(to, ("kind", "compared"), rows, detailed=True)
        return
    by_pair: Pairs = {}
    for pairs in compared.values():
        for names, found in pairs.items():
            by_pair.setdefault(names, Compared()).merge(found)
    if not by_pair:
        return
    by_kind = {kind: _together(pairs.values()) for kind, pairs in compared.items()}
    kinds = [(kind, _left(left_out.get(kind)), found if compared[kind] else None) for kind, found in by_kind.items()]
    _tell(to, ("kind", "not compared"), kinds)
    _tell(to, ("over all kinds",), [(" and ".join(names), found) for names, found in by_pair.items()])
    _tell_known(to, "known difference", {kind: found.entries for kind, found in by_kind.items()})
    _tell_known(to, "cannot be said", {kind: found.codes for kind, found in by_kind.items()})


def _left(subjects: Counter[str] | None) -> str:
    return f"{joined(subjects)} ({NO_LEGACY_RULE})" if subjects else ""


def _together(pairs: Iterable[Compared]) -> Compared:
    total = Compared()
    for found in pairs:
        total.merge(found)
    return total


Row = tuple[str | Compared | None, ...]
"""The cells of the heads, then how the two compare; None: one of them was not asked."""


def _tell(to: Console, heads: tuple[str, ...], rows: list[Row], *, detailed: bool = False) -> None:
    if not rows:
        return
    to.print()
    if to.width >= TABLE_WIDTH:
        to.print(_table(heads, rows, detailed))
        return
    for *cells, found in rows:
        name = ", ".join(str(cell) for cell in cells if cell)
        if found is None:
            write_text(to, name.replace(", ", f", {heads[-1]} with ", 1), hang=2)
            continue
        assert isinstance(found, Compared)
        write_text(to, f"{name}: {_counts(found)}", hang=2)
        if detailed:
            for entry, cases in found.entries.most_common():
                write_text(to, f"{cases:,} {entry}", indent=4, hang=2)
            for code, cases in found.codes.most_common():
                write_text(to, f"{cases:,} cannot say {code}", indent=4, hang=2)


def _counts(found: Compared) -> str:
    said = f"{found.identical:,} identical, {found.accepted:,} accepted, {found.different:,} different"
    return said + (f", {found.cannot_say:,} cannot be said" if found.codes else "")


def _table(heads: tuple[str, ...], rows: list[Row], detailed: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    used = [any(row[place] for row in rows) for place in range(len(heads))]
    for head, is_used in zip(heads, used, strict=True):
        if is_used:
            table.add_column(head, no_wrap=True)
    unsaid = any(isinstance(row[-1], Compared) and row[-1].codes for row in rows)
    for name in ("identical", "accepted", "different", *(["cannot say"] if unsaid else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for *cells, found in rows:
        shown = [str(cell) for cell, is_used in zip(cells, used, strict=True) if is_used]
        if not isinstance(found, Compared):
            table.add_row(*shown, "", "", "")
            continue
        different = Text(f"{found.different:,}", style=STYLES["fail"] if found.different else "")
        numbers = [f"{found.identical:,}", f"{found.accepted:,}", different, f"{found.cannot_say:,}"]
        table.add_row(*shown, *numbers[: 3 + unsaid])
        if detailed:
            for entry, cases in found.entries.most_common():
                table.add_row("", f"  {entry}", "", f"{cases:,}", "")
            for code, cases in found.codes.most_common():
                table.add_row("", f"  {code}", "", "", "", f"{cases:,}")
    return table


def _tell_known(to: Console, head: str, by_kind: dict[str, Counter[str]]) -> None:
    """Cases by what is known, most frequent first, and the kinds that met it."""
    by_kind = {kind: counted for kind, counted in by_kind.items() if counted}
    total: Counter[str] = Counter()
    for counted in by_kind.values():
        total.update(counted)
    if not total:
        return
    to.print()
    whose = {name: [kind for kind, counted in by_kind.items() if counted[name]] for name in total}
    told = {name: joined(kinds) if len(kinds) <= FEW else count(len(kinds), "kind") for name, kinds in whose.items()}
    if to.width < TABLE_WIDTH:
        for name, cases in total.most_common():
            write_text(to, f"{cases:,} {name} ({told[name]})", hang=2)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column(head, no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("in", no_wrap=True)
    for name, cases in total.most_common():
        table.add_row(name, f"{cases:,}", told[name])
    to.print(table)


def plain_compared(compared: Pairs) -> dict[str, object]:
    """By pair, as ``first/second``: cases that were identical, accepted, different or cannot be said by one of both.

    Besides, cases by ledger entry, and by code of what cannot be said.
    """
    return {
        "/".join(names): {
            "identical": found.identical,
            "accepted": found.accepted,
            "different": found.different,
            "cannot_say": found.cannot_say,
            "entries": dict(sorted(found.entries.items())),
            "codes": dict(sorted(found.codes.items())),
        }
        for names, found in compared.items()
    }
