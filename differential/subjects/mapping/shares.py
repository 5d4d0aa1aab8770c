"""Which indices of an axis a rank holds, as intervals (spec: kinds, vocabulary).

A share is a ``range`` of global indices in the order they are stored: index i lies at place
``(i - start) // step``. A sectioned axis has one share a section, stored one after another.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

from oracle.model.axes import Axis, Grid, Split
from oracle.model.errors import InvalidCase
from oracle.model.topology import Rank, Topology

Position = tuple[int, int]
"""(part, parts): a rank's place in a grid"""
Seat = tuple[Position, Position]
"""a rank's place in the tensor grid and in the tensor × context grid"""


def seat_of(topology: Topology, rank: Rank) -> Seat:
    """Where ``rank`` sits; attention DP collapses both grids to one part."""
    if topology.attention_dp:
        return (0, 1), (0, 1)
    return (rank.tp, topology.tp), (topology.cp * rank.tp + rank.cp, topology.cp * topology.tp)


def share(size: int, split: Split, part: int, parts: int) -> range:
    """The indices 0..size-1 that part ``part`` of ``parts`` holds."""
    if split is Split.ALL:
        return range(size)
    if split is Split.CYCLIC:
        return range(part, size, parts)
    first = part * size // parts
    if split is Split.HEADS:
        return range(first, first + (size + parts - 1) // parts)
    if split is Split.FLOOR:
        return range(first, max((part + 1) * size // parts, first + 1))
    if size % parts:
        raise InvalidCase("size", size, f"an even split into {parts} parts leaves a remainder")
    return range(first, first + size // parts)


@lru_cache(maxsize=8192)
def axis_shares(axis: Axis, seat: Seat) -> tuple[range, ...]:
    """The share of each section of ``axis``, in indices of the whole axis; one if it has no sections."""
    part, parts = seat[0] if axis.grid is Grid.TP else seat[1]
    if not axis.sections:
        return (share(axis.size, axis.split, part, parts),)
    found: list[range] = []
    start = 0
    for section in axis.sections:
        own = share(section.size, section.split, part, parts)
        found.append(range(own.start + start, own.stop + start, own.step))
        start += section.size
    return tuple(found)


Atom = tuple[int, int, int, tuple[int, ...]]
"""(first global index, first place on the destination, indices, first place on each source or -1)"""


def common_atoms(destination: tuple[range, ...], sources: tuple[tuple[range, ...], ...]) -> list[Atom]:
    """The destination's indices of an axis, cut where the set of sources that hold them changes.

    Shares are given section by section. An atom is contiguous on the destination and on each source
    that holds it; atoms come in destination order and cover all that the destination holds.
    """
    atoms: list[Atom] = []
    base = 0
    bases = [0] * len(sources)
    for section, wanted in enumerate(destination):
        held = [shares[section] for shares in sources]
        if wanted.step == 1 and all(own.step == 1 for own in held):
            _cut(wanted, held, base, bases, atoms)
        else:
            _walk(wanted, held, base, bases, atoms)
        base += len(wanted)
        for i, own in enumerate(held):
            bases[i] += len(own)
    return atoms


def _cut(wanted: range, held: list[range], base: int, bases: list[int], atoms: list[Atom]) -> None:
    """Atoms of one section whose shares are all intervals."""
    low, high = wanted.start, wanted.stop
    cuts = {low, high}
    for own in held:
        if low < own.start < high:
            cuts.add(own.start)
        if low < own.stop < high:
            cuts.add(own.stop)
    ends = sorted(cuts)
    for first, end in itertools.pairwise(ends):
        places = tuple(
            [
                at + first - own.start if own.start <= first < own.stop else -1
                for own, at in zip(held, bases, strict=True)
            ]
        )
        atoms.append((first, base + first - low, end - first, places))


def _walk(wanted: range, held: list[range], base: int, bases: list[int], atoms: list[Atom]) -> None:
    """Atoms of one section with a cyclic share: index by index, joined where places run on together."""
    start = len(atoms)
    for place, index in enumerate(wanted):
        places = tuple(
            [at + (index - own.start) // own.step if index in own else -1 for own, at in zip(held, bases, strict=True)]
        )
        if len(atoms) > start:
            first, at, length, before = atoms[-1]
            if all(now == (-1 if old < 0 else old + length) for old, now in zip(before, places, strict=True)):
                atoms[-1] = (first, at, length + 1, before)
                continue
        atoms.append((index, base + place, 1, places))
