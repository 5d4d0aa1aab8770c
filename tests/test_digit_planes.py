"""Identities become digits that an engine can carry, and digits become identities again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.engines.memory import planes, planes_of
from tests.small_cases import case_of


@pytest.mark.parametrize(("dim", "passes"), [(1, 1), (62, 1), (63, 2), (160, 2)])
def test_passes_are_as_many_as_the_identities_need(dim: int, passes: int) -> None:
    # 4 * dim identities in one block; foreign bytes, guards and what is not on the source need one number each.
    case = case_of(f"key @ 0 : H(2).heads T D({dim}) ; 8")
    found = planes_of(case)
    assert found.passes == passes
    assert len(found.ids) == 4 * dim + 1
    numbers = np.arange(len(found.ids) + 1)
    words = found.words_of(numbers)
    assert len(set(words.tolist())) == len(words)
    assert (found.numbers_of(words) == numbers).all()
    assert found.source.max() < 254
    assert not {int(found.never), int(found.guard)} & set(words.tolist())
    assert found.numbers_of(np.array([found.never, found.guard])).tolist() == [-1, -1]


@given(
    st.lists(st.integers(-3, 60), min_size=1, max_size=40),
    st.lists(st.integers(-1, 60), min_size=1, max_size=40),
    st.sampled_from([0, 1 << 60]),
)
def test_both_ways_to_number_identities_agree(source: list[int], due: list[int], far: int) -> None:
    held = np.array([number + far if number >= 0 else number for number in source])
    wanted = np.array(due)
    by_table = planes.number_densely(held, wanted)
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patched:
        patched.setattr(planes, "DENSE", -(1 << 40))
        by_sorting = planes.number_densely(held, wanted)
    assert by_table[0].tolist() == by_sorting[0].tolist() == sorted(set(held.tolist()))
    assert by_table[1].tolist() == by_sorting[1].tolist()
    assert (by_table[0][by_table[1]] == held).all()
    for number, table, sorting in zip(due, by_table[2].tolist(), by_sorting[2].tolist(), strict=True):
        if number >= 0:
            assert table == sorting
            assert (table == len(by_table[0]) + 1) is (number not in held)
