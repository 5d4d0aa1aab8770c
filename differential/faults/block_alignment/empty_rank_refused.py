"""A context-parallel rank that owns no block of a short prompt is an error, though it completes with nothing."""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import ANCHORS, has_helix, on_lists
from differential.managers.anchors import Anchors
from differential.managers.extents import Extent
from differential.managers.spans import Inexpressible
from differential.managers.v1 import BlockList
from differential.managers.v2 import PageList
from differential.runner import Kind


class EmptyRankRefused(Anchors):
    def require_expressible(self, held: BlockList | PageList, extent: Extent) -> None:
        super().require_expressible(held, extent)
        if extent.blocks < extent.stride:
            reason = f"{extent.blocks} blocks on {extent.stride} context-parallel ranks"
            raise Inexpressible("fewer_blocks_than_context_parallel", reason)


FAULT = Fault(
    name="empty-rank-refused",
    description="a prompt of fewer blocks than context-parallel ranks is refused",
    kinds=frozenset({Kind.FALSE_REFUSAL}),
    minimum=Size(ranks=3, layers=1, blocks=1),
    plant=on_lists(EmptyRankRefused()),
    applies=has_helix,
    report="B42 · NVIDIA/TensorRT-LLM#15383",
    base=ANCHORS,
)
