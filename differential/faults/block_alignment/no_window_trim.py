"""The start of a list is raised to the window without dropping what lies in front of it.

Older senders left the trim to the reader, and the reader changed the number alone: the entries in front
get the ordinals of those behind them (spec: blocks, I4).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from differential.faults.fault import Fault, Size
from differential.faults.steps import SUFFIX, has_manager, has_window, on_lists
from differential.managers.extents import Extent
from differential.managers.spans import Span
from differential.managers.suffix import Suffixes
from differential.runner import Kind
from oracle.model.case import Case


def raise_start(span: Span, stale: int) -> Span:
    """``span`` said to start at ``stale`` at least; its entries stay."""
    return replace(span, start=max(span.start, stale))


class NoWindowTrim(Suffixes):
    def keep_window(self, own: np.ndarray, extent: Extent) -> np.ndarray:
        return own

    def clamp(self, span: Span, stale: int) -> Span:
        return raise_start(span, stale)


def applies(case: Case) -> bool:
    """V1 has blocks that left the window until a token is added; V2 never lists them."""
    return has_window(case) and has_manager(case, "v1")


FAULT = Fault(
    name="no-window-trim",
    description="the start of a list is raised to the window and its entries stay",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_lists(NoWindowTrim()),
    applies=applies,
    base=SUFFIX,
)
