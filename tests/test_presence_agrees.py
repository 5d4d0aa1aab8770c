"""Truth and managers decide apart which blocks a side has, and both judges say the same of what is done with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.managers.holdings import Holdings
from differential.managers.tables import gather_facts
from differential.managers.v1 import BlockList
from differential.managers.v2 import HOLE
from oracle.model.case import SIDES, Case
from oracle.model.encodings import CHUNKS_WITH_CONTEXT_PARALLELISM, CODES
from oracle.model.writes import Refusal, Writes
from oracle.truth.blocks import DUE, FORBIDDEN, block_classes
from oracle.truth.encodings import may_refuse
from oracle.truth.holding import held_blocks
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from tests import block_definitions as by_definition
from tests.encoded_lists import RIGHT, How, own, refused
from tests.encoding_states import STATES

each_encoding = pytest.mark.parametrize("how", RIGHT, ids=repr)


def ordinals(mask: np.ndarray) -> set[int]:
    return set(np.flatnonzero(mask).tolist())


def managed(holdings: Holdings, side: str, rank: int, request: int, group: int) -> set[int]:
    """The prompt blocks that a rank's manager lists as its own to read."""
    case = holdings.case
    held = holdings.listed(side, rank, request, group)
    mine = own(case, side, rank, by_definition.all_blocks(case, side, request, group))
    if isinstance(held, BlockList):
        assert held.own >= len(mine)
        return {ordinal for ordinal in mine if ordinal >= held.removed}
    assert not held.parked and len(held.slots) >= len(mine)
    return {ordinal for ordinal, slot in zip(mine, held.slots.tolist(), strict=False) if slot != HOLE}


@settings(max_examples=1000, deadline=None)
@given(case=STATES)
def test_truth_and_managers_hold_the_same_blocks(case: Case) -> None:
    holdings = Holdings(case)
    for side in SIDES:
        for request in range(len(case.requests)):
            for group in range(len(case.model.groups)):
                there = by_definition.present(case, side, request, group)
                assert ordinals(held_blocks(case, side, request, group)) == there
                ranks = range(case.side(side).topology.size)
                listed = [managed(holdings, side, rank, request, group) for rank in ranks]
                assert set().union(*listed) == there and sum(map(len, listed)) == len(there)


@settings(max_examples=300, deadline=None)
@given(case=STATES)
def test_tables_list_what_truth_says_may_move(case: Case) -> None:
    facts = gather_facts(case)
    for side, ranks in zip(SIDES, (facts.context, facts.generation), strict=True):
        for number, rank in enumerate(ranks):
            for (request, group), table in rank.blocks.items():
                listed = {table.first + place * table.stride for place in ordinals(table.slots != HOLE)}
                classes = block_classes(case, request, group)
                if side == "generation":
                    assert listed == set(own(case, side, number, frozenset(ordinals(classes != FORBIDDEN))))
                    continue
                held = held_blocks(case, side, request, group)
                assert listed <= ordinals(held)
                assert set(own(case, side, number, frozenset(ordinals((classes == DUE) & held)))) <= listed


@settings(max_examples=300, deadline=None)
@given(case=STATES)
def test_truth_classes_blocks_as_they_are_defined(case: Case) -> None:
    for request in range(len(case.requests)):
        for group in range(len(case.model.groups)):
            classes = block_classes(case, request, group)
            due = by_definition.due(case, request, group)
            assert ordinals(classes == DUE) == due
            # A receiver has room for what is due, whatever it has let go of besides.
            assert ordinals(classes != FORBIDDEN) == by_definition.asked(case, request, group) >= due


# ---- refusals


@each_encoding
@settings(max_examples=120, deadline=None)
@given(case=STATES)
def test_a_request_is_refused_just_where_a_block_is_lost_or_cannot_be_said(how: How, case: Case) -> None:
    codes = refused(how.plan(case))
    for request in range(len(case.requests)):
        reasons = by_definition.cannot_say(case, how.encoding, request)
        if by_definition.lost(case, request):
            reasons |= {"block_lost"}
        if request in codes:
            assert codes[request] in reasons
        else:
            assert not reasons


@each_encoding
@settings(max_examples=120, deadline=None)
@given(case=STATES)
def test_truth_excuses_a_refusal_just_where_the_encoding_cannot_say_the_state(how: How, case: Case) -> None:
    for request in range(len(case.requests)):
        excused = {code for code in CODES if may_refuse(case, request, how.encoding, code)}
        reasons = by_definition.cannot_say(case, how.encoding, request)
        # Who is asked for chunks under context parallelism may say no even where one slice has them all.
        assert excused - {CHUNKS_WITH_CONTEXT_PARALLELISM} == reasons - {CHUNKS_WITH_CONTEXT_PARALLELISM}
        assert reasons <= excused


# ---- judges


@each_encoding
@settings(max_examples=100, deadline=None)
@given(case=STATES)
def test_both_judges_pass_what_is_right(how: How, case: Case) -> None:
    plan = how.plan(case)
    verdict = judge(case, plan, encoding=how.encoding)
    assert verdict, verdict.violations
    assert judge_intervals(case, plan, encoding=how.encoding) == verdict


@each_encoding
@settings(max_examples=120, deadline=None)
@given(case=STATES, which=st.integers(0, 7), by=st.integers(1, 3), other=st.sampled_from(RIGHT))
def test_both_judges_say_the_same_of_what_is_wrong(how: How, case: Case, which: int, by: int, other: How) -> None:
    """A segment is left out, turned, written twice or moved by a slot; refusals are taken back, or invented."""
    plan = how.plan(case)
    segments, refusals = list(plan.segments), list(plan.refusals)
    if which == 6:
        refusals = []
    elif which == 7:
        codes = sorted({"block_lost", "hole_in_a_list", "tail_counts_differ", "sinks_before_a_gap"})
        refusals.append(Refusal(codes[by], "", 0))
        segments = [each for each in segments if each.request]
    elif segments:
        chosen = segments[by % len(segments)]
        step = max(1, int(chosen.runs[:, 2].sum()))
        changed = {
            0: (),
            1: (replace(chosen, source_bases=np.roll(chosen.source_bases, by)),),
            2: (replace(chosen, destination_bases=np.roll(chosen.destination_bases, by)),),
            3: (chosen, chosen),
            4: (replace(chosen, source_bases=chosen.source_bases + step),),
            5: (replace(chosen, destination_bases=chosen.destination_bases + step),),
        }[which]
        place = by % len(segments)
        segments[place : place + 1] = changed
    spoilt = Writes(plan.pairs, tuple(segments), tuple(refusals))
    assert judge(case, spoilt, encoding=other.encoding) == judge_intervals(case, spoilt, encoding=other.encoding)
