"""Laws C1 to C5 and D1 to D3 hold for every encoding and every drawn state of both managers (spec: blocks, 6.1)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvwitness
from oracle.model.case import Case
from oracle.model.writes import Writes
from tests import block_definitions as by_definition
from tests.encoded_lists import RIGHT, TABLES, How
from tests.encoding_laws import (
    law_C1,
    law_C2,
    law_C3,
    law_C4,
    law_C5,
    law_D1,
    law_D2,
    law_D3,
)
from tests.encoding_states import STATES, states
from tests.laws_of_transfers import streams
from tests.memories import mover, pools_of

each_encoding = pytest.mark.parametrize("how", RIGHT, ids=repr)
drawn = settings(max_examples=100, deadline=None)
CHUNKED = states(chunks=True, beams=False)


@each_encoding
@settings(max_examples=150, deadline=None)
@given(case=CHUNKED)
def test_c1_slices_together_move_what_one_would(how: How, case: Case) -> None:
    law_C1(case, how)


@each_encoding
@settings(max_examples=150, deadline=None)
@given(case=STATES)
def test_c2_all_that_is_due_is_written_once_or_the_request_is_refused(how: How, case: Case) -> None:
    law_C2(case, how)


@drawn
@given(case=CHUNKED)
def test_c3_the_final_slice_is_the_last_and_the_only_one_that_says_so(case: Case) -> None:
    law_C3(case, TABLES)


@each_encoding
@drawn
@given(case=CHUNKED)
def test_c4_a_windowed_group_waits_for_the_last_slice(how: How, case: Case) -> None:
    law_C4(case, how)


@each_encoding
@drawn
@given(case=states(beams=False), cuts=st.sets(st.integers(1, 60), max_size=4), cached=st.integers(0, 60))
def test_c5_where_a_prefill_is_cut_and_what_it_reuses_change_nothing(
    how: How, case: Case, cuts: set[int], cached: int
) -> None:
    law_C5(case, how, tuple(sorted(cuts)), cached)


@each_encoding
@drawn
@given(case=STATES)
def test_d1_what_is_due_lands_from_its_own_block_and_nothing_else_changes(how: How, case: Case) -> None:
    law_D1(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_d2_only_slots_of_the_request_alone_are_written(how: How, case: Case) -> None:
    law_D2(case, how)


@each_encoding
@drawn
@given(case=STATES)
def test_d3_only_slots_that_the_source_holds_are_read(how: How, case: Case) -> None:
    law_D3(case, how)


@each_encoding
@settings(max_examples=50, deadline=None)
@given(case=states(beams=False))
def test_a_check_of_memory_agrees(how: How, case: Case) -> None:
    plan: Writes = how.plan(case)
    memories = pools_of(case)
    verdict = kvwitness.check_memory(case, memories, mover(plan, memories), writes=plan)
    if {refusal.code for refusal in plan.refusals} <= {"block_lost"}:
        assert verdict, verdict.violations


def test_slices_are_drawn_that_are_left_out_and_groups_that_wait() -> None:
    """The strategy reaches what the laws of slices speak of."""
    found = set()

    @settings(max_examples=150, deadline=None, database=None)
    @given(case=CHUNKED)
    def look(case: Case) -> None:
        for request, asked in enumerate(case.requests):
            _, sent = by_definition.slice_of(case, request)
            found.add(("left out", sent < len(asked.cuts) + 1))
            found.update(("streams", streams(case, request, group)) for group in range(len(case.model.groups)))
            found.add(("reused", asked.context.cached >= case.context.tokens_per_block and sent > 1))

    look()
    assert found >= {(name, yes) for name in ("left out", "streams", "reused") for yes in (True, False)}
