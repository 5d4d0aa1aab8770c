"""Frozen, slotted dataclasses that are made quickly, and records whose hash is computed once: cases key many caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import TypeVar, dataclass_transform

T = TypeVar("T", bound=type)


class _Factory:
    """Stands in a signature for what a default factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()


class Hashed:
    """Room for the cached hash of a record."""

    __slots__ = ("_hash",)


@dataclass_transform(frozen_default=True)
def record(cls: T) -> T:
    """Make ``cls`` (a subclass of ``Hashed``) a frozen, slotted dataclass with a cached hash."""
    made = _filled_quickly(dataclass(frozen=True, slots=True)(cls))
    compute = made.__hash__

    def cached_hash(self: object) -> int:
        try:
            return self._hash  # type: ignore[attr-defined]
        except AttributeError:
            value = compute(self)
            object.__setattr__(self, "_hash", value)
            return value

    made.__hash__ = cached_hash  # type: ignore[method-assign]
    return made


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(*, eq: bool = True, order: bool = False) -> Callable[[T], T]:
    """``dataclass(frozen=True, slots=True)`` for what is made many times a case."""
    return lambda cls: _filled_quickly(dataclass(frozen=True, slots=True, eq=eq, order=order)(cls))


def _filled_quickly(made: T) -> T:
    """``made``, a frozen dataclass with slots, with an ``__init__`` that gives each field its value by an assignment.

    The usual one has to call ``object.__setattr__`` for each field, which is most of what it takes to make an
    instance. Here the instance is of a class with the same slots and no guard while it is filled; one of a subclass,
    which may have more slots, is filled as usual.
    """
    unguarded = type(made.__name__, made.__bases__, {"__slots__": made.__slots__})
    known: dict[str, object] = {"become": object.__setattr__, "unguarded": unguarded, "made": made, "FACTORY": FACTORY}
    parameters, values = [], {}
    for each in fields(made):
        name, value, default = each.name, each.name, each.default
        if each.default_factory is not MISSING:
            default = FACTORY
            known[f"make_{name}"] = each.default_factory
            value = f"make_{name}() if {name} is FACTORY else {name}"
        if default is MISSING:
            parameters.append(name)
        else:
            known[f"default_{name}"] = default
            parameters.append(f"{name}=default_{name}")
        values[name] = value
    lines = [
        f"def __init__(self, {', '.join(parameters)}):",
        "    if self.__class__ is made:",
        "        become(self, '__class__', unguarded)",
        *(f"        self.{name} = {value}" for name, value in values.items()),
        "        self.__class__ = made",
        "    else:",
        *(f"        become(self, '{name}', {value})" for name, value in values.items()),
    ]
    if hasattr(made, "__post_init__"):
        lines.append("    self.__post_init__()")
    text = "\n".join(lines)
    exec(text, known)  # as dataclasses writes its own methods
    init = known["__init__"]
    init.__annotations__ = made.__init__.__annotations__  # type: ignore[attr-defined,misc]
    init.__qualname__ = f"{made.__qualname__}.__init__"  # type: ignore[attr-defined]
    made.__init__ = init  # type: ignore[method-assign,misc]
    return made
