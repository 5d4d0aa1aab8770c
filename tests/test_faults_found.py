"""The strategies find every planted fault of block alignment, and what they find shrinks to a few short blocks.

No case of a fault is written into them. The quick tests take few seeds and faults, those marked slow ten and all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import seed as seeded

from differential.faults import find_fault, size_of
from differential.subjects.registry import find_subject
from kvwitness.reduce import reduce_case
from oracle.model.case import SIDES, Case
from strategies.cases import cases
from tests.test_faults_blocks import BLOCKS

MOST = 1000
"""random cases in which a fault must show"""
QUIET = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))


def shows(name: str, case: Case) -> bool:
    fault = find_fault(name)
    return fault.applies(case) and fault.shows(case, find_subject(fault.base))


@cache
def found(seed: int) -> dict[str, int]:
    """Fault -> number of the random case of a seed in which it first shows, of those that show in ``MOST``."""
    missing, first = list(BLOCKS), {}
    number = 0

    @seeded(seed)
    @settings(QUIET, max_examples=MOST, phases=[Phase.generate])
    @given(cases())
    def draw(case: Case) -> None:
        nonlocal number
        number += 1
        for name in [name for name in missing if shows(name, case)]:
            first[name] = number
            missing.remove(name)

    draw()
    return first


def missed(seeds: Iterable[int]) -> dict[str, list[int]]:
    """Fault -> the seeds that do not find it."""
    by_fault = defaultdict(list)
    for seed in seeds:
        for name in set(BLOCKS) - found(seed).keys():
            by_fault[name].append(seed)
    return dict(by_fault)


def test_two_seeds_find_every_fault() -> None:
    assert not {name: seeds for name, seeds in missed(range(2)).items() if len(seeds) > 1}


@pytest.mark.slow
def test_nine_of_ten_seeds_find_every_fault() -> None:
    assert not {name: seeds for name, seeds in missed(range(10)).items() if len(seeds) > 1}


def shrunk(name: str, seed: int) -> Case:
    """The first case that shows a fault, as ``kvwitness verify`` shrinks it: by its numbers, then by itself."""
    case = find(
        cases(), lambda drawn: shows(name, drawn), settings=settings(QUIET, max_examples=MOST), random=Random(seed)
    )
    return reduce_case(case, lambda smaller: shows(name, smaller))


def is_small(case: Case) -> bool:
    """Blocks of three tokens, and four of them, at the most."""
    sizes = [case.side(side).tokens_per_block for side in SIDES]
    return max(sizes) <= 3 and all(-(-request.prompt // min(sizes)) <= 4 for request in case.requests)


@pytest.mark.parametrize("name", ["ends-paired", "helix-contiguous", "tail-trim"])
def test_what_is_found_is_small(name: str) -> None:
    case = shrunk(name, 0)
    assert is_small(case), case
    assert len(case.requests) == 1 and shows(name, case)


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_what_is_found_of_any_fault_is_small(name: str) -> None:
    least = find_fault(name).minimum
    case = shrunk(name, 1)
    assert is_small(case), case
    assert max(size - bound for size, bound in zip(size_of(case), least, strict=True)) <= 1
