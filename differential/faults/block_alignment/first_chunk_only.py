"""The block list is taken when the first chunk of a prefill is allocated, and never extended."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size
from differential.faults.steps import TABLES, has_chunks, on_facts
from differential.managers.facts import Chunk, Facts
from differential.runner import Kind
from oracle.model.case import Case


def keep_first_list(case: Case, facts: Facts) -> Facts:
    """``facts`` with every slice cut at the blocks that there were when the first was sent."""
    return replace(facts, chunks=tuple(tuple(_cut(each, chunks[0].end) for each in chunks) for chunks in facts.chunks))


def _cut(chunk: Chunk, listed: int) -> Chunk:
    return replace(chunk, first=min(chunk.first, listed), end=min(chunk.end, listed))


FAULT = Fault(
    name="first-chunk-only",
    description="later chunks send nothing that the first one did not list",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=2, layers=1, blocks=2),
    plant=on_facts(keep_first_list),
    applies=has_chunks,
    report="B06 · vllm-project/vllm#30358",
    base=TABLES,
)
