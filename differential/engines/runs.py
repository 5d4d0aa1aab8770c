"""The runs of a plan as vectors, for engines that move many at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oracle.model.writes import Segment


class Runs(NamedTuple):
    """Where each run starts on either side and how long it is (int64, in plan order)."""

    source: np.ndarray
    destination: np.ndarray
    nbytes: np.ndarray

    def chosen(self, which: np.ndarray) -> Runs:
        """Those that ``which`` (bool or indices) chooses."""
        return Runs(self.source[which], self.destination[which], self.nbytes[which])


def runs_of(segments: list[Segment], source_starts: list[int], destination_starts: list[int]) -> Runs:
    """All runs of some segments, in plan order; the starts are added to each segment's addresses."""
    if not segments:
        none = np.zeros(0, dtype=np.int64)
        return Runs(none, none, none)
    source = [
        np.add.outer(segment.runs[:, 0] + start, segment.source_bases).ravel()
        for segment, start in zip(segments, source_starts, strict=True)
    ]
    destination = [
        np.add.outer(segment.runs[:, 1] + start, segment.destination_bases).ravel()
        for segment, start in zip(segments, destination_starts, strict=True)
    ]
    nbytes = [np.repeat(segment.runs[:, 2], len(segment.source_bases)) for segment in segments]
    found = Runs(np.concatenate(source), np.concatenate(destination), np.concatenate(nbytes))
    return found.chosen(found.nbytes > 0) if (found.nbytes <= 0).any() else found


def are_disjoint(starts: np.ndarray, nbytes: np.ndarray) -> bool:
    """Whether no two runs share a byte: then they may be carried out in any order."""
    order = np.argsort(starts, kind="stable")
    first = starts[order]
    return bool((first[1:] >= (first + nbytes[order])[:-1]).all())


def expand(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """start, start+1, … start+length-1 of every run, one after another."""
    ends = np.cumsum(lengths)
    if not len(ends):
        return np.zeros(0, dtype=np.int64)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])


def in_pieces(runs: Runs, most: int) -> Iterator[Runs]:
    """The runs in order, in pieces of about ``most`` bytes; longer runs are cut."""
    if not len(runs.nbytes):
        return
    if int(runs.nbytes.sum()) <= most:
        yield runs
        return
    parts = -(-runs.nbytes // most)
    number = expand(np.zeros_like(parts), parts)
    rest = np.repeat(runs.nbytes, parts) - number * most
    cut = Runs(
        np.repeat(runs.source, parts) + number * most,
        np.repeat(runs.destination, parts) + number * most,
        np.minimum(rest, most),
    )
    ends = np.cumsum(cut.nbytes)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield cut.chosen(np.arange(start, end))
        start = end
