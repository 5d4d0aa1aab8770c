"""Nobody asks whether sinks stand in front of what left the window: a list keeps its end, and they are not in it.

No length is wrong and nothing is refused; the sinks just never arrive (spec: blocks, I11).
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, on_lists
from differential.managers.extents import Extent
from differential.managers.suffix import Suffixes
from differential.managers.v1 import BlockList
from differential.managers.v2 import PageList
from differential.runner import Kind
from oracle.model.case import Case


class SinksLost(Suffixes):
    def require_expressible(self, held: BlockList | PageList, extent: Extent) -> None:
        return


def has_sinks(case: Case) -> bool:
    return any(group.sinks for group in case.model.groups)


FAULT = Fault(
    name="sinks-lost",
    description="sinks in front of a gap are left out of a suffix list without a word",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(SinksLost()),
    applies=has_sinks,
    base=SUFFIX,
)
