"""Holes in a list of pages: those that a run without holes can skip, and those that it cannot."""

from __future__ import annotations

import numpy as np

from differential.managers.extents import Extent
from differential.managers.spans import Inexpressible
from differential.managers.v2 import HOLE, PageList
from oracle.model.encodings import HOLE_IN_A_LIST


def behind_last_hole(slots: np.ndarray) -> np.ndarray:
    """What follows the last hole: whatever lies in front of it is given up."""
    holes = np.flatnonzero(slots == HOLE)
    return slots[int(holes[-1]) + 1 :] if len(holes) else slots


def check_holes(slots: np.ndarray, held: PageList, extent: Extent) -> None:
    """Raise ``Inexpressible`` for a hole behind a block that is there, unless the window or scratch explains it.

    ``slots``: the list, cut at the prompt's end. A list that does not reach that end has a hole there.
    """
    there = np.flatnonzero(slots != HOLE)
    short = extent.local(extent.blocks) - len(slots)
    if not len(there) or (short <= 0 and len(there) == len(slots) - there[0]):
        return
    holes = np.flatnonzero(slots == HOLE)
    ordinals = extent.phase + extent.stride * holes[holes > there[0]]
    unexplained = ordinals[ordinals >= max(extent.stale, held.left_behind)]
    for begin, end in held.scratch:
        unexplained = unexplained[(unexplained < begin) | (unexplained >= end)]
    if len(unexplained) or short > 0:
        which = int(unexplained[0]) if len(unexplained) else extent.phase + extent.stride * len(slots)
        raise Inexpressible(HOLE_IN_A_LIST, f"block {which} has no slot, though one in front of it has")
