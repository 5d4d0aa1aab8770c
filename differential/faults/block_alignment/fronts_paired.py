"""The lists of both sides are cut to the shorter length from their fronts.

A receiver that lists only what it does not have by reuse gets the sender's prefix in its place.
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, on_lists
from differential.managers.spans import NONE, Aligned, Span
from differential.managers.suffix import Suffixes
from differential.runner import Kind


class FrontsPaired(Suffixes):
    def intersect(self, source: Span, destination: Span) -> Aligned:
        asked = destination.ordinals
        count = min(len(source.slots), len(destination.slots))
        return Aligned(asked[:count], source.slots[:count], destination.slots[:count], asked, NONE.reshape(0, 2))


FAULT = Fault(
    name="fronts-paired",
    description="entries of both lists are paired one by one from the front",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_lists(FrontsPaired()),
    report="B02 · vllm-project/vllm#48633",
    base=SUFFIX,
)
