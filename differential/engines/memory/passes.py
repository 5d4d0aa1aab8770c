"""Digit planes on memory that others allocated: filled before a pass, read after it, judged in the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from differential.engines.memory.foreign import Key, Piece, missing_keys, name_of, positions
from differential.engines.memory.landed import Landing, judge_landed
from differential.engines.memory.landing import asked_by
from differential.engines.memory.planes import Planes, planes_of
from differential.engines.memory.reach import within_reach
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes
from oracle.truth.judge import Election, Padding, check_options
from oracle.truth.verdict import Outcome, Verdict

MOVER = "transfer"


@dataclass(frozen=True, slots=True, eq=False)
class Landed:
    """What some memories held after the transfer of one plane. It can be pickled and sent to whoever judges.

    ``held``: (side, rank, number of the pool or (layer, role), bytes as uint8), guards included.
    """

    plane: int
    guard: int
    held: tuple[tuple[str, int, Key, np.ndarray], ...]


def require_plane(planes: Planes, plane: object) -> None:
    """Raise ``InvalidCase`` for a plane that the case does not have."""
    if type(plane) is not int or not 0 <= plane < planes.passes:
        raise InvalidCase("plane", plane, f"this case has the planes 0..{planes.passes - 1}")


def fill(planes: Planes, pieces: Sequence[Piece], plane: int, guard: int) -> None:
    """Prepare memory for pass ``plane``: identities on the source, nothing on the destination."""
    fresh: np.ndarray | None = None
    for piece in pieces:
        if piece.side == "context":
            values = planes.source[plane]
            where = positions(planes.source_arena, piece.rank, piece.key, guard)
        else:
            fresh = values = planes.fresh_destination(plane) if fresh is None else fresh
            where = positions(planes.destination, piece.rank, piece.key, guard)
        piece.surface.write(values[where])


def read(pieces: Sequence[Piece], plane: int, guard: int) -> Landed:
    """What memory holds after pass ``plane``."""
    return Landed(plane, guard, tuple((p.side, p.rank, p.key, p.surface.read()) for p in pieces))


def judge_passes(
    case: Case,
    landed: Iterable[Landed],
    writes: Writes | Refusal | None = None,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
) -> Verdict:
    """Judge what landed in all passes. ``writes``: the plan that the transfer had, if it is known.

    Not run where a plane or the memory of a receiving rank is not among what landed.
    """
    check_options(padding, election)
    planes = planes_of(case, padding)
    landed = list(landed)
    plan = Writes(refusals=(writes,)) if isinstance(writes, Refusal) else writes or Writes()
    refused = frozenset(refusal.request for refusal in plan.refusals if refusal.request is not None)
    if len(refused) < len(plan.refusals):
        return Verdict(Outcome.NOT_RUN, reason="the plan refuses the instances", refusals=plan.refusals)
    lacking = _lacking(planes, landed)
    if lacking:
        return Verdict(Outcome.NOT_RUN, reason=lacking)
    landing = _put_together(planes, landed, None if writes is None else plan)
    return judge_landed(landing, plan, refused=refused, elects=election == "paired")


def _lacking(planes: Planes, landed: list[Landed]) -> str:
    """What must still be read before anything can be said; raises ``InvalidCase`` for what was read twice."""
    once: set[tuple[int, str, int, Key]] = set()
    for each in landed:
        require_plane(planes, each.plane)
        for side, rank, key, _ in each.held:
            if (each.plane, side, rank, key) in once:
                raise InvalidCase(
                    "landed", f"plane {each.plane} of {name_of(side, rank, key)}", "expected each memory once a plane"
                )
            once.add((each.plane, side, rank, key))
    for plane in range(planes.passes):
        of_plane = [each for each in landed if each.plane == plane]
        if not of_plane:
            return f"plane {plane} of {planes.passes} was not carried"
        for rank, table in enumerate(planes.truth.generation.side.tables):
            keys = {key for each in of_plane for side, whose, key, _ in each.held if (side, whose) == (SIDES[1], rank)}
            missing = missing_keys(table, keys)
            if missing:
                return f"plane {plane} of {planes.passes} was not read from {name_of(SIDES[1], rank, missing[0])}"
    return ""


def _put_together(planes: Planes, landed: list[Landed], writes: Writes | None) -> Landing:
    words = planes.fresh_words()
    came = np.zeros(len(words), dtype=planes.word)
    times_seen = np.zeros(len(words), dtype=np.uint8)
    changed = np.zeros(planes.source_arena.size, dtype=bool)
    for each in landed:
        for side, rank, key, values in each.held:
            if side == SIDES[0]:
                where = positions(planes.source_arena, rank, key, each.guard)
                changed[where] |= values != planes.source[each.plane][where]
            else:
                where = positions(planes.destination, rank, key, each.guard)
                came[where] |= values.astype(planes.word) << planes.word.type(8 * each.plane)
                times_seen[where] += 1
    seen = times_seen == planes.passes
    words[seen] = came[seen]
    asked, beyond = None, []
    if writes is not None:
        plan, beyond = within_reach(writes, planes)
        asked = asked_by(planes, plan)
        asked[~seen] = words[~seen]
    return Landing(planes, words, np.flatnonzero(changed), asked, beyond, MOVER)
