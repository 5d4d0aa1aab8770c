"""The cache kinds, one file each: every module here that is not support names a ``KIND``.

Other distributions add kinds under the entry point group ``kvwitness.kinds``; each entry has the name
of the ``Kind`` that it names. An entry that cannot be used, for it cannot be loaded or its models do not build, is kept
with its reason, and takes no other kind along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import cycle
from pathlib import PurePath
from pkgutil import iter_modules
from random import Random
from traceback import extract_tb
from typing import NoReturn

from oracle.model.errors import InvalidCase
from strategies.kinds.protocol import Kind, PublishedModel, Surroundings, of_kind
from strategies.numbers import KIND_NUMBERS

GROUP = "kvwitness.kinds"
SUPPORT = ("protocol", "fitting", "pieces", "recurrent", "compressed")

TRIED = 12
"""Further combinations of numbers of a kind of another distribution that are built when it is looked up."""
SHARES = (((1, 1), (1, 1)), ((1, 2), (1, 2)), ((4, 2), (4, 2)), ((2, 1), (2, 2)))
"""Into how many shares the two sides cut an axis there: (TP grid, TP×CP grid), the last one for Helix."""


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """An entry point that gives no usable kind: its name and ``module:attribute``, and why in one line.

    ``refusal``: of a kind that is there, what its declaration was refused with.
    """

    name: str
    value: str
    reason: str
    refusal: InvalidCase | None = None

    def __str__(self) -> str:
        return f"kind entry point {self.name} ({self.value}) cannot be used: {self.reason}"


@dataclass(frozen=True, slots=True)
class Registry:
    """All usable kinds, simplest first, and the entry points that give none.

    ``shipped``: the names of those of the project. ``entries``: by the name of a kind of another distribution that was
    loaded, its entry point; ``unbuilt`` are those among them whose models do not build, so that the entry is broken.
    """

    kinds: tuple[Kind, ...]
    shipped: frozenset[str]
    broken: tuple[BrokenEntry, ...]
    unbuilt: tuple[Kind, ...]
    entries: Mapping[str, str]


@lru_cache(maxsize=1)
def registry() -> Registry:
    """What there is, looked up once.

    A kind of the project that cannot be used raises; one of another distribution leaves all others usable.
    """
    modules = [module.name for module in iter_modules(__path__) if module.name not in SUPPORT]
    found = _in_order((f"{__name__}.{module}", _kind_of(module)) for module in modules)
    where = {kind.name: "the project" for kind in found}
    whose = {model.name: f"kind {kind.name} of the project" for kind in found for model in kind.published}
    broken: list[BrokenEntry] = []
    theirs: list[Kind] = []
    unbuilt: list[Kind] = []
    entries: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        try:
            kind = _load(entry, where, whose)
        except (Exception, SystemExit) as error:
            broken.append(BrokenEntry(entry.name, entry.value, _why(error)))
            continue
        where[kind.name] = f"the entry point {entry.value}"
        whose |= {model.name: f"kind {kind.name} of the entry point {entry.value}" for model in kind.published}
        entries[kind.name] = entry.value
        try:
            _build_some(kind)
        except (Exception, SystemExit) as error:
            broken.append(_unbuilt(entry.name, entry.value, error))
            unbuilt.append(kind)
        else:
            theirs.append(kind)
    shipped = frozenset(kind.name for kind in found)
    return Registry(_sorted((*found, *theirs)), shipped, tuple(broken), tuple(unbuilt), entries)


def kinds() -> tuple[Kind, ...]:
    """All kinds that can be used, simplest first."""
    return registry().kinds


def registered_kinds() -> tuple[Kind, ...]:
    """All kinds that could be loaded, simplest first; models of some may not build."""
    return _sorted((*registry().kinds, *registry().unbuilt))


def broken_entries() -> tuple[BrokenEntry, ...]:
    """Entry points of other distributions that give no usable kind, in the order in which they are found."""
    return registry().broken


def broken_entry(kind: Kind, error: Exception) -> BrokenEntry:
    """The entry point of a kind of another distribution, as one that cannot be used because ``error`` was raised."""
    return _unbuilt(kind.name, registry().entries[kind.name], error)


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


def _load(entry: EntryPoint, where: Mapping[str, str], whose: Mapping[str, str]) -> Kind:
    """The kind of an entry point; ``where`` and ``whose`` say whose names of kinds and of models are taken."""
    kind = _checked("what it names", entry.load())
    if kind.name in where:
        raise InvalidCase("kind.name", kind.name, f"a kind of {where[kind.name]} has this name")
    if kind.name != entry.name:
        raise InvalidCase("kind.name", kind.name, f"expected the name of its entry point, {entry.name}")
    check_models(kind, whose)
    return kind


def check_models(kind: Kind, whose: Mapping[str, str] | None = None) -> None:
    """Raise ``InvalidCase`` for a published model of a name that is taken; ``whose``: by whom, else by the project."""
    if whose is None:
        whose = {model.name: f"kind {own.name} of the project" for own, model in models() if is_shipped(own.name)}
    for model in kind.published:
        if model.name in whose:
            raise InvalidCase("published model", model.name, f"a model of {whose[model.name]} has this name")


def _build_some(kind: Kind) -> None:
    """Build the small models of the scope, some of other numbers, and the published ones; raise what they raise.

    Kinds of the project are spared it, for their tests build them all. It takes milliseconds.
    """
    blocks = next((tokens for tokens in kind.tokens_per_block if tokens > 1), kind.tokens_per_block[0])
    settings = [
        Surroundings(layers, tensor, whole, blocks, 3 * blocks)
        for layers in dict.fromkeys(kind.layers)
        for tensor, whole in (SHARES if kind.helix else SHARES[:-1])
    ]
    random = Random(kind.name)
    zeros = (0,) * len(kind.bounds)
    # Ends of ranges are where tables are too short.
    largest = [(*zeros[:place], bound - 1, *zeros[place + 1 :]) for place, bound in enumerate(kind.bounds)]
    others = [tuple(random.randrange(bound) for bound in kind.bounds) for _ in range(TRIED)]
    for numbers in kind.scope:
        for around in settings:
            kind.declare(numbers, around)
    for numbers, around in zip((zeros, *largest, *others), cycle(settings), strict=False):
        kind.declare(numbers, around)
    for model in kind.published:
        for bits in model.element_bits:
            try:
                model.declare(bits)
            except InvalidCase as error:
                raise of_kind(f"kind {kind.name}", error) from error


def _unbuilt(name: str, value: str, error: BaseException) -> BrokenEntry:
    return BrokenEntry(name, value, _why(error), error if isinstance(error, InvalidCase) else None)


def _why(error: BaseException) -> str:
    """What was raised where an entry point was loaded or its kind built, in one line."""
    if isinstance(error, SyntaxError) and error.filename:
        told = f"{error.filename}:{error.lineno}: {error.msg}"
    elif isinstance(error, InvalidCase):
        told = str(error)
    else:
        told = f"{type(error).__name__}: {error}{_place_of(error)}"
    return " ".join(told.split())


def _place_of(error: BaseException) -> str:
    """`` at FILE:12``, where it was raised; "" where that is in the import system or in this file."""
    frames = [
        frame
        for frame in extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    return f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def find_kind(name: str) -> Kind:
    """The kind called ``name``; raises ``InvalidCase`` that lists the known ones, or says why this one is of no use."""
    for kind in kinds():
        if kind.name == name:
            return kind
    for entry in broken_entries():
        if entry.name == name:
            _refuse(entry)
    known = [kind.name for kind in kinds()]
    whose = [kind.name for kind, model in models() if model.name == name]
    near = whose or get_close_matches(str(name).lower().replace("-", "_"), known, n=3)
    accepted = f"did you mean {' or '.join(near)}? The kinds are" if near else "expected one of"
    if whose:
        accepted = f"that is a model; {accepted}"
    raise InvalidCase("kind", name, f"{accepted} {', '.join(known)}")


def _refuse(entry: BrokenEntry) -> NoReturn:
    refused = entry.refusal
    if refused is None:
        raise InvalidCase("kind", entry.name, str(entry))
    raise InvalidCase(refused.argument, refused.value, refused.accepted) from refused


def models() -> tuple[tuple[Kind, PublishedModel], ...]:
    """All published models of kinds that can be used, with these."""
    return tuple((kind, model) for kind in kinds() for model in kind.published)


def find_model(name: str) -> tuple[Kind, PublishedModel]:
    """The published model called ``name``, and its kind.

    Raises ``InvalidCase`` that names the nearest, or says why its kind is of no use.
    """
    known = {model.name: (kind, model) for kind, model in models()}
    if name in known:
        return known[name]
    for kind in registry().unbuilt:
        if name in {model.name for model in kind.published}:
            find_kind(kind.name)
    for kind in kinds():
        if kind.name == name:
            its = ", ".join(model.name for model in kind.published)
            accepted = (
                f"that is a kind; its published models are {its}" if its else "that is a kind without a published model"
            )
            raise InvalidCase("model", name, accepted)
    near = get_close_matches(str(name).lower().replace("_", "-").replace(" ", "-"), known, n=3, cutoff=0.4)
    accepted = f"did you mean {' or '.join(near)}? The" if near else "the"
    raise InvalidCase("model", name, f"{accepted} published models are {', '.join(sorted(known))}")
