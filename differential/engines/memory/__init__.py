"""Real memory of both sides: an engine carries a plan out on it, and what landed is judged."""

from __future__ import annotations

from dataclasses import dataclass

from differential.engines.memory.arena import GUARD
from differential.engines.memory.difference import MemoryDifference, compare_memory
from differential.engines.memory.landed import Landing, judge_landed
from differential.engines.memory.landing import carry_out
from differential.engines.memory.planes import Planes, planes_of
from differential.engines.memory.room import require_room
from differential.engines.protocol import Engine
from oracle.model.case import Case
from oracle.model.encodings import Encoding
from oracle.model.writes import Writes
from oracle.truth.judge import Election, Padding, check_options
from oracle.truth.verdict import Outcome, Verdict

__all__ = [
    "GUARD",
    "Carried",
    "Landing",
    "MemoryDifference",
    "Planes",
    "carry",
    "compare_memory",
    "execute",
    "planes_of",
    "require_room",
]


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """A plan that an engine carried out: the verdict on what landed, and the memory; None where nothing ran."""

    verdict: Verdict
    landing: Landing | None = None

    @property
    def served_all(self) -> bool:
        """Whether the plan was carried out and refuses no request: then its memory can be compared with another's."""
        return self.landing is not None and not self.verdict.refusals


def carry(
    case: Case,
    writes: Writes,
    engine: Engine,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
    encoding: Encoding = "tables",
) -> Carried:
    """Let ``engine`` carry ``writes`` out, digit plane by digit plane, and judge the memory of the destination.

    Memory shows what arrived, not who sent it or how often: duplicates, senders and pairs are judged
    from the plan alone. Bytes beyond the guards cannot be carried; they count as out of bounds.
    ``padding`` and ``encoding`` as in ``oracle.truth.judge``. ``election``: whether violations name the sender that
    the case elects (``paired``) or not (``own``). Not run where the engine cannot run or the plan
    refuses the instances. Raises ``EngineUnavailable`` where memory does not suffice.
    """
    check_options(padding, election, encoding)
    reason = engine.available()
    if reason is not None:
        return Carried(Verdict(Outcome.NOT_RUN, reason=f"engine {engine.name}: {reason}"))
    refused = frozenset(refusal.request for refusal in writes.refusals if refusal.request is not None)
    if len(refused) < len(writes.refusals):
        return Carried(Verdict(Outcome.NOT_RUN, reason="the plan refuses the instances", refusals=writes.refusals))
    require_room(case, engine)
    landing = carry_out(planes_of(case, padding, encoding != "tables"), writes, engine)
    return Carried(judge_landed(landing, writes, refused=refused, elects=election == "paired"), landing)


def execute(
    case: Case,
    writes: Writes,
    engine: Engine,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
    encoding: Encoding = "tables",
) -> Verdict:
    """The verdict of ``carry``."""
    return carry(case, writes, engine, padding=padding, election=election, encoding=encoding).verdict
