"""The list of a context-parallel rank is measured against the number of blocks of the whole prompt.

Its start comes out too late, the window raises starts that differ to the same block, and entries that
stand for different blocks are paired (spec: blocks, I8).
"""

from __future__ import annotations

import numpy as np

from differential.faults.block_alignment.no_window_trim import raise_start
from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, has_helix, has_window, on_lists
from differential.managers.extents import Extent
from differential.managers.spans import Aligned, Span
from differential.managers.suffix import Suffix, Suffixes
from differential.runner import Kind
from oracle.model.case import Case


class HelixByGlobalCount(Suffixes):
    def keep_window(self, own: np.ndarray, extent: Extent) -> np.ndarray:
        """The trim is left to the reader, which knows what to stride."""
        return own if extent.parallel else super().keep_window(own, extent)

    def align(self, source: Suffix, destination: Suffix, stale: int, first: int = 0) -> Aligned:
        if destination.stride == 1 or source.stride > 1:
            return super().align(source, destination, stale, first)
        whole = self.place(source)
        lists = self.take_stride(whole, destination.phase, destination.stride).slots, destination.slots
        ours, theirs = (raise_start(Span(source.end - len(each), each), stale) for each in lists)
        return self.intersect(ours, theirs)


def applies(case: Case) -> bool:
    return has_window(case) and has_helix(case)


FAULT = Fault(
    name="helix-by-global-count",
    description="the start of a context-parallel rank's list is counted back from the end of the whole prompt",
    kinds=frozenset({Kind.WRONG_ELEMENT, Kind.FALSE_REFUSAL}),
    minimum=Size(ranks=3, layers=1, blocks=1),
    plant=on_lists(HelixByGlobalCount()),
    applies=applies,
    base=SUFFIX,
)
