"""Whether two plans are the same but for order and cutting, told from their segments without naming a byte.

Cheap, and right where it says yes. Where it says no, the bytes have to be compared: the same bytes
can be cut into segments in ways that this does not see through.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from differential.managers.facts import Facts, RankFacts
from oracle.model.pages import Pool
from oracle.model.writes import Refusal, Segment, Writes

Runs = tuple[tuple[int, int, int], ...]
"""(source offset, destination offset, bytes) inside a slot, ascending, those that touch on both sides joined."""

Key = tuple[int, int, int, int, int, int, bytes, bytes]
"""Request, group, source rank and pool, destination rank and pool, and the slot bases (int64) on both sides."""

SMALL = 64
"""Runs below which a loop is faster than array arithmetic."""


def are_alike(facts: Facts, first: Writes | Refusal, second: Writes | Refusal) -> bool:
    """Whether both plans name the same pairs and write the same runs, each as often, and refuse nothing.

    Runs that touch on both sides inside one slot count as one. A judge then says the same of both, and
    a comparison finds nothing.
    """
    if isinstance(first, Refusal) or isinstance(second, Refusal) or first.refusals or second.refusals:
        return False
    named = [[(p.request, p.source, p.destination, p.seen_by) for p in plan.pairs] for plan in (first, second)]
    if named[0] != named[1] and sorted(named[0]) != sorted(named[1]):
        return False
    return not unlike_slots(facts, first.segments, second.segments)


def unlike_slots(facts: Facts, first: Iterable[Segment], second: Iterable[Segment]) -> list[Key]:
    """Between which slots the segments of two plans do not name the same runs."""
    first, second = tuple(first), tuple(second)
    one, two = (_by_slots(segments, in_order=True) for segments in (first, second))
    if one.keys() != two.keys():
        one, two = (_by_slots(segments, in_order=False) for segments in (first, second))
    joined: dict[bytes, Runs] = {}
    return [
        key
        for key in dict.fromkeys((*one, *two))
        if key not in one or key not in two or not _same_runs(facts, key, one[key], two[key], joined)
    ]


def _by_slots(segments: Iterable[Segment], *, in_order: bool) -> dict[Key, list[np.ndarray]]:
    """Runs by the slots that they are written between; ``in_order``: slots count in the order in which they stand."""
    found: dict[Key, list[np.ndarray]] = {}
    for segment in segments:
        source, destination = segment.source_bases, segment.destination_bases
        if not len(segment.runs) or not len(source):
            continue
        if not in_order:
            order = np.lexsort((source, destination))
            source, destination = source[order], destination[order]
        key = (
            segment.request,
            segment.group,
            segment.source_rank,
            segment.source_pool,
            segment.destination_rank,
            segment.destination_pool,
            source.tobytes(),
            destination.tobytes(),
        )
        found.setdefault(key, []).append(segment.runs)
    return found


def _same_runs(facts: Facts, key: Key, one: list[np.ndarray], two: list[np.ndarray], joined: dict[bytes, Runs]) -> bool:
    texts = [
        part[0].tobytes() if len(part) == 1 else b"".join([runs.tobytes() for runs in part]) for part in (one, two)
    ]
    if texts[0] == texts[1]:
        return True
    pools = _pool(facts.context, key[2], key[3]), _pool(facts.generation, key[4], key[5])
    if pools[0] is None or pools[1] is None or pools[0].layer_stride or pools[1].layer_stride:
        return False
    tables = []
    for text, part in zip(texts, (one, two), strict=True):
        if text not in joined:
            joined[text] = _joined(part[0] if len(part) == 1 else np.concatenate(part))
        tables.append(joined[text])
    return tables[0] == tables[1] and _stays_in_slots(pools, key, tables[0])


def _stays_in_slots(pools: tuple[Pool | None, ...], key: Key, runs: Runs) -> bool:
    """Whether no run crosses the end of a slot: two runs that touch there are right where a single one is not."""
    for side, pool in enumerate(pools):
        assert pool is not None
        bases = np.frombuffer(key[6 + side], dtype=np.int64)  # type: ignore[arg-type]
        if any(base % pool.slot_stride for base in bases.tolist()):
            return False
        if any(run[side] < 0 or run[side] + run[2] > pool.slot_bytes for run in runs):
            return False
    return True


def _pool(ranks: tuple[RankFacts, ...], rank: int, pool: int) -> Pool | None:
    pools = ranks[rank].table.pools if 0 <= rank < len(ranks) else ()
    return pools[pool] if 0 <= pool < len(pools) else None


def _joined(runs: np.ndarray) -> Runs:
    if len(runs) > SMALL:
        runs = runs[runs[:, 2] != 0]
        runs = runs[np.lexsort((runs[:, 0], runs[:, 1]))]
        touch = (runs[:-1, :2] + runs[:-1, 2:] == runs[1:, :2]).all(axis=1)
        heads = np.flatnonzero(np.concatenate(([True], ~touch)))
        merged = runs[heads]
        merged[:, 2] = np.add.reduceat(runs[:, 2], heads)
        return tuple(map(tuple, merged.tolist()))
    found: list[list[int]] = []
    for run in sorted(runs.tolist(), key=_by_target):
        if not run[2]:
            continue
        last = found[-1] if found else None
        if last is not None and last[0] + last[2] == run[0] and last[1] + last[2] == run[1]:
            last[2] += run[2]
        else:
            found.append(run)
    return tuple(map(tuple, found))


def _by_target(run: list[int]) -> tuple[int, int]:
    return run[1], run[0]
