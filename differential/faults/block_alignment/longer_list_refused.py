"""A receiver's list that is longer than the sender's is an error, though it only keeps more."""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, has_window, on_lists
from differential.managers.spans import Inexpressible, Span
from differential.managers.suffix import Suffixes
from differential.runner import Kind
from oracle.model.case import Case


class LongerListRefused(Suffixes):
    def shorten(self, destination: Span, source: Span) -> Span:
        if len(destination.slots) > len(source.slots):
            lists = f"{len(destination.slots)} blocks on the destination, {len(source.slots)} on the source"
            raise Inexpressible("destination_lists_more_blocks_than_source", lists)
        return destination


def applies(case: Case) -> bool:
    return has_window(case)


FAULT = Fault(
    name="longer-list-refused",
    description="a request is refused where only the receiver keeps blocks in front of the window",
    kinds=frozenset({Kind.FALSE_REFUSAL}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_lists(LongerListRefused()),
    applies=applies,
    report="B12 · NVIDIA/TensorRT-LLM#17361",
    base=SUFFIX,
)
