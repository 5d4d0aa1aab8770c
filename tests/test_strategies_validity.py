"""Every combination of numbers is a case that exists: nothing is filtered, nothing raises."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from strategies.cases import cases, cases_of, decode
from strategies.kinds import find_kind, kinds
from strategies.numbers import KIND_NUMBERS, WIDTH, Concept, Number, pick, shape, simplest
from strategies.topologies import NAMED_GRIDS, Grid, Shape, cuts, even_cut

MODELS = st.sampled_from([kind.name for kind in kinds()])


def assert_exists(case: Case) -> None:
    """Both sides of ``case`` can be laid out, and no two blocks in use of one pool share a slot."""
    for side in SIDES:
        laid_out = lay_out(case, side)
        assert len(laid_out.tables) == case.side(side).topology.size
        for table, slots in zip(laid_out.tables, laid_out.slots, strict=True):
            assert set(slots) == set(table.groups())
            for group, rows in slots.items():
                count = min(table.pools[entry.pool].count for entry in table.entries if entry.group == group)
                assert all(row.min() >= 0 and row.max() < count for row in rows if len(row))
                assert all(len(np.unique(row)) == len(row) for row in rows)


def test_two_thousand_random_draws_exist() -> None:
    random = Random(3)
    for _ in range(2_000):
        assert_exists(decode(random.randbytes(WIDTH)))


@pytest.mark.parametrize("value", [0, 1, 2, 127, 254, 255])
def test_numbers_that_are_all_alike_exist(value: int) -> None:
    assert_exists(decode(bytes([value] * WIDTH)))


@pytest.mark.parametrize("background", [0, 255])
def test_each_number_may_have_any_value(background: int) -> None:
    for index in range(WIDTH):
        for value in range(0, 256, 5):
            numbers = bytearray([background] * WIDTH)
            numbers[index] = value
            decode(numbers)


def test_every_pair_of_features_that_must_meet_exists() -> None:
    random = Random(4)
    for first in range(0, 256, 8):
        for second in range(0, 256, 8):
            decode(bytes([first, second]) + random.randbytes(WIDTH - 2))


@settings(max_examples=200, deadline=None, database=None)
@given(cases())
def test_hypothesis_draws_cases_that_exist(case: Case) -> None:
    assert_exists(case)
    assert case.kind in [kind.name for kind in kinds()]


@settings(max_examples=50, deadline=None, database=None)
@given(MODELS.flatmap(lambda name: st.tuples(st.just(name), cases_of(name))))
def test_cases_of_a_kind_are_of_that_kind(drawn: tuple[str, Case]) -> None:
    name, case = drawn
    assert case.kind == name


@pytest.mark.parametrize("grid", NAMED_GRIDS, ids=str)
def test_cases_of_a_grid_keep_its_shapes(grid: Grid) -> None:
    random = Random(str(grid))
    for _ in range(20):
        case = decode(random.randbytes(WIDTH), grid=grid)
        assert Shape.of(case.context.topology) == grid.context
        assert Shape.of(case.generation.topology) == grid.generation
        assert_exists(case)


def test_the_named_grid_has_7_context_and_9_generation_topologies() -> None:
    assert len(set(NAMED_GRIDS)) == 63
    assert len({grid.context for grid in NAMED_GRIDS}) == 7
    assert len({grid.generation for grid in NAMED_GRIDS}) == 9


def test_equal_numbers_give_equal_cases() -> None:
    random = Random(9)
    for _ in range(50):
        numbers = random.randbytes(WIDTH)
        assert decode(numbers) == decode(list(numbers))


def test_equal_arguments_give_one_strategy() -> None:
    assert cases() is cases(kinds())
    assert cases(("gqa",)) is cases_of(find_kind("gqa"))


def test_the_simplest_numbers_give_the_simplest_case() -> None:
    case = decode(simplest())
    assert (case.kind, case.model.layers) == (kinds()[0].name, 1)
    assert case.context.topology.size == case.generation.topology.size == 1
    assert len(case.requests) == case.requests[0].prompt == case.context.tokens_per_block == 1


def test_a_number_can_be_set_by_name() -> None:
    assert decode(simplest(layers=1)).model.layers == 2
    with pytest.raises(InvalidCase, match=r"number = 'layer' .*layer_order"):
        simplest(layer=1)


@pytest.mark.parametrize("length", [0, WIDTH - 1, WIDTH + 1])
def test_another_count_of_numbers_is_refused(length: int) -> None:
    with pytest.raises(InvalidCase, match=f"expected {WIDTH} numbers"):
        decode(bytes(length))


def test_a_grid_that_a_kind_cannot_have_is_refused() -> None:
    alone = replace(find_kind("mla"), name="alone", stages=False, helix=False, attention_dp=False)
    for split, name in ((Shape(pp=2), "pp"), (Shape(cp=2), "cp"), (Shape(2, attention_dp=True), "attention_dp")):
        with pytest.raises(InvalidCase, match=f"generation.{name} = .*kind alone takes none"):
            cases((alone,), grid=Grid(Shape(), split))


@pytest.mark.parametrize("lacking", ["stages", "helix", "attention_dp"])
def test_a_kind_is_never_split_as_it_cannot_be(lacking: str) -> None:
    gqa = find_kind("gqa")
    kind = replace(gqa, **{lacking: False})
    random = Random(6)
    topologies = [decode(random.randbytes(WIDTH), kinds=(kind,)) for _ in range(300)]
    for case in topologies:
        for side in SIDES:
            topology = case.side(side).topology
            assert topology.pp == 1 or lacking != "stages"
            assert topology.cp == 1 or lacking != "helix"
            assert not topology.attention_dp or lacking != "attention_dp"


def test_a_kind_that_places_is_told_the_block_and_the_longest_prompt() -> None:
    gqa = find_kind("gqa")
    seen = []

    def decode_gqa(numbers: tuple[int, ...], around: object) -> object:
        seen.append(around)
        return gqa.decode(numbers, around)

    random = Random(2)
    for places in (True, False):
        kind = replace(gqa, decode=decode_gqa, places=places)
        for _ in range(20):
            case = decode(random.randbytes(WIDTH), kinds=(kind,))
            if places:
                assert seen[-1].tokens_per_block == case.context.tokens_per_block
                assert seen[-1].prompt == max(request.prompt for request in case.requests)
            else:
                assert seen[-1].tokens_per_block == seen[-1].prompt == 0


@pytest.mark.parametrize("concept", shape(), ids=lambda concept: concept.name)
def test_a_concept_is_off_at_0_ordered_from_1_and_never_off_when_forced(concept: Concept) -> None:
    on = [value for value in concept.drawn if value]
    assert concept.drawn[0] == 0
    assert concept.drawn[1] == 1
    assert on == sorted(on)
    assert 0 not in concept.forced or isinstance(concept, Number)
    assert len(concept.drawn) == len(concept.forced) == 256


def test_each_concept_has_a_name_and_a_place_of_its_own() -> None:
    assert [concept.index for concept in shape()] == list(range(WIDTH))
    assert len({concept.name for concept in shape()}) == WIDTH


def test_pick_reaches_every_option_and_takes_small_numbers_as_they_are() -> None:
    for count in (1, 2, 7, 30, 256):
        options = range(count)
        assert [pick(options, number) for number in range(count)] == list(options)
        assert max(pick(options, number) for number in range(256)) == count - 1


def test_cuts_are_all_compositions_with_the_even_one_first() -> None:
    for layers in range(1, 6):
        for stages in range(1, 5):
            found = cuts(layers, stages)
            brute = {cut for cut in np.ndindex(*[layers + 1] * stages) if sum(cut) == layers}
            assert len(found) == len(set(found))
            assert set(found) == brute
            assert found[0] == even_cut(layers, stages)


def test_no_kind_has_more_numbers_than_are_drawn_for_it() -> None:
    assert max(len(kind.bounds) for kind in kinds()) <= KIND_NUMBERS
