"""Blocks are paired one to one though those of the two sides hold different numbers of tokens."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size, on_case
from differential.faults.steps import TABLES
from differential.runner import Kind
from oracle.model.case import Case


def take_for_equal(case: Case) -> Case:
    """``case`` with the receiver's blocks as long as the sender's."""
    size = case.context.tokens_per_block
    return replace(case, generation=replace(case.generation, tokens_per_block=size))


FAULT = Fault(
    name="block-sizes-unchecked",
    description="blocks of different lengths are paired one to one",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_case(take_for_equal),
    applies=lambda case: case.context.tokens_per_block != case.generation.tokens_per_block,
    report="B15 · vllm-project/vllm#42895",
    base=TABLES,
)
