"""Subjects that keep state between peers: what they plan must not depend on whom they served before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from differential.compare import Comparison, compare
from differential.managers.tables import gather_facts
from differential.subjects.protocol import Subject
from oracle.model.case import Case
from oracle.model.records import frozen


@frozen()
class Remembered:
    """A case that a subject plans otherwise after it has served others: ``served`` are their positions, in order."""

    case: Case
    served: tuple[int, ...]
    comparison: Comparison

    def __str__(self) -> str:
        line = self.comparison.lines()[0]
        return f"planned otherwise after {len(self.served)} other{'s' * (len(self.served) != 1)}: {line}"


def compare_after_others(make: Callable[[], Subject], cases: Sequence[Case]) -> Remembered | None:
    """The first of ``cases`` that one subject plans otherwise than a new one does; None if there is none.

    One subject of ``make`` plans all cases in order, and then all once more. Cases that differ in the
    generation side alone stand for a peer that registers again, under the same name, otherwise split.
    Pairs, refusals and bytes are compared; ``first`` is the new subject, ``second`` the one with a past.
    """
    old = make()
    for position in range(2 * len(cases)):
        case = cases[position % len(cases)]
        facts = gather_facts(case)
        plans = make().plan(case, facts), old.plan(case, facts)
        comparison = compare(case, *plans, names=(f"a new {old.name}", f"{old.name} with a past"))
        if not comparison.identical:
            return Remembered(case, tuple(each % len(cases) for each in range(position)), comparison)
    return None
