"""Joining runs that continue each other on both sides."""

from __future__ import annotations

import numpy as np

Run = tuple[int, int, int]
"""(source offset, destination offset, bytes)"""


def merge_runs(runs: np.ndarray, *, source_stride: int = 0, destination_stride: int = 0) -> np.ndarray:
    """Join runs adjacent on both sides inside one slot: (n, 3) int64 in, (m <= n, 3) out in destination order.

    ``runs`` are (source offset, destination offset, bytes) from the start of a slot and do not
    overlap on the destination. The strides are the layer strides of layer-major pools, 0 without:
    each layer has a region of its own there, and no slot goes on from one region into the next.
    The set of bytes never changes.
    """
    runs = np.asarray(runs, dtype=np.int64).reshape(-1, 3)
    if len(runs) < 2:
        return runs
    if not bool((runs[1:, 1] > runs[:-1, 1]).all()):
        runs = runs[np.argsort(runs[:, 1], kind="stable")]
    source, destination, nbytes = runs[:, 0], runs[:, 1], runs[:, 2]
    joined = (source[:-1] + nbytes[:-1] == source[1:]) & (destination[:-1] + nbytes[:-1] == destination[1:])
    if source_stride:
        joined &= source[:-1] // source_stride == source[1:] // source_stride
    if destination_stride:
        joined &= destination[:-1] // destination_stride == destination[1:] // destination_stride
    if not joined.any():
        return runs
    starts = np.flatnonzero(np.concatenate((np.ones(1, dtype=bool), ~joined)))
    merged = runs[starts]
    merged[:, 2] = np.add.reduceat(nbytes, starts)
    return merged


def merge_few(runs: list[Run], source_stride: int = 0, destination_stride: int = 0) -> list[Run]:
    """``merge_runs`` for a short list in destination order, where starting NumPy costs more than the work."""
    merged = runs[:1]
    source, destination, nbytes = runs[0]
    for run in runs[1:]:
        if (
            run[0] == source + nbytes
            and run[1] == destination + nbytes
            and (not source_stride or run[0] // source_stride == source // source_stride)
            and (not destination_stride or run[1] // destination_stride == destination // destination_stride)
        ):
            nbytes += run[2]
            merged[-1] = (source, destination, nbytes)
        else:
            source, destination, nbytes = run
            merged.append(run)
    return merged
