"""The sender gives each context-parallel receiver a run of neighbouring blocks, and the receiver has every cp-th."""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import ANCHORS, has_helix, on_lists
from differential.managers.anchors import Anchors
from differential.managers.spans import Span
from differential.runner import Kind
from oracle.model.case import Case


class HelixContiguous(Anchors):
    def take_stride(self, span: Span, phase: int, stride: int) -> Span:
        if stride == span.stride:
            return span
        # As many as a rank has, one rank after the other.
        counts = [len(span.slots[rank :: stride // span.stride]) for rank in range(stride // span.stride)]
        rank = (phase - span.start) // span.stride % len(counts)
        first = sum(counts[:rank])
        return Span(phase, span.slots[first : first + counts[rank]], stride)


def applies(case: Case) -> bool:
    return has_helix(case)


FAULT = Fault(
    name="helix-contiguous",
    description="a context-parallel receiver is sent neighbouring blocks",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=3, layers=1, blocks=3),
    plant=on_lists(HelixContiguous()),
    applies=applies,
    report="B41 · NVIDIA/TensorRT-LLM#17794",
    base=ANCHORS,
)
