"""Only blocks that are full are sent, so the last tokens of a prompt that ends inside a block never arrive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from differential.faults.fault import Fault, Size
from differential.faults.steps import TABLES, on_facts
from differential.managers.facts import BlockTable, Facts, RankFacts
from differential.runner import Kind
from oracle.model.case import Case


def list_full_blocks(case: Case, facts: Facts) -> Facts:
    """``facts`` in which the tables of both sides end with the last full block."""
    return replace(facts, context=_listed(case, facts.context), generation=_listed(case, facts.generation))


def _listed(case: Case, ranks: tuple[RankFacts, ...]) -> tuple[RankFacts, ...]:
    size = case.context.tokens_per_block
    found = []
    for rank in ranks:
        blocks = dict(rank.blocks)
        for (request, group), table in blocks.items():
            declared = case.model.groups[group]
            if declared.is_paged:
                blocks[request, group] = _cut(table, case.requests[request].tokens(declared.length) // size)
        found.append(replace(rank, blocks=blocks))
    return tuple(found)


def _cut(table: BlockTable, full: int) -> BlockTable:
    ordinals = table.first + table.stride * np.arange(len(table.slots))
    return replace(table, slots=np.where(ordinals < full, table.slots, -1))


def applies(case: Case) -> bool:
    size = case.context.tokens_per_block
    return any(
        request.tokens(group.length) % size
        for request in case.requests
        for group in case.model.groups
        if group.is_paged
    )


FAULT = Fault(
    name="partial-block-dropped",
    description="a prompt's last block is not listed unless it is full",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_facts(list_full_blocks),
    applies=applies,
    report="B05 · vllm-project/vllm#21074",
    base=TABLES,
)
