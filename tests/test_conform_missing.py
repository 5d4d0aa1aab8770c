"""What a kind lacks is told, what its cases never reach breaks a law, and files that hold no kind are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvwitness.conform import Sample, Source, find_source
from kvwitness.conform.missing import check_stresses, missing_of
from kvwitness.conform.sources import how_to_register
from kvwitness.errors import CannotRun
from oracle.model.errors import InvalidCase
from oracle.truth.verdict import Outcome
from strategies.kinds import find_kind
from strategies.kinds.protocol import Declaration, PublishedModel, Surroundings
from tests.odd_kinds import declared, heads_and_dims, keys, kind_of, sample_of

GOOD = """\
from strategies.kinds.mla import declare
from strategies.kinds.protocol import Kind


def decode(numbers, around):
    return declare(around.layers, 1 + numbers[0], 8)


KIND = Kind("mine", "a kind of one's own", 50, (4,), decode, ((0,), (1,)))
"""

NO_KIND = ": it has no attribute KIND, which names the Kind that it declares"


def missing(sample: Sample) -> list[str]:
    return [each.what for each in missing_of(sample)]


def test_a_shipped_kind_lacks_nothing() -> None:
    for name in ("gqa", "mla"):
        assert missing(sample_of(find_kind(name), 5)) == []


def test_all_that_a_kind_lacks_is_told() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        return replace(heads_and_dims(numbers[::2], around), native=None)

    kind = kind_of(decode, (64, 5, 3), description=" ")
    told = missing(sample_of(kind, 5))
    assert [what.partition(":")[0] for what in told] == [
        "a description",
        "a published model",
        "a legacy declaration",
        "a second model in scope",
        "an effect of number 2 of 3",
        "a registration",
    ]


def test_a_published_model_needs_its_source() -> None:
    model = PublishedModel("odd-1b", "Odd", 1, lambda bits: find_kind("mla").published[0].declare(), "", "config")
    kind = kind_of(heads_and_dims, (64, 3), published=(model,), scope=((0, 0), (1, 0)))
    assert missing(sample_of(kind, 5))[0] == "the source of the figures of odd-1b"


def test_a_name_that_another_kind_has_is_told() -> None:
    kind = replace(kind_of(heads_and_dims, (64, 3), scope=((0, 0), (1, 0))), name="gqa")
    assert "a name of its own: another kind is called gqa" in missing(sample_of(kind, 5))


def test_how_to_register_names_the_module_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    source = find_source(str(path))
    assert how_to_register(source) == ('[project.entry-points."kvwitness.kinds"]', 'mine = "PACKAGE.mine:KIND"')
    assert not source.registered
    assert Source(find_kind("gqa")).registered


def test_a_file_of_a_registered_kind_is_registered() -> None:
    from strategies.kinds import mla

    source = find_source(mla.__file__)
    assert source.kind is not find_kind("mla") and source.kind.name == "mla"
    assert source.registered


# ---- stresses


def test_what_is_declared_and_never_reached_breaks_a_law() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        return declared(around, keys(around, 1 + numbers[0], window=100_000))

    result = check_stresses(sample_of(kind_of(decode), 5))
    assert result.outcome is Outcome.FAIL
    assert "windows" in " ".join(result.example), result
    assert check_stresses(sample_of(find_kind("mla"), 5)).outcome is Outcome.PASS


def test_stresses_are_not_counted_where_cases_cannot_be_drawn() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        raise KeyError("gone")

    result = check_stresses(sample_of(kind_of(decode), 5))
    assert result.outcome is Outcome.NOT_RUN
    assert "KeyError: 'gone'" in result.said


# ---- files


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("KIND = (", ":1: '(' was never closed"),
        ("import nowhere_to_be_found\n", ":1: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        (
            GOOD.replace('"mine"', '"My Kind"'),
            ":9: kind.name = 'My Kind' is not possible: expected lower case letters, digits and _",
        ),
        (
            GOOD.replace("((0,), (1,))", "()"),
            ":9: kind mine.scope = () is not possible: expected at least one small model",
        ),
        (
            GOOD.replace("KIND", "MINE"),
            ": it has no attribute KIND, which names the Kind that it declares; did you mean MINE?",
        ),
        ("x = 1\n", ": it has no attribute KIND, which names the Kind that it declares"),
        ("KIND = 3\n", ": KIND = 3 is not possible: expected a Kind (strategies.kinds.protocol)"),
        (
            GOOD.replace("(4,)", "(2,) * 9").replace("((0,), (1,))", "((0,) * 9,)"),
            ": KIND.bounds = (2, 2, 2, 2, 2, 2, 2, 2, 2) is not possible: expected at most 8",
        ),
        ("raise SystemExit(3)\n", ":1: SystemExit: 3"),
    ],
)
def test_a_file_that_holds_no_kind_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(CannotRun) as caught:
        find_source(str(path))
    assert str(caught.value) == f"{path}{told}"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"gone\.py: there is no such file; expected the name of a kind, or a file"):
        find_source(str(tmp_path / "gone.py"))


def test_a_name_that_no_kind_has_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidCase, match="kind = 'nope' is not possible: expected one of gqa, mla"):
        find_source("nope")


def test_a_file_may_be_loaded_twice_and_may_have_the_name_of_a_module(tmp_path: Path) -> None:
    for name in ("json.py", "mla.py"):
        path = tmp_path / name
        path.write_text(GOOD)
        assert find_source(str(path)).kind.name == find_source(str(path)).kind.name == "mine"
    import json

    assert hasattr(json, "dumps")
