"""Laws A1 to A10 hold for every encoding and every drawn state of both managers (spec: blocks, 6.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.model.case import Case, Slots
from tests import block_definitions as by_definition
from tests.encoded_lists import RIGHT, How, ToldLists
from tests.encoding_laws import (
    law_A1,
    law_A2,
    law_A3,
    law_A4,
    law_A5,
    law_A6,
    law_A7,
    law_A8,
    law_A9,
    law_A10,
)
from tests.encoding_states import MAPS, STATES, states
from tests.laws_of_lists import stays_within_reserve

each_encoding = pytest.mark.parametrize("how", RIGHT, ids=repr)
drawn = settings(max_examples=100, deadline=None)


@each_encoding
@settings(max_examples=200, deadline=None)
@given(case=MAPS)
def test_a1_a_list_is_read_as_it_was_made_and_what_it_cannot_say_is_refused(how: How, case: Case) -> None:
    law_A1(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_a2_only_blocks_of_the_prompt_that_are_held_are_offered(how: How, case: Case) -> None:
    law_A2(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_a3_all_that_is_live_is_offered_and_nothing_that_left_its_window(how: How, case: Case) -> None:
    law_A3(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_a4_a_receiver_asks_for_exactly_what_it_lacks(how: How, case: Case) -> None:
    law_A4(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_a5_slots_of_a_list_are_distinct_and_lie_in_the_pool(how: How, case: Case) -> None:
    law_A5(case, how)


@drawn
@given(case=states(helix=False))
def test_a6_an_anchored_run_reaches_the_prompts_end_or_is_empty(case: Case) -> None:
    for how in RIGHT:
        law_A6(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_a7_no_id_that_was_detached_or_lies_behind_the_prompt_is_translated(how: How, case: Case) -> None:
    law_A7(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_a8_every_hole_of_v2_is_explained_and_any_other_is_refused(how: How, case: Case) -> None:
    law_A8(case, how)


@st.composite
def variants(draw: st.DrawFn) -> tuple[Case, Case]:
    """A case, and one that differs in what must not matter: tokens beyond the prompt, slots, neighbours."""
    case = draw(STATES)
    numbers = draw(st.binary(min_size=8, max_size=8))
    size = case.context.tokens_per_block
    requests = []
    for asked in case.requests:
        context, generation = asked.context, asked.generation
        if asked.beams == 1:
            most = min([case.context.reserve_of(group.name) for group in case.model.groups])
            ahead = numbers[2] % (min(most, 2 * size) + 2)
            context = replace(context, extra=numbers[0] % (size + 1), drafts=ahead, reached=0)
            generation = replace(generation, extra=numbers[1] % (size + 1))
        requests.append(replace(asked, context=context, generation=generation))
    if numbers[3] % 3 == 2:
        requests = requests[:1]
    return case, replace(case, requests=tuple(requests), slots=Slots(1 + numbers[4] % 3, numbers[5]))


@each_encoding
@drawn
@given(both=variants())
def test_a9_what_is_due_does_not_depend_on_drafts_neighbours_or_slots(how: How, both: tuple[Case, Case]) -> None:
    law_A9(*both[:1], how, both[1])


@each_encoding
@drawn
@given(case=states(beams=False))
def test_a10_a_token_more_adds_no_block(how: How, case: Case) -> None:
    law_A10(case, how)


@settings(max_examples=300, deadline=None)
@given(case=STATES)
def test_no_due_block_is_lost_while_the_tokens_added_stay_within_the_reserve(case: Case) -> None:
    # Why A3 says "all that is live".
    for request in range(len(case.requests)):
        assert not (stays_within_reserve(case, request) and by_definition.lost(case, request))


@settings(max_examples=300, deadline=None)
@given(case=STATES)
def test_an_encoding_refuses_to_say_a_list_for_a_reason_alone(case: Case) -> None:
    for how in RIGHT:
        lists = ToldLists(case, how)
        for side in ("context", "generation"):
            for rank in lists.ranks(side):
                for request in lists.requests():
                    told = [lists.told(side, rank, request, group) for group in lists.groups()]
                    assert None not in told or by_definition.cannot_say(case, how.encoding, request)
