"""Merging joins runs inside one slot and never changes which bytes move."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from differential.subjects.mapping import merge_runs
from differential.subjects.mapping.merge import merge_few
from oracle.model.case import Case, Request, Slots
from oracle.model.topology import Topology
from tests.mapping_cases import case_of, keys_only, plan_of

Run = tuple[int, int, int]


@st.composite
def run_lists(draw: st.DrawFn) -> list[Run]:
    """Runs in destination order that often, but not always, continue each other."""
    source = destination = 0
    runs: list[Run] = []
    for _ in range(draw(st.integers(1, 8))):
        nbytes = draw(st.integers(1, 4))
        source += draw(st.sampled_from([0, 0, 0, 1, 7]))
        destination += draw(st.sampled_from([0, 0, 0, 1, 7]))
        runs.append((source, destination, nbytes))
        source, destination = source + nbytes, destination + nbytes
    return runs


def moved(runs: list[Run]) -> list[tuple[int, int]]:
    return sorted((source + i, destination + i) for source, destination, nbytes in runs for i in range(nbytes))


def merged(runs: list[Run], **strides: int) -> list[Run]:
    return [tuple(run) for run in merge_runs(np.array(runs, dtype=np.int64), **strides).tolist()]


@given(run_lists(), st.randoms(use_true_random=False))
def test_the_set_of_bytes_never_changes(runs: list[Run], random) -> None:
    shuffled = random.sample(runs, len(runs))
    assert moved(merged(shuffled)) == moved(runs)
    assert merged(shuffled) == merged(runs)


@given(run_lists(), st.sampled_from([0, 3, 8]), st.sampled_from([0, 5, 8]))
def test_nothing_adjacent_is_left_and_both_ways_agree(runs: list[Run], source: int, destination: int) -> None:
    found = merged(runs, source_stride=source, destination_stride=destination)
    for (a, b, n), (c, d, _) in itertools.pairwise(found):
        region = (source and c // source != a // source) or (destination and d // destination != b // destination)
        assert (a + n, b + n) != (c, d) or region
    if not source and not destination:
        assert found == merge_few(runs)


def test_runs_on_two_sides_of_a_layer_region_stay_apart() -> None:
    runs = [(0, 0, 4), (4, 4, 4), (8, 8, 4)]
    assert merged(runs) == [(0, 0, 12)]
    assert merged(runs, source_stride=8) == [(0, 0, 8), (8, 8, 4)]
    assert merged(runs, destination_stride=4) == runs == merge_few(runs, 0, 4)
    assert merge_few(runs, 8, 0) == [(0, 0, 8), (8, 8, 4)]


def test_no_runs_are_no_runs() -> None:
    assert merge_runs(np.zeros((0, 3), dtype=np.int64)).shape == (0, 3)


def test_neighbouring_slots_are_never_joined() -> None:
    # Slots 0, 1, 2 on both sides follow one another in memory; each keeps a run of its own.
    case = case_of(keys_only(1), Topology(), Topology(), Request(0, 6))
    writes = plan_of(case)
    columns = writes.columns()
    order = np.argsort(columns["src_offset"])
    assert np.diff(columns["src_offset"][order]).tolist() == [2, 2]
    assert columns["nbytes"].tolist() == [2, 2, 2] and writes.run_count == 3


def test_layer_major_regions_of_one_slot_are_never_joined() -> None:
    # One slot a pool: the last byte of layer 0 and the first of layer 1 are neighbours on both sides.
    packing = {"packing": (("full", "layer_major"),)}
    case = case_of(keys_only(1, layers=2), Topology(1, (2,)), Topology(1, (2,)), context=packing, generation=packing)
    case = Case(case.model, case.context, case.generation, case.requests, slots=Slots(counts=(("full", 1),)))
    assert [segment.runs.tolist() for segment in plan_of(case).segments] == [[[0, 0, 2], [2, 2, 2]]]
