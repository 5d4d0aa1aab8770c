"""Real memory of both sides: an engine carries a plan out on it, and what landed is judged."""

from __future__ import annotations

import numpy as np

from differential.engines.memory.landed import judge_landed
from differential.engines.memory.planes import GUARD, Planes, planes_of
from differential.engines.memory.reach import within_reach
from differential.engines.protocol import Engine
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Writes
from oracle.truth.judge import Election, Padding
from oracle.truth.verdict import Outcome, Verdict

__all__ = ["GUARD", "Planes", "execute", "planes_of"]


def execute(
    case: Case, writes: Writes, engine: Engine, *, padding: Padding = "optional", election: Election = "paired"
) -> Verdict:
    """Let ``engine`` carry ``writes`` out, digit plane by digit plane, and judge the memory of the destination.

    Memory shows what arrived, not who sent it or how often: duplicates, senders and pairs are judged
    from the plan alone. Bytes beyond the guards cannot be carried; they count as out of bounds.
    ``padding`` as in ``oracle.truth.judge``. ``election``: whether violations name the sender that
    the case elects (``paired``) or not (``own``). Not run where the engine cannot run or the plan
    refuses the instances.
    """
    if padding not in ("optional", "due"):
        raise InvalidCase("padding", padding, "expected optional or due")
    if election not in ("paired", "own"):
        raise InvalidCase("election", election, "expected paired or own")
    reason = engine.available()
    if reason is not None:
        return Verdict(Outcome.NOT_RUN, reason=f"engine {engine.name}: {reason}")
    refused = frozenset(refusal.request for refusal in writes.refusals if refusal.request is not None)
    if len(refused) < len(writes.refusals):
        return Verdict(Outcome.NOT_RUN, reason="the plan refuses the instances", refusals=writes.refusals)
    planes = planes_of(case, padding)
    plan, beyond = within_reach(writes, planes)
    words, changed = carry_out(planes, plan, engine)
    return judge_landed(
        planes, writes, words, beyond=beyond, changed=changed, refused=refused, elects=election == "paired"
    )


def carry_out(planes: Planes, plan: Writes, engine: Engine) -> tuple[np.ndarray, np.ndarray]:
    """(the word at every byte of the destination, arena positions of source bytes that the engine changed).

    ``plan`` counts from the start of the guarded buffers.
    """
    words = np.zeros(planes.destination.size, dtype=np.uint32)
    changed = np.zeros(planes.source_arena.size, dtype=bool)
    for digit in range(planes.passes):
        source, destination = planes.source[digit].copy(), planes.fresh_destination()
        engine.carry(plan, planes.source_arena.buffers(source), planes.destination.buffers(destination))
        words |= destination.astype(np.uint32) << np.uint32(8 * digit)
        changed |= source != planes.source[digit]
    return words, np.flatnonzero(changed)
