"""The longer list of a receiver that keeps more is not shortened; only the starts of both are raised.

With a window that reaches further back on the receiver, its first entry is then taken for the sender's
(spec: blocks, I5, X4).
"""

from __future__ import annotations

from differential.faults.block_alignment.no_window_trim import raise_start
from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, has_window, on_lists
from differential.managers.spans import Span
from differential.managers.suffix import Suffixes
from differential.runner import Kind
from oracle.model.case import Case


class ClampOnly(Suffixes):
    def shorten(self, destination: Span, source: Span) -> Span:
        return destination

    def clamp(self, span: Span, stale: int) -> Span:
        return raise_start(span, stale)


def applies(case: Case) -> bool:
    return has_window(case)


FAULT = Fault(
    name="clamp-only",
    description="a receiver's longer list keeps its front, which is taken for what the sender's begins with",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_lists(ClampOnly()),
    applies=applies,
    base=SUFFIX,
)
