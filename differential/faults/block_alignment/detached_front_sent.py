"""Which blocks are gone is asked of the window formula, where the eviction counter is the authority.

The counter can be ahead of the formula; then the ids of detached blocks are sent, whoever they are by now
(spec: blocks, I6).
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, detaches, on_lists
from differential.managers.extents import Extent
from differential.managers.suffix import Suffixes
from differential.runner import Kind


class DetachedFrontSent(Suffixes):
    def drop_detached(self, own: tuple[int, ...], removed: int, extent: Extent) -> tuple[int, ...]:
        return own


FAULT = Fault(
    name="detached-front-sent",
    description="blocks that the manager has detached are sent as long as the window would reach them",
    kinds=frozenset({Kind.STALE_SOURCE}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(DetachedFrontSent()),
    applies=detaches,
    report="B67 · NVIDIA/TensorRT-LLM#18657",
    base=SUFFIX,
)
