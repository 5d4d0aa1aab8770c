"""What a rank is counted to hold is what the predicates of truth say that it holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, Part
from oracle.model.counts import buffer_bytes, count_indices, grid_part, in_bytes, ordered_axes, sub_pages
from oracle.model.layers import LayerSet
from oracle.model.topology import Topology
from oracle.truth.holders import held_indices
from tests.declared import assert_impossible, buffer, channels, heads, instance_of, payload, tokens

UNEVEN = [split for split in Split if split is not Split.EVEN]


def shares(axis: Axis, parts: int) -> list[int]:
    return [count_indices(axis, part, parts) for part in range(parts)]


@pytest.mark.parametrize(
    ("size", "parts", "split", "counts"),
    [
        (6, 4, Split.HEADS, [2, 2, 2, 2]),
        (6, 4, Split.FLOOR, [1, 2, 1, 2]),
        (6, 4, Split.CYCLIC, [2, 2, 1, 1]),
        (8, 4, Split.HEADS, [2, 2, 2, 2]),
        (2, 4, Split.HEADS, [1, 1, 1, 1]),
        (2, 4, Split.FLOOR, [1, 1, 1, 1]),
        (2, 4, Split.CYCLIC, [1, 1, 0, 0]),
        (3, 2, Split.HEADS, [2, 2]),
        (3, 2, Split.FLOOR, [1, 2]),
        (8, 4, Split.EVEN, [2, 2, 2, 2]),
        (8, 4, Split.ALL, [8, 8, 8, 8]),
    ],
)
def test_published_shares(size: int, parts: int, split: Split, counts: list[int]) -> None:
    assert shares(Axis("H", size, split), parts) == counts


@given(st.integers(1, 40), st.integers(1, 16), st.sampled_from(list(Split)))
def test_a_share_is_as_large_as_the_number_of_indices_held(size: int, parts: int, split: Split) -> None:
    assume(split is not Split.EVEN or size % parts == 0)
    axis = Axis("H", size, split)
    assert shares(axis, parts) == [len(held_indices(axis, (part, parts))) for part in range(parts)]


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(1, 12), st.sampled_from(UNEVEN)), min_size=1, max_size=4))
def test_each_section_is_shared_on_its_own(parts: int, drawn: list[tuple[int, Split]]) -> None:
    sections = [Section(f"s{n}", size * parts, split) for n, (size, split) in enumerate(drawn)]
    sections.append(Section("even", parts * 3, Split.EVEN))
    axis = Axis("C", sections=tuple(sections))
    alone = [shares(Axis("C", section.size, section.split), parts) for section in sections]
    assert shares(axis, parts) == [sum(column) for column in zip(*alone, strict=True)]
    assert shares(axis, parts) == [len(held_indices(axis, (part, parts))) for part in range(parts)]


@pytest.mark.parametrize(("size", "parts"), [(6, 4), (3, 2), (1, 2)])
def test_an_even_split_has_no_remainder(size: int, parts: int) -> None:
    accepted = f"an even split over {parts} ranks needs a multiple of {parts}"
    assert_impossible(lambda: shares(heads(size, Split.EVEN), parts), "axis H", size, accepted)
    assert_impossible(lambda: shares(channels(parts, size), parts), "axis C", size, accepted)


def test_context_ranks_share_state_as_more_tensor_parallelism() -> None:
    topology = Topology(tp=2, stages=(1, 1), cp=3)
    places = [grid_part(topology, rank, Grid.TPCP) for rank in topology.ranks()]
    assert places == [(part, 6) for part in range(6)] * 2
    assert [grid_part(topology, rank, Grid.TP) for rank in topology.ranks()] == ([(0, 2)] * 3 + [(1, 2)] * 3) * 2


def test_attention_data_parallel_ranks_hold_everything() -> None:
    topology = Topology(tp=4, attention_dp=True)
    assert {grid_part(topology, rank, grid) for rank in topology.ranks() for grid in Grid} == {(0, 1)}


def test_hnd_and_nhd_exchange_the_head_and_the_token_axis() -> None:
    head, token, dim = heads(2), tokens(), payload(4)
    for declared in ((head, token, dim), (token, head, dim)):
        part = Part(declared, 8)
        assert ordered_axes(part, "") == declared
        assert ordered_axes(part, "HND") == (head, token, dim)
        assert ordered_axes(part, "NHD") == (token, head, dim)


@pytest.mark.parametrize("layout", ["", "HND", "NHD"])
def test_a_layout_leaves_a_buffer_without_heads_or_tokens_alone(layout: str) -> None:
    for axes in ((tokens(), payload(4)), (heads(2), payload(4))):
        assert ordered_axes(Part(axes, 8), layout) == axes


def test_elements_below_a_byte_are_folded_along_the_innermost_axis() -> None:
    assert in_bytes((heads(2), tokens(), payload(6)), 4) == ((heads(2), tokens(), payload(3)), 1)
    assert in_bytes((heads(2), payload(6)), 16) == ((heads(2), payload(6)), 2)
    assert in_bytes((payload(16),), 1) == ((payload(2),), 1)
    assert in_bytes((channels(8, 4),), 2) == ((channels(2, 1),), 1)


BELOW = "expected whole bytes, or 1, 2 or 4 bits along a payload axis"
EDGES = "share boundaries of elements below a byte must be whole bytes"
IMPOSSIBLE_WIDTHS: list[tuple[tuple[Axis, ...], int, str, object, str]] = [
    ((payload(8),), 12, "element bits", 12, BELOW),
    ((payload(8),), 3, "element bits", 3, BELOW),
    ((payload(8), tokens()), 4, "element bits", 4, BELOW),
    ((), 4, "element bits", 4, BELOW),
    ((heads(8),), 4, "axis H", 4, EDGES),
    ((heads(8, Split.FLOOR),), 4, "axis H", 4, EDGES),
    ((heads(8, Split.CYCLIC),), 4, "axis H", 4, EDGES),
    ((channels(8, 8, split=Split.HEADS),), 4, "axis C", 4, EDGES),
    ((payload(7),), 4, "axis D", 4, "the innermost stored row must be whole bytes"),
    ((channels(7, 1),), 4, "axis C", 4, "the innermost stored row must be whole bytes"),
]


@pytest.mark.parametrize(("axes", "bits", "argument", "value", "accepted"), IMPOSSIBLE_WIDTHS)
def test_rows_and_shares_are_whole_bytes(
    axes: tuple[Axis, ...], bits: int, argument: str, value: object, accepted: str
) -> None:
    assert_impossible(lambda: in_bytes(axes, bits), argument, value, accepted)


def test_an_even_share_below_a_byte_ends_on_a_whole_byte() -> None:
    codes = buffer("codes", [0], heads(8, Split.EVEN), bits=4)
    assert buffer_bytes(codes, instance_of(tp=4), Topology(4).rank(0)) == 1
    assert_impossible(
        lambda: buffer_bytes(codes, instance_of(tp=8), Topology(8).rank(0)),
        "buffer codes, axis H",
        4,
        "an even split over 8 ranks needs a multiple of 8",
    )


@pytest.mark.parametrize(
    ("options", "tokens_per_block", "pages"),
    [
        ({}, 8, (1, 8)),
        ({"sub_rows": 4}, 8, (2, 4)),
        ({"sub_rows": 64}, 8, (1, 8)),
        ({"sub_rows": 8}, 8, (1, 8)),
        ({"expansion": 4}, 8, (4, 2)),
    ],
)
def test_a_block_is_cut_into_sub_pages(options: dict[str, int], tokens_per_block: int, pages: tuple[int, int]) -> None:
    assert sub_pages(buffer("key", [0], tokens(), payload(2), **options), tokens_per_block) == pages


def test_compressed_rows_count_in_sub_pages() -> None:
    assert sub_pages(buffer("key", [0], tokens(4), payload(2), sub_rows=2), 32) == (4, 2)
    assert sub_pages(buffer("state", [0], payload(2)), 32) == (1, 0)


IMPOSSIBLE_PAGES: list[tuple[Callable[[], Buffer], int, object, str]] = [
    (lambda: buffer("key", [0], tokens(3)), 8, 3, "T(3) does not divide tokens_per_block = 8"),
    (lambda: buffer("key", [0], tokens(16)), 8, 16, "T(16) does not divide tokens_per_block = 8"),
    (lambda: buffer("key", [0], tokens(), expansion=3), 8, 3, "x(3) does not divide 8 rows a block"),
    (lambda: buffer("key", [0], tokens(), expansion=16), 8, 16, "x(16) does not divide 8 rows a block"),
    (lambda: buffer("key", [0], tokens(), sub_rows=3), 8, 3, "the sub-page does not divide 8 rows a block"),
]


@pytest.mark.parametrize(("build", "tokens_per_block", "value", "accepted"), IMPOSSIBLE_PAGES)
def test_sub_pages_divide_the_block(
    build: Callable[[], Buffer], tokens_per_block: int, value: object, accepted: str
) -> None:
    assert_impossible(lambda: sub_pages(build(), tokens_per_block), "buffer key", value, accepted)


def test_each_sub_page_holds_all_parts() -> None:
    footer = Buffer("index", LayerSet((0,)), (Part((tokens(), payload(4)), 8), Part((tokens(), payload(1)), 32)))
    assert buffer_bytes(footer, instance_of(tokens_per_block=8), Topology().rank(0)) == 8 * (4 + 4)


def test_an_instance_may_store_other_widths() -> None:
    key = buffer("key", [0], heads(4), tokens(), payload(8), bits=16)
    wide = instance_of(tp=2, tokens_per_block=4)
    narrow = instance_of(tp=2, tokens_per_block=4, element_bits=(("key", 4),))
    rank = Topology(2).rank(1)
    assert buffer_bytes(key, wide, rank) == 2 * 4 * 8 * 2
    assert buffer_bytes(key, narrow, rank) == 2 * 4 * 8 // 2
