"""What failures of cache states shrink to: the one number that matters, in at most four blocks of three tokens."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, find, settings

from oracle.model.case import PLAIN, SIDES, Case, SideState
from strategies.cases import cases, cases_of
from strategies.features import features_of
from tests.state_shapes import SHAPES, blocks_of, windows

SEEDS = (1, 2)
SETTINGS = settings(max_examples=20_000, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def minimal(condition: Callable[[Case], bool], seed: int, kind: str | None = "gqa") -> Case:
    """The case that a test which fails on ``condition`` would report."""
    return find(cases_of(kind) if kind else cases(), condition, settings=SETTINGS, random=Random(seed))


def assert_small(case: Case, *, ranks: int = 2, blocks: int = 4) -> None:
    """One request between ``ranks`` ranks in slots as they come, in few short blocks."""
    assert case.context.topology.size + case.generation.topology.size == ranks
    assert len(case.requests) == 1
    assert case.context.tokens_per_block <= 3
    assert blocks_of(case, case.requests[0]) <= blocks
    assert (case.slots.mul, case.slots.add) == (1, 0)
    assert not case.context.packing and not case.generation.packing and not case.context.layer_order


def states(case: Case) -> tuple[SideState, SideState]:
    return case.requests[0].context, case.requests[0].generation


@pytest.mark.parametrize("seed", SEEDS[:1])
@pytest.mark.parametrize("name", ["extra", "drafts", "reached", "cached"])
@pytest.mark.parametrize("side", SIDES)
def test_a_number_of_one_side_shrinks_to_one_token_and_nothing_else(side: str, name: str, seed: int) -> None:
    case = minimal(lambda case: any(getattr(r.state(side), name) for r in case.requests), seed)
    assert_small(case, blocks=1)
    state, other = states(case)[:: 1 if side == "context" else -1]
    prompt = case.requests[0].prompt
    assert (prompt, other) == (1, PLAIN)
    assert state == SideState(**{name: prompt + 1 if name == "reached" else 1})
    assert case.context.manager == case.generation.manager == "v2"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("side", SIDES)
def test_the_other_manager_alone_stays(side: str, seed: int) -> None:
    case = minimal(lambda case: case.side(side).manager == "v1", seed)
    assert features_of(case) == {f"V1 {side}"}
    assert_small(case, blocks=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_beams_shrink_to_two_without_tails(seed: int) -> None:
    case = minimal(lambda case: any(request.beams > 1 for request in case.requests), seed)
    assert_small(case, blocks=1)
    assert case.requests[0].beams == 2 and states(case) == (PLAIN, PLAIN)
    assert features_of(case) == {"beams", "V1 context", "V1 generation"}


@pytest.mark.parametrize("seed", SEEDS)
def test_unequal_tails_shrink_to_one_tail_of_two_beams(seed: int) -> None:
    case = minimal(SHAPES["unequal tails"], seed)
    assert_small(case, blocks=2)
    assert case.requests[0].beams == 2
    assert sorted(state.tails for state in states(case)) == [0, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reserve_shrinks_to_one_token_of_one_side(seed: int) -> None:
    case = minimal(lambda case: bool(case.generation.reserve), seed, "vswa")
    assert_small(case)
    assert {tokens for _, tokens in case.generation.reserve} == {1}
    assert not case.context.reserve and states(case) == (PLAIN, PLAIN)
    assert not features_of(case) & {"scratch", "sinks", "V1 context", "V1 generation"}


@pytest.mark.parametrize("seed", SEEDS)
def test_scratch_shrinks_to_a_rewind_of_nothing(seed: int) -> None:
    case = minimal(lambda case: case.context.scratch is not None, seed, "vswa")
    assert_small(case)
    assert case.context.scratch == 0 and case.generation.scratch is None
    assert features_of(case) & {"reserve", "sinks", "drafts", "beyond the prompt", "chunks"} == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_sinks_shrink_to_one_token(seed: int) -> None:
    case = minimal(lambda case: any(group.sinks for group in case.model.groups), seed, "gemma4")
    assert_small(case)
    assert {group.sinks for group in case.model.groups} == {0, 1}
    assert features_of(case) & {"reserve", "scratch", "drafts", "beyond the prompt"} == set()


WINDOW_SHAPES = [
    "counter at the window's end",
    "I6: counter beyond the window's end",
    "I1: blocks past the prompt behind holes",
    "I2: a V1 list that goes on past the prompt, and a window",
    "I4: a sender that keeps what its receiver has dropped",
    "I5: a receiver with the wider window",
    "I11, m22: sinks before a gap",
    "m16: a cut inside the window",
    "m21: nothing of a window is left to send with the last chunk",
]


@pytest.mark.parametrize("name", WINDOW_SHAPES)
def test_shapes_of_windows_shrink_to_few_short_blocks(name: str) -> None:
    case = minimal(SHAPES[name], 1, "vswa")
    assert_small(case)
    assert next(end for _, _, end in windows(case)) <= 2


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("I7: equal tails, fewer than the beams could have, and reuse", 2),
        ("m15b: the sender reused more than the receiver, and cuts", 2),
        ("several cuts in one block", 2),
        ("I3: more blocks for drafts than the manager reports", 2),
        ("I8, I9: Helix, a window and reuse", 3),
        ("Helix and chunks", 3),
    ],
)
def test_other_shapes_do_so_too(name: str, ranks: int) -> None:
    case = minimal(SHAPES[name], 1, "vswa")
    assert_small(case, ranks=ranks)
