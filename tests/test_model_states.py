"""States that no manager would let happen are refused by name, value and what would be accepted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from oracle.model.buffers import Model
from oracle.model.case import Case, Request, SideState, SlotList
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.writes import Writes
from oracle.truth.blocks import DUE, block_classes, resident_blocks
from oracle.truth.holding import held_blocks
from oracle.truth.judge import judge
from tests.small_cases import case_of, group

KEY = "key @ 0 : T D(1) ; 8"
V1 = {"manager": "v1"}


def windowed(request: Request, *, window: int | None = 5, sinks: int = 0, **options: object) -> Case:
    return case_of(group(KEY, window=window, sinks=sinks), size=4, requests=(request,), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: Instance(scratch=-1), "scratch = -1 is not possible: expected a whole number of at least 0"),
        (lambda: Instance(look_ahead=True), "look_ahead = True is not possible: expected a whole number of at least 0"),
        (
            lambda: Instance(manager="v1", scratch=0),
            "scratch = 0 is not possible: manager v1 allocates the blocks of a prompt at once and has neither scratch "
            "nor look_ahead",
        ),
        (
            lambda: Instance(manager="v1", look_ahead=2),
            "look_ahead = 2 is not possible: manager v1 allocates the blocks of a prompt at once and has neither "
            "scratch nor look_ahead",
        ),
        (lambda: SideState(extra=-1), "extra = -1 is not possible: expected a whole number of at least 0"),
        (lambda: SideState(tails=1.0), "tails = 1.0 is not possible: expected a whole number of at least 0"),  # type: ignore[arg-type]
        (
            lambda: Request(0, 5, context=SideState(reached=4)),
            "request.context.reached = 4 is not possible: expected 0 for the prompt, or at least prompt = 5",
        ),
        (lambda: Request(0, 5, beams=0), "request.beams = 0 is not possible: expected a whole number of at least 1"),
        (
            lambda: Request(0, 5, beams=2, cuts=(3,)),
            "request.beams = 2 is not possible: a prefill in chunks has one beam",
        ),
        (
            lambda: Request(0, 5, beams=2, generation=SideState(extra=1)),
            "request.generation.extra = 1 is not possible: a beam search does not speculate",
        ),
        (
            lambda: Request(0, 5, beams=2, context=SideState(drafts=1)),
            "request.context.drafts = 1 is not possible: a beam search does not speculate",
        ),
        (
            lambda: Request(0, 5, beams=2, context=SideState(tails=2)),
            "request.context.tails = 2 is not possible: expected below beams = 2: the first beam is no tail",
        ),
        (
            lambda: Request(0, 5, context=SideState(tails=1)),
            "request.context.tails = 1 is not possible: expected below beams = 1: the first beam is no tail",
        ),
        (
            lambda: windowed(Request(0, 5), sinks=1, context_side=V1),
            "context.manager = 'v1' is not possible: group kv has sinks, which only v2 keeps",
        ),
        (
            lambda: windowed(Request(0, 5, beams=2), context_side=V1),
            "requests[0].beams = 2 is not possible: manager v2 of the generation side has one beam",
        ),
        (
            lambda: windowed(Request(0, 5, beams=2), generation="tp1 cp2", sides=V1),
            "requests[0].beams = 2 is not possible: the generation side has cp = 2, and context parallelism one beam",
        ),
        (
            lambda: windowed(Request(0, 8, beams=2, context=SideState(tails=1)), sides=V1),
            "requests[0].context.tails = 1 is not possible: beams share all blocks of a prompt of 8 tokens, which "
            "fills its blocks of 4",
        ),
        (
            lambda: windowed(Request(0, 8, beams=2, context=SideState(reached=9)), sides=V1),
            "requests[0].context.reached = 9 is not possible: the window of group kv would drop a block, which "
            "manager v1 does for one beam only",
        ),
        (
            lambda: windowed(Request(0, 8, generation=SideState(drafts=5)), sides=V1),
            "requests[0].generation.drafts = 5 is not possible: block 1 of group kv is due and dropped: "
            "expected a reserve of at least 1 tokens, or fewer tokens beyond the prompt",
        ),
        (
            lambda: windowed(
                Request(0, 8, generation=SideState(drafts=2, reached=14)),
                sides=V1,
                generation_side={"reserve": (("kv", 1),)},
            ),
            "requests[0].generation.reached = 14 is not possible: block 1 of group kv is due and dropped: "
            "expected a reserve of at least 2 tokens, or fewer tokens beyond the prompt",
        ),
        (
            lambda: windowed(Request(0, 8, generation=SideState(reached=12))),
            "requests[0].generation.reached = 12 is not possible: block 1 of group kv is due and dropped: "
            "expected a reserve of at least 1 tokens, or fewer tokens beyond the prompt",
        ),
        (
            lambda: windowed(Request(0, 8, generation=SideState(reached=5_000_000)), window=None),
            "request.generation.reached = 5000000 is not possible: expected at most 4,194,304 tokens beyond the prompt",
        ),
        (
            lambda: windowed(Request(0, 8, context=SideState(drafts=4_194_305))),
            "request.context.drafts = 4194305 is not possible: expected at most 4,194,304 tokens beyond the prompt",
        ),
        (
            lambda: windowed(Request(0, 8, context=SideState(extra=10**9))),
            f"request.context.extra = {10**9} is not possible: expected at most 4,194,304 tokens beyond the prompt",
        ),
        (
            lambda: Request(0, 10**10),
            "request.prompt = 10000000000 is not possible: expected at most 16,777,216 tokens",
        ),
        (
            lambda: Request(0, 1, lengths=(("encoder", 16_777_217),)),
            "request.lengths of encoder = 16777217 is not possible: expected at most 16,777,216 tokens",
        ),
        (
            lambda: windowed(Request(0, 8, beams=10**9), sides=V1),
            "request.beams = 1000000000 is not possible: expected at most 1,024 beams",
        ),
    ],
)
def test_what_no_manager_lets_happen_is_refused(build: object, told: str) -> None:
    with pytest.raises(InvalidCase) as error:
        build()  # type: ignore[operator]
    assert str(error.value) == told


def test_what_managers_do_let_happen_is_a_case() -> None:
    windowed(Request(0, 8, context=SideState(extra=9, drafts=9, reached=40)), context_side=V1)
    windowed(Request(0, 8, generation=SideState(extra=9, drafts=9)), generation_side={"scratch": 0, "look_ahead": 2})
    windowed(Request(0, 8, generation=SideState(drafts=5)), sides=V1, generation_side={"reserve": (("kv", 1),)})
    windowed(Request(0, 8, generation=SideState(reached=12)), generation_side={"reserve": (("kv", 1),)})
    windowed(Request(0, 8, generation=SideState(cached=8, reached=40)))
    windowed(Request(0, 8, generation=SideState(reached=40)), sinks=8)
    windowed(Request(0, 4_000_000, context=SideState(drafts=4_194_304, extra=4_194_304)))
    windowed(Request(0, 5, beams=1024), sides=V1)
    windowed(Request(0, 7, beams=3, context=SideState(tails=2), generation=SideState(tails=1)), sides=V1)
    windowed(Request(0, 8, beams=3, context=SideState(reached=9, tails=2)), window=9, sides=V1)


@pytest.mark.parametrize(
    ("request_", "window", "sides"),
    [
        (Request(0, 8, generation=SideState(reached=9)), 100, {}),
        (Request(0, 8, generation=SideState(reached=9)), 8, {}),
        (Request(0, 8, generation=SideState(reached=11)), 5, {}),
        (Request(0, 8, generation=SideState(drafts=3)), 100, V1),
        (Request(0, 8, generation=SideState(drafts=4)), 5, V1),
        (Request(0, 8, beams=2, generation=SideState(reached=11)), 100, V1),
    ],
)
def test_what_a_receiver_has_beyond_the_prompt_is_an_overhang_where_no_due_block_left(
    request_: Request, window: int, sides: dict[str, object]
) -> None:
    case = windowed(request_, window=window, sides=sides)
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes) and not plan.refusals
    assert judge(case, plan)


@pytest.mark.parametrize("manager", ["v1", "v2"])
@pytest.mark.parametrize("window", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("reserve", [0, 1, 3])
def test_a_receiver_is_refused_exactly_where_it_does_not_hold_what_is_due(
    manager: str, window: int, reserve: int
) -> None:
    """Asked of a sender in the same state, which may drop what is due."""
    side = {"manager": manager, "reserve": (("kv", reserve),)}
    seen = set()
    for prompt in range(1, 9):
        for cached in (0, 2, prompt):
            for reached in range(prompt, prompt + 9):
                state = SideState(cached=min(cached, prompt), reached=reached)
                sent = windowed(Request(0, prompt, context=state), window=window, context_side=side)
                plain = Request(0, prompt, generation=SideState(cached=state.cached))
                due = block_classes(windowed(plain, window=window), 0, 0) == DUE
                lost = bool((due & ~held_blocks(sent, "context", 0, 0)).any())
                try:
                    windowed(Request(0, prompt, generation=state), window=window, generation_side=side)
                    refused = False
                except InvalidCase:
                    refused = True
                assert refused == lost, (prompt, state)
                seen.add(refused)
    assert True in seen and False in seen


def test_sinks_of_a_group_with_a_length_of_its_own_are_no_matter_of_the_manager() -> None:
    request = Request(0, 4, lengths=(("encoder", 9),))
    case_of(group(KEY, window=5, sinks=1, length="encoder"), size=4, requests=(request,), sides=V1)


def test_a_side_that_tables_name_is_given_by_its_lists_alone() -> None:
    model = Model(1, (group(KEY, window=5), group("other @ 0 : T D(2) ; 8", name="full")))
    requests = (Request(0, 8, context=SideState(reached=40, drafts=2)), Request(1, 8))
    row = SlotList("context", 0, "full", 0, (1, 0))
    case = case_of(model, size=4, requests=requests, tables=(row,))
    slots = lay_out(case, "context").slots[0]
    assert [[list(own) for own in slots[place]] for place in (0, 1)] == [[[-1, -1]] * 2, [[1, 0], [-1, -1]]]
    assert not lay_out(case, "context").spare and lay_out(replace(case, tables=()), "context").spare
    inside = case_of(model, size=4, requests=requests, tables=(row, SlotList("context", 0, "kv", 0, (1, 0))))
    assert resident_blocks(inside, 0, 0, np.array([1, 0])).all()
    assert not resident_blocks(replace(inside, tables=()), 0, 0, np.array([1, 0])).any()
    assert all(np.array(own).min() >= 0 for own in lay_out(case, "generation").slots[0].values())


def test_a_side_has_room_for_the_most_tokens_that_it_had_or_prepared() -> None:
    assert Request(0, 8).room("context") == 8
    assert Request(0, 8, context=SideState(drafts=3)).room("context") == 11
    assert Request(0, 8, context=SideState(drafts=3, reached=13)).room("context") == 13
    assert Request(0, 8, context=SideState(drafts=3, reached=9)).room("generation") == 8
