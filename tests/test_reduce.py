"""The reducer on blocks that the two sides cut differently."""

from __future__ import annotations

import pytest

from kvwitness.reduce import reduce_case
from oracle.model.case import Case
from tests.small_cases import case_of


@pytest.mark.parametrize(("sizes", "least"), [((4, 8), (1, 2)), ((8, 4), (2, 1)), ((3, 6), (1, 2)), ((4, 4), (1, 1))])
def test_blocks_of_unequal_length_stay_so_and_become_short(sizes: tuple[int, int], least: tuple[int, int]) -> None:
    case = case_of(
        "key @ 0 : T D(1) ; 8",
        prompts=9,
        context_side={"tokens_per_block": sizes[0]},
        generation_side={"tokens_per_block": sizes[1]},
    )
    shorter = sizes[0] < sizes[1], sizes[0] > sizes[1]

    def fails(smaller: Case) -> bool:
        ours, theirs = smaller.context.tokens_per_block, smaller.generation.tokens_per_block
        return (ours < theirs, ours > theirs) == shorter

    reduced = reduce_case(case, fails, seconds=20)
    assert (reduced.context.tokens_per_block, reduced.generation.tokens_per_block) == least
    assert reduced.requests[0].prompt == 1
