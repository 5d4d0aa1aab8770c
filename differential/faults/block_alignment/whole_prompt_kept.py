"""A table leaves out only what was physically evicted, and V1 keeps a whole prompt until a token is generated.

Everything that left the window is then sent as well, into slots that nobody asked to have written.
"""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import TABLES, has_manager, has_window, on_tables
from differential.managers.tables import Tables
from differential.managers.v1 import removed_blocks
from differential.runner import Kind
from oracle.model.case import Case


class WholePromptKept(Tables):
    def first_listed(self, prompt: int, most: int, window: int, tokens_per_block: int) -> int:
        return removed_blocks(prompt, most, window, tokens_per_block)


def applies(case: Case) -> bool:
    return has_window(case) and has_manager(case, "v1")


FAULT = Fault(
    name="whole-prompt-kept",
    description="a table lists what left the window until it is evicted",
    kinds=frozenset({Kind.STRAY}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_tables(WholePromptKept()),
    applies=applies,
    report="B13 · NVIDIA/TensorRT-LLM#18939",
    base=TABLES,
)
