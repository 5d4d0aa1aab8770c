"""A declaration that cannot be built, is not the same twice, or does not start simple: the smallest example."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from kvwitness.conform import Sample, find_source, formed
from kvwitness.conform.formed import check_builds, check_files, check_pure, check_scope, check_simplest
from kvwitness.conform.sample import GRIDS, some_numbers
from kvwitness.conform.shrink import smallest
from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer, Part
from oracle.model.case import Case
from oracle.truth.verdict import Outcome
from strategies.kinds import find_kind
from strategies.kinds.pieces import TOKENS, layers, rows
from strategies.kinds.protocol import Declaration, Surroundings
from tests.odd_kinds import declared, heads_and_dims, keys, kind_of, sample_of

FORMED = (check_builds, check_pure, check_simplest, check_scope, check_files)


@pytest.mark.parametrize("name", ["gqa", "mla"])
@pytest.mark.parametrize("check", FORMED)
def test_shipped_kinds_are_well_formed(name: str, check: object) -> None:
    result = check(sample_of(find_kind(name)))  # type: ignore[operator]
    assert result.outcome is Outcome.PASS and result.example == (), result


def test_what_cannot_be_built_is_told_with_kind_role_and_rule() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        axes = (Axis("H", 2 + 2 * numbers[0], Split.EVEN), TOKENS, Axis("D", 2))
        return declared(around, keys(around, 2, Buffer("side", layers(range(around.layers)), (Part(axes, 8),))))

    result = check_builds(sample_of(kind_of(decode, (3,))))
    assert result.outcome is Outcome.FAIL
    rule = "an even split over 3 ranks needs a multiple of 3"
    assert result.said == f"kind odd: buffer side, axis H = 2 is not possible: {rule}"
    assert result.example == ("numbers (0,)", "1 layer, tp 1 → tp 3, 1 token a block")


def test_what_raises_is_told_with_the_line_of_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "short.py"
    path.write_text(
        "from strategies.kinds.mla import declare\n"
        "from strategies.kinds.protocol import Kind\n"
        "DIMS = (1, 2, 3)\n"
        "def decode(numbers, around):\n"
        "    return declare(around.layers, DIMS[numbers[0]], 8)\n"
        "KIND = Kind('short', 'a table that is too short', 9, (5,), decode, ((0,),))\n"
    )
    result = check_builds(Sample(find_source(str(path))))
    assert result.said == f"{path}:5: IndexError: tuple index out of range"
    assert result.example == ("numbers (3,)", "1 layer, tp 1 → tp 1, 1 token a block")


def test_a_case_that_cannot_be_drawn_breaks_the_same_law() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        if around.prompt % 7 == 6:
            raise ZeroDivisionError("a prompt that nobody thought of")
        return declared(around, keys(around))

    sample = sample_of(kind_of(decode, places=True, tokens_per_block=(2,)))
    sample.random = lambda what: __import__("random").Random(what)  # type: ignore[method-assign]
    result = check_builds(sample)
    assert result.outcome is Outcome.FAIL
    assert "ZeroDivisionError: a prompt that nobody thought of" in result.said


def test_all_combinations_are_tried_where_there_are_few_and_the_ends_of_all_where_not() -> None:
    few = sample_of(kind_of(heads_and_dims, (4, 3)))
    assert Counter(some_numbers(few, 12)) == Counter((head, dim) for head in range(4) for dim in range(3))
    many = list(some_numbers(sample_of(kind_of(heads_and_dims, (64, 3))), 50))
    assert len(many) == 50
    assert many[:3] == [(0, 0), (63, 0), (0, 2)]
    assert many == list(some_numbers(sample_of(kind_of(heads_and_dims, (64, 3))), 50))
    assert many != list(some_numbers(Sample(sample_of(kind_of(heads_and_dims, (64, 3))).source, seed=1), 50))


def test_grids_begin_with_the_smallest() -> None:
    assert str(GRIDS[0]) == "tp 1 → tp 1"
    assert [grid.size for grid in GRIDS] == sorted(grid.size for grid in GRIDS)


def test_a_declaration_that_is_another_the_second_time_is_noticed() -> None:
    calls = count()

    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        return declared(around, keys(around, 1 + next(calls) % 3))

    result = check_pure(sample_of(kind_of(decode)))
    assert result.said == "decode gives two declarations for the same numbers"
    assert result.example[0] == "numbers (0,)"


def test_a_number_that_takes_something_away_is_noticed() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        more = () if numbers[1] == 2 else (rows("side", layers(range(around.layers)), 1, 8),)
        return declared(around, keys(around, 1, *more))

    result = check_simplest(sample_of(kind_of(decode, (2, 3))))
    assert result.said == "all numbers 0 declare side, numbers (0, 2) do not: shrinking would add it"


def test_a_scope_of_twins_is_noticed() -> None:
    result = check_scope(sample_of(kind_of(heads_and_dims, (64, 3), scope=((0, 1), (4, 0), (0, 1)))))
    assert result.said == "scope (0, 1) and (0, 1) are one model on one rank a side"
    assert check_scope(sample_of(kind_of(heads_and_dims, (64, 3), scope=((0, 1), (4, 0))))).outcome is Outcome.PASS


def test_a_file_that_holds_another_case_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(text: str) -> Case:
        case = decode(text)
        return replace(case, requests=case.requests[:1], contents=case.contents[:1])

    decode = formed.decode
    monkeypatch.setattr(formed, "decode", forget)
    result = check_files(sample_of(find_kind("mla"), 80))
    assert result.said == "the file of a case holds another case"
    assert len(decode(result.example[0]).requests) > 1


def test_shrinking_keeps_what_fails_and_stops() -> None:
    assert smallest((9, 200, 7), lambda numbers: numbers[1] >= 17) == (0, 17, 0)
    assert smallest((9, 200, 7), lambda numbers: False) == (9, 200, 7)
    assert smallest((5, 5), lambda numbers: sum(numbers) >= 10) == (5, 5)
    tried = []
    smallest((255,) * 30, lambda numbers: bool(tried.append(numbers)), tries=40)
    assert len(tried) == 40
