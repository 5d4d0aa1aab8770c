"""The identity of a stored buffer in pieces: neighbours on a rank that are neighbours in the whole.

A piece is a stretch of local bytes whose global offsets rise with them, byte by byte. Pieces are
compressed from the held indices of each axis; no byte is looked at.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from oracle.model.axes import Axis, Grid
from oracle.model.buffers import Part
from oracle.model.counts import in_bytes, ordered_axes
from oracle.truth.holders import Seat, held_indices


class Pieces(NamedTuple):
    """``start``: local offset, ``ident``: global offset there, ``length`` in bytes, ``row`` (int64, n each).

    ``row`` is the last token, in the block, of the piece's row; -1 without a token axis, and where
    pieces were not kept apart by row.
    """

    start: np.ndarray
    ident: np.ndarray
    length: np.ndarray
    row: np.ndarray


def cut(start: np.ndarray, length: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Cut stretches at ``bounds`` (ascending): (origin, shift from its start, length) in order; None: none to cut."""
    end = start + length
    low = np.searchsorted(bounds, start, side="right")
    count = np.searchsorted(bounds, end, side="left") - low + 1
    if len(count) == 0 or count.max() <= 1:
        return None
    np.maximum(count, 1, out=count)
    origin = np.repeat(np.arange(len(start)), count)
    nth = np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count)
    inner = low[origin] + nth
    last = len(bounds) - 1
    here = np.where(nth == 0, start[origin], bounds[np.clip(inner - 1, 0, last)])
    until = np.where(nth == count[origin] - 1, end[origin], bounds[np.clip(inner, 0, last)])
    return origin, here - start[origin], until - here


@lru_cache(maxsize=4096)
def stored_pieces(
    parts: tuple[Part, ...],
    bits: tuple[int, ...],
    pages: int,
    rows: int,
    layout: str,
    tp: Seat,
    tpcp: Seat,
    by_row: bool,
) -> tuple[Pieces, int]:
    """(pieces of a buffer that a rank at these seats stores, in stored order; bytes in all).

    ``pages`` sub-pages of ``rows`` token rows. ``by_row``: no piece spans two token rows.
    """
    found: list[Pieces] = []
    local = 0
    for page in range(pages):
        whole = 0
        for part, width in zip(parts, bits, strict=True):
            axes, unit = in_bytes(part.axes, width)
            steps: dict[str, int] = {}
            size = unit
            for axis in reversed(axes):
                steps[axis.name] = size
                size *= pages * rows if axis.is_token else axis.size
            pieces, stored = _first(unit), unit
            for axis in reversed(ordered_axes(Part(axes, 8), layout)):
                if axis.is_token:
                    held = np.arange(page * rows, (page + 1) * rows)
                else:
                    held = held_indices(axis, tp if axis.grid is Grid.TP else tpcp)
                pieces = _along(pieces, stored, axis, held, steps[axis.name], by_row)
                stored *= len(held)
            found.append(pieces._replace(start=pieces.start + local, ident=pieces.ident + whole))
            local += stored
            whole += size
    return join(Pieces(*[np.concatenate(column) for column in zip(*found, strict=True)])), local


def _first(unit: int) -> Pieces:
    nothing = np.zeros(1, dtype=np.int64)
    return Pieces(nothing, nothing, nothing + unit, nothing - 1)


def _along(pieces: Pieces, stored: int, axis: Axis, held: np.ndarray, step: int, by_row: bool) -> Pieces:
    """``pieces`` of ``stored`` bytes, once for each held index of the next outer axis."""
    count = len(held)
    rows_apart = axis.is_token and by_row
    if not rows_apart and count and len(pieces.start) == 1 and pieces.length[0] == stored == step:
        breaks = np.flatnonzero(np.diff(held) != 1) + 1
        firsts = np.concatenate((np.zeros(1, dtype=np.int64), breaks))
        ends = np.concatenate((breaks, np.array([count])))
        return Pieces(
            firsts * stored,
            held[firsts] * step + pieces.ident[0],
            (ends - firsts) * stored,
            np.repeat(pieces.row, len(firsts)),
        )
    row = np.tile(pieces.row, count)
    if rows_apart:
        row = np.repeat((held + 1) * axis.tokens_per_row - 1, len(pieces.start))
    return Pieces(
        (np.arange(count)[:, None] * stored + pieces.start).ravel(),
        (held[:, None] * step + pieces.ident).ravel(),
        np.tile(pieces.length, count),
        row,
    )


def join(pieces: Pieces) -> Pieces:
    """``pieces``, in local order, with neighbours joined that follow each other on both sides and are of one row."""
    start, ident, length, row = pieces
    if len(start) < 2:
        return pieces
    follows = (start[:-1] + length[:-1] == start[1:]) & (ident[:-1] + length[:-1] == ident[1:]) & (row[:-1] == row[1:])
    if not follows.any():
        return pieces
    firsts = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(~follows) + 1))
    return Pieces(start[firsts], ident[firsts], np.add.reduceat(length, firsts), row[firsts])
