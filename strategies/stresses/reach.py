"""Which stresses the cases of a kind reach, counted over cases that are the same every time."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from oracle.model.case import Case
from strategies.cases import decode
from strategies.kinds.protocol import Kind
from strategies.numbers import WIDTH
from strategies.stresses import STRESSES

CASES = 300
"""Cases of a kind within which it has to reach what its declarations show."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Whether a kind declares a stress, and how many of its cases reach it."""

    declared: bool
    cases: int

    @property
    def is_blank(self) -> bool:
        """Whether the kind has nothing to do with it."""
        return not self.declared and not self.cases

    @property
    def is_missed(self) -> bool:
        """Whether the kind declares what none of its cases reaches."""
        return self.declared and not self.cases


def some_cases(kind: Kind, count: int = CASES, *, states: bool = True) -> tuple[Case, ...]:
    """``count`` cases of ``kind``, drawn without Hypothesis: the name of the kind is the seed."""
    random = Random(f"cases of {kind.name}")
    return tuple(decode(random.randbytes(WIDTH), kinds=(kind,), states=states) for _ in range(count))


@lru_cache(maxsize=64)
def reach_of(kind: Kind, count: int = CASES) -> dict[str, Reach]:
    """How ``kind`` fares with each stress, by name."""
    collecting = gc.isenabled()
    gc.disable()  # the cases are all kept: looking for garbage among them again and again costs a quarter of the time
    try:
        return _count(kind, some_cases(kind, count))
    finally:
        if collecting:
            gc.enable()


def _count(kind: Kind, cases: tuple[Case, ...]) -> dict[str, Reach]:
    reached = dict.fromkeys((stress.name for stress in STRESSES), 0)
    for case in cases:
        for stress in STRESSES:
            reached[stress.name] += stress.reached(case)
    # A state may give a window sinks that the kind does not declare, as seldom as that may be.
    declared = dict.fromkeys(case.model for case in some_cases(kind, len(cases), states=False))
    models = [(model, kind.tokens_per_block) for model in declared]
    models += [(published.declare().model, published.tokens_per_block) for published in kind.published]
    return {stress.name: Reach(stress.declared_by(kind, models), reached[stress.name]) for stress in STRESSES}
