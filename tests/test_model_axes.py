"""An axis says how its indices are shared, and refuses what no rank could hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oracle.model.axes import Axis, Section, Split
from tests.declared import assert_impossible, channels, heads, payload, tokens

WHOLE = "expected a whole number of at least"
IMPOSSIBLE: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: Section("x", 0), "section x.size", 0, f"{WHOLE} 1"),
    (lambda: Section("x", -4), "section x.size", -4, f"{WHOLE} 1"),
    (lambda: Axis("", 1), "axis.name", "", "expected an identifier such as H, T, D, C"),
    (lambda: Axis("2D", 1), "axis.name", "2D", "expected an identifier such as H, T, D, C"),
    (lambda: Axis("T"), "axis T.tokens_per_row", 0, f"{WHOLE} 1"),
    (lambda: Axis("T", tokens_per_row=-1), "axis T.tokens_per_row", -1, f"{WHOLE} 1"),
    (
        lambda: Axis("T", 4, tokens_per_row=1),
        "axis T",
        "T",
        "the token axis has the length of the block and is never split",
    ),
    (
        lambda: Axis("T", split=Split.EVEN, tokens_per_row=1),
        "axis T",
        "T",
        "the token axis has the length of the block and is never split",
    ),
    (lambda: Axis("D", 4, tokens_per_row=2), "axis D.tokens_per_row", 2, "only T has tokens per row"),
    (lambda: Axis("C", 5, sections=(Section("x", 4),)), "axis C.size", 5, "expected the sum of its sections, 4"),
    (
        lambda: Axis("C", split=Split.EVEN, sections=(Section("x", 4),)),
        "axis C.split",
        "even",
        "a sectioned axis splits its sections",
    ),
    (
        lambda: Axis("C", sections=(Section("x", 4), Section("x", 2))),
        "axis C.sections",
        ["x", "x"],
        "expected distinct section names",
    ),
    (lambda: Axis("D"), "axis D.size", 0, f"{WHOLE} 1"),
    (lambda: Axis("D", -2), "axis D.size", -2, f"{WHOLE} 1"),
]


@pytest.mark.parametrize(("build", "argument", "value", "accepted"), IMPOSSIBLE)
def test_an_impossible_axis_says_why(build: Callable[[], object], argument: str, value: object, accepted: str) -> None:
    assert_impossible(build, argument, value, accepted)


def test_a_sectioned_axis_is_as_long_as_its_sections() -> None:
    assert channels(4, 2, 2).size == 8
    assert Axis("C", 8, sections=(Section("x", 8),)).size == 8


def test_an_axis_is_split_where_any_section_is() -> None:
    assert heads(4).is_split
    assert not payload(4).is_split
    assert not tokens().is_split
    assert Axis("C", sections=(Section("x", 4, Split.EVEN), Section("B", 2, Split.ALL))).is_split
    assert not Axis("C", sections=(Section("x", 4, Split.ALL), Section("B", 2, Split.ALL))).is_split


def test_only_t_is_the_token_axis() -> None:
    assert tokens(4).is_token
    assert not payload(4, "R").is_token


def test_equal_axes_have_one_hash() -> None:
    assert heads(4) == heads(4)
    assert hash(heads(4)) == hash(heads(4))
    assert heads(4) != heads(4, Split.FLOOR)
