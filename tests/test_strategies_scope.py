"""The small scope is exhaustive up to the bound that it states, smallest first, and without repeats."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product

import pytest

from oracle.model.case import SIDES
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.slots import block_count
from strategies.features import FEATURES, OF_STATES, features_of, sizes_of
from strategies.kinds import find_kind, kinds
from strategies.scope import describe, small_scope, topology_class
from strategies.topologies import Shape

COUNTS = {("gqa", "small"): 1_824, ("mla", "small"): 1_386, ("gqa", "large"): 19_684, ("mla", "large"): 11_772}
SMALL_RANKS = {"gqa": 4, "mla": 6}


def all_topologies(ranks: int, layers: int, receiver: bool) -> set[tuple[int, tuple[int, ...], int, bool]]:
    """All (tp, stages, cp, attention DP) of a side, by trying everything."""
    found = set()
    for tp, pp, cp, attention_dp in product(range(1, ranks + 1), range(1, layers + 2), (1, 2), (False, True)):
        if tp not in (1, 2, 3, 4, 6, 8) or tp * pp * cp > ranks or (cp > 1 and not receiver):
            continue
        if attention_dp and (tp == 1 or cp > 1):
            continue
        for stages in product(range(layers + 1), repeat=pp):
            if sum(stages) == layers and stages.count(0) <= 1:
                found.add((tp, stages, cp, attention_dp))
    return found


@pytest.mark.parametrize(("kind", "bound"), COUNTS)
def test_the_scope_has_as_many_cases_as_it_is_known_for(kind: str, bound: str) -> None:
    assert sum(1 for _ in small_scope(kind, bound)) == COUNTS[kind, bound]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_no_case_repeats(kind: object) -> None:
    cases = list(small_scope(kind))
    assert len(set(cases)) == len(cases)


@pytest.mark.parametrize("name", SMALL_RANKS)
def test_every_pair_of_topologies_up_to_the_bound_is_there(name: str) -> None:
    found = set()
    for case in small_scope(name):
        sides = [case.side(side).topology for side in SIDES]
        found.add(tuple((side.tp, side.stages, side.cp, side.attention_dp) for side in sides))
    ranks = SMALL_RANKS[name]
    assert found == set(product(all_topologies(ranks, 2, False), all_topologies(ranks, 2, True)))


def test_every_pair_of_layouts_comes_with_every_pair_of_topologies() -> None:
    layouts: dict[object, set[tuple[str, str]]] = {}
    for case in small_scope("gqa"):
        key = (case.context.topology, case.generation.topology)
        layouts.setdefault(key, set()).add((case.context.layout, case.generation.layout))
    assert set(map(len, layouts.values())) == {4}


@pytest.mark.parametrize("bound", ["small", "large"])
@pytest.mark.parametrize("name", SMALL_RANKS)
def test_smaller_cases_come_first(name: str, bound: str) -> None:
    order = [(sizes.ranks, sizes.layers, sizes.blocks) for sizes in map(sizes_of, small_scope(name, bound))]
    assert order == sorted(order)


@pytest.mark.parametrize("name", SMALL_RANKS)
def test_every_prompt_ends_inside_a_block_and_reaches_every_context_parallel_rank(name: str) -> None:
    for case in small_scope(name):
        (request,) = case.requests
        tokens = case.generation.tokens_per_block
        blocks = block_count(request, "prompt", tokens)
        assert request.prompt % tokens
        assert blocks == case.generation.topology.cp + 1


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_every_case_can_be_laid_out(kind: object) -> None:
    for case in islice(small_scope(kind), 0, None, 7):
        for side in SIDES:
            lay_out(case, side)


def test_the_large_scope_contains_the_small_one_and_more() -> None:
    small, large = set(small_scope("gqa")), set(small_scope("gqa", "large"))
    assert small < large
    assert any(case.context.topology.stages == (1, 2) for case in large)


def test_the_scope_has_what_depends_on_topologies() -> None:
    found = set().union(*map(features_of, small_scope("gqa")))
    assert found == set(FEATURES) - OF_STATES - {
        "uneven heads",
        "reversed layers",
        "interleaved",
        "separate",
        "several requests",
        "shared prefix",
        "cached prefix",
        "chunks",
    }


def test_the_bound_is_stated_with_its_numbers() -> None:
    assert "at most 4 ranks a side over 2 layers:" in describe("small", "gqa")
    assert "at most 6 ranks a side over 2 layers and at most 4 ranks a side over 3 layers:" in describe("large", "gqa")
    assert "1 small model of mla" in describe("small", find_kind("mla"))
    assert describe().startswith("all pairs of topologies with at most 4 ranks a side over 2 layers (gqa, fp8, ")
    assert "at most 6 ranks a side over 2 layers (mla, dsa, " in describe()
    assert "1 small model of each" in describe("small", ("gqa", "mla"))


def test_an_unknown_bound_or_kind_is_refused() -> None:
    for broken in (lambda: next(small_scope("gqa", "tiny")), lambda: describe("tiny"), lambda: describe("tiny", "gqa")):
        with pytest.raises(InvalidCase, match="bound = 'tiny' is not possible: expected small or large"):
            broken()
    with pytest.raises(InvalidCase, match=r"did you mean gqa\? The kinds are gqa, mla"):
        next(small_scope("gqqa"))


def test_a_class_of_topologies_ignores_cuts_layouts_and_sizes() -> None:
    classes: dict[object, list[object]] = {}
    for case in small_scope("gqa"):
        classes.setdefault(topology_class(case), []).append(case)
    assert len(classes) == 11 * 14
    for members in classes.values():
        shapes = {(Shape.of(case.context.topology), Shape.of(case.generation.topology)) for case in members}
        assert len(shapes) == 1


def test_a_kind_that_cannot_be_split_in_stages_has_none_in_its_scope() -> None:
    kind = replace(find_kind("gqa"), stages=False, helix=False, attention_dp=False)
    topologies = [case.side(side).topology for case in small_scope(kind) for side in SIDES]
    assert topologies
    assert all(topology.size == topology.tp and not topology.attention_dp for topology in topologies)
