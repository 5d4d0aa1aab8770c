"""The tokens of a text in the notation, and the errors that name the column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import NoReturn, TypeVar

from oracle.model.errors import InvalidCase
from oracle.model.layers import LayerSet

Made = TypeVar("Made")

MOST_LAYERS = 1 << 20
"""Longest layer set that is read: a damaged ``0..99999999999`` must not fill the memory."""

_TOKENS = re.compile(
    r'\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9]+)|(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<mark>\.\.|[@:;.,()\[\]{}|/+*])|(?P<end>\Z)|(?P<other>.))",
    re.DOTALL,
)


class Tokens:
    """The tokens of one text, read from left to right; every failure names the column."""

    __slots__ = ("argument", "index", "text", "tokens")

    def __init__(self, argument: str, text: str) -> None:
        if type(text) is not str:
            raise InvalidCase(argument, text, "expected a text")
        self.argument = argument
        self.text = text
        self.index = 0
        # (kind, text, column - 1); the last one is the end, whose text is empty.
        self.tokens = [
            (m.lastgroup, m[m.lastgroup], m.start(m.lastgroup)) for m in _TOKENS.finditer(text) if m.lastgroup
        ]

    @property
    def kind(self) -> str:
        return self.tokens[self.index][0]

    @property
    def found(self) -> str:
        return self.tokens[self.index][1]

    @property
    def position(self) -> int:
        return self.tokens[self.index][2]

    def fail(self, expected: str, among: tuple[str, ...] = ()) -> NoReturn:
        found = self.found
        close = get_close_matches(found, [word.split("(")[0] for word in among], 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        shown = repr(found) if found else "the end"
        raise InvalidCase(
            self.argument, self.text, f"at column {self.position + 1}, {shown}: expected {expected}{hint}"
        )

    def make(self, position: int | None, build: Callable[..., Made], *values: object, **named: object) -> Made:
        """``build(...)``; what it refuses is told with the text and the column."""
        try:
            return build(*values, **named)
        except InvalidCase as error:
            where = "" if position is None else f"at column {position + 1}, "
            accepted = f"{where}{error.argument} = {error.value!r}: {error.accepted}"
            raise InvalidCase(self.argument, self.text, accepted) from None

    def sees(self, text: str) -> bool:
        return self.found == text

    def accept(self, text: str) -> bool:
        """Whether ``text`` comes next, which is then read; the empty text is the end."""
        found = self.sees(text)
        self.index += found and bool(text)
        return found

    def expect(self, text: str, expected: str) -> None:
        if not self.accept(text):
            self.fail(expected)

    def choose(self, words: tuple[str, ...], expected: str) -> str:
        word = self.found
        if word not in words:
            self.fail(expected, words)
        self.index += 1
        return word

    def name(self, expected: str) -> str:
        found = self.found
        if self.kind == "string":
            try:
                found = json.loads(found)
            except ValueError:
                self.fail("a JSON string")
        elif self.kind != "name":
            self.fail(expected)
        self.index += 1
        return found

    def number(self, expected: str, *, least: int = 0) -> int:
        try:
            number = int(self.found) if self.kind == "number" else -1
        except ValueError:  # the interpreter's limit on the digits of a number
            number = -1
        if number < least:
            self.fail(f"{expected} of at least {least}" if least else expected)
        self.index += 1
        return number

    def enclosed(self, expected: str) -> int:
        """``(number)``"""
        self.expect("(", f"'(' and {expected}")
        number = self.number(expected)
        self.expect(")", "')'")
        return number

    def layers(self) -> LayerSet:
        start = self.position
        ids: list[int] = []
        if self.accept("none"):
            return LayerSet()
        while True:
            first = last = self.number("layers such as 0..3, 0..47/4, 1,3,8 or none")
            step = 1
            if self.accept(".."):
                last = self.number("a last layer", least=first)
                if self.accept("/"):
                    step = self.number("a step", least=1)
            if (last - first) // step + len(ids) >= MOST_LAYERS:
                self.index -= 1
                self.fail(f"at most {MOST_LAYERS} layers")
            ids.extend(range(first, last + 1, step))
            if not self.accept(","):
                return self.make(start, LayerSet, tuple(ids))
