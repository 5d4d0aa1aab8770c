"""One exception type per kind of trouble; each names the argument, quotes the value and says what is accepted."""

from __future__ import annotations


class InvalidCase(ValueError):
    """No such layout or state exists.

    ``argument`` is the path of the offending field, ``value`` what was given and ``accepted`` a
    phrase that says what would have been accepted.
    """

    def __init__(self, argument: str, value: object, accepted: str) -> None:
        self.argument = argument
        self.value = value
        self.accepted = accepted
        super().__init__(f"{argument} = {value!r} is not possible: {accepted}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.argument, self.value, self.accepted)


class MalformedFile(InvalidCase):
    """A case file that is not JSON, is truncated, or has fields that its schema does not know."""


class NewerSchema(MalformedFile):
    """A case file written by a later version than this one."""


LARGEST = 1 << 48
"""no count, size or number of a case is as large; arithmetic on 64 bits stays exact"""


def require_whole(argument: str, value: object, *, least: int = 0) -> None:
    """Raise ``InvalidCase`` unless ``value`` is an int of at least ``least`` (bool does not count)."""
    if type(value) is not int or value < least:
        raise InvalidCase(argument, value, f"expected a whole number of at least {least}")
    if value >= LARGEST:
        raise InvalidCase(argument, value, "expected a whole number below 2**48")
