"""Layer sets and their text are inverse; what is not a set of layers is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.model.layers import LayerSet
from tests.declared import assert_impossible

FORMS = "expected layer sets such as 0..3, 0..47/4 or 1,3,5"
ASCENDING = "expected distinct layer ids in ascending order, none negative"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ()),
        ("3", (3,)),
        ("3..5", (3, 4, 5)),
        ("0..12/4", (0, 4, 8, 12)),
        ("0..47/4", tuple(range(0, 48, 4))),
        ("1, 3, 5", (1, 3, 5)),
        ("0..1,4..8/2", (0, 1, 4, 6, 8)),
    ],
)
def test_text_names_layers(text: str, ids: tuple[int, ...]) -> None:
    assert LayerSet.parse(text).ids == ids


@given(st.sets(st.integers(0, 40)))
def test_text_and_layers_are_inverse(ids: set[int]) -> None:
    layers = LayerSet.of(ids)
    assert LayerSet.parse(str(layers)) == layers


@given(st.integers(0, 9), st.integers(2, 30), st.integers(1, 6))
def test_a_progression_of_layers_is_one_piece_of_text(first: int, count: int, step: int) -> None:
    layers = LayerSet.of(range(first, first + count * step, step))
    assert ("," not in str(layers)) == (step == 1 or count > 2)


@pytest.mark.parametrize("text", ["a", "3..", "..3", "3/2", "0..9/0", "0..9/-1", "0..x", "1..2..3", "3..1"])
def test_text_that_names_no_layers_is_quoted(text: str) -> None:
    assert_impossible(lambda: LayerSet.parse(text), "layers", text, FORMS)


@pytest.mark.parametrize("ids", [(1, 0), (1, 1), (-1,), (0, True), (0.0,)])
def test_layer_ids_ascend_and_none_is_negative(ids: tuple[int, ...]) -> None:
    assert_impossible(lambda: LayerSet(ids), "layers", ids, ASCENDING)


def test_overlapping_pieces_are_not_a_set() -> None:
    assert_impossible(lambda: LayerSet.parse("0..2,2"), "layers", (0, 1, 2, 2), ASCENDING)


def test_a_layer_set_is_a_collection_in_order() -> None:
    layers = LayerSet.of([5, 1, 3, 1])
    assert list(layers) == [1, 3, 5]
    assert len(layers) == 3
    assert 3 in layers
    assert 2 not in layers
