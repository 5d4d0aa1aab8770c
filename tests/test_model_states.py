"""States that no manager would let happen are refused by name, value and what would be accepted."""

from __future__ import annotations

import pytest

from oracle.model.case import Case, Request, SideState
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
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
            lambda: windowed(Request(0, 8, generation=SideState(drafts=3)), sides=V1),
            "requests[0].generation.drafts = 3 is not possible: a receiver keeps all that is due in group kv: "
            "expected a reserve of at least 2 tokens, or fewer tokens beyond the prompt",
        ),
        (
            lambda: windowed(Request(0, 8, generation=SideState(reached=9))),
            "requests[0].generation.reached = 9 is not possible: a receiver keeps all that is due in group kv: "
            "expected a reserve of at least 1 tokens, or fewer tokens beyond the prompt",
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
    windowed(Request(0, 8, generation=SideState(drafts=3)), sides=V1, generation_side={"reserve": (("kv", 2),)})
    windowed(Request(0, 8, generation=SideState(reached=9)), generation_side={"reserve": (("kv", 1),)})
    windowed(Request(0, 7, beams=3, context=SideState(tails=2), generation=SideState(tails=1)), sides=V1)
    windowed(Request(0, 8, beams=3, context=SideState(reached=9, tails=2)), window=9, sides=V1)


def test_sinks_of_a_group_with_a_length_of_its_own_are_no_matter_of_the_manager() -> None:
    request = Request(0, 4, lengths=(("encoder", 9),))
    case_of(group(KEY, window=5, sinks=1, length="encoder"), size=4, requests=(request,), sides=V1)


def test_a_side_has_room_for_the_most_tokens_that_it_had_or_prepared() -> None:
    assert Request(0, 8).room("context") == 8
    assert Request(0, 8, context=SideState(drafts=3)).room("context") == 11
    assert Request(0, 8, context=SideState(drafts=3, reached=13)).room("context") == 13
    assert Request(0, 8, context=SideState(drafts=3, reached=9)).room("generation") == 8
