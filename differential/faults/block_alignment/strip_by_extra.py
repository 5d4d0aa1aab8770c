"""How many blocks stand behind the prompt is derived from the extra tokens that the manager reports, not from the list.

Where more or fewer tokens were allocated, a scratch block stays and the first block of the prompt is
dropped in its place, or the last block of the prompt is stripped (spec: blocks, I3).
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, OfWholePrompts, on_lists
from differential.managers.extents import Extent
from differential.runner import Kind
from oracle.model.case import SIDES, Case


class StripByExtra(OfWholePrompts):
    def cut_to_prompt(self, listed, extent: Extent):  # type: ignore[no-untyped-def]
        surplus = extent.local(extent.reported) - extent.local(extent.blocks)
        return listed[: max(0, len(listed) - surplus)]


def applies(case: Case) -> bool:
    """Where a side has another number of blocks than it reports."""
    for side in SIDES:
        size = case.side(side).tokens_per_block
        for request in case.requests:
            if -(-request.room(side) // size) != -(-(request.prompt + request.state(side).extra) // size):
                return True
    return False


FAULT = Fault(
    name="strip-by-extra",
    description="as many blocks are stripped from the end as the reported extra tokens would take",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(StripByExtra()),
    applies=applies,
    report="B11 · NVIDIA/TensorRT-LLM#18554",
    base=SUFFIX,
)
