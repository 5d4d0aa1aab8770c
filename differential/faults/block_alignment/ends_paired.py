"""A receiver lists its blocks up to its own end, and the end of its list is taken for the end of the prompt.

With a block behind the prompt, for tokens of its own, every block lands one slot too late.
"""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, goes_on, on_lists
from differential.managers.extents import Extent
from differential.managers.spans import Span, count_below, drop_below
from differential.managers.suffix import Suffix, Suffixes, Translate
from differential.managers.v1 import BlockList
from differential.managers.v2 import PageList
from differential.runner import Kind
from oracle.model.case import Case


class EndsPaired(Suffixes):
    def list_blocks(self, held: BlockList | PageList, extent: Extent, translate: Translate) -> Suffix:
        if not extent.receives:
            return super().list_blocks(held, extent, translate)
        own = len(held.slots) if isinstance(held, PageList) else held.own
        blocks = extent.blocks
        while count_below(blocks, extent.phase, extent.stride) < own:
            blocks += 1
        return replace(super().list_blocks(held, replace(extent, blocks=blocks), translate), end=extent.blocks)

    def place(self, listed: Suffix) -> Span:
        """What would stand in front of the prompt is nothing that a sender could have."""
        return drop_below(super().place(listed), 0)


def applies(case: Case) -> bool:
    return goes_on(case, "generation")


FAULT = Fault(
    name="ends-paired",
    description="the last entries of both lists are paired, whatever the receiver's stands for",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_lists(EndsPaired()),
    applies=applies,
    report="B01 · vllm-project/vllm#50558",
    base=SUFFIX,
)
