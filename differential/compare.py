"""Two plans of one case: equal, or the exact bytes, pairs and refusals in which they differ.

Order and cutting of runs do not count: the set of (source byte, destination byte) does. Pairs are
compared apart from bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes
from oracle.truth.elements import Truth, truth_of
from oracle.truth.findings import Located
from oracle.truth.runs import byte_offsets
from oracle.truth.verdict import Element

BOTH, FIRST, SECOND, NEITHER = "both", "first", "second", "neither"


@dataclass(frozen=True, slots=True)
class ByteDifference:
    """Bytes of one buffer and block of one receiver that the two plans do not write alike.

    ``first_senders`` and ``second_senders`` are the source ranks that write them (empty: nobody).
    ``right`` says which plan the judge calls right there: both, first, second or neither.
    ``heads`` and ``tokens`` are the inclusive ranges touched, None where the buffer has no such axis.
    """

    destination: int
    group: int | None
    layer: int | None
    role: str | None
    ordinal: int | None
    nbytes: int
    first_senders: tuple[int, ...]
    second_senders: tuple[int, ...]
    right: str
    heads: tuple[int, int] | None = None
    tokens: tuple[int, int] | None = None
    request: int | None = None


@dataclass(frozen=True, slots=True)
class PairDifference:
    """A pair that only one plan names, or names as seen by another side."""

    request: int
    source: int
    destination: int
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class RefusalDifference:
    """A request, or the pair of instances (None), that one plan refuses and the other serves."""

    refused_by: str
    code: str
    reason: str
    request: int | None


Difference = ByteDifference | PairDifference | RefusalDifference


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two plans differ in; empty: they write the same bytes from the same ranks."""

    first: str
    second: str
    bytes: tuple[ByteDifference, ...] = ()
    pairs: tuple[PairDifference, ...] = ()
    refusals: tuple[RefusalDifference, ...] = ()

    @property
    def differences(self) -> tuple[Difference, ...]:
        return (*self.refusals, *self.pairs, *self.bytes)

    @property
    def identical(self) -> bool:
        return not (self.bytes or self.pairs or self.refusals)


def compare(
    case: Case,
    first: Writes | Refusal,
    second: Writes | Refusal,
    *,
    names: tuple[str, str] = (FIRST, SECOND),
) -> Comparison:
    """Compare two plans of ``case``. Where both refuse, whatever the reasons, they do not differ."""
    one, two = _as_writes(first), _as_writes(second)
    refusals, settled = _compare_refusals(case, one, two)
    if None in settled:
        return Comparison(*names, refusals=refusals)
    truth = truth_of(case)
    pairs = _compare_pairs(one, two, settled)
    runs = [_runs(truth, writes, settled) for writes in (one, two)]
    if len(runs[0]) == len(runs[1]) and bool((runs[0] == runs[1]).all()):
        return Comparison(*names, pairs=pairs, refusals=refusals)
    return Comparison(*names, _compare_bytes(truth, runs[0], runs[1]), pairs, refusals)


def _as_writes(plan: Writes | Refusal) -> Writes:
    return Writes(refusals=(plan,)) if isinstance(plan, Refusal) else plan


def _compare_refusals(
    case: Case, one: Writes, two: Writes
) -> tuple[tuple[RefusalDifference, ...], frozenset[int | None]]:
    """(differences, requests that at least one plan refuses; None where the pair of instances is)."""
    by_plan = []
    for plan in (one, two):
        refused: dict[int | None, Refusal] = {}
        for refusal in plan.refusals:
            refused.setdefault(refusal.request, refusal)
        by_plan.append(refused)
    found: list[RefusalDifference] = []
    settled: set[int | None] = set()
    whole = [plan.get(None) for plan in by_plan]
    for request in range(len(case.requests)):
        pair = [whole[side] or by_plan[side].get(request) for side in (0, 1)]
        if pair[0] or pair[1]:
            settled.add(request)
        for side, name in ((0, FIRST), (1, SECOND)):
            refusal = pair[side]
            if refusal is not None and pair[1 - side] is None:
                entry = RefusalDifference(name, refusal.code, refusal.reason, refusal.request)
                if entry not in found:
                    found.append(entry)
    if len(settled) == len(case.requests):
        settled.add(None)
    return tuple(found), frozenset(settled)


def _compare_pairs(one: Writes, two: Writes, settled: frozenset[int | None]) -> tuple[PairDifference, ...]:
    named = [
        {(p.request, p.source, p.destination): p.seen_by for p in plan.pairs if p.request not in settled}
        for plan in (one, two)
    ]
    return tuple(
        PairDifference(*key, named[0].get(key, "no"), named[1].get(key, "no"))
        for key in sorted(named[0].keys() | named[1].keys())
        if named[0].get(key) != named[1].get(key)
    )


def _runs(truth: Truth, writes: Writes, settled: frozenset[int | None]) -> np.ndarray:
    """(source address, destination address, bytes, source rank, destination rank) rows, merged and sorted.

    Addresses are flat; those of ranks or pools that do not exist lie beyond the memory.
    """
    rows: list[np.ndarray] = []
    for segment in writes.segments:
        if segment.request in settled:
            continue
        source = _start(truth.context.starts, truth.context.size, segment.source_rank, segment.source_pool)
        target = _start(
            truth.generation.starts, truth.generation.size, segment.destination_rank, segment.destination_pool
        )
        block = np.empty((len(segment.source_bases), len(segment.runs), 5), dtype=np.int64)
        block[:, :, 0] = (segment.source_bases + source)[:, None] + segment.runs[:, 0]
        block[:, :, 1] = (segment.destination_bases + target)[:, None] + segment.runs[:, 1]
        block[:, :, 2] = segment.runs[:, 2]
        block[:, :, 3] = segment.source_rank
        block[:, :, 4] = segment.destination_rank
        rows.append(block.reshape(-1, 5))
    if not rows:
        return np.zeros((0, 5), dtype=np.int64)
    table = np.concatenate(rows)
    table = table[table[:, 2] > 0]
    table = table[np.lexsort((table[:, 0], table[:, 1]))]
    if not len(table):
        return table
    before, after = table[:-1], table[1:]
    joined = (
        (before[:, 0] + before[:, 2] == after[:, 0])
        & (before[:, 1] + before[:, 2] == after[:, 1])
        & (before[:, 3] == after[:, 3])
        & (before[:, 4] == after[:, 4])
    )
    heads = np.flatnonzero(np.concatenate(([True], ~joined)))
    merged = table[heads].copy()
    merged[:, 2] = np.add.reduceat(table[:, 2], heads)
    return merged


def _start(starts: list[list[int]], size: int, rank: int, pool: int) -> int:
    if 0 <= rank < len(starts) and 0 <= pool < len(starts[rank]):
        return starts[rank][pool]
    return size + 1 + ((abs(rank) + 1) * 64 + abs(pool)) * (size + 1)


def _only_in(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Rows of ``one`` that are not rows of ``two``."""
    if not len(one) or not len(two):
        return one
    both, inverse = np.unique(np.concatenate((two, one)), axis=0, return_inverse=True)
    shared = np.zeros(len(both), dtype=bool)
    shared[inverse.ravel()[: len(two)]] = True
    return one[~shared[inverse.ravel()[len(two) :]]]


def _compare_bytes(truth: Truth, one: np.ndarray, two: np.ndarray) -> tuple[ByteDifference, ...]:
    tables = [_expand(_only_in(one, two)), _expand(_only_in(two, one))]
    pairs = [{(s, d): r for s, d, r in table.tolist()} for table in tables]
    if len(pairs[0]) == len(tables[0]) and len(pairs[1]) == len(tables[1]):
        shared = pairs[0].keys() & pairs[1].keys()
    else:
        shared = set()
    by_byte: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for side, table in enumerate(tables):
        for source, target, rank in table.tolist():
            if (source, target) not in shared:
                by_byte.setdefault(target, ([], []))[side].append((source, rank))
    addresses = np.array(sorted(by_byte), dtype=np.int64)
    known = addresses[addresses < truth.generation.size]
    located = Located(truth.generation, known)
    gathered: dict[tuple[object, ...], list[Element | None]] = {}
    for index, address in enumerate(addresses.tolist()):
        writes = by_byte[address]
        senders = tuple(tuple(sorted({rank for _, rank in side})) for side in writes)
        if index >= len(known):
            key: tuple[object, ...] = (-1, None, None, None, None, *senders, NEITHER, None)
            gathered.setdefault(key, []).append(None)
            continue
        due = truth.generation_keys.decode(truth.case, "generation", int(truth.due[address]))
        right = [_is_right(truth, address, side) for side in writes]
        if all(right) and writes[0] and writes[1]:
            right = [any(rank == truth.elected[address] for _, rank in side) for side in writes]
        verdict = {(True, True): BOTH, (True, False): FIRST, (False, True): SECOND, (False, False): NEITHER}
        request = int(truth.owner[address])
        where = (due.group, due.layer, due.role, due.ordinal) if due else _place(truth, located, index)
        asked = request if request >= 0 else None
        key = (int(located.rank[index]), *where, *senders, verdict[right[0], right[1]], asked)
        gathered.setdefault(key, []).append(due)
    return tuple(
        ByteDifference(
            *key[:5],  # type: ignore[arg-type]
            len(elements),
            *key[5:8],  # type: ignore[arg-type]
            heads=_span([dict(e.indices).get("H") for e in elements if e]),
            tokens=_span([e.token for e in elements if e]),
            request=key[8],  # type: ignore[arg-type]
        )
        for key, elements in gathered.items()
    )


def _expand(rows: np.ndarray) -> np.ndarray:
    """(source byte, destination byte, source rank) of every byte of the rows."""
    if not len(rows):
        return np.zeros((0, 3), dtype=np.int64)
    lengths = rows[:, 2]
    return np.stack(
        (byte_offsets(rows[:, 0], lengths), byte_offsets(rows[:, 1], lengths), np.repeat(rows[:, 3], lengths)), axis=1
    )


def _is_right(truth: Truth, address: int, writes: list[tuple[int, int]]) -> bool:
    """Whether these writes leave the byte right: the due element once, or nothing where nothing is due."""
    due = int(truth.due[address])
    if due < 0:
        return not writes
    if not writes:
        return int(truth.klass[address]) != 2
    source = writes[0][0]
    return len(writes) == 1 and source < truth.context.size and int(truth.source[source]) == due


def _place(truth: Truth, located: Located, index: int) -> tuple[int | None, int | None, str | None, int | None]:
    table = truth.generation.side.tables[int(located.rank[index])]
    offset = int(located.offset[index])
    for entry in table.entries:
        if entry.pool == int(located.pool[index]) and entry.offset <= offset < entry.offset + entry.nbytes:
            return entry.group, entry.layer, entry.role, None
    return None, None, None, None


def _span(values: list[int | None]) -> tuple[int, int] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
