"""Laws B1 to B7 and E1 to E3 hold for every encoding and every drawn state of both managers (spec: blocks, 6.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.model.case import PLAIN, Case, Content, SideState
from oracle.model.writes import Pair
from oracle.truth.blocks import block_classes
from oracle.truth.judge import judge
from tests import block_definitions as by_definition
from tests.encoded_lists import RIGHT, TABLES, How, moves_of
from tests.encoding_laws import (
    law_B1,
    law_B2,
    law_B3,
    law_B4,
    law_B5,
    law_B6,
    law_B7,
    law_E1,
    law_E2,
    law_E3,
)
from tests.encoding_states import MAPS, STATES, states
from tests.test_states_worked import state_case

each_encoding = pytest.mark.parametrize("how", RIGHT, ids=repr)
drawn = settings(max_examples=100, deadline=None)


@each_encoding
@settings(max_examples=150, deadline=None)
@given(case=STATES)
def test_b1_blocks_go_to_blocks_of_their_own_ordinal(how: How, case: Case) -> None:
    law_B1(case, how)


@each_encoding
@drawn
@given(case=STATES | MAPS)
def test_b2_there_are_as_many_pairs_as_ordinals_in_common(how: How, case: Case) -> None:
    law_B2(case, how)


@each_encoding
@drawn
@given(case=STATES | MAPS)
def test_b3_swapping_the_sides_swaps_the_pairs(how: How, case: Case) -> None:
    law_B3(case, how)


@each_encoding
@drawn
@given(case=STATES | MAPS, by=st.integers(1, 5))
def test_b4_more_blocks_in_front_change_no_pair(how: How, case: Case, by: int) -> None:
    law_B4(case, how, by)


@each_encoding
@drawn
@given(case=STATES | MAPS, chosen=st.sets(st.integers(0, 9)))
def test_b5_what_is_not_offered_takes_its_own_pairs_away_and_no_others(how: How, case: Case, chosen: set[int]) -> None:
    law_B5(case, how, chosen)


@settings(max_examples=150, deadline=None)
@given(case=STATES)
def test_b6_what_encodings_can_say_they_say_alike(case: Case) -> None:
    law_B6(case, RIGHT)


@each_encoding
@drawn
@given(case=states(beams=True))
def test_b7_as_many_tails_go_as_both_sides_have(how: How, case: Case) -> None:
    law_B7(case, how)


# ---- B3 of truth


def turned(case: Case) -> Case:
    """The case with its sides swapped; neither has anything before or beyond the prompt, and prompts share nothing."""
    plain = [SideState(extra=asked.context.extra) for asked in case.requests]
    requests = [
        replace(asked, context=state, generation=PLAIN) for asked, state in zip(case.requests, plain, strict=True)
    ]
    contents = tuple(Content() for _ in requests)
    return replace(case, context=case.generation, generation=case.context, requests=tuple(requests), contents=contents)


@drawn
@given(case=states(beams=False))
def test_b3_a_right_plan_turned_round_is_right_for_the_sides_turned_round(case: Case) -> None:
    case = turned(turned(case))
    other = turned(case)
    plan = TABLES.plan(case)
    segments = [
        replace(
            each,
            source_rank=each.destination_rank,
            destination_rank=each.source_rank,
            source_pool=each.destination_pool,
            destination_pool=each.source_pool,
            source_bases=each.destination_bases,
            destination_bases=each.source_bases,
            runs=each.runs[:, [1, 0, 2]],
        )
        for each in plan.segments
    ]
    pairs = tuple(Pair(pair.request, pair.destination, pair.source) for pair in plan.pairs)
    verdict = judge(other, replace(plan, segments=tuple(segments), pairs=pairs))
    assert verdict, verdict.violations
    for request in range(len(case.requests)):
        for group in range(len(case.model.groups)):
            due = by_definition.due(case, request, group)
            assert due == by_definition.due(other, request, group)
            assert due <= set(np.flatnonzero(block_classes(other, request, group)).tolist())


# ---- context parallelism


@each_encoding
@drawn
@given(case=states(helix=True))
def test_e1_context_parallel_ranks_share_the_blocks_out(how: How, case: Case) -> None:
    law_E1(case, how)


@each_encoding
@drawn
@given(case=states(helix=True))
def test_e2_a_rank_skips_its_own_blocks_and_keeps_its_phase(how: How, case: Case) -> None:
    law_E2(case, how)


@each_encoding
@drawn
@given(case=states(helix=True))
def test_e3_context_parallel_ranks_together_get_what_one_rank_would(how: How, case: Case) -> None:
    law_E3(case, how)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("more", range(5))
def test_every_number_of_blocks_over_the_ranks_is_shared_out(ranks: int, more: int) -> None:
    # From as many blocks as ranks to three times as many, cached by any number of them; and fewer than ranks.
    for blocks in range(1, 3 * ranks + 1):
        case = state_case(2 * blocks, 2, cp=ranks, generation=SideState(min(2 * blocks, 2 * more)))
        for how in RIGHT:
            law_E1(case, how)
            law_E2(case, how)
            law_B1(case, how)
            moved = moves_of(case, how.plan(case))
            assert sum(map(len, moved.values())) == max(0, blocks - more)
