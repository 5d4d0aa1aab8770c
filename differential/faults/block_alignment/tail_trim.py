"""A receiver's list that is longer than the sender's loses its end, not its front (spec: blocks, I5)."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, has_window, on_lists
from differential.managers.spans import Span
from differential.managers.suffix import Suffixes
from differential.runner import Kind
from oracle.model.case import Case


class TailTrim(Suffixes):
    def shorten(self, destination: Span, source: Span) -> Span:
        surplus = len(destination.slots) - len(source.slots)
        if surplus <= 0:
            return destination
        # It still ends where the prompt does: the ordinals stay with the end, the slots with the front.
        start = destination.start + surplus * destination.stride
        return replace(destination, start=start, slots=destination.slots[:-surplus])


def applies(case: Case) -> bool:
    return has_window(case)


FAULT = Fault(
    name="tail-trim",
    description="a receiver's longer list is cut at its end",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_lists(TailTrim()),
    applies=applies,
    base=SUFFIX,
)
