"""The text notation of a buffer: ``key @ 0..3 : H(4).heads T D(8) ; 16``.

``docs/case-file.md`` is its reference. :func:`format_buffer` and :func:`parse_buffer` are exact
inverses; the parser also takes spellings that are never printed, such as ``T(1)`` and ``.sect``.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, Move, MoveState, Part, Placement
from oracle.model.errors import InvalidCase
from oracle.model.layers import LayerSet
from oracle.model.tokens import Tokens

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT_WORDS = ("rec", "foot")
_SPLITS = {split.value: split for split in Split}
_MOVES = {state.value: state for state in MoveState}
_NUMBERS = {"sub": "sub_rows", "pad": "pad", "align": "align", "x": "expansion"}
_FLAGS = {"own": "own", "request": "request_scope", "first_local": "first_local"}
_FIELDS = ("sub(rows)", *_MOVES, "own", "pad(bytes)", "align(bytes)", "fused(name)", "x(pages)", "request")
_FIELDS += ("first_local", "ids 2m+1", "alias 4..7")
_OPAQUE = "B"
"""The payload axis of opaque rows: ``rec`` and ``foot``."""


# ---- printing


@lru_cache(maxsize=4096)
def format_buffer(buffer: Buffer) -> str:
    """``buffer`` in the notation, fields in fixed order, defaults left out."""
    place = buffer.placement
    footer = _footer(buffer)
    fields = [footer or _body(buffer)]
    if buffer.sub_rows and not footer:
        fields.append(f"sub({buffer.sub_rows})")
    if buffer.moves != (Move(),):
        fields.append(" | ".join(map(_format_move, buffer.moves)) or "moves()")
    if place.own:
        fields.append("own")
    if place.pad:
        fields.append(f"pad({place.pad})")
    if place.align:
        fields.append(f"align({place.align})")
    if place.fused:
        fields.append(f"fused({_format_name(place.fused)})")
    if buffer.expansion > 1:
        fields.append(f"x({buffer.expansion})")
    if buffer.request_scope:
        fields.append("request")
    if buffer.first_local:
        fields.append("first_local")
    if buffer.ids != (1, 0):
        mul, add = buffer.ids
        fields.append(f"ids {mul if mul > 1 else ''}m" + (f"+{add}" if add else ""))
    if buffer.alias is not None:
        fields.append(f"alias {format_layers(buffer.alias)}")
    return f"{_format_name(buffer.role)} @ {format_layers(buffer.layers)} : {' ; '.join(fields)}"


def format_layers(layers: LayerSet) -> str:
    """``0..3``, ``0..8/4`` or ``1,3,8``; ``none`` for the empty set."""
    return str(layers) or "none"


def _format_name(name: str, reserved: tuple[str, ...] = ()) -> str:
    """``name`` bare where that can be read back, else as a JSON string."""
    return name if _BARE.fullmatch(name) and name not in reserved else json.dumps(name)


def _format_move(move: Move) -> str:
    text = move.state.value
    if move.inputs:
        text += f"({','.join(map(_format_name, move.inputs))})"
    if move.side:
        text += f"({move.side})"
    return text if move.layers is None else f"{text}@{format_layers(move.layers)}"


def _format_axis(axis: Axis) -> str:
    name = _format_name(axis.name, _ELEMENT_WORDS)
    if axis.is_token:
        text = f"T({axis.tokens_per_row})" if axis.tokens_per_row > 1 else "T"
    elif axis.sections:
        sections = (f"{_format_name(section.name)}:{section.size}.{section.split.value}" for section in axis.sections)
        text = f"{name}[{', '.join(sections)}]"
    else:
        text = f"{name}({axis.size})" + ("" if axis.split is Split.ALL else f".{axis.split.value}")
    return text if axis.grid is Grid.TP else f"{text}@{axis.grid.value}"


def _format_axes(axes: tuple[Axis, ...]) -> str:
    return " ".join(map(_format_axis, axes))


def _body(buffer: Buffer) -> str:
    if len(buffer.parts) > 1:
        return " ".join(f"{{{_format_axes(part.axes)}}}:{part.bits}" for part in buffer.parts)
    part = buffer.parts[0]
    width = _opaque_bytes(part)
    axes, element = (part.axes[:-1], f"rec({width})") if width else (part.axes, str(part.bits))
    return f"{_format_axes(axes)} ; {element}" if axes else element


def _footer(buffer: Buffer) -> str:
    """Axes and ``foot(...)`` where all parts are opaque rows over the same axes, else nothing."""
    widths = [_opaque_bytes(part) for part in buffer.parts]
    shared = buffer.parts[0].axes[:-1]
    if len(widths) < 2 or not all(widths) or any(part.axes[:-1] != shared for part in buffer.parts):
        return ""
    return f"{_format_axes(shared)} ; foot({buffer.sub_rows or '*'},{','.join(map(str, widths))})"


def _opaque_bytes(part: Part) -> int:
    """Bytes of the opaque row at the end of ``part``, 0 where there is none."""
    last = part.axes[-1] if part.axes else None
    opaque = last is not None and part.bits == 8 and last == Axis(_OPAQUE, last.size or 1)
    return last.size if last is not None and opaque else 0


# ---- reading


def parse_buffer(text: str) -> Buffer:
    """The buffer that ``text`` declares; ``InvalidCase`` quotes the text and names the column and what is accepted."""
    if type(text) is not str:
        raise InvalidCase("buffer", text, "expected a text such as 'key @ 0..3 : H(4).heads T D(8) ; 16'")
    return _parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Buffer:
    reader = Tokens("buffer", text)
    role = reader.name("a role such as key")
    reader.expect("@", "'@' and the layers")
    layers = reader.layers()
    reader.expect(":", "':' and the axes")
    fields: dict[str, object] = {}
    parts = _parse_parts(reader, fields)
    while reader.accept(";"):
        _parse_field(reader, fields)
    reader.expect("", "';' and a field, or the end")
    names = ("own", "pad", "align", "fused")
    place = reader.make(None, Placement, **{name: fields.pop(name) for name in names if name in fields})
    return reader.make(None, Buffer, role, layers, parts, placement=place, **fields)


def parse_layers(text: str) -> LayerSet:
    """The layer set that ``text`` names: ``0..3``, ``0..47/4``, ``1,3,8`` or ``none``."""
    reader = Tokens("layers", text)
    layers = reader.layers()
    reader.expect("", "a comma and more layers, or the end")
    return layers


def _parse_parts(reader: Tokens, fields: dict[str, object]) -> tuple[Part, ...]:
    """Axes and element, or ``{axes}:bits`` several times; a footer also says the sub-page."""
    start = reader.position
    parts: list[Part] = []
    while reader.accept("{"):
        axes = _parse_axes(reader)
        reader.expect("}", "an axis such as H(4).heads, T, D(8), or '}'")
        reader.expect(":", "':' and the bits of an element")
        parts.append(reader.make(start, Part, axes, reader.number("the bits of an element")))
        start = reader.position
    if parts:
        return tuple(parts)
    axes = _parse_axes(reader)
    if axes:
        reader.expect(";", "another axis, or ';' and the element")
    start = reader.position
    if reader.accept("rec"):
        widths, bits = [reader.enclosed("the bytes of a row")], 8
    elif reader.accept("foot"):
        fields["sub_rows"], widths, bits = *_parse_footer(reader), 8
    else:
        expected = "bits such as 16, rec(656) or foot(64,128,4)"
        widths, bits = (
            [],
            reader.number(expected if axes else f"axes such as H(4).heads T D(8), {{axes}}:bits, {expected}"),
        )
    if not widths:
        return (reader.make(start, Part, axes, bits),)
    return tuple(reader.make(start, lambda width=width: Part((*axes, Axis(_OPAQUE, width)), bits)) for width in widths)


def _parse_footer(reader: Tokens) -> tuple[int, list[int]]:
    """(rows of a sub-page, bytes of a row of each part) of ``(rows, data, tail, ...)``."""
    expected = "the bytes of a row"
    reader.expect("(", "'(' and rows,data,tail")
    rows = 0 if reader.accept("*") else reader.number("the rows of a sub-page, or * for the whole block")
    widths: list[int] = []
    while len(widths) < 2 or not reader.accept(")"):
        reader.expect(",", f"',' and {expected}" if len(widths) < 2 else f"',' and {expected}, or ')'")
        widths.append(reader.number(expected))
    return rows, widths


def _parse_axes(reader: Tokens) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    while reader.kind in ("name", "string") and reader.found not in _ELEMENT_WORDS:
        axes.append(_parse_axis(reader))
    return tuple(axes)


def _parse_axis(reader: Tokens) -> Axis:
    start = reader.position
    name = reader.name("an axis")
    fields: dict[str, object] = {}
    splits = (*_SPLITS, "sect")
    if reader.accept("["):
        fields["sections"] = _parse_sections(reader, name)
    elif name != "T":
        fields["size"] = reader.enclosed(f"the size of axis {name}")
    elif reader.sees("("):
        fields["tokens_per_row"] = reader.enclosed("the tokens of a row")
    if name == "T":
        fields.setdefault("tokens_per_row", 1)
    if reader.accept("."):
        if reader.sees("sect"):
            reader.fail("sections such as C[8,4,4] before .sect")
        fields["split"] = _SPLITS[reader.choose(splits, f"a split: {', '.join(_SPLITS)}")]
    if reader.accept("@"):
        fields["grid"] = Grid(reader.choose(("TP", "TPCP"), "the grid TP or TPCP"))
    return reader.make(start, Axis, name, **fields)


def _parse_sections(reader: Tokens, axis: str) -> tuple[Section, ...]:
    """``name:size.split, ...]``, or ``size, name:size, ...].sect`` with even splits."""
    found: list[tuple[int, str, int, Split | None]] = []
    while True:
        start = reader.position
        name = f"s{len(found)}"
        if reader.kind != "number":
            name = reader.name(f"a section of {axis} such as x:8.even")
            reader.expect(":", f"':' and the size of section {name}")
        size = reader.number(f"the size of section {name}")
        split = None
        if reader.accept("."):
            split = _SPLITS[reader.choose(tuple(_SPLITS), f"a split: {', '.join(_SPLITS)}")]
        found.append((start, name, size, split))
        if not reader.accept(","):
            break
    reader.expect("]", "',' and a section, or ']'")
    short = all(split is None for _, _, _, split in found)
    if short:
        reader.expect(".", ".sect, or a split of each section such as x:8.even")
        reader.choose(("sect",), ".sect, or a split of each section such as x:8.even")
    elif any(split is None for _, _, _, split in found):
        reader.index -= 1
        reader.fail("a split of each section, or of none and .sect")
    return tuple(reader.make(start, Section, name, size, split or Split.EVEN) for start, name, size, split in found)


def _parse_field(reader: Tokens, fields: dict[str, object]) -> None:
    """One field after the element; each may be given once, in any order."""
    start = reader.index
    word = reader.found
    reader.index += bool(word)
    if word in _MOVES or word == "moves":
        reader.index = start
        key, value = "moves", _parse_moves(reader)
    elif word in _NUMBERS:
        key, value = _NUMBERS[word], reader.enclosed("a number")
    elif word in _FLAGS:
        key, value = _FLAGS[word], True
    elif word == "fused":
        reader.expect("(", "'(' and a name")
        key, value = "fused", reader.name("the name of a fused region")
        reader.expect(")", "')'")
    elif word == "ids":
        mul = 1 if reader.sees("m") else reader.number("ids such as 2m+1")
        reader.expect("m", "ids such as 2m+1")
        key, value = "ids", (mul, reader.number("a number") if reader.accept("+") else 0)
    elif word == "alias":
        key, value = "alias", reader.layers()
    else:
        reader.index = start
        reader.fail(f"one of {', '.join(_FIELDS)}", _FIELDS)
    if key in fields:
        reader.index = start
        reader.fail("each field once")
    fields[key] = value


def _parse_moves(reader: Tokens) -> tuple[Move, ...]:
    """Rules joined by ``|``; ``moves()`` is no rule at all."""
    if reader.accept("moves"):
        reader.expect("(", "'()'")
        reader.expect(")", "')'")
        return ()
    moves: list[Move] = []
    while not moves or reader.accept("|"):
        start = reader.position
        state = _MOVES[reader.choose(tuple(_MOVES), f"a move: {', '.join(_MOVES)}")]
        inputs: list[str] = []
        side = ""
        if state is MoveState.DERIVED:
            reader.expect("(", "'(' and the roles it comes from")
            inputs.append(reader.name("a role"))
            while reader.accept(","):
                inputs.append(reader.name("a role"))
            reader.expect(")", "',' and a role, or ')'")
        elif state is MoveState.OPTIONAL:
            reader.expect("(", "'(' and context, generation or either")
            side = reader.choose(("context", "generation", "either"), "context, generation or either")
            reader.expect(")", "')'")
        layers = reader.layers() if reader.accept("@") else None
        moves.append(reader.make(start, Move, state, layers, tuple(inputs), side))
    return tuple(moves)
