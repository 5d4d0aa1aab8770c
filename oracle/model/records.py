"""Frozen, slotted dataclasses whose hash is computed once: cases key many caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T", bound=type)


class Hashed:
    """Room for the cached hash of a record."""

    __slots__ = ("_hash",)


@dataclass_transform(frozen_default=True)
def record(cls: T) -> T:
    """Make ``cls`` (a subclass of ``Hashed``) a frozen, slotted dataclass with a cached hash."""
    made = dataclass(frozen=True, slots=True)(cls)
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
