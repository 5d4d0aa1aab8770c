"""The intervals of all ranks cover every index as the declaration says (spec: kinds, grids and splits)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.subjects.mapping.shares import axis_shares, common_atoms, seat_of, share
from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.errors import InvalidCase
from oracle.model.topology import Topology


def holds(split: Split, size: int, part: int, parts: int, index: int) -> bool:
    """What the declaration says of one index: decided by comparing fractions, one index at a time."""
    if split is Split.ALL:
        return True
    if split is Split.CYCLIC:
        return index % parts == part
    if split is Split.EVEN:
        return part * size <= index * parts < (part + 1) * size
    first = next(i for i in range(size + 1) if (i + 1) * parts > part * size)
    if split is Split.HEADS:
        return first <= index and (index - first) * parts < size and index - first < -(-size // parts)
    end = next(i for i in range(size + 1) if (i + 1) * parts > (part + 1) * size)
    return index == first or first <= index < end


def local_indices(axis: Axis, part: int, parts: int) -> list[int]:
    """Global indices that a rank stores, in order, by asking for each."""
    if not axis.sections:
        return [i for i in range(axis.size) if holds(axis.split, axis.size, part, parts, i)]
    found, start = [], 0
    for section in axis.sections:
        found += [start + i for i in range(section.size) if holds(section.split, section.size, part, parts, i)]
        start += section.size
    return found


PARTS = st.integers(1, 8)
UNEVEN = st.sampled_from([Split.ALL, Split.HEADS, Split.FLOOR, Split.CYCLIC])
SECTIONS = st.builds(
    lambda first, second: (Section("x", *first), Section("y", *second)),
    st.tuples(st.integers(1, 13), UNEVEN),
    st.tuples(st.sampled_from([24, 48]), st.sampled_from([Split.EVEN, Split.ALL])),
)
AXES = st.one_of(
    st.builds(lambda size, split: Axis("H", size, split), st.integers(1, 13), UNEVEN),
    st.just(Axis("H", 840, Split.EVEN)),
    st.builds(lambda given: Axis("C", sections=given), SECTIONS.filter(lambda given: given[1].split is Split.ALL)),
)
"""840 has every number of parts as a divisor."""


def expand(shares: tuple[range, ...]) -> list[int]:
    return [index for own in shares for index in own]


@given(AXES, PARTS)
def test_shares_are_what_the_declaration_says_of_each_index(axis: Axis, parts: int) -> None:
    for part in range(parts):
        seat = ((part, parts), (0, 1))
        assert expand(axis_shares(axis, seat)) == local_indices(axis, part, parts)


@given(AXES, PARTS)
def test_every_index_is_on_some_rank(axis: Axis, parts: int) -> None:
    held = {index for part in range(parts) for index in expand(axis_shares(axis, ((part, parts), (0, 1))))}
    assert held == set(range(axis.size))


@given(st.integers(1, 6), st.integers(1, 4), SECTIONS)
def test_sections_are_split_one_by_one_over_the_tensor_and_context_grid(tp: int, cp: int, given: tuple) -> None:
    parts = tp * cp
    given = tuple(s if s.split is not Split.EVEN else Section(s.name, parts * s.size, s.split) for s in given)
    axis = Axis("C", grid=Grid.TPCP, sections=given)
    topology = Topology(tp, (1,), cp)
    for rank in topology.ranks():
        shares = axis_shares(axis, seat_of(topology, rank))
        assert expand(shares) == local_indices(axis, rank.tp * cp + rank.cp, parts)


@given(
    AXES,
    PARTS,
    st.lists(PARTS, min_size=1, max_size=3).flatmap(
        lambda all_parts: st.tuples(*[st.tuples(st.integers(0, parts - 1), st.just(parts)) for parts in all_parts])
    ),
    st.data(),
)
def test_atoms_tell_for_each_index_where_it_lies_on_every_rank(axis, parts, sources, data) -> None:
    part = data.draw(st.integers(0, parts - 1))
    wanted = local_indices(axis, part, parts)
    held = [local_indices(axis, *position) for position in sources]
    atoms = common_atoms(
        axis_shares(axis, ((part, parts), (0, 1))), tuple(axis_shares(axis, (position, (0, 1))) for position in sources)
    )
    place = 0
    for first, at, length, places in atoms:
        assert at == place and wanted[at] == first
        for step in range(length):
            index = wanted[at + step]
            for own, start in zip(held, places, strict=True):
                assert (index in own) == (start >= 0)
                assert start < 0 or own[start + step] == index
        place += length
    assert place == len(wanted)


@pytest.mark.parametrize(
    ("size", "parts", "ranges"),
    [
        (8, 4, [(0, 2), (2, 4), (4, 6), (6, 8)]),
        (2, 4, [(0, 1), (0, 1), (1, 2), (1, 2)]),
        (6, 4, [(0, 2), (1, 3), (3, 5), (4, 6)]),
        (3, 4, [(0, 1), (0, 1), (1, 2), (2, 3)]),
    ],
)
def test_heads_are_shared_as_published(size: int, parts: int, ranges: list[tuple[int, int]]) -> None:
    assert [share(size, Split.HEADS, part, parts) for part in range(parts)] == [range(*pair) for pair in ranges]


def test_floor_shares_are_disjoint_where_ceil_shares_overlap() -> None:
    shares = [share(6, Split.FLOOR, part, 4) for part in range(4)]
    assert shares == [range(0, 1), range(1, 3), range(3, 4), range(4, 6)]


def test_an_even_split_has_no_remainder() -> None:
    with pytest.raises(InvalidCase, match="leaves a remainder"):
        share(7, Split.EVEN, 0, 2)


@pytest.mark.parametrize(("tp", "cp"), list(product((1, 2, 4), (1, 2, 3))))
def test_context_parallel_ranks_act_as_more_tensor_parallelism(tp: int, cp: int) -> None:
    topology = Topology(tp, (1,), cp)
    seats = [seat_of(topology, rank) for rank in topology.ranks()]
    assert [seat[1] for seat in seats] == [(part, tp * cp) for part in range(tp * cp)]
    assert [seat[0] for seat in seats] == [(part // cp, tp) for part in range(tp * cp)]


def test_attention_data_parallelism_collapses_both_grids() -> None:
    topology = Topology(4, (1, 1), attention_dp=True)
    assert {seat_of(topology, rank) for rank in topology.ranks()} == {((0, 1), (0, 1))}
