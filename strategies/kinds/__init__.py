"""The cache kinds, one file each: every module here that is not support names a ``KIND``.

Other distributions add kinds under the entry point group ``kvwitness.kinds``; each entry has the name
of the ``Kind`` that it names. An entry that cannot be used is kept with its reason, and takes no other kind along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules

from oracle.model.errors import InvalidCase
from strategies.kinds.protocol import Kind, PublishedModel
from strategies.numbers import KIND_NUMBERS

GROUP = "kvwitness.kinds"
SUPPORT = ("protocol", "fitting", "pieces", "recurrent", "compressed")


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """An entry point that gives no usable kind: its name and ``module:attribute``, and why in one line."""

    name: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"kind entry point {self.name} ({self.value}) cannot be used: {self.reason}"


@dataclass(frozen=True, slots=True)
class Registry:
    """All kinds, simplest first, the names of those that the project ships, and the entry points that give none."""

    kinds: tuple[Kind, ...]
    shipped: frozenset[str]
    broken: tuple[BrokenEntry, ...]


@lru_cache(maxsize=1)
def registry() -> Registry:
    """What there is, looked up once.

    A kind of the project that cannot be used raises; one of another distribution leaves all others usable.
    """
    modules = [module.name for module in iter_modules(__path__) if module.name not in SUPPORT]
    found = _in_order((f"{__name__}.{module}", _kind_of(module)) for module in modules)
    where = {kind.name: "the project" for kind in found}
    broken: list[BrokenEntry] = []
    theirs: list[Kind] = []
    for entry in entry_points(group=GROUP):
        try:
            kind = _load(entry, where)
        except (Exception, SystemExit) as error:
            broken.append(BrokenEntry(entry.name, entry.value, _why(error)))
        else:
            where[kind.name] = f"the entry point {entry.value}"
            theirs.append(kind)
    return Registry(_sorted((*found, *theirs)), frozenset(kind.name for kind in found), tuple(broken))


def kinds() -> tuple[Kind, ...]:
    """All kinds, simplest first."""
    return registry().kinds


def broken_entries() -> tuple[BrokenEntry, ...]:
    """Entry points of other distributions that give no usable kind, in the order in which they are found."""
    return registry().broken


def is_shipped(name: str) -> bool:
    """Whether a kind of the project itself is called ``name``."""
    return name in registry().shipped


def _kind_of(name: str) -> object:
    return getattr(import_module(f"{__name__}.{name}"), "KIND", None)


def _in_order(found: Iterable[tuple[str, object]]) -> tuple[Kind, ...]:
    """The kinds of ``found`` (where it comes from, what was there), checked and sorted."""
    by_name: dict[str, str] = {}
    checked: list[Kind] = []
    for where, kind in found:
        kind = _checked(where, kind)
        if kind.name in by_name:
            raise InvalidCase(where, kind.name, f"{by_name[kind.name]} has this name")
        by_name[kind.name] = where
        checked.append(kind)
    return _sorted(checked)


def _sorted(found: Iterable[Kind]) -> tuple[Kind, ...]:
    return tuple(sorted(found, key=lambda kind: (kind.order, kind.name)))


def _checked(where: str, kind: object) -> Kind:
    if not isinstance(kind, Kind):
        raise InvalidCase(f"type of {where}", type(kind).__name__, "expected a Kind: a file of kinds names it KIND")
    if len(kind.bounds) > KIND_NUMBERS:
        raise InvalidCase(f"bounds of {where}", kind.bounds, f"expected at most {KIND_NUMBERS}")
    return kind


def _load(entry: EntryPoint, where: Mapping[str, str]) -> Kind:
    """The kind of an entry point; ``where`` says whose the names are that are taken."""
    kind = _checked("what it names", entry.load())
    if kind.name in where:
        raise InvalidCase("kind.name", kind.name, f"a kind of {where[kind.name]} has this name")
    if kind.name != entry.name:
        raise InvalidCase("kind.name", kind.name, f"expected the name of its entry point, {entry.name}")
    return kind


def _why(error: BaseException) -> str:
    """What was raised where an entry point was loaded, in one line."""
    if isinstance(error, SyntaxError) and error.filename:
        told = f"{error.filename}:{error.lineno}: {error.msg}"
    elif isinstance(error, InvalidCase):
        told = str(error)
    else:
        told = f"{type(error).__name__}: {error}"
    return " ".join(told.split())


def find_kind(name: str) -> Kind:
    """The kind called ``name``; raises ``InvalidCase`` that lists the known ones, or says why there is none."""
    for kind in kinds():
        if kind.name == name:
            return kind
    for entry in broken_entries():
        if entry.name == name:
            raise InvalidCase("kind", name, str(entry))
    known = [kind.name for kind in kinds()]
    near = get_close_matches(str(name).lower().replace("-", "_"), known, n=3)
    accepted = f"did you mean {' or '.join(near)}? The kinds are" if near else "expected one of"
    raise InvalidCase("kind", name, f"{accepted} {', '.join(known)}")


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
