"""Only lists of full attention are cut at the prompt's end; in a window the last ones are kept, whatever they are.

The block of the first generated token, or of drafts, then stands for the last block of the prompt (spec: blocks, I2).
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, OfWholePrompts, goes_on, has_window, on_lists
from differential.managers.extents import Extent
from differential.runner import Kind
from oracle.model.case import SIDES, Case


class CapFullOnly(OfWholePrompts):
    def cut_to_prompt(self, listed, extent: Extent):  # type: ignore[no-untyped-def]
        return listed if extent.stale else super().cut_to_prompt(listed, extent)


def applies(case: Case) -> bool:
    return has_window(case) and any(goes_on(case, side) for side in SIDES)


FAULT = Fault(
    name="cap-full-only",
    description="a list is not cut at the prompt's end where a window has left blocks behind",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_lists(CapFullOnly()),
    applies=applies,
    base=SUFFIX,
)
