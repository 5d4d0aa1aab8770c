"""JSON as case files use it: strict to read, and laid out so that a person and a diff can read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from oracle.model.errors import MalformedFile

WIDTH = 120
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Repeated:
    """Stands for an object that has one key twice, until its path is known."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


def parse(text: str) -> object:
    """The value that ``text`` spells; ``MalformedFile`` names line and column, or the path of a repeated key."""
    if type(text) is not str:
        raise MalformedFile("case file", type(text).__name__, "expected a text")
    repeated: list[_Repeated] = []

    def as_dict(pairs: list[tuple[str, object]]) -> object:
        made: dict[str, object] = {}
        for key, value in pairs:
            if key in made:
                repeated.append(_Repeated(key))
                return repeated[-1]
            made[key] = value
        return made

    def refuse(constant: str) -> object:
        raise MalformedFile("case file", constant, "JSON has no such number")

    try:
        value = json.loads(text, object_pairs_hook=as_dict, parse_constant=refuse)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        if not text[error.pos :].strip():
            tail = text.rstrip()[-20:]
            raise MalformedFile("case file", tail, f"the text ends at {where}: it was cut short") from None
        near = text[error.pos : error.pos + 20]
        raise MalformedFile("case file", near, f"not JSON at {where}: {error.msg}") from None
    except MalformedFile:
        raise
    except (RecursionError, ValueError) as error:  # too deep, or a number of thousands of digits
        raise MalformedFile("case file", text[:20], f"not to be read: {error}") from None
    if repeated:
        path, key = next(_find(value, ""))
        raise MalformedFile(f"{path}.{key}" if path else key, key, "expected each key once in an object")
    return value


def _find(value: object, path: str) -> Iterator[tuple[str, str]]:
    """(path, key) of repeated keys."""
    if isinstance(value, _Repeated):
        yield path, value.key
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _find(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _find(inner, f"{path}[{index}]")


def one_line(value: object) -> str:
    """``value`` on one line, keys in the order they have."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def render(value: object) -> str:
    """``value`` over as few lines as fit ``WIDTH``, with a line end; the same value gives the same text.

    The outermost object and a list of several objects always have one line an entry. Numbers that
    need more than one line fill them.
    """
    return _render(value, "", 0, outermost=True) + "\n"


def _render(value: object, indent: str, used: int, *, outermost: bool = False) -> str:
    """``value`` after ``used`` columns of a line that is indented by ``indent``."""
    entries = isinstance(value, list) and len(value) > 1 and all(isinstance(inner, dict) for inner in value)
    if not value or not isinstance(value, (dict, list)):
        return one_line(value)
    if not outermost and not entries:
        text = one_line(value)
        # one column for the comma that may follow
        if used + len(text) < WIDTH and not _has_entries(value):
            return text
    inside = f"{indent}  "
    if isinstance(value, dict):
        lines = []
        for key, inner in value.items():
            name = f"{one_line(key)}: "
            lines.append(name + _render(inner, inside, len(inside) + len(name)))
        first, last = "{", "}"
    else:
        first, last = "[", "]"
        if all(type(inner) is int for inner in value):
            lines = list(_filled(value, WIDTH - len(inside)))
        else:
            lines = [_render(inner, inside, len(inside)) for inner in value]
    body = f",\n{inside}".join(lines)
    return f"{first}\n{inside}{body}\n{indent}{last}"


def _has_entries(value: object) -> bool:
    """Whether a list of several objects is inside ``value``."""
    if isinstance(value, dict):
        return any(map(_has_entries, value.values()))
    if isinstance(value, list):
        return (len(value) > 1 and all(isinstance(inner, dict) for inner in value)) or any(map(_has_entries, value))
    return False


def _filled(numbers: list[int], width: int) -> Iterator[str]:
    """``numbers`` with commas between them, as many a line as fit ``width`` with a comma behind."""
    line = ""
    for number in map(str, numbers):
        if line and len(line) + 2 + len(number) >= width:
            yield line
            line = ""
        line += f", {number}" if line else number
    yield line
