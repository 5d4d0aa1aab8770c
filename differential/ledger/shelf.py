"""The entries of the ledger: every module of ``entries`` is one, named as the module is with ``-`` for ``_``."""

from __future__ import annotations

from datetime import date
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from differential.ledger import entries as _package
from differential.ledger.entry import Entry
from oracle.model.errors import InvalidCase


@cache
def entries() -> tuple[Entry, ...]:
    """All entries in the order of their names."""
    found = []
    for module in iter_modules(_package.__path__):
        entry = getattr(import_module(f"{_package.__name__}.{module.name}"), "ENTRY", None)
        if not isinstance(entry, Entry) or entry.name != module.name.replace("_", "-"):
            raise ImportError(f"{module.name} of the ledger must define ENTRY of that name, not {entry!r}")
        found.append(entry)
    return tuple(sorted(found, key=lambda entry: entry.name))


def find_entry(name: str) -> Entry:
    """The entry of this name; ``InvalidCase`` if there is none."""
    for entry in entries():
        if entry.name == name:
            return entry
    close = get_close_matches(str(name), [entry.name for entry in entries()], 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise InvalidCase("ledger entry", name, f"the entries are {', '.join(e.name for e in entries())}{hint}")


def to_look_at(today: date) -> tuple[Entry, ...]:
    """Entries whose date to look again has come: a warning, no failure."""
    return tuple(entry for entry in entries() if entry.look_again <= today)


def is_legacy(name: str) -> bool:
    """Whether the ledger knows differences of the subject ``name``: it then goes by rules that a case must declare."""
    return any(name in entry.second for entry in entries())
