"""The bytes that two plans do not write alike, gathered by buffer, block, senders and verdict."""

from __future__ import annotations

import numpy as np

from differential.compare.records import BOTH, FIRST, NEITHER, SECOND, ByteDifference
from oracle.model.buffers import Buffer
from oracle.model.writes import Writes
from oracle.truth.blocks import DUE
from oracle.truth.elements import Key, Truth
from oracle.truth.findings import Located
from oracle.truth.identity import global_axes
from oracle.truth.runs import byte_offsets

RIGHT = (NEITHER, FIRST, SECOND, BOTH)


def written_runs(truth: Truth, writes: Writes, without: frozenset[int]) -> np.ndarray:
    """Runs as rows (destination address, source address, bytes, source rank, destination rank), sorted and merged.

    Requests ``without`` are left out. Addresses are flat; those of ranks or pools that do not exist
    lie beyond the memory.
    """
    segments = [each for each in writes.segments if each.request not in without] if without else writes.segments
    table = np.empty((5, sum([segment.run_count for segment in segments])), dtype=np.int64)
    end = 0
    for segment in segments:
        begin, end = end, end + segment.run_count
        source = _start(truth.context.starts, truth.context.size, segment.source_rank, segment.source_pool)
        target = _start(
            truth.generation.starts, truth.generation.size, segment.destination_rank, segment.destination_pool
        )
        shape = len(segment.source_bases), len(segment.runs)
        np.add.outer(segment.destination_bases + target, segment.runs[:, 1], out=table[0, begin:end].reshape(shape))
        np.add.outer(segment.source_bases + source, segment.runs[:, 0], out=table[1, begin:end].reshape(shape))
        table[2, begin:end].reshape(shape)[:] = segment.runs[:, 2]
        table[3, begin:end] = segment.source_rank
        table[4, begin:end] = segment.destination_rank
    if (table[2] <= 0).any():
        table = table[:, table[2] > 0]
    if not table.shape[1]:
        return table.T
    table = table[:, np.lexsort((table[1], table[0]))]
    before, after = table[:, :-1], table[:, 1:]
    joined = (before[:2] + before[2] == after[:2]).all(axis=0) & (before[3:] == after[3:]).all(axis=0)
    heads = np.flatnonzero(np.concatenate(([True], ~joined)))
    merged = table[:, heads]
    merged[2] = np.add.reduceat(table[2], heads)
    return merged.T


def _start(starts: list[list[int]], size: int, rank: int, pool: int) -> int:
    if 0 <= rank < len(starts) and 0 <= pool < len(starts[rank]):
        return starts[rank][pool]
    return size + 1 + ((abs(rank) + 1) * 64 + abs(pool)) * (size + 1)


def compare_bytes(truth: Truth, one: np.ndarray, two: np.ndarray) -> tuple[ByteDifference, ...]:
    """Differences between two tables of :func:`written_runs`; none where only their cutting differs."""
    unlike = [_only_in(one, two), _only_in(two, one)]
    rows = np.concatenate(unlike)
    if not len(rows):
        return ()
    addresses = _distinct(byte_offsets(rows[:, 0], rows[:, 2]))
    plans = [_onto(addresses, table) for table in (one, two)]
    chosen = _unlike(plans)
    if not len(chosen):
        return ()
    return _Gathered(truth, addresses, plans, chosen).differences()


def _distinct(values: np.ndarray) -> np.ndarray:
    """The different ``values``, ascending, found by sorting: ``np.unique`` hashes, and is slow over addresses."""
    values = np.sort(values)
    return values[np.concatenate(([True], values[1:] != values[:-1]))] if len(values) else values


def _only_in(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Rows of ``one`` that are not rows of ``two``."""
    if not len(one) or not len(two):
        return one
    _, inverse = np.unique(np.concatenate((two, one)), axis=0, return_inverse=True)
    inverse = inverse.ravel()
    shared = np.zeros(int(inverse.max()) + 1, dtype=bool)
    shared[inverse[: len(two)]] = True
    return one[~shared[inverse[len(two) :]]]


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
    order = kept[np.argsort(at[kept], kind="stable")]
    columns = byte_offsets(table[:, 1], lengths), np.repeat(table[:, 3], lengths), np.repeat(table[:, 4], lengths)
    return _Onto(at[order], *(column[order] for column in columns))


def _unlike(plans: list[_Onto]) -> np.ndarray:
    """Indices of the addresses onto which the plans write different sets of source bytes."""
    sources, number = np.unique(np.concatenate([plan.source for plan in plans]), return_inverse=True)
    pairs = np.concatenate([plan.at for plan in plans]) * len(sources) + number.ravel()
    split = len(plans[0].at)
    different = np.setxor1d(_distinct(pairs[:split]), _distinct(pairs[split:]), assume_unique=True)
    return _distinct(different // len(sources)) if len(sources) else different


class _Gathered:
    """Unlike bytes, one entry each in all arrays, and how they are told apart."""

    def __init__(self, truth: Truth, addresses: np.ndarray, plans: list[_Onto], chosen: np.ndarray) -> None:
        self.truth = truth
        addresses = addresses[chosen]
        known = addresses < truth.generation.size
        inside = np.where(known, addresses, 0)
        self.due = np.where(known, truth.due[inside], -1)
        self.request = np.where(known, truth.owner[inside], -1)
        place = np.full(int(chosen.max()) + 1, -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        self.senders: list[list[tuple[int, ...]]] = []
        self.sender_codes: list[np.ndarray] = []
        right: list[np.ndarray] = []
        sent: list[np.ndarray] = []
        elected: list[np.ndarray] = []
        self.rank = np.full(len(chosen), -1, dtype=np.int64)
        for plan in plans:
            # chosen addresses only; `at` counts them.
            kept = np.flatnonzero(np.concatenate((place, [-1]))[np.minimum(plan.at, len(place))] >= 0)
            at = place[plan.at[kept]]
            count = np.bincount(at, minlength=len(chosen))
            source = np.full(len(chosen), -1, dtype=np.int64)
            sender = np.full(len(chosen), -1, dtype=np.int64)
            source[at], sender[at] = plan.source[kept], plan.rank[kept]
            self.rank[at] = plan.destination[kept]
            known_source = (source >= 0) & (source < truth.context.size)
            element = np.where(known_source, truth.source[np.where(known_source, source, 0)], -1)
            lacking = np.where(known, truth.klass[inside] != DUE, True)
            fits = np.where(count == 0, lacking, (count == 1) & (element == self.due) & known_source)
            right.append(np.where(self.due < 0, count == 0, fits))
            sent.append(count > 0)
            elected.append(known & (sender == truth.elected[inside]))
            codes, tuples = _sender_codes(at, plan.rank[kept], count, sender)
            self.sender_codes.append(codes)
            self.senders.append(tuples)
        tie = right[0] & right[1] & sent[0] & sent[1]
        right = [np.where(tie, by_election, own) for own, by_election in zip(right, elected, strict=True)]
        self.right = right[0] + 2 * right[1]
        self.located = Located(truth.generation, addresses[known])
        self.where = np.full(len(chosen), -1, dtype=np.int64)
        self.where[known] = np.arange(int(known.sum()))
        self.rank[known] = self.located.rank

    def differences(self) -> tuple[ByteDifference, ...]:
        keys = self.truth.generation_keys
        by_base = sorted(keys.base, key=keys.base.__getitem__)
        bases = np.array([keys.base[key] for key in by_base], dtype=np.int64)
        in_block = self.due % keys.width
        buffer = np.where(self.due >= 0, np.searchsorted(bases, in_block, side="right") - 1, -1)
        # Rows past the prompt are of another content, but of the same block.
        block = np.where(self.due >= 0, self.due // keys.width % keys.ordinals, -1)
        stray = np.flatnonzero(self.due < 0)
        places = self._places(stray)
        names = list(dict.fromkeys(places))
        for index, place in zip(stray.tolist(), places, strict=True):
            buffer[index] = -1 - names.index(place)
        order, starts = _groups(
            [self.rank, buffer, block, self.sender_codes[0], self.sender_codes[1], self.right, self.request]
        )
        heads, tokens = self._indices(by_base, bases, buffer, block, in_block)
        ends = [*starts[1:].tolist(), len(order)]
        found = []
        for begin, end in zip(starts.tolist(), ends, strict=True):
            members = order[begin:end]
            index = int(members[0])
            key = by_base[buffer[index]] if buffer[index] >= 0 else names[-1 - buffer[index]]
            of_heads = [head for head in np.unique(heads[members]).tolist() if head >= 0]
            of_tokens = tokens[members]
            owner = int(self.request[index])
            found.append(
                ByteDifference(
                    int(self.rank[index]),
                    key[0],
                    None if key[1] is not None and key[1] < 0 else key[1],
                    key[2],
                    int(block[index]) if block[index] >= 0 else None,
                    len(members),
                    self.senders[0][self.sender_codes[0][index]],
                    self.senders[1][self.sender_codes[1][index]],
                    RIGHT[self.right[index]],
                    tuple(of_heads) or None,
                    (int(of_tokens.min()), int(of_tokens.max())) if (of_tokens >= 0).all() else None,
                    owner if owner >= 0 else None,
                )
            )
        return tuple(found)

    def _places(self, stray: np.ndarray) -> list[tuple[int | None, int | None, str | None]]:
        """(group, layer, role) of bytes where nothing is due, by where they lie."""
        found: list[tuple[int | None, int | None, str | None]] = []
        for where in self.where[stray].tolist():
            place: tuple[int | None, int | None, str | None] = (None, None, None)
            if where >= 0:
                table = self.truth.generation.side.tables[int(self.located.rank[where])]
                pool, offset = int(self.located.pool[where]), int(self.located.offset[where])
                for entry in table.entries:
                    if entry.pool == pool and entry.offset <= offset < entry.offset + entry.nbytes:
                        place = entry.group, entry.layer, entry.role
                        break
            found.append(place)
        return found

    def _indices(
        self, by_base: list[Key], bases: np.ndarray, buffer: np.ndarray, block: np.ndarray, in_block: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(head, token position) of every byte, -1 for none."""
        case = self.truth.case
        heads, tokens = np.full(len(buffer), -1, dtype=np.int64), np.full(len(buffer), -1, dtype=np.int64)
        for number in np.unique(buffer[buffer >= 0]).tolist():
            group, layer, role = by_base[number]
            buffers = case.model.groups[group].buffers
            declared = next(each for each in buffers if each.role == role and (layer < 0 or layer in each.layers))
            chosen = np.flatnonzero(buffer == number)
            size = case.generation.tokens_per_block
            bits = tuple(case.generation.bits_of(role, part.bits) for part in declared.parts)
            head, row = _head_and_row(declared, bits, size, in_block[chosen] - bases[number])
            heads[chosen] = head
            last = block[chosen] * size + (row + 1) * declared.tokens_per_row - 1
            tokens[chosen] = np.where(row >= 0, last, -1)
        return heads, tokens


def _sender_codes(
    at: np.ndarray, ranks: np.ndarray, count: np.ndarray, sender: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """(number of its senders by byte, senders by number); 0 is nobody."""
    tuples: dict[tuple[int, ...], int] = {(): 0}
    codes = np.zeros(len(count), dtype=np.int64)
    for rank in np.unique(sender[count == 1]).tolist():
        codes[(count == 1) & (sender == rank)] = tuples.setdefault((rank,), len(tuples))
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


def _groups(columns: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(indices so that equal rows stand together, where each group starts)."""
    order = np.lexsort(columns[::-1])
    sorted_columns = np.stack(columns)[:, order]
    new = (sorted_columns[:, 1:] != sorted_columns[:, :-1]).any(axis=0)
    return order, np.flatnonzero(np.concatenate(([True], new)))


def _head_and_row(
    buffer: Buffer, bits: tuple[int, ...], tokens_per_block: int, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(index of the head axis, token row) of global byte offsets of ``buffer``; -1 where it has no such axis."""
    head, row = np.full(len(offsets), -1, dtype=np.int64), np.full(len(offsets), -1, dtype=np.int64)
    start = 0
    for axes, lengths, unit in global_axes(buffer, bits, tokens_per_block):
        size = unit * int(np.prod(lengths, dtype=np.int64))
        own = np.flatnonzero((offsets >= start) & (offsets < start + size))
        element = (offsets[own] - start) // unit
        for axis, length in zip(reversed(axes), reversed(lengths), strict=True):
            if axis.is_token:
                row[own] = element % length
            elif axis.name == "H":
                head[own] = element % length
            element = element // length
        start += size
    return head, row
