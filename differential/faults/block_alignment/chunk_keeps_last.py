"""What a slice of a prefill sends is taken from the end of the list of that moment, which may go on behind the chunk.

A scheduler that works ahead has allocated blocks of later chunks by then; they are sent under the ordinals of
this one (spec: blocks, I10).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, has_chunks, on_lists
from differential.managers.extents import Extent
from differential.managers.suffix import Suffix, Suffixes, Translate
from differential.managers.v1 import BlockList
from differential.managers.v2 import PageList
from differential.runner import Kind


class ChunkKeepsLast(Suffixes):
    def build_chunk(
        self, held: BlockList | PageList, extent: Extent, first: int, end: int, translate: Translate
    ) -> Suffix:
        whole = len(held.slots) if isinstance(held, PageList) else held.own
        everything = self.build(held, replace(extent, blocks=min(whole, extent.blocks), stale=0), translate)
        slots: np.ndarray = everything.slots[max(0, len(everything.slots) - (end - first)) :]
        return replace(everything, slots=slots, end=end)


FAULT = Fault(
    name="chunk-keeps-last",
    description="a slice sends the last blocks that are listed, as if the list ended with the chunk",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_lists(ChunkKeepsLast()),
    applies=has_chunks,
    base=SUFFIX,
)
