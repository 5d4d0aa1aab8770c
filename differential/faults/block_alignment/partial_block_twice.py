"""A chunk that ends inside a block sends that block, and so does the next: tokens are cut where blocks should be."""

from __future__ import annotations

from differential.faults.fault import Fault, Size
from differential.faults.steps import TABLES, has_chunks, on_slices
from differential.managers.chunks import Slices
from differential.runner import Kind


class PartialBlockTwice(Slices):
    def end_block(self, end: int, last: bool, tokens_per_block: int) -> int:
        return super().end_block(end, True, tokens_per_block)


FAULT = Fault(
    name="partial-block-twice",
    description="a block in which a chunk ends is sent with that chunk and with the next",
    kinds=frozenset({Kind.DUPLICATE}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_slices(PartialBlockTwice()),
    applies=has_chunks,
    report="B08 · sgl-project/sglang#5588",
    base=TABLES,
)
