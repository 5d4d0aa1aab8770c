"""The runs of a plan as vectors: in plan order, told apart where they share a byte, cut into pieces without loss."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from differential.engines.runs import Runs, are_disjoint, expand, in_pieces, runs_of
from oracle.model.writes import Segment


def test_runs_are_in_plan_order() -> None:
    bases = np.array([0, 10]), np.array([1000, 2000])
    segment = Segment(0, 0, 0, 0, 0, 0, 0, *bases, np.array([[0, 100, 2], [4, 200, 3]]))
    runs = runs_of([segment, segment], [0, 50], [0, 5])
    assert runs.source.tolist() == [0, 10, 4, 14, 50, 60, 54, 64]
    assert runs.destination.tolist() == [1100, 2100, 1200, 2200, 1105, 2105, 1205, 2205]
    assert runs.nbytes.tolist() == [2, 2, 3, 3, 2, 2, 3, 3]
    assert runs_of([], [], []).nbytes.tolist() == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=8))
def test_runs_are_disjoint_if_they_share_no_byte(pairs: list[tuple[int, int]]) -> None:
    starts, nbytes = (np.array([pair[n] for pair in pairs], dtype=np.int64) for n in (0, 1))
    found = expand(starts, nbytes).tolist()
    assert found == [start + offset for start, length in pairs for offset in range(length)]
    assert are_disjoint(starts, nbytes) is (len(set(found)) == len(found))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 25))
def test_pieces_hold_all_bytes_in_order_and_none_is_too_large(lengths: list[int], most: int) -> None:
    nbytes = np.array(lengths, dtype=np.int64)
    starts = np.cumsum([0, *lengths[:-1]]) * 2
    pieces = list(in_pieces(Runs(starts, starts + 1000, nbytes), most))
    assert all(piece.nbytes.sum() <= most for piece in pieces)
    assert np.concatenate([expand(p.source, p.nbytes) for p in pieces]).tolist() == expand(starts, nbytes).tolist()
    assert all((piece.destination - piece.source == 1000).all() for piece in pieces)
