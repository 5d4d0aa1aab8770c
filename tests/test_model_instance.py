"""An instance holds what may differ by side, each thing once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet
from oracle.model.pages import PageTable
from oracle.model.topology import Topology
from tests.declared import assert_impossible, instance_of

WHOLE = "expected a whole number of at least"
EMPTY = PageTable((), ())
IMPOSSIBLE: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: Instance(tokens_per_block=0), "tokens_per_block", 0, f"{WHOLE} 1"),
    (lambda: Instance(tokens_per_block=-4), "tokens_per_block", -4, f"{WHOLE} 1"),
    (lambda: Instance(layout="NDH"), "layout", "NDH", "expected HND, NHD or nothing"),
    (lambda: Instance(layouts=(("key", "hnd"),)), "layout", "hnd", "expected HND, NHD or nothing"),
    (lambda: Instance(layer_order=(1, 0, 1)), "layer_order", (1, 0, 1), "expected each layer id once"),
    (lambda: Instance(element_bits=(("key", 0),)), "element_bits of key", 0, f"{WHOLE} 1"),
    (lambda: Instance(reserve=(("window", -1),)), "reserve of window", -1, f"{WHOLE} 0"),
    (lambda: Instance(manager="v3"), "manager", "v3", "expected v1 or v2"),
    (lambda: Instance(Topology(2), page_tables=((2, EMPTY),)), "page_tables", 2, "this instance has ranks 0..1"),
    (lambda: Instance(page_tables=((-1, EMPTY),)), "page_tables", -1, "this instance has ranks 0..0"),
]
TWICE = [
    ("layouts", ("key", "HND")),
    ("element_bits", ("key", 8)),
    ("packing", ("key", "separate")),
    ("page_tables", (0, EMPTY)),
    ("reserve", ("key", 4)),
]


@pytest.mark.parametrize(("build", "argument", "value", "accepted"), IMPOSSIBLE)
def test_an_impossible_instance_says_why(
    build: Callable[[], object], argument: str, value: object, accepted: str
) -> None:
    assert_impossible(build, argument, value, accepted)


@pytest.mark.parametrize(("name", "pair"), TWICE)
def test_each_key_is_given_once(name: str, pair: tuple[object, object]) -> None:
    assert_impossible(lambda: Instance(**{name: (pair, pair)}), name, [pair[0]] * 2, "expected each key once")


def test_the_order_in_which_keys_are_given_makes_no_difference() -> None:
    one = Instance(packing=(("a", "separate"), ("b", "interleaved")))
    other = Instance(packing=(("b", "interleaved"), ("a", "separate")))
    assert one == other
    assert hash(one) == hash(other)


def test_a_layout_by_role_comes_before_that_of_the_instance() -> None:
    instance = Instance(layout="HND", layouts=(("value", "NHD"), ("index", "")))
    assert [instance.layout_of(role) for role in ("key", "value", "index")] == ["HND", "NHD", ""]


def test_the_declared_width_stands_where_the_instance_names_none() -> None:
    instance = Instance(element_bits=(("key", 8),))
    assert [instance.bits_of(role, 16) for role in ("key", "value")] == [8, 16]


def test_an_instance_lacks_what_both_the_layers_and_the_roles_name() -> None:
    instance = Instance(without=(Without(("key", "value"), LayerSet((2, 3))), Without(("scale",), LayerSet((0,)))))
    lacking = {(layer, role) for layer in range(4) for role in ("key", "scale") if instance.lacks(layer, role)}
    assert lacking == {(2, "key"), (3, "key"), (0, "scale")}


def test_layers_not_listed_follow_in_ascending_order() -> None:
    assert instance_of(layer_order=(5, 2)).in_layer_order((0, 1, 2, 5, 3)) == (5, 2, 0, 1, 3)
    assert instance_of().in_layer_order((2, 0, 1)) == (0, 1, 2)
