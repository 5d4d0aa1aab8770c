"""The bytes of a request info: one msgpack map from field names to values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

import msgspec
import numpy as np

from differential.managers.wire.info import KINDS, AnchorInfo, RequestInfo, SuffixInfo, TableInfo, field_names
from differential.managers.wire.lone import check_alone
from differential.managers.wire.trouble import UnreadableRecord, WrongFields, WrongType, WrongValue

_RAW = np.dtype("<i8")
_RAW_LIST = msgspec.msgpack.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Extension:
    """A msgpack extension, which no field is; its ``repr`` says what it holds, not where it lies in memory."""

    code: int
    data: bytes


_ANY = msgspec.msgpack.Decoder(ext_hook=lambda code, data: Extension(code, bytes(data)))
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(info: RequestInfo) -> bytes:
    """``info`` as one msgpack map; every field is written, None as nil, arrays as raw little-endian int64.

    Raises what :func:`check_alone` raises. What depends on the other side is for :func:`check`.
    """
    check_alone(info)
    values: dict[str, object] = {name: getattr(info, name) for name in field_names(type(info))}
    values["block_ids_per_layer_groups"] = [
        slots.astype(_RAW, copy=False).tobytes() for slots in info.block_ids_per_layer_groups
    ]
    return msgspec.msgpack.encode(values)


@overload
def decode(record: bytes, encoding: Literal["tables"]) -> TableInfo: ...
@overload
def decode(record: bytes, encoding: Literal["anchors"]) -> AnchorInfo: ...
@overload
def decode(record: bytes, encoding: Literal["suffix"]) -> SuffixInfo: ...
def decode(record: bytes, encoding: str) -> RequestInfo:
    """The info in ``record``, which must be all of it; the fields may stand in any order.

    Arrays are writable int64 copies. ``encoding`` is a name in ``KINDS``: a record does not say which
    it is. Raises ``UnreadableRecord``, ``WrongFields`` (W1) and what :func:`check_alone` raises.
    """
    kind = KINDS.get(encoding)
    if kind is None:
        raise WrongValue("encoding", encoding, f"expected one of {', '.join(KINDS)}")
    values = _fields(record, field_names(kind))
    values["block_ids_per_layer_groups"] = _arrays(values["block_ids_per_layer_groups"])
    if "first_ordinals" in values:
        ordinals = values["first_ordinals"]
        if type(ordinals) is not list:
            raise WrongType("first_ordinals", ordinals, "expected a list of whole numbers")
        values["first_ordinals"] = tuple(ordinals)
    info = kind(**values)  # type: ignore[arg-type]
    check_alone(info)
    return info


def _fields(record: bytes, names: tuple[str, ...]) -> dict[str, object]:
    """The values in ``record`` by name, which are exactly ``names``, each once."""
    raw = _objects(record)
    found: dict[str, msgspec.Raw] = {}
    for number in range(0, len(raw), 2):
        name = _value(raw[number], f"name of field {number // 2}")
        if type(name) is not str:
            raise WrongType(f"name of field {number // 2}", name, "expected text")
        if name in found:
            raise UnreadableRecord(name, _value(raw[number + 1], name), "expected every field once")
        found[name] = raw[number + 1]
    missing = [name for name in names if name not in found]
    if missing:
        # First: a record of another encoding has a field too many as well, but this is what it lacks.
        rule = "W1" if "first_ordinals" in missing else None
        name = "first_ordinals" if rule else missing[0]
        raise WrongFields(name, "missing", f"expected the fields {', '.join(names)}", rule=rule)
    for name in found:
        if name not in names:
            raise WrongFields(name, _value(found[name], name), f"expected the fields {', '.join(names)}")
    return {name: _value(found[name], name) for name in names}


def _objects(record: bytes) -> list[msgspec.Raw]:
    """Names and values of the map in ``record`` in turn.

    A reader of maps lets the last of two equal names win. But a map of n pairs is, behind its header,
    an array of 2n objects; read as that, it hides nothing.
    """
    if type(record) is not bytes:
        raise WrongType("record", record, "expected bytes")
    first = record[0] if record else 0x80
    size = {0xDE: 3, 0xDF: 5}.get(first, 1)
    if not 0x80 <= first <= 0x8F and size == 1:
        raise WrongType("record", record, "expected one msgpack map")
    count = first & 0x0F if size == 1 else int.from_bytes(record[1:size], "big")
    body = record[size:]
    if not record or len(record) < size or 2 * count > len(body):
        raise UnreadableRecord("record", record, f"expected a whole map, but it ends after {len(record)} bytes")
    try:
        return _RAW_LIST.decode(b"\xdd" + (2 * count).to_bytes(4, "big") + body)
    except _BROKEN as error:
        raise UnreadableRecord("record", record, f"expected one whole map, but {_said(error)}") from None


def _value(raw: msgspec.Raw, name: str) -> object:
    try:
        return _ANY.decode(raw)
    except msgspec.ValidationError as error:
        raise WrongType(name, bytes(raw), f"expected what msgpack has, but {_said(error)}") from None
    except _BROKEN as error:
        raise UnreadableRecord(name, bytes(raw), f"expected what msgpack has, but {_said(error)}") from None


def _said(error: Exception) -> str:
    """What the reader says, without its places: they count in the array that is read, not in the record."""
    return str(error).partition(" (byte ")[0]


def _arrays(values: object) -> tuple[np.ndarray, ...]:
    name = "block_ids_per_layer_groups"
    if type(values) is not list:
        raise WrongType(name, values, "expected a list of arrays, each as bytes")
    found = []
    for group, raw in enumerate(values):
        if type(raw) is not bytes:
            raise WrongType(f"{name}[{group}]", raw, "expected the bytes of an int64 array")
        if len(raw) % _RAW.itemsize:
            accepted = f"expected whole numbers of {_RAW.itemsize} bytes, not {len(raw)} bytes"
            raise WrongValue(f"{name}[{group}]", raw, accepted, rule="W4")
        # A copy: the bytes of a record cannot be written.
        found.append(np.frombuffer(raw, dtype=_RAW).astype(np.int64))
    return tuple(found)
