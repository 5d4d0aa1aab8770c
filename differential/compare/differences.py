"""The bytes that two plans do not write alike, gathered by buffer, block, senders and verdict."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from differential.compare.records import BOTH, FIRST, NEITHER, SECOND, ByteDifference
from oracle.model.case import Case
from oracle.model.writes import Writes
from oracle.truth.blocks import DUE
from oracle.truth.elements import Key, Truth
from oracle.truth.findings import Located
from oracle.truth.identity import global_axes
from oracle.truth.intervals.known import unite
from oracle.truth.runs import byte_offsets, exists, runs_of
from oracle.truth.stacks import FlatSide

RIGHT = (NEITHER, FIRST, SECOND, BOTH)
NOWHERE = -1 << 62
"""no source address of any plan"""

Place = tuple[int | None, int | None, str | None]
"""(group, layer, role) of a buffer, or None for all three"""


def written_runs(truth: Truth, writes: Writes, without: frozenset[int]) -> np.ndarray:
    """Runs as rows (destination address, source address, bytes, source rank, destination rank), sorted and merged.

    Requests ``without`` are left out. Addresses are flat; those of ranks or pools that do not exist
    lie beyond the memory.
    """
    segments = [each for each in writes.segments if each.request not in without] if without else writes.segments
    if not segments:
        return np.empty((0, 5), dtype=np.int64)
    owner, source, target, nbytes = runs_of(segments)
    places = [
        (
            _start(truth.generation, each.destination_rank, each.destination_pool),
            _start(truth.context, each.source_rank, each.source_pool),
            0,
            each.source_rank,
            each.destination_rank,
        )
        for each in segments
    ]
    table = np.array(places, dtype=np.int64).T[:, owner]
    table[0] += target
    table[1] += source
    table[2] = nbytes
    if (nbytes <= 0).any():
        table = table[:, nbytes > 0]
    if not table.shape[1]:
        return table.T
    table = table[:, np.lexsort((table[1], table[0]))]
    before, after = table[:, :-1], table[:, 1:]
    joined = (before[:2] + before[2] == after[:2]).all(axis=0) & (before[3:] == after[3:]).all(axis=0)
    heads = np.flatnonzero(np.concatenate(([True], ~joined)))
    merged = table[:, heads]
    merged[2] = np.add.reduceat(table[2], heads)
    return merged.T


def _start(flat: FlatSide, rank: int, pool: int) -> int:
    if exists(flat, rank, pool):
        return flat.starts[rank][pool]
    return flat.size + 1 + ((abs(rank) + 1) * 64 + abs(pool)) * (flat.size + 1)


def compare_bytes(truth: Truth, one: np.ndarray, two: np.ndarray) -> tuple[ByteDifference, ...]:
    """Differences between two tables of :func:`written_runs`; none where only their cutting differs."""
    rows = np.concatenate(_not_in_both(one, two))
    if not len(rows):
        return ()
    addresses = _addresses(rows)
    plans = [_onto(addresses, table) for table in (one, two)]
    chosen = _unlike(plans, len(addresses))
    if not len(chosen):
        return ()
    return _Gathered(truth, addresses, plans, chosen).differences()


def _distinct(values: np.ndarray) -> np.ndarray:
    """The different ``values``, ascending, found by sorting: ``np.unique`` hashes, and is slow over addresses."""
    values = np.sort(values)
    return values[np.concatenate(([True], values[1:] != values[:-1]))] if len(values) else values


def _not_in_both(one: np.ndarray, two: np.ndarray) -> list[np.ndarray]:
    """The rows of each table that are not rows of the other."""
    # As byte strings rows are looked up faster than numpy sorts them.
    texts = [
        np.ascontiguousarray(table).view(f"V{table.shape[1] * table.itemsize}").ravel().tolist() for table in (one, two)
    ]
    known = [set(text) for text in texts]
    return [
        table[[text not in other for text in own]]
        for table, own, other in zip((one, two), texts, reversed(known), strict=True)
    ]


def _addresses(rows: np.ndarray) -> np.ndarray:
    """The addresses that any of the rows writes, ascending, each once."""
    starts, ends = unite(rows[:, 0], rows[:, 0] + rows[:, 2])
    return byte_offsets(starts, ends - starts)


class _Onto:
    """What one plan writes onto n addresses, one entry a byte written, ascending by address.

    ``at`` is the index of the address, ``source`` and ``rank`` where the byte comes from,
    ``destination`` the rank that the plan means.
    """

    __slots__ = ("at", "destination", "rank", "source")

    def __init__(self, at: np.ndarray, source: np.ndarray, rank: np.ndarray, destination: np.ndarray) -> None:
        self.at = at
        self.source = source
        self.rank = rank
        self.destination = destination


def _onto(addresses: np.ndarray, table: np.ndarray) -> _Onto:
    """All that a plan writes onto ``addresses`` (ascending), other than the difference too."""
    low = np.searchsorted(addresses, table[:, 0])
    high = np.searchsorted(addresses, table[:, 0] + table[:, 2])
    table = table[low < high]
    lengths = table[:, 2]
    target = byte_offsets(table[:, 0], lengths)
    at = np.searchsorted(addresses, target)
    kept = np.flatnonzero(addresses[np.minimum(at, len(addresses) - 1)] == target)
    order = kept[np.argsort(at[kept], kind="stable")] if (at[1:] < at[:-1]).any() else kept
    columns = byte_offsets(table[:, 1], lengths), np.repeat(table[:, 3], lengths), np.repeat(table[:, 4], lengths)
    return _Onto(at[order], *(column[order] for column in columns))


def _unlike(plans: list[_Onto], count: int) -> np.ndarray:
    """Indices of the ``count`` addresses onto which the plans write different sets of source bytes."""
    if all((plan.at[1:] > plan.at[:-1]).all() for plan in plans):
        came = np.full((2, count), NOWHERE, dtype=np.int64)
        for own, plan in zip(came, plans, strict=True):
            own[plan.at] = plan.source
        return np.flatnonzero(came[0] != came[1])
    sources, number = np.unique(np.concatenate([plan.source for plan in plans]), return_inverse=True)
    pairs = np.concatenate([plan.at for plan in plans]) * len(sources) + number.ravel()
    split = len(plans[0].at)
    different = np.setxor1d(_distinct(pairs[:split]), _distinct(pairs[split:]), assume_unique=True)
    return _distinct(different // len(sources)) if len(sources) else different


class _Gathered:
    """Unlike bytes, one entry each in all arrays, and how they are told apart."""

    def __init__(self, truth: Truth, addresses: np.ndarray, plans: list[_Onto], chosen: np.ndarray) -> None:
        self.truth = truth
        place = np.full(len(addresses), -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        addresses = addresses[chosen]
        known = addresses < truth.generation.size
        inside = np.where(known, addresses, 0)
        self.due = np.where(known, truth.due[inside], -1)
        self.request = np.where(known, truth.owner[inside], -1)
        self.senders: list[list[tuple[int, ...]]] = []
        self.sender_codes: list[np.ndarray] = []
        right: list[np.ndarray] = []
        sent: list[np.ndarray] = []
        elected: list[np.ndarray] = []
        self.rank = np.full(len(chosen), -1, dtype=np.int64)
        lacking = ~known | (truth.klass[inside] != DUE)
        due = self.due >= 0
        for plan in plans:
            at = place[plan.at]
            kept = np.flatnonzero(at >= 0)
            at = at[kept]
            count = np.bincount(at, minlength=len(chosen))
            source = np.full(len(chosen), -1, dtype=np.int64)
            sender = np.full(len(chosen), -1, dtype=np.int64)
            source[at], sender[at] = plan.source[kept], plan.rank[kept]
            self.rank[at] = plan.destination[kept]
            exists = (source >= 0) & (source < truth.context.size)
            fits = exists & (count == 1) & (truth.source[np.where(exists, source, 0)] == self.due)
            right.append(np.where(count == 0, lacking | ~due, fits & due))
            sent.append(count > 0)
            elected.append(known & (sender == truth.elected[inside]))
            codes, tuples = _sender_codes(at, plan.rank[kept], count, sender)
            self.sender_codes.append(codes)
            self.senders.append(tuples)
        tie = right[0] & right[1] & sent[0] & sent[1]
        right = [np.where(tie, by_election, own) for own, by_election in zip(right, elected, strict=True)]
        self.right = right[0] + 2 * right[1]
        self.located = Located(truth.generation, inside)
        self.known = known
        self.rank[known] = self.located.rank[known]

    def differences(self) -> tuple[ByteDifference, ...]:
        keys = self.truth.generation_keys
        by_base = tuple(keys.base)
        block, in_block = np.divmod(self.due, keys.width)
        buffer = np.searchsorted(keys.starts, in_block, side="right") - 1
        # Rows past the prompt are of another content, but of the same block.
        block %= keys.ordinals
        names: list[Place] = []
        stray = np.flatnonzero(self.due < 0)
        if len(stray):
            block[stray] = -1
            buffer[stray] = self._places(stray, names)
        head, token = self._indices(buffer, block, in_block)
        columns = [self.rank, buffer, block, *self.sender_codes, self.right, self.request]
        rows = np.stack([*columns, head, token])
        # Bytes that agree mostly stand together: what is sorted are runs of them.
        firsts = np.flatnonzero(np.concatenate(([True], (rows[:, 1:] != rows[:, :-1]).any(axis=0))))
        sizes = np.diff(firsts, append=rows.shape[1])
        rows = rows[:, firsts]
        order = np.lexsort(rows[len(columns) - 1 :: -1])
        rows, sizes = rows[:, order], sizes[order]
        new = (rows[: len(columns), 1:] != rows[: len(columns), :-1]).any(axis=0)
        starts = np.flatnonzero(np.concatenate(([True], new)))
        nbytes = np.add.reduceat(sizes, starts).tolist()
        first, last = (way.reduceat(rows[-1], starts).tolist() for way in (np.minimum, np.maximum))
        heads = rows[-2].tolist()
        told = rows[: len(columns), starts].T.tolist()
        found = []
        for number, (begin, end) in enumerate(pairwise((*starts.tolist(), len(heads)))):
            rank, own, ordinal, one, two, right, request = told[number]
            group, layer, role = by_base[own] if own >= 0 else names[-1 - own]
            found.append(
                ByteDifference(
                    rank,
                    group,
                    None if layer is not None and layer < 0 else layer,
                    role,
                    ordinal if ordinal >= 0 else None,
                    nbytes[number],
                    self.senders[0][one],
                    self.senders[1][two],
                    RIGHT[right],
                    tuple(sorted(set(heads[begin:end]) - {-1})) or None,
                    (first[number], last[number]) if first[number] >= 0 else None,
                    request if request >= 0 else None,
                )
            )
        return tuple(found)

    def _places(self, stray: np.ndarray, names: list[Place]) -> np.ndarray:
        """Numbers, -1 and below, of the places in ``names`` where bytes lie onto which nothing is due."""
        entries: dict[Place, int] = {(None, None, None): 0}
        code = np.zeros(len(stray), dtype=np.int64)
        rank, pool, offset = (each[stray] for each in (self.located.rank, self.located.pool, self.located.offset))
        known = self.known[stray]
        for number, table in enumerate(self.truth.generation.side.tables):
            mine = known & (rank == number)
            if not mine.any():
                continue
            for entry in table.entries:
                here = mine & (pool == entry.pool) & (offset >= entry.offset) & (offset < entry.offset + entry.nbytes)
                code[here] = entries.setdefault((entry.group, entry.layer, entry.role), len(entries))
                mine &= ~here
        places = tuple(entries)
        numbers: dict[int, int] = {}
        for each in code.tolist():
            if each not in numbers:
                numbers[each] = -1 - len(numbers)
                names.append(places[each])
        return np.array([numbers.get(each, 0) for each in range(len(places))], dtype=np.int64)[code]

    def _indices(self, buffer: np.ndarray, block: np.ndarray, in_block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(head, token position) of every byte, -1 for none."""
        starts, steps = _steps(self.truth.case, tuple(self.truth.generation_keys.base.items()))
        part = np.searchsorted(starts, in_block, side="right") - 1
        head_step, heads, row_step, rows, tokens_per_row = steps[part].T
        offset = in_block - starts[part]
        head = np.where((buffer < 0) | (heads == 0), -1, offset // head_step % np.maximum(heads, 1))
        last = block * self.truth.case.generation.tokens_per_block
        last += (offset // row_step % np.maximum(rows, 1) + 1) * tokens_per_row - 1
        return head, np.where((buffer < 0) | (rows == 0), -1, last)


def _steps(case: Case, bases: tuple[tuple[Key, int], ...]) -> tuple[np.ndarray, np.ndarray]:
    """First id in a block of each part of each buffer, and how to read an id's indices off what it is further on.

    Rows (int64): bytes from one head to the next, heads, bytes from one token row to the next, rows, tokens per
    row; where there is no such axis, it has 0 indices.
    """
    instance = case.generation
    starts: list[int] = []
    steps: list[tuple[int, int, int, int, int]] = []
    for (group, layer, role), start in bases:
        buffers = case.model.groups[group].buffers
        buffer = next(each for each in buffers if each.role == role and (layer < 0 or layer in each.layers))
        bits = tuple([instance.bits_of(role, part.bits) for part in buffer.parts])
        for axes, lengths, unit in global_axes(buffer, bits, instance.tokens_per_block):
            head, row = (1, 0), (1, 0)
            step = unit
            for axis, length in zip(reversed(axes), reversed(lengths), strict=True):
                if axis.is_token:
                    row = step, length
                elif axis.name == "H":
                    head = step, length
                step *= length
            starts.append(start)
            steps.append((*head, *row, buffer.tokens_per_row))
            start += step
    return np.array(starts, dtype=np.int64), np.array(steps, dtype=np.int64)


def _sender_codes(
    at: np.ndarray, ranks: np.ndarray, count: np.ndarray, sender: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """(number of its senders by byte, senders by number); 0 is nobody."""
    single = sorted(set(sender[count == 1].tolist()))
    tuples: dict[tuple[int, ...], int] = {(): 0} | {(rank,): code for code, rank in enumerate(single, 1)}
    codes = np.where(count == 1, np.searchsorted(single, sender) + 1, 0)
    several = np.flatnonzero(count > 1)
    if len(several):
        ends = np.cumsum(count)
        by_place: dict[bytes, tuple[int, ...]] = {}
        for index in several.tolist():
            own = ranks[ends[index] - count[index] : ends[index]]
            senders = by_place.get(own.tobytes())
            if senders is None:
                senders = by_place[own.tobytes()] = tuple(sorted(set(own.tolist())))
            codes[index] = tuples.setdefault(senders, len(tuples))
    return codes, list(tuples)
