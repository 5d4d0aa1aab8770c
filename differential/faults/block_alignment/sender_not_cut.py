"""The sender's list goes on behind the prompt, into blocks that it has for tokens of its own.

A draft model at the sender and a prompt that fills its blocks are enough: it lists one block more.
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, OfWholePrompts, goes_on, on_lists
from differential.managers.extents import Extent
from differential.runner import Kind
from oracle.model.case import Case


class SenderNotCut(OfWholePrompts):
    def cut_to_prompt(self, listed, extent: Extent):  # type: ignore[no-untyped-def]
        return super().cut_to_prompt(listed, extent) if extent.receives else listed


def applies(case: Case) -> bool:
    return goes_on(case, "context")


FAULT = Fault(
    name="sender-not-cut",
    description="the sender's list is not cut at the prompt's end",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(SenderNotCut()),
    applies=applies,
    report="B03 · vllm-project/vllm-ascend#8908",
    base=SUFFIX,
)
