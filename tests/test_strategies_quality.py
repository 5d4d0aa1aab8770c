"""What drawn cases shrink to: nothing that the failure does not need is left in a minimal case."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, find, settings

from oracle.model.case import Case
from strategies.cases import cases, cases_of
from strategies.features import features_of, sizes_of
from strategies.topologies import Grid, Shape

SEEDS = (1, 2)
SETTINGS = settings(max_examples=5_000, database=None, deadline=None, suppress_health_check=list(HealthCheck))

SIMPLEST = {"ranks": 2, "layers": 1, "requests": 1, "blocks": 1}


def minimal(condition: Callable[[Case], bool], seed: int, kind: str | None = None) -> Case:
    """The case that a test which fails on ``condition`` would report."""
    return find(cases_of(kind) if kind else cases(), condition, settings=SETTINGS, random=Random(seed))


def shapes(case: Case) -> tuple[Shape, Shape]:
    return Shape.of(case.context.topology), Shape.of(case.generation.topology)


def heads(case: Case) -> int:
    """K/V heads of the first buffer, 1 where it has no head axis."""
    axes = case.model.groups[0].buffers[0].parts[0].axes
    return next((axis.size for axis in axes if axis.name == "H"), 1)


def dim(case: Case) -> int:
    axes = case.model.groups[0].buffers[0].parts[0].axes
    return next(axis.size for axis in axes if axis.name == "D")


def assert_plain(case: Case, *needed: str, **larger: int) -> None:
    """``case`` has no features but the ``needed`` ones and is no larger than the simplest but for ``larger``."""
    assert features_of(case) == set(needed)
    sizes = sizes_of(case)
    assert {name: getattr(sizes, name) for name in SIMPLEST} == SIMPLEST | larger
    assert (case.slots.mul, case.slots.add) == (1, 0)
    assert dim(case) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_any_case_shrinks_to_one_token_on_one_rank_a_side(seed: int) -> None:
    case = minimal(lambda case: True, seed)
    assert_plain(case)
    assert case.kind == "gqa"
    assert case.requests[0].prompt == 1
    assert heads(case) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_unequal_tp_shrinks_to_1_and_2(seed: int) -> None:
    case = minimal(lambda case: case.context.topology.tp != case.generation.topology.tp, seed)
    assert sorted(shape.tp for shape in shapes(case)) == [1, 2]
    assert_plain(case, "unequal tp", "heads on several ranks", ranks=3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tensor", [(4, 2), (2, 4), (1, 4), (3, 1)])
def test_a_pair_of_tp_sizes_keeps_nothing_else(tensor: tuple[int, int], seed: int) -> None:
    case = minimal(lambda case: (case.context.topology.tp, case.generation.topology.tp) == tensor, seed, "mla")
    assert_plain(case, "unequal tp", ranks=sum(tensor))


@pytest.mark.parametrize("seed", SEEDS)
def test_split_heads_in_two_layouts_shrink_to_two_heads_and_two_tokens(seed: int) -> None:
    def fails(case: Case) -> bool:
        context, generation = shapes(case)
        local = [-(-heads(case) // shape.tensor) for shape in (context, generation)]
        return (
            case.context.layout != case.generation.layout
            and context.tensor != generation.tensor
            and case.generation.tokens_per_block > 1
            and max(local) > 1
        )

    # Among all kinds, the head numbers of recurrent state may hold the kind where it is.
    case = minimal(fails, seed, "gqa")
    assert_plain(case, "unequal tp", "NHD", "two layouts", ranks=3)
    assert heads(case) == 2
    assert case.requests[0].prompt == case.generation.tokens_per_block == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_uneven_stages_shrink_to_two_of_three_layers(seed: int) -> None:
    case = minimal(lambda case: "uneven stages" in features_of(case), seed)
    side = "context" if case.context.topology.pp > 1 else "generation"
    assert case.side(side).topology.stages == (1, 2)
    assert_plain(case, f"{side} stages", "uneven stages", ranks=3, layers=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_several_stages_shrink_to_two_of_one_layer(seed: int) -> None:
    case = minimal(lambda case: case.generation.topology.pp > 1, seed)
    assert case.generation.topology.stages == (1, 1)
    assert_plain(case, "generation stages", ranks=3, layers=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_empty_stage_shrinks_to_one_beside_one_layer(seed: int) -> None:
    case = minimal(lambda case: 0 in case.context.topology.stages, seed)
    assert case.context.topology.stages == (0, 1)
    assert_plain(case, "context stages", "uneven stages", "empty stage", ranks=3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("side", ["context", "generation"])
def test_attention_dp_shrinks_to_two_ranks(side: str, seed: int) -> None:
    case = minimal(lambda case: case.side(side).topology.attention_dp, seed)
    assert case.side(side).topology.size == 2
    assert_plain(case, f"{side} attention DP", ranks=3)
    assert case.requests[0].dp_rank(side) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_helix_shrinks_to_two_context_parallel_ranks(seed: int) -> None:
    case = minimal(lambda case: case.generation.topology.cp > 1, seed)
    assert shapes(case) == (Shape(), Shape(cp=2))
    assert_plain(case, "Helix", ranks=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_features_that_met_stay_and_no_third(seed: int) -> None:
    def fails(case: Case) -> bool:
        context, generation = shapes(case)
        return generation.cp > 1 and context.tp > generation.tp and any(r.generation.cached for r in case.requests)

    case = minimal(fails, seed, "mla")
    assert_plain(case, "Helix", "unequal tp", "cached prefix", ranks=4)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_prompt_past_a_block_boundary_shrinks_to_three_tokens(seed: int) -> None:
    def fails(case: Case) -> bool:
        tokens = case.generation.tokens_per_block
        return any(r.prompt > tokens > 1 and r.prompt % tokens == 1 for r in case.requests)

    case = minimal(fails, seed)
    assert case.requests[0].prompt == 3
    assert_plain(case, "partial block", blocks=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_shared_prefix_shrinks_to_one_shared_token(seed: int) -> None:
    case = minimal(lambda case: any(content.parent >= 0 for content in case.contents), seed)
    assert [(content.parent, content.length) for content in case.contents] == [(-1, 0), (0, 1)]
    assert [request.prompt for request in case.requests] == [1, 1]
    assert_plain(case, "several requests", "shared prefix", requests=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chunked_prompt_shrinks_to_one_cut(seed: int) -> None:
    case = minimal(lambda case: any(request.cuts for request in case.requests), seed)
    assert (case.requests[0].prompt, case.requests[0].cuts) == (2, (1,))
    assert_plain(case, "chunks", blocks=sizes_of(case).blocks)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fixed_grid_stays_and_the_rest_shrinks(seed: int) -> None:
    grid = Grid(Shape(2, 2), Shape(2, cp=2))
    case = find(cases(("gqa",), grid=grid), lambda case: True, settings=SETTINGS, random=Random(seed))
    assert shapes(case) == (grid.context, grid.generation)
    assert sizes_of(case).requests == sizes_of(case).blocks == 1
    assert case.context.topology.stages == (1, 1)


def test_shrinking_takes_few_attempts() -> None:
    attempts = 0

    def fails(case: Case) -> bool:
        nonlocal attempts
        attempts += 1
        return "two layouts" in features_of(case) and "Helix" in features_of(case) and heads(case) > 1

    for seed in SEEDS:
        minimal(fails, seed)
    assert attempts / len(SEEDS) < 500
