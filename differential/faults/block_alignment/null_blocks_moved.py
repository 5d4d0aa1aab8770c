"""Where a list has no block it names block 0, as placeholders do, and that block is moved like any other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from differential.faults.fault import Fault, Size
from differential.faults.steps import TABLES, has_window, on_facts, reuses
from differential.managers.facts import Facts, RankFacts
from differential.runner import Kind
from oracle.model.case import Case


def name_placeholders(case: Case, facts: Facts) -> Facts:
    """``facts`` with slot 0 for every hole."""
    return replace(facts, context=_filled(facts.context), generation=_filled(facts.generation))


def _filled(ranks: tuple[RankFacts, ...]) -> tuple[RankFacts, ...]:
    return tuple(
        replace(
            rank,
            blocks={
                key: replace(table, slots=np.where(table.slots < 0, 0, table.slots))
                for key, table in rank.blocks.items()
            },
        )
        for rank in ranks
    )


FAULT = Fault(
    name="null-blocks-moved",
    description="holes of a list are moved as if they were the block in slot 0",
    kinds=frozenset({Kind.STRAY, Kind.STALE_SOURCE}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_facts(name_placeholders),
    applies=lambda case: has_window(case) or reuses(case),
    report="B17 · vllm-project/vllm#42554",
    base=TABLES,
)
