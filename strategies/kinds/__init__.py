"""The cache kinds, one file each: every module here that is not support names a ``KIND``.

Other distributions add kinds under the entry point group ``kvwitness.kinds``; each entry names a ``Kind``.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from oracle.model.errors import InvalidCase
from strategies.kinds.protocol import Kind, PublishedModel
from strategies.numbers import KIND_NUMBERS

GROUP = "kvwitness.kinds"
SUPPORT = ("protocol", "fitting", "pieces", "recurrent", "compressed")


@lru_cache(maxsize=1)
def kinds() -> tuple[Kind, ...]:
    """All kinds, simplest first."""
    found = [
        (f"{__name__}.{module.name}", _kind_of(module.name))
        for module in iter_modules(__path__)
        if module.name not in SUPPORT
    ]
    found += [(f"entry point {entry.value}", entry.load()) for entry in entry_points(group=GROUP)]
    return _in_order(found)


def _kind_of(name: str) -> object:
    return getattr(import_module(f"{__name__}.{name}"), "KIND", None)


def _in_order(found: Iterable[tuple[str, object]]) -> tuple[Kind, ...]:
    """The kinds of ``found`` (where it comes from, what was there), checked and sorted."""
    by_name: dict[str, str] = {}
    checked: list[Kind] = []
    for where, kind in found:
        if not isinstance(kind, Kind):
            raise InvalidCase(where, kind, "expected a Kind: a file of kinds names it KIND")
        if kind.name in by_name:
            raise InvalidCase(where, kind.name, f"{by_name[kind.name]} has this name")
        if len(kind.bounds) > KIND_NUMBERS:
            raise InvalidCase(f"bounds of {where}", kind.bounds, f"expected at most {KIND_NUMBERS}")
        by_name[kind.name] = where
        checked.append(kind)
    return tuple(sorted(checked, key=lambda kind: (kind.order, kind.name)))


def find_kind(name: str) -> Kind:
    """The kind called ``name``; raises ``InvalidCase`` that lists the known ones."""
    for kind in kinds():
        if kind.name == name:
            return kind
    raise InvalidCase("kind", name, f"expected one of {', '.join(kind.name for kind in kinds())}")


def models() -> tuple[tuple[Kind, PublishedModel], ...]:
    """All published models with their kinds."""
    return tuple((kind, model) for kind in kinds() for model in kind.published)


def find_model(name: str) -> tuple[Kind, PublishedModel]:
    """The published model called ``name``, and its kind; raises ``InvalidCase`` that names the nearest."""
    known = {model.name: (kind, model) for kind, model in models()}
    if name in known:
        return known[name]
    near = get_close_matches(str(name).lower().replace("_", "-").replace(" ", "-"), known, n=3, cutoff=0.4)
    accepted = f"did you mean {' or '.join(near)}? " if near else ""
    raise InvalidCase("model", name, f"{accepted}The published models are {', '.join(sorted(known))}")
