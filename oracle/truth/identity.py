"""The identity of every byte of a buffer: its offset in the buffer as a whole, before anybody split it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oracle.model.axes import Axis, Grid
from oracle.model.buffers import Buffer
from oracle.model.case import Case
from oracle.model.counts import in_bytes, ordered_axes, sub_pages
from oracle.model.topology import Rank
from oracle.truth.holders import Seat, held_indices, seat


def global_axes(
    buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int
) -> list[tuple[tuple[Axis, ...], tuple[int, ...], int]]:
    """For each part: its axes with whole-byte elements in declared order, their global lengths, bytes an element."""
    pages, rows = sub_pages(buffer, tokens_per_block)
    found = []
    for part, width in zip(buffer.parts, bits, strict=True):
        axes, unit = in_bytes(part.axes, width)
        found.append((axes, tuple(pages * rows if axis.is_token else axis.size for axis in axes), unit))
    return found


@lru_cache(maxsize=8192)
def global_bytes(buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int) -> int:
    """Bytes of the buffer as a whole for one block or one request."""
    return sum(
        int(np.prod(lengths, dtype=np.int64)) * unit for _, lengths, unit in global_axes(buffer, bits, tokens_per_block)
    )


@lru_cache(maxsize=8192)
def stored_identity(
    buffer: Buffer, bits: tuple[int, ...], layout: str, tokens_per_block: int, tp: Seat, tpcp: Seat
) -> tuple[np.ndarray, np.ndarray]:
    """Identity of every byte that a rank at these seats stores of a buffer, in stored order.

    Returns (global byte offset, last token in the block of the byte's row; -1 without a token axis),
    both int64 of the stored length.
    """
    pages, rows = sub_pages(buffer, tokens_per_block)
    offsets: list[np.ndarray] = []
    last_tokens: list[np.ndarray] = []
    for page in range(pages):
        start = 0
        for part, width in zip(buffer.parts, bits, strict=True):
            axes, unit = in_bytes(part.axes, width)
            lengths = {axis.name: pages * rows if axis.is_token else axis.size for axis in axes}
            stored = ordered_axes(type(part)(axes, 8), layout)
            offset = np.zeros((), dtype=np.int64)
            token = np.full((), -1, dtype=np.int64)
            for axis in stored:
                if axis.is_token:
                    held = np.arange(page * rows, (page + 1) * rows)
                    token = token[..., None] * 0 + (held + 1) * axis.tokens_per_row - 1
                else:
                    held = held_indices(axis, tp if axis.grid is Grid.TP else tpcp)
                    token = np.broadcast_to(token[..., None], (*token.shape, len(held)))
                step = 1
                for later in axes[[other.name for other in axes].index(axis.name) + 1 :]:
                    step *= lengths[later.name]
                offset = offset[..., None] + held * step
            whole = offset[..., None] * unit + np.arange(unit)
            offsets.append(start + whole.ravel())
            last_tokens.append(np.repeat(token.ravel(), unit))
            size = unit
            for length in lengths.values():
                size *= length
            start += size
    return _frozen(np.concatenate(offsets)), _frozen(np.concatenate(last_tokens))


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def stored_on(case: Case, side: str, rank: Rank, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
    """``stored_identity`` of a buffer on one rank of a case."""
    instance = case.side(side)
    bits = (
        tuple(instance.bits_of(buffer.role, part.bits) for part in buffer.parts)
        if instance.element_bits
        else _bits(buffer)
    )
    topology = instance.topology
    return stored_identity(
        buffer,
        bits,
        instance.layout_of(buffer.role),
        instance.tokens_per_block,
        seat(topology, rank, Grid.TP),
        seat(topology, rank, Grid.TPCP),
    )


@lru_cache(maxsize=4096)
def _bits(buffer: Buffer) -> tuple[int, ...]:
    return tuple(part.bits for part in buffer.parts)


def place_of_offset(
    buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int, offset: int
) -> tuple[tuple[tuple[str, int], ...], int]:
    """((axis, global index), ...) and the byte in the element of one global byte offset."""
    for axes, lengths, unit in global_axes(buffer, bits, tokens_per_block):
        size = unit
        for length in lengths:
            size *= length
        if offset < size:
            element, byte = divmod(offset, unit)
            indices: list[tuple[str, int]] = []
            for axis, length in zip(reversed(axes), reversed(lengths)):
                element, index = divmod(element, length)
                indices.append((axis.name, index))
            return tuple(reversed(indices)), byte
        offset -= size
    raise IndexError(offset)
