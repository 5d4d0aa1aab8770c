"""Who of the paired holders sends which bytes of one buffer: interval algebra, one destination at a time."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from differential.subjects.mapping.geometry import Array, Geometry
from differential.subjects.mapping.merge import Run, merge_few
from differential.subjects.mapping.shares import Atom, Seat, axis_shares, common_atoms


class Sent:
    """The runs of one buffer that one holder sends, from the start of the buffer on both sides."""

    __slots__ = ("_array", "rows")

    def __init__(self, rows: list[Run]) -> None:
        self.rows = rows
        self._array: np.ndarray | None = None

    @property
    def array(self) -> np.ndarray:
        """``rows`` as int64 (n, 3)."""
        if self._array is None:
            self._array = np.array(self.rows, dtype=np.int64).reshape(-1, 3)
        return self._array


class Election(NamedTuple):
    """``sent``: by holder, ``None`` for one that sends nothing; ``unheld``: an index that nobody holds, as text."""

    sent: tuple[Sent | None, ...]
    unheld: str


@lru_cache(maxsize=8192)
def elect(geometry: Geometry, destination: Seat, holders: tuple[Seat, ...], key: int) -> Election:
    """Divide the destination's share of a buffer among ``holders``, the paired sources that have it, in rank order.

    Each index goes to number ``key % n`` of the n holders that have it (spec: mapping, election).
    """
    found: list[list[Run]] = [[] for _ in holders]
    starts = [0] * (len(holders) + 1)
    unheld = ""
    for array in geometry.arrays:
        sizes, lacking = _divide(array, destination, holders, key, starts, found)
        unheld = unheld or lacking
        starts = [start + size for start, size in zip(starts, sizes, strict=True)]
    sent: list[Sent | None] = []
    for holder, rows in enumerate(found):
        if rows and geometry.pages > 1:
            source_step, destination_step = starts[holder], starts[-1]
            rows = [
                (source + page * source_step, destination + page * destination_step, nbytes)
                for page in range(geometry.pages)
                for source, destination, nbytes in rows
            ]
        sent.append(Sent(merge_few(rows)) if rows else None)
    return Election(tuple(sent), unheld)


def _divide(
    array: Array, destination: Seat, holders: tuple[Seat, ...], key: int, starts: list[int], found: list[list[Run]]
) -> tuple[list[int], str]:
    """Add the runs of ``array`` to ``found``; its bytes on each holder and, last, on the destination; an unheld index.

    ``starts`` says where the array begins there.
    """
    counts = [list(array.sizes) for _ in range(len(holders) + 1)]
    choices: list[list[Atom]] = []
    for place in array.split:
        axis = array.axes[place]
        wanted = axis_shares(axis, destination)
        held = tuple([axis_shares(axis, seat) for seat in holders])
        for count, shares in zip(counts, (*held, wanted), strict=True):
            count[place] = len(shares[0]) if len(shares) == 1 else sum(map(len, shares))
        choices.append(common_atoms(wanted, held))
    strides, size = _strides(counts[-1], array.destination_order, array.unit)
    sizes = [size] * (len(holders) + 1)
    by_holder: list[list[int]] = []
    for holder in range(len(holders)):
        own, sizes[holder] = _strides(counts[holder], array.source_order, array.unit)
        by_holder.append(own)
    unheld = ""
    pieces = [0] * len(holders)
    everyone = range(len(holders))
    for atoms in product(*choices):
        candidates = [h for h in everyone if all(atom[3][h] >= 0 for atom in atoms)] if atoms else everyone
        if not candidates:
            unheld = unheld or _name(array, atoms)
            continue
        winner = candidates[key % len(candidates)]
        pieces[winner] += 1
        found[winner] += _runs(array, atoms, winner, by_holder[winner], strides, starts[winner], starts[-1])
    for rows, number in zip(found, pieces, strict=True):
        if number > 1:
            # Atoms interleave wherever the split axis is not the outermost one.
            rows.sort(key=_by_destination)
    return sizes, unheld


def _by_destination(run: Run) -> int:
    return run[1]


def _strides(counts: list[int], order: tuple[int, ...], unit: int) -> tuple[list[int], int]:
    """(bytes from one index of an axis to the next, by place; bytes in all)."""
    strides = [0] * len(counts)
    for place in reversed(order):
        strides[place] = unit
        unit *= counts[place]
    return strides, unit


def _runs(
    array: Array,
    atoms: tuple[Atom, ...],
    holder: int,
    source_strides: list[int],
    strides: list[int],
    source: int,
    destination: int,
) -> list[Run]:
    """The runs of one atom of each split axis, in destination order."""
    lengths = list(array.sizes)
    for place, (_, at, length, places) in zip(array.split, atoms, strict=True):
        lengths[place] = length
        source += places[holder] * source_strides[place]
        destination += at * strides[place]
    nbytes = array.unit
    loops: list[tuple[int, int, int]] = []
    for place in reversed(array.destination_order):
        length = lengths[place]
        if length == 1:
            continue
        if not loops and strides[place] == source_strides[place] == nbytes:
            nbytes *= length
        else:
            loops.append((length, source_strides[place], strides[place]))
    offsets = [(source, destination)]
    for length, source_step, step in reversed(loops):
        offsets = [(s + i * source_step, d + i * step) for s, d in offsets for i in range(length)]
    return [(s, d, nbytes) for s, d in offsets]


def _name(array: Array, atoms: tuple[Atom, ...]) -> str:
    """An index of the split axes, such as ``H=1``; of a replicated array, all of it."""
    return (
        ", ".join(f"{array.axes[place].name}={atom[0]}" for place, atom in zip(array.split, atoms, strict=True))
        or "any index"
    )
