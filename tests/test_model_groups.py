"""Groups retain alike, models hold each key once, and what is derived comes from what moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oracle.model.buffers import GroupKind, LayerGroup, Model, Move, MoveState
from oracle.model.layers import LayerSet
from tests.declared import assert_impossible, buffer, heads, key_value, paged, payload, state, tokens

WHOLE = "expected a whole number of at least"
KEY = buffer("key", "0..1", tokens(), payload(4))
OPAQUE = buffer("blob", [0], payload(4))


def derived(layers: str = "0..1", *inputs: str, rule: LayerSet | None = None) -> object:
    return buffer("scale", layers, payload(4), moves=(Move(MoveState.DERIVED, rule, inputs or ("key",)),))


IMPOSSIBLE_GROUPS: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: paged("", KEY), "group.name", "", "expected an identifier"),
    (lambda: paged("a-b", KEY), "group.name", "a-b", "expected an identifier"),
    (lambda: paged("a"), "group a.buffers", (), "expected at least one buffer"),
    (lambda: paged("a", KEY, window=4, sinks=-1), "group a.sinks", -1, f"{WHOLE} 0"),
    (lambda: paged("a", KEY, window=0), "group a.window", 0, f"{WHOLE} 1"),
    (lambda: paged("a", KEY, window=-8), "group a.window", -8, f"{WHOLE} 1"),
    (lambda: paged("a", KEY, sinks=2), "group a.sinks", 2, "sinks need a window"),
    (
        lambda: paged("a", KEY, buffer("key", "1..2", tokens(), payload(4))),
        "group a.buffers",
        (1, "key"),
        "two buffers have one key",
    ),
    *[
        (
            lambda first=first, second=second: paged(
                "a",
                buffer("position", [0], tokens(), request_scope=first),
                buffer("position", [1], tokens(), request_scope=second),
            ),
            "group a.buffers",
            "position",
            "expected one request-wide buffer of a role",
        )
        for first, second in ((True, True), (True, False), (False, True))
    ],
    (lambda: state("a", OPAQUE, window=8), "group a.window", 8, "a state group has no window"),
    (lambda: state("a", KEY), "group a.key", "T", "a state buffer has no token axis"),
]
IMPOSSIBLE_MODELS: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: Model(0, (paged("a", KEY),)), "model.layers", 0, f"{WHOLE} 1"),
    (lambda: Model(2, ()), "model.groups", (), "expected at least one group"),
    (
        lambda: Model(2, (paged("a", KEY), paged("a", KEY, window=4))),
        "model.groups",
        ["a", "a"],
        "expected distinct group names",
    ),
    (
        lambda: Model(2, (paged("a", KEY), paged("b", OPAQUE))),
        "group b (blob)",
        "",
        "it retains as group a (key) does: name a domain",
    ),
    (
        lambda: Model(2, (state("a", OPAQUE), state("b", buffer("conv", [1], payload(4))))),
        "group b (conv)",
        "",
        "it retains as group a (blob) does: name a domain",
    ),
    (lambda: Model(1, (paged("a", KEY),)), "buffer key.layers", 1, "the model has 1 layers"),
    (
        lambda: Model(2, (paged("a", buffer("key", [0], payload(1), alias=LayerSet((2,)))),)),
        "buffer key.layers",
        2,
        "the model has 2 layers",
    ),
    (
        lambda: Model(2, (paged("a", KEY), paged("b", KEY, window=4))),
        "group b",
        (0, "key"),
        "two buffers have one key",
    ),
    (
        lambda: Model(
            2,
            (
                paged("a", buffer("position", [0], tokens(), request_scope=True)),
                paged("b", buffer("position", [1], tokens(), request_scope=True), window=4),
            ),
        ),
        "group b",
        (None, "position"),
        "two buffers have one key",
    ),
    (lambda: Model(2, (paged("a", KEY),), LayerSet((2,))), "model.draft", 2, "the model has 2 layers"),
]
UNMOVED = "derived from a role that its group does not move on that layer"
IMPOSSIBLE_ORIGINS: list[tuple[Callable[[], object], tuple[int, str]]] = [
    (lambda: Model(2, (paged("a", KEY, derived("0..1", "value")),)), (0, "value")),
    (lambda: Model(2, (paged("a", buffer("key", [0], tokens(), payload(4)), derived()),)), (1, "key")),
    (
        lambda: Model(2, (paged("a", buffer("key", "0..1", payload(4), moves=(Move(MoveState.NEVER),)), derived()),)),
        (0, "key"),
    ),
    (
        lambda: Model(
            2,
            (
                paged(
                    "a",
                    buffer("key", "0..1", payload(4), moves=(Move(MoveState.REBUILT, LayerSet((1,))),)),
                    derived(),
                ),
            ),
        ),
        (1, "key"),
    ),
]


@pytest.mark.parametrize(("build", "argument", "value", "accepted"), IMPOSSIBLE_GROUPS + IMPOSSIBLE_MODELS)
def test_an_impossible_group_or_model_says_why(
    build: Callable[[], object], argument: str, value: object, accepted: str
) -> None:
    assert_impossible(build, argument, value, accepted)


@pytest.mark.parametrize(("build", "value"), IMPOSSIBLE_ORIGINS)
def test_what_is_derived_comes_from_a_role_that_moves_on_the_same_layer(
    build: Callable[[], object], value: tuple[int, str]
) -> None:
    assert_impossible(build, "buffer scale.move", value, UNMOVED)


def test_a_role_may_be_derived_where_two_buffers_share_the_role_it_comes_from() -> None:
    narrow, wide = (buffer("key", [layer], heads(layer + 1), tokens(), payload(4)) for layer in range(2))
    assert Model(2, (paged("a", narrow, wide, derived()),)).layers == 2


def test_a_role_is_derived_only_on_the_layers_of_its_rule() -> None:
    key = buffer("key", [1], tokens(), payload(4))
    assert Model(2, (paged("a", key, derived("0..1", rule=LayerSet((1,)))),)).layers == 2


def test_a_domain_tells_groups_of_equal_retention_apart() -> None:
    draft = paged("draft", OPAQUE, domain="draft")
    assert [group.name for group in Model(2, (paged("a", KEY), draft)).groups] == ["a", "draft"]


def test_window_sinks_kind_and_length_tell_groups_apart() -> None:
    groups = (
        paged("full", KEY),
        paged("window", buffer("window", [0], tokens()), window=4),
        paged("sinks", buffer("sinks", [0], tokens()), window=4, sinks=1),
        paged("cross", buffer("cross", [0], tokens()), length="encoder"),
        state("state", OPAQUE),
    )
    assert len(Model(2, groups).groups) == 5


def test_a_group_holds_the_layers_of_its_buffers() -> None:
    group = paged("a", *key_value([3, 5], 2, 4), buffer("index", [5, 7], tokens()))
    assert group.layers == (3, 5, 7)
    assert group.is_paged
    assert not LayerGroup("s", GroupKind.STATE, (OPAQUE,)).is_paged


def test_groups_are_found_by_name() -> None:
    model = Model(2, (paged("a", KEY), state("s", OPAQUE)))
    assert [model.group_index(name) for name in ("a", "s")] == [0, 1]
    assert_impossible(lambda: model.group_index("b"), "group", "b", "expected one of ['a', 's']")


def test_one_role_may_stand_in_two_groups_on_other_layers() -> None:
    groups = (paged("full", buffer("key", [0], tokens())), paged("window", buffer("key", [1], tokens()), window=4))
    assert Model(2, groups).groups == groups
