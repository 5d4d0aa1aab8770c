"""The reducer on blocks that the two sides cut differently, and on models of many buffers."""

from __future__ import annotations

import pytest

from kvwitness.reduce import reduce_case
from oracle.model.case import Case
from strategies.kinds import kinds
from tests.kind_cases import drawn
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


def roles_of(case: Case) -> set[str]:
    return {buffer.role for group in case.model.groups for buffer in group.buffers}


@pytest.mark.parametrize("kind", [kind.name for kind in kinds()])
def test_of_a_model_the_buffer_that_fails_is_left(kind: str) -> None:
    """Whatever the instances say of the others goes with them, and what is derived keeps what it comes from."""
    for case in drawn(kind, 12):
        for role in sorted(roles_of(case)):
            reduced = reduce_case(case, lambda smaller, role=role: role in roles_of(smaller), seconds=5)
            sources = {
                name
                for group in case.model.groups
                for buffer in group.buffers
                if buffer.role == role
                for move in buffer.moves
                for name in move.inputs
            }
            assert roles_of(reduced) <= {role} | sources
            assert len(reduced.model.groups) == 1
