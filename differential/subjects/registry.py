"""Finding a subject by its name: those of the project, registered extensions, and anything that can be imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import combinations

from differential.managers.facts import Facts
from differential.subjects.protocol import Election, Subject
from oracle.model.case import Case
from oracle.model.encodings import ENCODINGS, Encoding
from oracle.model.errors import InvalidCase
from oracle.model.records import frozen
from oracle.model.writes import Refusal, Writes

GROUP = "kvwitness.subjects"
"""Entry points of this group name subjects of other distributions."""
NATIVE = "differential.subjects.native"
"""The legacy sender: ``make(options)`` gives a subject for the text behind ``native:``."""


@frozen()
class FunctionSubject:
    """A plain function ``plan(case, facts)`` as a subject; its choice of senders is compared, not judged."""

    name: str
    function: Callable[[Case, Facts], Writes | Refusal]
    election: Election = "own"
    encoding: Encoding = "tables"

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        return self.function(case, facts)


@frozen()
class ObjectSubject:
    """An object that has a ``plan`` but not all that a subject needs."""

    name: str
    planner: Subject
    election: Election = "own"
    encoding: Encoding = "tables"

    def plan(self, case: Case, facts: Facts) -> Writes | Refusal:
        return self.planner.plan(case, facts)


def find_subject(name: str) -> Subject:
    """The subject called ``name``; a module is imported only when it is asked for.

    ``mapping`` or ``mapping:encoding``; ``native`` or ``native:options``; the name of an entry point of the group
    ``kvwitness.subjects``; or ``package.module:plan``. What the last two lead to is a function
    ``plan(case, facts)``, an object with such a method, or a class of such objects without
    arguments. Raises ``InvalidCase`` for any other name, and says which are known.
    """
    family, _, options = name.partition(":")
    if family == "mapping" and (options in ENCODINGS or name == "mapping"):
        return importlib.import_module("differential.subjects.mapping").Mapping(options or "tables")
    if family == "native" and _has_native():
        return importlib.import_module(NATIVE).make(options)
    for point in _extensions():
        if point.name == name:
            return _load(name, f"{point.module}:{point.attr}")
    module, colon, attribute = name.partition(":")
    if colon and module and attribute and family not in ("mapping", "native"):
        return _load(name, name)
    known = tuple(_known_with_options())
    close = get_close_matches(str(name), known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise InvalidCase("subject", name, f"expected one of {', '.join(known)}, or package.module:plan{hint}")


def known_subjects() -> tuple[str, ...]:
    """Names that :func:`find_subject` finds without an import path."""
    own = ("mapping", *(f"mapping:{encoding}" for encoding in ENCODINGS[1:]))
    own += ("native",) if _has_native() else ()
    return (*own, *sorted({point.name for point in _extensions()} - set(own)))


def _known_with_options() -> Iterator[str]:
    """The known names, the legacy sender also with each choice of its options; its module is imported for them."""
    for name in known_subjects():
        yield name
        if name == "native":
            options = importlib.import_module(f"{NATIVE}.settings").OPTIONS
            for number in range(1, len(options) + 1):
                yield from (f"native:{','.join(chosen)}" for chosen in combinations(options, number))


def _has_native() -> bool:
    found = find_spec(NATIVE)
    return found is not None and found.origin is not None


def _extensions() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _load(name: str, path: str) -> Subject:
    """The subject at ``package.module:attribute``."""
    module, _, attribute = path.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidCase("subject", name, f"expected an importable package.module:plan, but {error}") from error
    if isinstance(found, type):
        found = found()
    if hasattr(found, "plan"):
        if hasattr(found, "name") and hasattr(found, "election"):
            return found  # type: ignore[return-value]
        options = getattr(found, "election", "own"), getattr(found, "encoding", "tables")
        return ObjectSubject(name, found, *options)  # type: ignore[arg-type]
    if callable(found):
        return FunctionSubject(name, found)
    kind = type(found).__name__
    raise InvalidCase("subject", name, f"expected a function or an object with a method plan, not {kind}")
