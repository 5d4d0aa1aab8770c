"""The identity of every byte of a buffer: its offset in the buffer as a whole, before anybody split it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oracle.model.axes import Axis, Grid
from oracle.model.buffers import Buffer, Part
from oracle.model.counts import in_bytes, order_axes, sub_pages
from oracle.truth.holders import Seat, held_indices

Whole = tuple[tuple[Axis, ...], tuple[int, ...], int]
"""axes with whole-byte elements in declared order, their global lengths, bytes an element"""


@lru_cache(maxsize=8192)
def global_axes(buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int) -> tuple[Whole, ...]:
    """The axes of each part as they are before any split."""
    pages, rows = sub_pages(buffer, tokens_per_block)
    found: list[Whole] = []
    for part, width in zip(buffer.parts, bits, strict=True):
        axes, unit = in_bytes(part.axes, width)
        found.append((axes, tuple(pages * rows if axis.is_token else axis.size for axis in axes), unit))
    return tuple(found)


@lru_cache(maxsize=8192)
def global_bytes(buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int) -> int:
    """Bytes of the buffer as a whole for one block or one request."""
    total = 0
    for _, lengths, unit in global_axes(buffer, bits, tokens_per_block):
        size = unit
        for length in lengths:
            size *= length
        total += size
    return total


def stored_identity(
    parts: tuple[Part, ...], bits: tuple[int, ...], pages: int, rows: int, layout: str, tp: Seat, tpcp: Seat
) -> tuple[np.ndarray, np.ndarray]:
    """``stored_identities`` of one rank: (global byte offsets, last tokens of their rows), both int64."""
    ids, last = stored_identities(parts, bits, pages, rows, layout, ((tp, tpcp),))
    return ids[0], last


@lru_cache(maxsize=8192)
def stored_identities(
    parts: tuple[Part, ...],
    bits: tuple[int, ...],
    pages: int,
    rows: int,
    layout: str,
    seats: tuple[tuple[Seat, Seat], ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Identity of every byte that ranks at these seats (of the TP and TPCP grids) store of a buffer, in stored order.

    ``pages`` sub-pages of ``rows`` token rows; all seats store equally many bytes. Returns (global
    byte offset: seats x bytes, last token in the block of the byte's row: bytes, -1 without a token
    axis), both int64.
    """
    offsets: list[np.ndarray] = []
    last_tokens: list[np.ndarray] = []
    for page in range(pages):
        start = 0
        for part, width in zip(parts, bits, strict=True):
            axes, unit = in_bytes(part.axes, width)
            steps: dict[str, int] = {}
            size = unit
            for axis in reversed(axes):
                steps[axis.name] = size
                size *= pages * rows if axis.is_token else axis.size
            stored = order_axes(axes, layout)
            offset = np.full((1,) * (len(stored) + 2), start, dtype=np.int64)
            shape = [1] * (len(stored) + 2)
            for place, axis in enumerate(stored, 1):
                held = _held(axis, page, rows, seats)
                shape[0], shape[place] = len(held), held.shape[1]
                offset = offset + (held * steps[axis.name]).reshape(shape)
                shape[0] = shape[place] = 1
            offset = offset + np.arange(unit)
            offsets.append(offset.reshape(len(offset), -1))
            last_tokens.append(_last_tokens(stored, offset.shape[1:], page, rows))
            start += size
    height = max([len(offset) for offset in offsets])
    wide = [offset if len(offset) == height else offset.repeat(height, axis=0) for offset in offsets]
    ids = wide[0] if len(wide) == 1 else np.concatenate(wide, axis=1)
    if len(ids) < len(seats):
        ids = ids.repeat(len(seats), axis=0)
    return _frozen(ids), _frozen(last_tokens[0] if len(last_tokens) == 1 else np.concatenate(last_tokens))


def _held(axis: Axis, page: int, rows: int, seats: tuple[tuple[Seat, Seat], ...]) -> np.ndarray:
    """Global indices of an axis, in stored order: seats x indices, or 1 x indices where all hold the same."""
    if axis.is_token:
        return np.arange(page * rows, (page + 1) * rows)[None]
    if not axis.is_split:
        return np.arange(axis.size)[None]
    return np.array([held_indices(axis, tp if axis.grid is Grid.TP else tpcp) for tp, tpcp in seats])


def _last_tokens(stored: tuple[Axis, ...], shape: tuple[int, ...], page: int, rows: int) -> np.ndarray:
    """Last token of each byte's row; ``shape`` is that of the stored axes and the bytes of an element."""
    for place, axis in enumerate(stored):
        if axis.is_token:
            last = (np.arange(page * rows, (page + 1) * rows) + 1) * axis.tokens_per_row - 1
            inner = 1
            for length in shape[place + 1 :]:
                inner *= length
            outer = 1
            for length in shape[:place]:
                outer *= length
            return np.tile(last.repeat(inner), outer)
    total = 1
    for length in shape:
        total *= length
    return np.full(total, -1, dtype=np.int64)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


Indices = tuple[tuple[str, int], ...]


@lru_cache(maxsize=8192)
def place_of_offset(
    buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int, offset: int
) -> tuple[int, Indices, int]:
    """(part of the buffer, ((axis, global index), ...), byte in the element) of one global byte offset."""
    for part, (axes, lengths, unit) in enumerate(global_axes(buffer, bits, tokens_per_block)):
        size = unit
        for length in lengths:
            size *= length
        if offset < size:
            element, byte = divmod(offset, unit)
            indices: list[tuple[str, int]] = []
            for axis, length in zip(reversed(axes), reversed(lengths), strict=True):
                element, index = divmod(element, length)
                indices.append((axis.name, index))
            return part, tuple(reversed(indices)), byte
        offset -= size
    raise IndexError(offset)
