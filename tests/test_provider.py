"""What a search of the commands does to generators of random numbers that are not its own: nothing that stays."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal import entropy

from kvwitness.provider import drawing_from_the_seed_alone


def search(*, fails: bool = False) -> list[tuple[float, float]]:
    """The next numbers of the two global generators in each of some examples."""
    seen: list[tuple[float, float]] = []

    @seed(1)
    @settings(
        max_examples=4,
        database=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=8, max_size=8))
    def draw(_: bytes) -> None:
        seen.append((np.random.random(), random.random()))
        assert not fails

    with drawing_from_the_seed_alone():
        draw()
    return seen


def numpy_state() -> tuple[bytes, int]:
    _, words, position, *_ = np.random.get_state()
    return np.asarray(words).tobytes(), int(position)


def test_every_example_finds_the_global_generators_in_one_state() -> None:
    first, *others = search()
    assert others
    assert set(others) == {first}


def test_a_search_leaves_the_global_generators_as_it_found_them() -> None:
    np.random.seed(7)
    np.random.random(5)
    before = numpy_state(), random.getstate()
    search()
    assert (numpy_state(), random.getstate()) == before


def test_a_search_that_fails_leaves_the_global_generators_as_it_found_them() -> None:
    before = numpy_state(), random.getstate()
    with pytest.raises(AssertionError):
        search(fails=True)
    assert (numpy_state(), random.getstate()) == before


def test_after_a_search_hypothesis_saves_states_as_usual() -> None:
    search()
    seed_all, restore_all = entropy.get_seeder_and_restorer()
    np.random.seed(3)
    before = numpy_state()
    seed_all()
    assert numpy_state() != before
    restore_all()
    assert numpy_state() == before
