"""What a side still holds, token by token, against the closed forms of both managers (spec: blocks, 1.2-1.4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.managers.tables import gather_facts
from oracle.model.case import Case, Request, SideState
from oracle.model.writes import Writes
from oracle.truth.blocks import DUE, FORBIDDEN, block_classes
from oracle.truth.elements import truth_of
from oracle.truth.holding import held_blocks, scratch_blocks, within_reach
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import judge
from oracle.truth.reserved import FOREIGN
from oracle.truth.verdict import Kind
from tests.block_moves import plan_of
from tests.small_cases import case_of, group
from tests.state_cases import stated_cases

KEY = "key @ 0 : T D(1) ; 8"


def sender(
    prompt: int, size: int, window: int | None, manager: str, state: SideState, *, reserve: int = 0, **side: object
) -> Case:
    return case_of(
        group(KEY, window=window),
        size=size,
        requests=(Request(0, prompt, context=state),),
        context_side={"manager": manager, "reserve": (("kv", reserve),), **side},
    )


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 24), st.integers(0, 5), st.integers(0, 30))
def test_v1_lets_go_of_what_its_counter_says(prompt: int, size: int, window: int, reserve: int, added: int) -> None:
    case = sender(prompt, size, window, "v1", SideState(reached=prompt + added), reserve=reserve)
    removed = max(0, (prompt + added - window - reserve) // size) if added else 0
    held = held_blocks(case, "context", 0, 0)
    assert held.tolist() == [ordinal >= removed for ordinal in range(-(-prompt // size))]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 24), st.integers(0, 5), st.integers(0, 30))
def test_v2_keeps_what_its_history_reaches(prompt: int, size: int, window: int, reserve: int, added: int) -> None:
    case = sender(prompt, size, window, "v2", SideState(reached=prompt + added), reserve=reserve)
    stale = max(0, (prompt + added + 1 - window - reserve) // size)
    held = held_blocks(case, "context", 0, 0)
    assert held.tolist() == [ordinal >= stale for ordinal in range(-(-prompt // size))]


@settings(max_examples=200, deadline=None)
@given(stated_cases())
def test_a_sender_lists_only_what_it_holds_and_all_that_is_due_unless_it_is_lost(case: Case) -> None:
    facts = gather_facts(case)
    lost = truth_of(case).lost
    for rank in facts.context:
        for (request, group_index), table in rank.blocks.items():
            if not case.model.groups[group_index].is_paged:
                continue
            held = held_blocks(case, "context", request, group_index)
            listed = table.slots >= 0
            assert not (listed & ~held).any()
            due = block_classes(case, request, group_index) == DUE
            assert request in lost or not (due & ~listed).any()
    for rank in facts.generation:
        for (request, group_index), table in rank.blocks.items():
            if not case.model.groups[group_index].is_paged:
                continue
            # A receiver asks for exactly what is due or may arrive.
            wanted = (block_classes(case, request, group_index) != FORBIDDEN)[table.first :: table.stride]
            assert ((table.slots >= 0) == wanted).all()


def test_with_v1_a_due_block_is_lost_only_beyond_the_reserve() -> None:
    for reserve in range(6):
        for added in range(12):
            case = sender(10, 4, 5, "v1", SideState(reached=10 + added), reserve=reserve)
            if added <= reserve + 1:
                assert not truth_of(case).lost


def test_v1_lets_nothing_go_while_it_prefills() -> None:
    case = sender(131, 8, 9, "v1", SideState())
    assert held_blocks(case, "context", 0, 0).all()
    case = sender(131, 8, 9, "v1", SideState(drafts=1))
    assert held_blocks(case, "context", 0, 0).tolist() == [False] * 15 + [True] * 2


@pytest.mark.parametrize(
    ("prompt", "size", "window", "done", "capacity", "rewind", "expected"),
    [(32, 8, 16, 0, 32, 0, [0, 1]), (34, 8, 16, 0, 34, 2, [0, 1]), (32, 4, 8, 8, 32, 0, [2, 3, 4, 5])],
)
def test_scratch_is_what_a_step_begins_and_leaves_behind(
    prompt: int, size: int, window: int, done: int, capacity: int, rewind: int, expected: list[int]
) -> None:
    case = sender(prompt, size, window, "v2", SideState(), scratch=rewind)
    found = scratch_blocks(case, "context", 0, 0, done=done, capacity=capacity)
    assert np.flatnonzero(found).tolist() == expected


def test_reach_is_of_tokens_and_sinks_stay() -> None:
    case = case_of(group(KEY, window=16, sinks=4), prompts=32, size=8)
    assert within_reach(case, "context", 0, 0, reserve=0, tokens=32).tolist() == [True, False, True, True]
    assert within_reach(case, "context", 0, 0, reserve=1, tokens=32).tolist() == [True, False, True, True]
    assert within_reach(case, "context", 0, 0, reserve=2, tokens=32).tolist() == [True, True, True, True]


# ---- what must not be read


@pytest.mark.parametrize("manager", ["v1", "v2"])
def test_blocks_past_the_prompt_and_those_let_go_are_foreign(manager: str) -> None:
    case = sender(8, 4, 5, manager, SideState(drafts=6, reached=14), reserve=2)
    truth = truth_of(case)
    side = truth.context.side
    beyond, _ = side.spare_slots(0, 0, 0)
    assert len(beyond) == 2
    held = held_blocks(case, "context", 0, 0)
    for slot, there in [*zip(side.slots[0][0][0].tolist(), held.tolist(), strict=True), *((s, False) for s in beyond)]:
        ids = truth.source[slot * 4 : slot * 4 + 4]
        assert (ids == FOREIGN).all() != there


@settings(max_examples=100, deadline=None)
@given(stated_cases(), st.integers(0, 7), st.sampled_from(["tables", "anchors", "suffix"]))
def test_both_judges_say_the_same_of_plans_that_shift_blocks(case: Case, shift: int, encoding: str) -> None:
    plan = plan_of(case, f"mapping:{encoding}")
    if not isinstance(plan, Writes):
        return
    segments = [
        replace(segment, source_bases=np.roll(segment.source_bases, shift % max(1, len(segment.source_bases))))
        for segment in plan.segments
    ]
    wrong = replace(plan, segments=tuple(segments[: len(segments) - shift % 2]))
    for how in ("tables", "anchors"):
        assert judge(case, wrong, encoding=how) == judge_intervals(case, wrong, encoding=how)


def test_a_lost_block_sent_from_its_old_slot_is_a_stale_source() -> None:
    case = sender(10, 4, 5, "v1", SideState(reached=13))
    # Nobody counts what was detached: block 1 goes from where it was.
    kept = replace(case, requests=(Request(0, 10),))
    plan = plan_of(kept, "mapping")
    side, other = truth_of(case).context.side, truth_of(kept).context.side
    moved = {int(old): int(new) for old, new in zip(other.slots[0][0][0], side.slots[0][0][0], strict=True)}
    (segment,) = plan.segments
    bases = np.array([moved[base // 4] * 4 for base in segment.source_bases.tolist()])
    wrong = replace(plan, segments=(replace(segment, source_bases=bases),))
    verdict = judge(case, wrong)
    assert verdict.counts == {Kind.STALE_SOURCE: 4, Kind.WRONG_ELEMENT: 4}
    assert judge_intervals(case, wrong) == verdict
