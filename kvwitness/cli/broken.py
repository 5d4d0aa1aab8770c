"""What is said of kinds of other distributions that cannot be used, while all others can."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable

from strategies.kinds import BrokenEntry, broken_entries, kinds


def warn_of_broken_kinds(asked: Collection[str] = ()) -> None:
    """One line on stderr for each; not for those among the ``asked``, of whom an error tells."""
    known = {kind.name for kind in kinds()}
    for entry in broken_entries():
        if entry.name not in asked or entry.name in known:
            warn_of(entry)


def warn_of(entry: BrokenEntry) -> None:
    """The line on stderr."""
    print(f"kvwitness: {entry}", file=sys.stderr)


def plain_broken(entries: Iterable[BrokenEntry]) -> list[dict[str, str]]:
    """What ``--json`` says of them."""
    return [{"name": entry.name, "entry": entry.value, "reason": entry.reason} for entry in entries]
