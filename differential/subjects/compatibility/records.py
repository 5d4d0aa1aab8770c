"""Page tables as records: what one rank tells another of where its buffers lie."""

from __future__ import annotations

import msgspec

from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.pages import Entry, PageTable, Pool

VERSION = 1


class _PoolRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    slot_bytes: int
    count: int
    slot_stride: int
    layer_stride: int
    pool_group: int


class _EntryRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    group: int
    pool: int
    layer: int
    role: str
    offset: int
    nbytes: int


class TableRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A page table in a record."""

    version: int
    pools: list[_PoolRow]
    entries: list[_EntryRow]


def table_row(table: PageTable) -> TableRow:
    return TableRow(
        VERSION,
        [_PoolRow(p.slot_bytes, p.count, p.slot_stride, p.layer_stride, p.pool_group) for p in table.pools],
        [_EntryRow(e.group, e.pool, e.layer, e.role, e.offset, e.nbytes) for e in table.entries],
    )


def table_of(row: TableRow) -> PageTable:
    """The table of a row. Raises ``MalformedFile`` for another version or a table that cannot be."""
    if row.version != VERSION:
        raise MalformedFile("page table record", row.version, f"expected version {VERSION}")
    try:
        pools = tuple(Pool(*(getattr(pool, name) for name in pool.__struct_fields__)) for pool in row.pools)
        entries = tuple(Entry(*(getattr(entry, name) for name in entry.__struct_fields__)) for entry in row.entries)
        if any(not entry.role.isidentifier() for entry in entries):
            raise InvalidCase("entry.role", [entry.role for entry in entries], "expected identifiers")
        return PageTable(pools, entries)
    except InvalidCase as error:
        raise MalformedFile("page table record", str(error), "expected a table that can be") from None


def encode_table(table: PageTable) -> bytes:
    """``table`` as bytes (msgpack), the same for equal tables."""
    return msgspec.msgpack.encode(table_row(table))


def decode_table(record: bytes) -> PageTable:
    """The table in ``record``.

    Raises ``MalformedFile`` for anything but what :func:`encode_table` writes: truncated or longer
    bytes, other types, missing or additional fields, another spelling of the same numbers, and
    tables that cannot be.
    """
    table = table_of(read_row(record, TableRow, "page table record"))
    if encode_table(table) != record:
        raise MalformedFile("page table record", len(record), "expected the one spelling of a table")
    return table


def read_row(record: bytes, row: type, what: str):  # type: ignore[no-untyped-def]
    try:
        return msgspec.msgpack.decode(record, type=row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedFile(what, f"{len(record)} bytes", f"expected a whole record, but {error}") from None
