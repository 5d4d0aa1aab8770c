"""Drawn cache states: each shape that a known failure needs is reached, sides differ, few requests lose a block."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations
from random import Random

import numpy as np
import pytest

from differential.managers.tables import gather_facts
from differential.subjects.registry import find_subject
from oracle.model.case import SIDES, Case
from oracle.model.codec import decode as read
from oracle.model.codec import encode
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal
from oracle.truth.blocks import DUE, block_classes
from oracle.truth.holding import held_blocks
from strategies.cases import cases, cases_of, decode
from strategies.features import CANNOT_MEET, FEATURES, OF_STATES, OF_WINDOWS, features_of
from strategies.kinds import find_kind, kinds
from strategies.numbers import WIDTH, shape, simplest
from tests.state_shapes import SHAPES

WINDOWED = tuple(map(find_kind, ("vswa", "gemma4", "csa2", "deepseek_v4")))
SUBJECTS = ("mapping", "mapping:anchors", "mapping:suffix", "native", "native:suffix")


@lru_cache(maxsize=8)
def drawn(count: int, seed: int = 7, *, windows: bool = False, states: bool = True) -> tuple[Case, ...]:
    random = Random(seed)
    chosen = WINDOWED if windows else kinds()
    return tuple(decode(random.randbytes(WIDTH), kinds=chosen, states=states) for _ in range(count))


def alike_in_blocks(case: Case) -> bool:
    return case.context.tokens_per_block == case.generation.tokens_per_block


def loses_a_due_block(case: Case, request: int) -> bool:
    return any(
        group.is_paged
        and bool(((block_classes(case, request, index) == DUE) & ~held_blocks(case, "context", request, index)).any())
        for index, group in enumerate(case.model.groups)
    )


# ---- what is reached


@lru_cache(maxsize=1)
def reached() -> Counter[str]:
    found: Counter[str] = Counter()
    for case in drawn(3_000):
        if alike_in_blocks(case):
            found.update(name for name, holds in SHAPES.items() if holds(case))
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_that_a_known_failure_needs_is_reached_within_3000_draws(name: str) -> None:
    assert reached()[name]


def test_most_shapes_are_reached_every_200_draws() -> None:
    often = [name for name in SHAPES if reached()[name] >= 15]
    assert len(often) > 0.75 * len(SHAPES), Counter(reached()).most_common()


def test_a_due_block_is_lost_in_three_to_four_percent_of_the_cases() -> None:
    random = Random(11)
    lost = 0
    for _ in range(6_000):
        case = decode(random.randbytes(WIDTH))
        lost += alike_in_blocks(case) and any(loses_a_due_block(case, each) for each in range(len(case.requests)))
    assert 0.025 < lost / 6_000 < 0.045


def test_extra_tokens_and_drafts_end_in_different_blocks_in_half_of_the_states_with_either() -> None:
    unequal = of_either = 0
    for case in filter(alike_in_blocks, drawn(3_000)):
        size = case.context.tokens_per_block
        for request in case.requests:
            for state in (request.context, request.generation):
                if state.extra or state.drafts:
                    of_either += 1
                    blocks = {-(-(request.prompt + more) // size) for more in (state.extra, state.drafts)}
                    unequal += len(blocks) == 2
    assert 0.5 < unequal / of_either < 0.9


def test_every_subject_serves_and_refuses() -> None:
    served, refused = Counter[str](), Counter[str]()
    planners = [find_subject(name) for name in SUBJECTS]
    for case in drawn(400, 3):
        if case.native is None:
            continue
        facts = gather_facts(case)
        for subject in planners:
            plan = subject.plan(case, facts)
            no = isinstance(plan, Refusal) or bool(plan.refusals)
            (refused if no else served)[subject.name] += 1
    for name in SUBJECTS:
        assert served[name] > 200 and refused[name] > 10, (name, served, refused)


def test_every_value_of_every_field_occurs() -> None:
    seen: dict[str, set[object]] = {}
    for case in drawn(3_000):
        for side in SIDES:
            instance = case.side(side)
            seen.setdefault(f"{side} manager", set()).add(instance.manager)
            seen.setdefault(f"{side} scratch", set()).add(instance.scratch)
            seen.setdefault(f"{side} reserve", set()).update(tokens for _, tokens in instance.reserve)
            for request in case.requests:
                state = request.state(side)
                for name in ("extra", "drafts", "tails"):
                    seen.setdefault(f"{side} {name}", set()).add(getattr(state, name))
                beyond = state.reached - request.prompt if state.reached else 0
                seen.setdefault(f"{side} reached", set()).add(beyond)
        seen.setdefault("beams", set()).update(request.beams for request in case.requests)
        seen.setdefault("look-ahead", set()).add(case.context.look_ahead)
        seen.setdefault("cuts", set()).update(len(request.cuts) for request in case.requests)
        seen.setdefault("sinks", set()).update(group.sinks for group in case.model.groups)
    assert seen["beams"] == {1, 2, 3, 4} and seen["look-ahead"] == {0, 1, 2} and seen["cuts"] == {0, 1, 2, 3}
    assert {0, 1, 2, 3, 4, 5, 8, 9} <= seen["sinks"]
    for side in SIDES:
        assert seen[f"{side} manager"] == {"v1", "v2"}
        assert {None, 0, 1, 2, 3, 4, 8} <= seen[f"{side} scratch"]
        assert {1, 2, 3, 4, 5, 7, 8, 9, 17} <= seen[f"{side} reserve"]
        assert seen[f"{side} tails"] == {0, 1, 2, 3}
        assert {*range(6), 8} <= seen[f"{side} extra"]
        assert {*range(6), 8, 16} <= seen[f"{side} drafts"]
        assert {*range(6), 8} <= seen[f"{side} reached"] and max(seen[f"{side} reached"]) > 16


# ---- that it is not the same on both sides, and not of one request


def test_the_two_sides_have_states_of_their_own() -> None:
    several = [request for case in drawn(3_000) for request in case.requests]
    for name in ("extra", "drafts", "reached", "cached"):
        either = [(getattr(each.context, name), getattr(each.generation, name)) for each in several]
        either = [pair for pair in either if any(pair)]
        assert sum(first != second for first, second in either) > 0.8 * len(either)
        assert any(first == second for first, second in either)
    reserves = [(case.context.reserve, case.generation.reserve) for case in drawn(3_000)]
    assert sum(first != second for first, second in reserves if first or second) > 300
    assert any(first == second for first, second in reserves if first)


def test_windows_of_one_case_keep_unlike_reserves_too() -> None:
    several = [
        tuple(case.side(side).reserve_of(group.name) for group in case.model.groups if group.window is not None)
        for case in drawn(3_000)
        for side in SIDES
    ]
    several = [reserves for reserves in several if len(reserves) > 1 and any(reserves)]
    unlike = sum(len(set(reserves)) > 1 for reserves in several)
    assert 0.05 < unlike / len(several) < 0.3


def test_requests_of_one_case_have_states_of_their_own() -> None:
    pairs = [case.requests[:2] for case in drawn(3_000) if len(case.requests) > 1]
    stated = [pair for pair in pairs if not all(each.is_plain for each in pair)]
    assert sum(first.context != second.context for first, second in stated) > 0.7 * len(stated)


# ---- what may be together


@pytest.mark.parametrize("kind", WINDOWED, ids=lambda kind: kind.name)
def test_every_two_features_meet_in_a_kind_with_windows(kind: object) -> None:
    random = Random(13)
    found = [features_of(decode(random.randbytes(WIDTH), kinds=(kind,))) for _ in range(2_000)]
    met = {frozenset(pair) for features in found for pair in combinations(features, 2)}
    names = set().union(*found)
    assert names >= OF_STATES
    missing = {frozenset(pair) for pair in combinations(names, 2)} - met - CANNOT_MEET
    assert len(missing) <= 2, sorted(map(sorted, missing))
    assert all(names - OF_STATES >= pair for pair in missing), sorted(map(sorted, missing))


def test_features_of_windows_are_there_often_and_often_not() -> None:
    found = [features_of(case) for case in drawn(2_000, windows=True)]
    for name in OF_WINDOWS:
        assert 0.05 < sum(name in features for features in found) / len(found) < 0.75, name


def test_no_state_is_drawn_that_a_manager_cannot_hold() -> None:
    for case in drawn(3_000):
        with_sinks = any(group.sinks and group.length == "prompt" for group in case.model.groups)
        managers = {case.context.manager, case.generation.manager}
        assert not with_sinks or managers == {"v2"}
        for request in case.requests:
            assert request.beams == 1 or (managers == {"v1"} and not request.cuts)
            assert request.beams == 1 or max(case.side(side).topology.cp for side in SIDES) == 1
            for index, group in enumerate(case.model.groups):
                if group.is_paged and group.length == "prompt":  # a receiver has room for all that is due
                    number = case.requests.index(request)
                    due = block_classes(case, number, index) == DUE
                    assert not (due & ~held_blocks(case, "generation", number, index)).any()


# ---- without states


def test_without_states_no_case_has_any() -> None:
    for case in drawn(1_500, states=False):
        assert not features_of(case) & (OF_STATES - {"sinks"})
        assert all(request.is_plain and request.beams == 1 for request in case.requests)


def test_without_states_their_numbers_change_nothing() -> None:
    random = Random(17)
    first = next(concept.index for concept in shape() if concept.name == "beams")
    for _ in range(200):
        numbers = bytearray(random.randbytes(WIDTH))
        case = decode(numbers, states=False)
        numbers[first:] = random.randbytes(WIDTH - first)
        assert decode(numbers, states=False) == case


def test_with_and_without_states_are_two_strategies() -> None:
    assert cases() is cases(states=True)
    assert cases() is not cases(states=False)
    assert cases_of("gqa", states=False) is cases(("gqa",), states=False)


def test_the_simplest_numbers_have_no_state() -> None:
    case = decode(simplest())
    assert not features_of(case) & OF_STATES
    assert decode(simplest(), states=False) == case


def test_states_can_be_set_by_name() -> None:
    case = decode(simplest(generation_drafts=2, context_manager=1, tokens_per_block=1, prompt_blocks_0=1))
    assert (case.context.manager, case.requests[0].prompt, case.requests[0].generation.drafts) == ("v1", 4, 1)


def test_states_survive_a_case_file() -> None:
    for case in drawn(300, 5):
        assert read(encode(case)) == case


def test_slots_of_what_lies_beyond_the_prompt_are_not_those_of_the_prompt() -> None:
    seen = 0
    for case in drawn(400, 9):
        for side in SIDES:
            layout = lay_out(case, side)
            for rank, groups in enumerate(layout.slots):
                for group, rows in groups.items():
                    spare = [part for each in range(len(rows)) for part in layout.spare_slots(rank, group, each)]
                    beyond = np.concatenate(spare)
                    seen += len(beyond)
                    assert len(np.unique(beyond)) == len(beyond)
                    assert not np.isin(beyond, np.concatenate(rows)).any()
    assert seen > 1_000


def test_every_feature_is_one_of_states_or_not() -> None:
    assert set(FEATURES) > OF_STATES > OF_WINDOWS
