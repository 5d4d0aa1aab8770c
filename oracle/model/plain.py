"""Reading plain JSON values field by field: every error names the path, quotes the value, says what is accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import TypeVar

from oracle.model.errors import InvalidCase, MalformedFile

Made = TypeVar("Made")

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


def _shortened(value: object) -> object:
    text = repr(value)
    return value if len(text) <= 60 else f"{text[:56]} ..."


def refuse(path: str, value: object, accepted: str) -> MalformedFile:
    return MalformedFile(path or "case file", _shortened(value), accepted)


def whole(value: object, path: str) -> int:
    """An int; the record that takes it says how small it may be. Neither true nor 4.0 is one."""
    if type(value) is not int:
        raise refuse(path, value, "expected a whole number")
    return value


def text(value: object, path: str) -> str:
    if type(value) is not str:
        raise refuse(path, value, "expected a text in quotes")
    return value


def flag(value: object, path: str) -> bool:
    if type(value) is not bool:
        raise refuse(path, value, "expected true or false")
    return value


def entries(value: object, path: str, read: Callable[[object, str], Made]) -> tuple[Made, ...]:
    """A list, each entry read by ``read``."""
    if type(value) is not list:
        raise refuse(path, value, "expected a list")
    return tuple([read(entry, f"{path}[{index}]") for index, entry in enumerate(value)])


def wholes(value: object, path: str) -> tuple[int, ...]:
    return entries(value, path, whole)


def texts(value: object, path: str) -> tuple[str, ...]:
    return entries(value, path, text)


def row(value: object, path: str, columns: dict[str, Callable[[object, str], object]]) -> tuple[object, ...]:
    """A list with one value a column."""
    if type(value) is not list or len(value) != len(columns):
        raise refuse(path, value, f"expected a list of {', '.join(columns)}")
    readers = enumerate(columns.values())
    return tuple([read(value[index], f"{path}[{index}]") for index, read in readers])


def items(value: object, path: str) -> Iterator[tuple[str, object, str]]:
    """(key, value, path) of an object whose keys are names of the case."""
    if type(value) is not dict:
        raise refuse(path, value, "expected an object")
    for key, inner in value.items():
        yield text(key, path), inner, f"{path}.{key}"


def pairs(value: object, path: str, read: Callable[[object, str], Made]) -> tuple[tuple[str, Made], ...]:
    """An object from names to what ``read`` reads."""
    return tuple([(key, read(inner, where)) for key, inner, where in items(value, path)])


def numbered(key: str, path: str, what: str) -> int:
    """A key that is a number, since JSON keys are texts."""
    if not _NUMBER.fullmatch(key):
        raise refuse(path, key, f'expected the number of a {what} in quotes, such as "0"')
    return int(key)


class Fields:
    """The fields of one object: unknown ones are refused at once, with the known name that comes closest."""

    __slots__ = ("path", "value")

    def __init__(self, value: object, path: str, known: tuple[str, ...]) -> None:
        if type(value) is not dict:
            raise refuse(path, value, "expected an object")
        self.value = value
        self.path = path
        for name in value:
            if name not in known:
                close = get_close_matches(name, known, 1) if type(name) is str else []
                hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"
                raise refuse(self.where(name), value[name], f"unknown field; {hint}")

    def where(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def get(self, name: str, read: Callable[..., Made], *more: object) -> Made:
        """A field that every such object has."""
        if name not in self.value:
            raise refuse(self.where(name), None, "missing field; every such object has it")
        return read(self.value[name], self.where(name), *more)

    def given(self, **readers: object) -> dict[str, object]:
        """What is there of the fields that may be left out; a reader is a function, or (function, further argument)."""
        found: dict[str, object] = {}
        for name, reader in readers.items():
            if name in self.value:
                read, *more = reader if isinstance(reader, tuple) else (reader,)
                found[name] = read(self.value[name], self.where(name), *more)
        return found


def notation(value: object, path: str, parse: Callable[[str], Made]) -> Made:
    """A text in a notation; its errors name columns of the text, so that is told whole."""
    try:
        return parse(text(value, path))
    except MalformedFile:
        raise
    except InvalidCase as error:
        raise InvalidCase(path, error.value, error.accepted) from None


def build(path: str, make: Callable[..., Made], *values: object, **named: object) -> Made:
    """``make(...)``; what a record refuses is told with the path of its object in front."""
    try:
        return make(*values, **named)
    except InvalidCase as error:
        argument = error.argument
        if path and argument != path and not argument.startswith((f"{path}.", f"{path}[")):
            argument = f"{path}.{argument}" if argument.isidentifier() else f"{path}: {argument}"
        raise type(error)(argument, _shortened(error.value), error.accepted) from None
