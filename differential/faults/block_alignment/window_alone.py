"""A table leaves out what left the window by the formula, and lists what was detached beyond it.

The eviction counter is the authority; without it a slot is sent that is somebody else's by now (spec: blocks, I6).
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import TABLES, detaches, on_tables
from differential.managers.tables import Tables
from differential.runner import Kind


class WindowAlone(Tables):
    def first_listed(self, prompt: int, most: int, window: int, tokens_per_block: int) -> int:
        return super().first_listed(prompt, prompt, window, tokens_per_block)


FAULT = Fault(
    name="window-alone",
    description="a table lists blocks that the manager has detached",
    kinds=frozenset({Kind.STALE_SOURCE}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_tables(WindowAlone()),
    applies=detaches,
    base=TABLES,
)
