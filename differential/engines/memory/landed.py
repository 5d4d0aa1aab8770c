"""Judging what landed: the words of the destination's memory against the identities that were due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from differential.engines.memory.arena import Arena
from differential.engines.memory.describe import Describer
from differential.engines.memory.planes import Planes
from differential.engines.memory.reach import Beyond
from oracle.model.writes import Writes
from oracle.truth.elements import Truth
from oracle.truth.reserved import FOREIGN
from oracle.truth.verdict import Kind, Outcome, Verdict, Violation

NOTHING = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Landing:
    """The memory of both sides after every digit plane was carried.

    ``words``: one for each arena position of the destination. ``changed``: source positions that
    are no longer what they were. ``asked``: the words that the plan brings, None where no plan is
    known. ``beyond``: runs of the plan that no memory has room for. ``mover``: what carried it.
    """

    planes: Planes
    words: np.ndarray
    changed: np.ndarray = field(default_factory=lambda: NOTHING)
    asked: np.ndarray | None = None
    beyond: Beyond = field(default_factory=list)
    mover: str = "engine"


def judge_landed(
    landing: Landing, writes: Writes, *, refused: frozenset[int] = frozenset(), elects: bool = True
) -> Verdict:
    """The verdict on the destination's memory.

    ``writes``: the plan, or an empty one. ``refused``: requests of which nothing is due and nothing
    may come. ``elects``: whether the plan elects as the case does; violations then name the elected
    sender, and what is native only may be left out.

    Per byte: out of bounds (a guard changed, or a guard of the source arrived), then nothing more;
    stale source; stray, then nothing more; wrong element or torn. A due byte is missing only if
    nothing reached it; so is an optional one that the plan brings.

    Whether the plan is wrong or was carried out wrongly is told by the words that it asks for: the
    violations of the latter say so in their notes, and the verdict's reason in either case. A source
    that was changed, and a byte that is not what the plan brings, fail whatever else landed.
    """
    planes, words = landing.planes, landing.words
    expected, due = planes.expected, planes.due
    if planes.native_only is not None and not elects:
        due = due | planes.native_only
    if refused:
        gone = planes.destination.spread(np.isin(planes.truth.owner, list(refused)), False)
        expected, due = expected.copy(), due.copy()
        expected[gone], due[gone] = planes.never, False
    untouched = words == planes.never
    wrong = words != expected
    wrong &= ~untouched | due
    otherwise = 0
    if landing.asked is not None:
        differs = words != landing.asked
        otherwise = int(np.count_nonzero(differs))
        if otherwise:
            wrong |= differs & untouched & (expected != planes.never)
    trouble = np.flatnonzero(wrong)
    nbytes = int(len(words) - planes.destination.guards - np.count_nonzero(untouched))
    if not (len(trouble) or landing.beyond or len(landing.changed) or otherwise):
        return Verdict(Outcome.PASS, nbytes=nbytes, runs=writes.run_count, refusals=writes.refusals)
    violations: list[Violation] = []
    counts: dict[Kind, int] = {}
    for violation in _cut_off(planes.truth, writes, landing.beyond):
        counts[violation.kind] = counts.get(violation.kind, 0) + violation.nbytes
        violations.append(violation)
    tell = Describer(planes, words, expected, landing.asked, elects)
    for kind, positions in _sorted_out(planes, words, expected, trouble):
        if len(positions):
            counts[kind] = counts.get(kind, 0) + len(positions)
            tell(kind, positions, violations)
    return Verdict(
        Outcome.FAIL,
        tuple(violations),
        counts,
        nbytes=nbytes,
        runs=writes.run_count,
        reason="; ".join(_reasons(landing, otherwise, bool(counts))),
        refusals=writes.refusals,
    )


def _sorted_out(
    planes: Planes, words: np.ndarray, expected: np.ndarray, trouble: np.ndarray
) -> Iterator[tuple[Kind, np.ndarray]]:
    """Positions in trouble by kind of violation, in the fixed order."""
    came, wanted = words[trouble], expected[trouble]
    numbers = planes.numbers_of(came)
    outside = (wanted == planes.guard) | (numbers == len(planes.ids))
    missing = came == planes.never
    arrived = ~outside & ~missing
    known = arrived & (numbers >= 0)
    forbidden = wanted == planes.never
    stale = np.zeros(len(trouble), dtype=bool)
    stale[known] = planes.ids[numbers[known]] == FOREIGN
    yield Kind.OUT_OF_BOUNDS, trouble[outside]
    yield Kind.STALE_SOURCE, trouble[stale]
    yield Kind.STRAY, trouble[arrived & forbidden]
    yield Kind.WRONG_ELEMENT, trouble[known & ~forbidden]
    yield Kind.TORN, trouble[arrived & ~forbidden & (numbers < 0)]
    yield Kind.MISSING, trouble[missing & ~outside]


def _cut_off(truth: Truth, writes: Writes, beyond: Beyond) -> Iterator[Violation]:
    for number, nbytes in beyond:
        segment = writes.segments[number]
        yield Violation(
            Kind.OUT_OF_BOUNDS,
            nbytes,
            segment.request,
            segment.source_rank,
            segment.destination_rank,
            segment.group,
            paired=truth.heard[segment.request].get(segment.destination_rank, ()),
            note="runs of a rank or pool that does not exist, or far outside it, were not carried",
        )


def _reasons(landing: Landing, otherwise: int, violated: bool) -> Iterator[str]:
    """Who is at fault, as far as a plan is known, and what was done to the source, which may only be read."""
    mover = landing.mover
    if otherwise:
        yield f"the {mover} did not carry the plan out: {otherwise:,} B of the destination are not what it brings"
    elif landing.asked is not None and violated:
        yield f"the {mover} carried the plan out as it is: the plan is wrong"
    if len(landing.changed):
        yield _overwritten(landing.planes.source_arena, landing.changed, mover)


def _overwritten(arena: Arena, positions: np.ndarray, mover: str) -> str:
    rank, pool, offset = arena.locate(int(positions[0]))
    slot, within = divmod(offset, arena.flat.side.tables[rank].pools[pool].slot_stride)
    return (
        f"the {mover} changed {len(positions)} B of the source, the first at pool {pool} slot {slot} +{within} "
        f"of context rank {rank}"
    )
