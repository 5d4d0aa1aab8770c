"""Plans are segments of slot starts by runs; their columns have one row a run, in plan order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.model.errors import InvalidCase
from oracle.model.writes import COLUMNS, Pair, Refusal, Segment, Writes
from tests.declared import assert_impossible


def segment(sources: object, destinations: object, runs: object, key: Sequence[int] = (0, 0, 0, 0, 0, 0, 0)) -> Segment:
    arrays = (np.array(part, dtype=np.int64) for part in (sources, destinations, runs))
    return Segment(*key, *arrays)


def rows_of(writes: Writes) -> list[tuple[int, ...]]:
    return list(zip(*(writes.columns()[name].tolist() for name in COLUMNS), strict=True))


def test_a_segment_writes_every_run_for_every_slot() -> None:
    writes = Writes(segments=(segment([100, 200], [30, 10], [[0, 4, 2], [8, 0, 3]], (1, 2, 3, 4, 5, 6, 7)),))
    assert rows_of(writes) == [
        (1, 2, 3, 4, 5, 6, 7, 100, 34, 2),
        (1, 2, 3, 4, 5, 6, 7, 200, 14, 2),
        (1, 2, 3, 4, 5, 6, 7, 108, 30, 3),
        (1, 2, 3, 4, 5, 6, 7, 208, 10, 3),
    ]
    assert (writes.run_count, writes.nbytes) == (4, 10)
    assert {column.dtype for column in writes.columns().values()} == {np.dtype(np.int64)}


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    slots, runs = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    numbers = st.integers(0, 9)
    bases = st.lists(numbers, min_size=slots, max_size=slots)
    table = np.array(draw(st.lists(numbers, min_size=3 * runs, max_size=3 * runs)), dtype=np.int64).reshape(runs, 3)
    return segment(draw(bases), draw(bases), table, draw(st.tuples(*[numbers] * 7)))


@given(st.lists(segments(), max_size=4))
def test_columns_count_the_runs_and_bytes_of_all_segments(drawn: list[Segment]) -> None:
    writes = Writes(segments=tuple(drawn))
    expected = [
        (s.request, s.chunk, s.group, s.source_rank, s.destination_rank, s.source_pool, s.destination_pool)
        + (int(source) + int(run[0]), int(destination) + int(run[1]), int(run[2]))
        for s in drawn
        for run in s.runs
        for source, destination in zip(s.source_bases, s.destination_bases, strict=True)
    ]
    assert rows_of(writes) == expected
    assert writes.run_count == len(expected)
    assert writes.nbytes == sum(row[-1] for row in expected)


@given(st.lists(st.tuples(*[st.integers(0, 50)] * 10), max_size=5))
def test_recorded_runs_come_back_as_the_same_rows(rows: list[tuple[int, ...]]) -> None:
    assert rows_of(Writes.from_runs(rows)) == rows


def test_recorded_runs_keep_the_pairs_refusals_and_notes_given_with_them() -> None:
    pairs, refusals = [Pair(0, 0, 1), Pair(0, 2, 1, "receiver")], (Refusal("no_slot", "state"),)
    writes = Writes.from_runs([], pairs=pairs, refusals=refusals, notes=("one",))
    assert (writes.pairs, writes.refusals, writes.notes) == (tuple(pairs), refusals, ("one",))
    assert Pair(0, 0, 1).seen_by == "both"


def test_an_empty_plan_has_empty_columns() -> None:
    columns = Writes().columns()
    assert tuple(columns) == COLUMNS
    assert [len(column) for column in columns.values()] == [0] * len(COLUMNS)
    assert (Writes().run_count, Writes().nbytes) == (0, 0)


@pytest.mark.parametrize(
    ("sources", "destinations", "runs", "argument", "value", "accepted"),
    [
        ([0, 1], [0], [[0, 0, 1]], "segment.bases", (2,), "expected two vectors of one length"),
        ([[0]], [[0]], [[0, 0, 1]], "segment.bases", (1, 1), "expected two vectors of one length"),
        ([0], [0], [0, 0, 1], "segment.runs", (3,), "expected (runs, 3): source, destination, bytes"),
        ([0], [0], [[0, 1]], "segment.runs", (1, 2), "expected (runs, 3): source, destination, bytes"),
    ],
)
def test_a_segment_pairs_slots_and_has_three_numbers_a_run(
    sources: object, destinations: object, runs: object, argument: str, value: object, accepted: str
) -> None:
    assert_impossible(lambda: segment(sources, destinations, runs), argument, value, accepted)


def test_a_refusal_says_whose_it_is() -> None:
    assert str(Refusal("cp_both", "cp 2 and 4")) == "the instances: cp_both (cp 2 and 4)"
    assert str(Refusal("lost_block", "block 3 is gone", 1)) == "request 1: lost_block (block 3 is gone)"


@pytest.mark.parametrize(
    ("row", "argument", "accepted"),
    [
        ((0,) * 9 + (4.9,), "rows[1].nbytes", "expected a whole number"),
        ((0,) * 9 + ("4",), "rows[1].nbytes", "expected a whole number"),
        ((True,) + (0,) * 9, "rows[1].request", "expected a whole number"),
        ((0,) * 9, "rows[1]", "expected the columns request, chunk, group, src_rank"),
    ],
)
def test_recorded_runs_are_rows_of_whole_numbers(row: tuple, argument: str, accepted: str) -> None:
    with pytest.raises(InvalidCase) as trouble:
        Writes.from_runs([(0,) * 10, row])
    assert trouble.value.argument == argument and trouble.value.accepted.startswith(accepted)


def test_vectors_of_a_segment_are_whole_numbers() -> None:
    zero = np.zeros(1, dtype=np.int64)
    for name, bases, runs in (
        ("segment.source_bases", zero + 0.5, np.array([[0, 0, 4]])),
        ("segment.runs", zero, np.array([[0, 0, 4.5]])),
    ):
        with pytest.raises(InvalidCase) as trouble:
            Segment(0, 0, 0, 0, 0, 0, 0, bases, zero, runs)
        assert trouble.value.argument == name
