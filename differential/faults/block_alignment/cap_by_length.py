"""The cut at the prompt's end compares the length of a list whose holes are closed with a count of whole prompts.

Such a list is short for what left its window, so a scratch block behind the prompt stays, and keeping the
last ones drops the first block of the prompt instead (spec: blocks, I1).
"""

from __future__ import annotations

import numpy as np

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, OfWholePrompts, goes_on, has_manager, has_window, on_lists
from differential.managers.extents import Extent
from differential.managers.v2 import HOLE
from differential.runner import Kind
from oracle.model.case import SIDES, Case


class CapByLength(OfWholePrompts):
    """Cuts as many entries as a list without holes has too many."""

    def cut_to_prompt(self, listed, extent: Extent):  # type: ignore[no-untyped-def]
        if isinstance(listed, tuple):
            return super().cut_to_prompt(listed, extent)
        places = np.flatnonzero(listed != HOLE)
        most = extent.local(extent.blocks)
        return listed[: places[most]] if len(places) > most else listed


def applies(case: Case) -> bool:
    return has_window(case) and has_manager(case, "v2") and any(goes_on(case, side) for side in SIDES)


FAULT = Fault(
    name="cap-by-length",
    description="a list without holes is cut only if it is longer than the prompt",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(CapByLength()),
    applies=applies,
    report="B10 · NVIDIA/TensorRT-LLM#17619",
    base=SUFFIX,
)
