"""The identity of every byte of a buffer: its offset in the buffer as a whole, before anybody split it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oracle.model.axes import Axis, Grid
from oracle.model.buffers import Buffer, Part
from oracle.model.counts import in_bytes, ordered_axes, sub_pages
from oracle.truth.holders import Seat, held_indices

Whole = tuple[tuple[Axis, ...], tuple[int, ...], int]
"""axes with whole-byte elements in declared order, their global lengths, bytes an element"""


def global_axes(buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int) -> list[Whole]:
    """The axes of each part as they are before any split."""
    pages, rows = sub_pages(buffer, tokens_per_block)
    found: list[Whole] = []
    for part, width in zip(buffer.parts, bits, strict=True):
        axes, unit = in_bytes(part.axes, width)
        found.append((axes, tuple(pages * rows if axis.is_token else axis.size for axis in axes), unit))
    return found


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


@lru_cache(maxsize=16384)
def stored_identity(
    parts: tuple[Part, ...], bits: tuple[int, ...], pages: int, rows: int, layout: str, tp: Seat, tpcp: Seat
) -> tuple[np.ndarray, np.ndarray]:
    """Identity of every byte that a rank at these seats stores of a buffer, in stored order.

    ``pages`` sub-pages of ``rows`` token rows. Returns (global byte offset, last token in the block
    of the byte's row; -1 without a token axis), both int64 of the stored length.
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
            offset = np.zeros((), dtype=np.int64)
            token = np.full((), -1, dtype=np.int64)
            for axis in ordered_axes(Part(axes, 8), layout):
                if axis.is_token:
                    held = np.arange(page * rows, (page + 1) * rows)
                    token = token[..., None] * 0 + (held + 1) * axis.tokens_per_row - 1
                else:
                    held = held_indices(axis, tp if axis.grid is Grid.TP else tpcp)
                    token = np.broadcast_to(token[..., None], (*token.shape, len(held)))
                offset = offset[..., None] + held * steps[axis.name]
            offsets.append((start + offset[..., None] + np.arange(unit)).ravel())
            last_tokens.append(np.repeat(token.ravel(), unit))
            start += size
    return _frozen(np.concatenate(offsets)), _frozen(np.concatenate(last_tokens))


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


Indices = tuple[tuple[str, int], ...]


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
