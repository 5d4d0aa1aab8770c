"""A run begins behind the last hole, so sinks in front of a gap are skipped like any block that left the window."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.block_alignment.sinks_lost import has_sinks
from differential.faults.fault import Fault, Size
from differential.faults.steps import ANCHORS, on_lists
from differential.managers.anchors import Anchors
from differential.managers.extents import Extent
from differential.managers.v1 import BlockList
from differential.managers.v2 import PageList
from differential.runner import Kind


class SinksBeforeTheAnchor(Anchors):
    def require_expressible(self, held: BlockList | PageList, extent: Extent) -> None:
        super().require_expressible(held, replace(extent, sinks=False))


FAULT = Fault(
    name="sinks-before-the-anchor",
    description="an anchor behind the last hole leaves the sinks out",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(SinksBeforeTheAnchor()),
    applies=has_sinks,
    base=ANCHORS,
)
