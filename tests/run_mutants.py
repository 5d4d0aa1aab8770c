"""Plans with one run of one slot altered: what a right plan becomes when one thing goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np

from oracle.model.case import Case
from oracle.model.pages import PageTable, Pool
from oracle.model.sides import lay_out
from oracle.model.writes import Segment, Writes
from oracle.truth.pairing import paired_sources

Row = list[int]
"""source offset, destination offset, bytes"""


class OneRun:
    """One run of one slot of a plan, to be altered: ``segment`` holds its slot, ``row`` is the run inside it."""

    def __init__(self, case: Case, writes: Writes, random: Random) -> None:
        self.case, self.writes, self.random = case, writes, random
        full = [number for number, segment in enumerate(writes.segments) if segment.run_count]
        self.number = random.choice(full)
        self.segment = writes.segments[self.number]
        self.slot = random.randrange(len(self.segment.source_bases))
        self.run = random.randrange(len(self.segment.runs))
        self.row: Row = self.segment.runs[self.run].tolist()
        self.source_base = int(self.segment.source_bases[self.slot])
        self.destination_base = int(self.segment.destination_bases[self.slot])
        self.source_rank = self.segment.source_rank
        self.source_pool = self.segment.source_pool

    def table(self, side: str) -> PageTable:
        rank = self.source_rank if side == "context" else self.segment.destination_rank
        return lay_out(self.case, side).tables[rank]

    def pool(self, side: str) -> Pool:
        pool = self.source_pool if side == "context" else self.segment.destination_pool
        return self.table(side).pools[pool]

    def altered(self, *, together: bool) -> Writes:
        """The plan with this run as it now is.

        ``together``: the slot keeps its other runs in one segment with the altered one, else the run
        gets a segment of its own.
        """
        segment = self.segment
        others = np.delete(np.arange(len(segment.source_bases)), self.slot)
        rest = replace(
            segment,
            source_bases=segment.source_bases[others],
            destination_bases=segment.destination_bases[others],
        )
        here = {
            "source_bases": segment.source_bases[self.slot : self.slot + 1],
            "destination_bases": segment.destination_bases[self.slot : self.slot + 1],
        }
        runs = segment.runs.copy()
        moved = (self.source_base, self.destination_base, self.source_rank, self.source_pool) != (
            int(here["source_bases"][0]),
            int(here["destination_bases"][0]),
            segment.source_rank,
            segment.source_pool,
        )
        if together and not moved:
            runs[self.run] = self.row
            parts = [rest, replace(segment, **here, runs=runs)]
        else:
            parts = [
                rest,
                replace(segment, **here, runs=np.delete(runs, self.run, axis=0)),
                replace(
                    segment,
                    source_rank=self.source_rank,
                    source_pool=self.source_pool,
                    source_bases=np.array([self.source_base]),
                    destination_bases=np.array([self.destination_base]),
                    runs=np.array([self.row]),
                ),
            ]
        return self.with_segments(parts)

    def with_segments(self, parts: list[Segment]) -> Writes:
        segments = self.writes.segments
        return replace(self.writes, segments=(*segments[: self.number], *parts, *segments[self.number + 1 :]))


def cut_short(one: OneRun) -> None:
    one.row[2] -= one.random.randint(1, one.row[2])


def cut_front(one: OneRun) -> None:
    less = one.random.randint(1, one.row[2])
    one.row = [one.row[0] + less, one.row[1] + less, one.row[2] - less]


def lengthen(one: OneRun) -> None:
    one.row[2] += one.random.choice([1, 2, 7, one.row[2], 1000])


def shift_source(one: OneRun) -> None:
    one.row[0] += one.random.choice([-1, 1])


def shift_destination(one: OneRun) -> None:
    one.row[1] += one.random.choice([-1, 1])


def shift_both(one: OneRun) -> None:
    step = one.random.choice([-1, 1])
    one.row[0] += step
    one.row[1] += step


def move_source_slot(one: OneRun) -> None:
    pool = one.pool("context")
    one.source_base = pool.slot_stride * one.random.randrange(pool.count)


def move_destination_slot(one: OneRun) -> None:
    pool = one.pool("generation")
    one.destination_base = pool.slot_stride * one.random.randrange(pool.count)


def read_another_block(one: OneRun) -> None:
    others = [base for base in one.segment.source_bases.tolist() if base != one.source_base]
    if others:
        one.source_base = one.random.choice(others)


def write_another_block(one: OneRun) -> None:
    others = [base for base in one.segment.destination_bases.tolist() if base != one.destination_base]
    if others:
        one.destination_base = one.random.choice(others)


def read_another_request(one: OneRun) -> None:
    """The block of the same number of another request."""
    side = lay_out(one.case, "context").slots[one.source_rank]
    stride = one.pool("context").slot_stride
    blocks = [
        (slots, ordinal)
        for rows in side.values()
        for slots in rows
        for ordinal in np.flatnonzero(slots * stride == one.source_base).tolist()
    ]
    others = [
        int(slots[ordinal])
        for rows in side.values()
        for _, ordinal in blocks[:1]
        for slots in rows
        if ordinal < len(slots) and slots[ordinal] >= 0 and slots[ordinal] * stride != one.source_base
    ]
    if others:
        one.source_base = stride * one.random.choice(others)


def read_free_slot(one: OneRun) -> None:
    pool = one.pool("context")
    held = {
        int(slot)
        for rows in lay_out(one.case, "context").slots[one.source_rank].values()
        for slots in rows
        for slot in slots
    }
    free = [slot for slot in range(pool.count) if slot not in held]
    if free:
        one.source_base = pool.slot_stride * one.random.choice(free)


def leave_bounds(one: OneRun) -> None:
    side = one.random.randrange(2)
    extent = one.table(("context", "generation")[side]).pool_extent(
        (one.source_pool, one.segment.destination_pool)[side]
    )
    base = (one.source_base, one.destination_base)[side]
    one.row[side] = one.random.choice([-1, -base - 1, extent - base - 1, extent - base, extent - base + 5])


def leave_layer(one: OneRun) -> None:
    """The same place in another layer of a layer-major pool, or in none."""
    side = one.random.randrange(2)
    one.row[side] += one.pool(("context", "generation")[side]).layer_stride * one.random.choice([-1, 1, 2])


def ask_another_rank(one: OneRun) -> None:
    """Another source rank, same block, read at the same offset: a replica, or not; paired, or not."""
    topology = one.case.context.topology
    ranks = [rank for rank in range(topology.size) if rank != one.source_rank]
    side = lay_out(one.case, "context")
    if not ranks:
        return
    group = one.segment.group
    own = side.slots[one.source_rank][group]
    slot = one.source_base // one.pool("context").slot_stride
    rank = one.random.choice(ranks)
    theirs = side.slots[rank].get(group)
    if theirs is None or one.source_pool >= len(side.tables[rank].pools):
        return
    for request, slots in enumerate(own):
        where = np.flatnonzero(slots == slot)
        if len(where):
            one.source_rank = rank
            one.source_base = int(theirs[request][where[0]]) * side.tables[rank].pools[one.source_pool].slot_stride
            return


def ask_unpaired_rank(one: OneRun) -> None:
    request = one.case.requests[one.segment.request]
    heard = paired_sources(
        one.case.context.topology, one.case.generation.topology, request.context_dp, request.generation_dp
    )[one.segment.destination_rank]
    ranks = [rank for rank in range(one.case.context.topology.size + 1) if rank not in heard]
    one.source_rank = one.random.choice(ranks)


def ask_another_pool(one: OneRun) -> None:
    one.source_pool = one.random.randrange(-1, len(one.table("context").pools) + 1)


ALTERED: tuple[Callable[[OneRun], None], ...] = (
    cut_short,
    cut_front,
    lengthen,
    shift_source,
    shift_destination,
    shift_both,
    move_source_slot,
    move_destination_slot,
    read_another_block,
    write_another_block,
    read_another_request,
    read_free_slot,
    leave_bounds,
    leave_layer,
    ask_another_rank,
    ask_unpaired_rank,
    ask_another_pool,
)


def drop_run(one: OneRun) -> Writes:
    one.row[2] = 0
    return one.altered(together=False)


def double_run(one: OneRun) -> Writes:
    writes = one.altered(together=False)
    return replace(writes, segments=(*writes.segments, writes.segments[one.number + 2]))


def stray_twice(one: OneRun) -> Writes:
    """The run written twice to some slot, which as a rule is no block of its request."""
    move_destination_slot(one)
    return double_run(one)


def alter_every_slot(one: OneRun) -> Writes:
    """The altered run in all slots of its segment."""
    one.random.choice((cut_short, lengthen, shift_source, shift_destination, leave_bounds))(one)
    runs = one.segment.runs.copy()
    runs[one.run] = one.row
    return one.with_segments([replace(one.segment, runs=runs)])


def double_slot(one: OneRun) -> Writes:
    """One slot written twice by one segment, with the bases of another in between."""
    bases = [*range(len(one.segment.source_bases)), one.slot]
    return one.with_segments(
        [
            replace(
                one.segment,
                source_bases=one.segment.source_bases[bases],
                destination_bases=one.segment.destination_bases[bases],
            )
        ]
    )


def shift_base(one: OneRun) -> Writes:
    """One base that is no slot's start, all runs of its slot moved with it."""
    bases = one.segment.destination_bases.copy()
    bases[one.slot] += one.random.choice([-1, 1, 3])
    return one.with_segments([replace(one.segment, destination_bases=bases)])


def leave_out_pair(one: OneRun) -> Writes:
    return replace(one.writes, pairs=one.writes.pairs[1:])


def double_plan_backwards(one: OneRun) -> Writes:
    """The whole plan twice, the second time with its segments backwards."""
    return replace(one.writes, segments=one.writes.segments + one.writes.segments[::-1])


def absolute(one: OneRun) -> Writes:
    """The segment as runs from the start of the pool, in another order, one of them altered."""
    one.random.choice((cut_short, lengthen, shift_source, shift_destination))(one)
    segment = one.segment
    runs = np.repeat(segment.runs[None], len(segment.source_bases), axis=0).copy()
    runs[one.slot, one.run] = one.row
    runs[:, :, 0] += segment.source_bases[:, None]
    runs[:, :, 1] += segment.destination_bases[:, None]
    order = one.random.sample(range(runs.shape[0] * runs.shape[1]), runs.shape[0] * runs.shape[1])
    nowhere = np.array([0])
    return one.with_segments(
        [replace(segment, source_bases=nowhere, destination_bases=nowhere, runs=runs.reshape(-1, 3)[order])]
    )


WHOLE: tuple[Callable[[OneRun], Writes], ...] = (
    drop_run,
    double_run,
    stray_twice,
    alter_every_slot,
    double_slot,
    shift_base,
    leave_out_pair,
    double_plan_backwards,
    absolute,
)

MUTATIONS = tuple(change.__name__ for change in (*ALTERED, *WHOLE))


def mutant(name: str, case: Case, writes: Writes, random: Random) -> Writes:
    """``writes``, which must write something, with one thing wrong, or by chance nothing."""
    one = OneRun(case, writes, random)
    for change in WHOLE:
        if change.__name__ == name:
            return change(one)
    change = next(change for change in ALTERED if change.__name__ == name)
    change(one)
    return one.altered(together=random.random() < 0.5)
