"""How many entries of a list are beam tails is guessed from the beam width.

Where fewer beams diverged, blocks of the prompt are taken for tails; a short list is taken to have none
(spec: blocks, I7).
"""

from __future__ import annotations

import numpy as np

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, on_lists
from differential.managers.extents import Extent
from differential.managers.spans import NONE, Span, count_below
from differential.managers.suffix import Suffix, Suffixes
from differential.runner import Kind
from oracle.model.case import Case


class TailsByBeamWidth(Suffixes):
    def pack(self, own: np.ndarray, tails: np.ndarray, extent: Extent) -> Suffix:
        """Whatever the reader will make of it."""
        packed = np.concatenate((own, tails if len(own) else NONE))
        return Suffix(packed, extent.blocks, extent.beams, extent.phase, extent.stride)

    def place(self, listed: Suffix) -> Span:
        """The whole list, from where the guess has it begin."""
        own = self.count_own(len(listed.slots), listed)
        before = count_below(listed.end, listed.phase, listed.stride) - own
        return Span(listed.phase + before * listed.stride, listed.slots, listed.stride)


def applies(case: Case) -> bool:
    return any(request.beams > 1 for request in case.requests)


FAULT = Fault(
    name="tails-by-beam-width",
    description="every beam but the first is taken to have a tail at the end of a long list, and none in a short one",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(TailsByBeamWidth()),
    applies=applies,
    report="B18 · NVIDIA/TensorRT-LLM#18657",
    base=SUFFIX,
)
