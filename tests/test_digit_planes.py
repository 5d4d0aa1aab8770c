"""Identities become digits that an engine can carry, and digits become identities again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.engines import memory
from differential.engines.host import HostEngine
from differential.engines.memory import planes, planes_of
from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from oracle.model.writes import Writes
from oracle.truth.elements import truth_of
from oracle.truth.verdict import Kind
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


@pytest.mark.parametrize(("dim", "passes"), [(10, 1), (160, 2), (9000, 3)])
def test_digits_of_another_pass_spell_nothing(dim: int, passes: int) -> None:
    found = planes_of(case_of(f"key @ 0 : T D({dim}) ; 8"))
    assert found.passes == passes
    words = found.words_of(np.arange(len(found.ids) + 1))
    digits = [(words >> found.word.type(8 * plane)) & found.word.type(255) for plane in range(passes)]
    assert len(set().union(*({int(digit) for digit in plane} for plane in digits))) <= 254
    for stale in range(passes):
        for other in {stale - 1, 0, passes - 1} & set(range(passes)) - {stale}:
            mixed = list(digits)
            mixed[stale] = np.random.default_rng(0).permutation(digits[other])
            together = sum(digit << found.word.type(8 * plane) for plane, digit in enumerate(mixed))
            assert (found.numbers_of(np.asarray(together, dtype=found.word)) == -1).all()


@pytest.mark.parametrize(
    ("numbers", "passes"),
    [(1, 1), (254, 1), (255, 2), (127**2, 2), (127**2 + 1, 3), (84**3, 3), (84**3 + 1, 4), (63**4, 4), (63**4 + 1, 5)],
)
def test_every_pass_has_digits_of_its_own(numbers: int, passes: int) -> None:
    assert planes.passes_for(numbers) == passes


def test_from_five_passes_on_words_are_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planes, "passes_for", lambda numbers: 5)
    monkeypatch.setattr(memory, "planes_of", lambda case, padding, tails: planes.Planes(truth_of(case, padding)))
    case = case_of("key @ 0 : H(2).heads T D(160) ; 8", "tp1", "tp2")
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    done = memory.carry(case, plan, HostEngine())
    assert done.verdict and done.landing is not None
    assert done.landing.words.dtype == np.uint64 and int(done.landing.words.max()) > 1 << 32
    dropped = memory.carry(case, replace(plan, segments=plan.segments[:-1]), HostEngine()).verdict
    assert dropped.counts == {Kind.MISSING: 320}
