"""The blocks that a context-parallel receiver has by reuse are counted over all ranks, and dropped from its own list.

Blocks that it does not have are then never asked for (spec: blocks, I9).
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import ANCHORS, has_helix, on_lists, reuses
from differential.managers.anchors import Anchors
from differential.managers.extents import Extent
from differential.managers.spans import Span, drop_below
from differential.runner import Kind
from oracle.model.case import Case


class HelixReuseByGlobalCount(Anchors):
    def trim(self, span: Span, extent: Extent) -> Span:
        return drop_below(super().trim(span, extent), extent.phase + extent.cached * extent.stride)


def applies(case: Case) -> bool:
    return has_helix(case) and reuses(case)


FAULT = Fault(
    name="helix-reuse-by-global-count",
    description="a context-parallel rank drops as many of its own blocks as all ranks together have cached",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=3, layers=1, blocks=2),
    plant=on_lists(HelixReuseByGlobalCount()),
    applies=applies,
    report="B44 · NVIDIA/TensorRT-LLM#18657",
    base=ANCHORS,
)
