"""Buffers are coalesced by size alone, in first-seen order, widest pool first; other rules name their pools."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.model.axes import Split
from oracle.model.buffers import Buffer, Model, Placement
from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet
from oracle.model.packing import pack_group
from oracle.model.pages import Entry, PageTable
from tests.declared import (
    assert_impossible,
    buffer,
    channels,
    heads,
    instance_of,
    key_value,
    paged,
    payload,
    state,
    tables_of,
    tokens,
)

INDEX = buffer("index", [1], tokens(), payload(4))


def model_of(*buffers: Buffer, layers: int = 2) -> Model:
    return Model(layers, (paged("a", *buffers),))


def packed(model: Model, **options: object) -> PageTable:
    options.setdefault("stages", (model.layers,))
    (table,) = tables_of(model, instance_of(**options))
    return table


def rows(table: PageTable, pool: int) -> list[tuple[int, str, int, int]]:
    return [(entry.layer, entry.role, entry.offset, entry.nbytes) for entry in table.entries if entry.pool == pool]


def test_equal_sizes_share_a_pool_whatever_their_role() -> None:
    table = packed(model_of(*key_value([0, 1], 1, 4, bits=8), INDEX))
    assert [pool.slot_bytes for pool in table.pools] == [20]
    assert rows(table, 0) == [
        (0, "key", 0, 4),
        (0, "value", 4, 4),
        (1, "key", 8, 4),
        (1, "value", 12, 4),
        (1, "index", 16, 4),
    ]


def test_a_side_buffer_of_another_size_has_a_pool_of_its_own() -> None:
    table = packed(model_of(*key_value([0, 1], 2, 4, bits=8), INDEX))
    assert [pool.slot_bytes for pool in table.pools] == [32, 4]
    assert rows(table, 1) == [(1, "index", 0, 4)]


def test_pools_are_ordered_by_slot_width_and_not_by_member() -> None:
    small, large = buffer("small", "0..4", tokens(), payload(2)), buffer("large", [0], tokens(), payload(8))
    table = packed(model_of(large, small, layers=5))
    assert [pool.slot_bytes for pool in table.pools] == [10, 8]


def test_pools_of_one_width_keep_the_order_in_which_they_were_seen() -> None:
    pair, single = buffer("pair", [0, 1], tokens(), payload(2)), buffer("single", [0], tokens(), payload(4))
    for first, second in ((pair, single), (single, pair)):
        table = packed(model_of(first, second))
        assert [pool.slot_bytes for pool in table.pools] == [4, 4]
        assert rows(table, 0)[0][1] == first.role


@st.composite
def buffer_sizes(draw: st.DrawFn) -> list[list[int]]:
    """Bytes by layer and role; 0 where a layer lacks the role."""
    return draw(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=5).filter(_some))


def _some(sizes: list[list[int]]) -> bool:
    return any(size for layer in sizes for size in layer)


@given(buffer_sizes(), st.booleans())
def test_coalescing_buckets_by_size_in_first_seen_order(sizes: list[list[int]], reverse: bool) -> None:
    found = [(layer, role, size) for layer, roles in enumerate(sizes) for role, size in enumerate(roles) if size]
    buffers = [
        buffer(f"r{role}_{size}", [layer for layer, r, s in found if (r, s) == (role, size)], payload(size))
        for role, size in sorted({(role, size) for _, role, size in found})
    ]
    order = tuple(reversed(range(len(sizes)))) if reverse else ()
    table = packed(model_of(*buffers, layers=len(sizes)), layer_order=order)
    physical = sorted(found, key=lambda row: (-row[0] if reverse else row[0], row[1], row[2]))
    buckets: dict[int, list[tuple[int, str]]] = {}
    for layer, role, size in physical:
        buckets.setdefault(size, []).append((layer, f"r{role}_{size}"))
    expected = sorted(buckets.items(), key=lambda bucket: -bucket[0] * len(bucket[1]))
    assert [(pool.slot_bytes, rows(table, number)) for number, pool in enumerate(table.pools)] == [
        (size * len(members), [(*member, j * size, size) for j, member in enumerate(members)])
        for size, members in expected
    ]


def test_groups_of_equal_widths_share_a_pool_group_and_start_at_offset_0() -> None:
    model = Model(2, (paged("full", *key_value([0], 2, 4)), paged("window", *key_value([1], 2, 4), window=4)))
    table = packed(model)
    assert len(table.pools) == 1
    assert [(entry.group, entry.pool, entry.offset) for entry in table.entries] == [
        (0, 0, 0),
        (0, 0, 16),
        (1, 0, 0),
        (1, 0, 16),
    ]


def test_groups_share_only_where_all_widths_agree_in_order() -> None:
    index = buffer("index", [1], tokens(), payload(4))
    model = Model(2, (paged("full", *key_value([0], 2, 4)), paged("window", *key_value([1], 2, 4), index, window=4)))
    table = packed(model)
    assert [(pool.slot_bytes, pool.pool_group) for pool in table.pools] == [(32, 0), (32, 1), (4, 1)]


def test_groups_with_a_rule_of_their_own_share_nothing() -> None:
    model = Model(2, (paged("full", *key_value([0], 2, 4)), paged("window", *key_value([1], 2, 4), window=4)))
    table = packed(model, packing=(("full", "key+value"),))
    assert [(pool.slot_bytes, pool.pool_group) for pool in table.pools] == [(32, 0), (32, 1)]


def test_a_stage_packs_its_own_layers_and_may_hold_none() -> None:
    first, empty, last = tables_of(model_of(*key_value([0, 1], 2, 4, bits=8), INDEX), instance_of(stages=(1, 0, 1)))
    assert rows(first, 0) == [(0, "key", 0, 8), (0, "value", 8, 8)]
    assert empty == PageTable((), ())
    assert [pool.slot_bytes for pool in last.pools] == [16, 4]


def test_separate_is_one_pool_a_role_and_interleaved_one_pool_in_layer_order() -> None:
    model = model_of(*key_value([0, 1], 1, 4, bits=8), INDEX)
    separate = packed(model, packing=(("a", "separate"),))
    assert [rows(separate, pool) for pool in range(3)] == [
        [(0, "key", 0, 4), (1, "key", 4, 4)],
        [(0, "value", 0, 4), (1, "value", 4, 4)],
        [(1, "index", 0, 4)],
    ]
    interleaved = packed(model, packing=(("a", "interleaved"),), layer_order=(1, 0))
    assert [(layer, role) for layer, role, _, _ in rows(interleaved, 0)] == [
        (1, "key"),
        (1, "value"),
        (1, "index"),
        (0, "key"),
        (0, "value"),
    ]
    assert [offset for _, _, offset, _ in rows(interleaved, 0)] == [0, 4, 8, 12, 16]


def test_pools_may_be_named_by_their_roles() -> None:
    table = packed(model_of(*key_value([0, 1], 1, 4, bits=8), INDEX), packing=(("a", "index | key + value"),))
    assert [rows(table, pool) for pool in range(2)] == [
        [(1, "index", 0, 4)],
        [(0, "key", 0, 4), (0, "value", 4, 4), (1, "key", 8, 4), (1, "value", 12, 4)],
    ]


@pytest.mark.parametrize(
    "rule",
    ["", "coalesce", "key", "key+value", "key+key+value+index", "key|value|index|scale", "layer_major interleaved"],
)
def test_a_rule_names_every_role_once(rule: str) -> None:
    assert_impossible(
        lambda: packed(model_of(*key_value([0, 1], 1, 4), INDEX), packing=(("a", rule),)),
        "packing of a",
        rule,
        "expected coalesced, interleaved, separate, or each of the roles key, value, index once",
    )


def test_a_layer_major_pool_holds_all_slots_of_a_layer_together() -> None:
    model = Model(3, (state("s", buffer("conv", "0..2", payload(6)), buffer("ssm", "0..2", payload(4))),))
    table = packed(model, packing=(("s", "layer_major"),), layer_order=(2, 1, 0))
    count = table.pools[0].count
    assert [(pool.slot_bytes, pool.slot_stride, pool.layer_stride) for pool in table.pools] == [
        (6, 6, 6 * count),
        (4, 4, 4 * count),
    ]
    assert rows(table, 0) == [(2, "conv", 0, 6), (1, "conv", 6 * count, 6), (0, "conv", 12 * count, 6)]
    assert table.pool_extent(0) == 18 * count


def test_a_layer_major_pool_of_several_roles_holds_them_back_to_back_in_each_layer() -> None:
    model = Model(2, (state("s", buffer("conv", "0..1", payload(6)), buffer("ssm", "0..1", payload(4))),))
    table = packed(model, packing=(("s", "layer_major conv+ssm"),))
    (pool,) = table.pools
    assert (pool.slot_bytes, pool.layer_stride) == (10, 10 * pool.count)
    assert [row[2] for row in rows(table, 0)] == [0, 6, pool.layer_stride, pool.layer_stride + 6]


def test_the_layers_of_a_layer_major_pool_have_one_width() -> None:
    model = Model(2, (state("s", buffer("ssm", [0], payload(4)), buffer("ssm", [1], payload(6))),))
    assert_impossible(
        lambda: packed(model, packing=(("s", "layer_major"),)),
        "packing",
        [4, 6],
        "a layer-major pool needs layers of one width",
    )


def test_own_is_one_pool_of_the_role_over_its_layers() -> None:
    index = buffer("index", "0..1", tokens(), payload(4), placement=Placement(own=True))
    table = packed(model_of(*key_value([0, 1], 1, 4, bits=8), index))
    assert [[row[:2] for row in rows(table, pool)] for pool in range(2)] == [
        [(0, "key"), (0, "value"), (1, "key"), (1, "value")],
        [(0, "index"), (1, "index")],
    ]


@pytest.mark.parametrize(("placement", "width"), [(Placement(pad=10), 10), (Placement(align=8), 8), (Placement(), 6)])
def test_padding_widens_the_region_and_not_the_buffer(placement: Placement, width: int) -> None:
    table = packed(model_of(buffer("key", "0..1", payload(6), placement=placement)))
    assert rows(table, 0) == [(0, "key", 0, 6), (1, "key", width, 6)]
    assert table.pools[0].slot_bytes == 2 * width


def test_padding_comes_before_bucketing() -> None:
    padded = buffer("state", "0..1", payload(3), placement=Placement(pad=4))
    table = packed(model_of(padded, buffer("key", "0..1", payload(4))))
    assert rows(table, 0) == [(0, "state", 0, 3), (0, "key", 4, 4), (1, "state", 8, 3), (1, "key", 12, 4)]


def test_fused_buffers_form_one_region_in_declared_order() -> None:
    conv = buffer("conv", "0..1", channels(2, 2), placement=Placement(fused="mamba"))
    ssm = buffer("ssm", "0..1", heads(3), placement=Placement(fused="mamba", pad=12))
    model = Model(2, (state("s", conv, ssm), paged("a", buffer("key", "0..1", payload(12)))))
    table = packed(model)
    fused = [(0, "conv", 0, 4), (0, "ssm", 4, 3), (1, "conv", 12, 4), (1, "ssm", 16, 3)]
    # The padded state is as wide as the attention page, so both draw slots from one pool.
    assert rows(table, 0) == sorted([*fused, (0, "key", 0, 12), (1, "key", 12, 12)], key=lambda row: row[1] == "key")
    assert [pool.slot_bytes for pool in table.pools] == [24]


def test_a_region_is_padded_to_no_less_than_it_has() -> None:
    assert_impossible(
        lambda: packed(model_of(buffer("key", [0], payload(6), placement=Placement(pad=4)))),
        "pad of key",
        4,
        "the region has 6 B already",
    )


def test_a_request_wide_buffer_sits_on_the_first_local_layer_of_each_stage() -> None:
    position = buffer("position", "1..5/2", payload(3), request_scope=True, first_local=True)
    model = model_of(*key_value("0..5", 1, 4, bits=8), position, layers=6)
    tables = tables_of(model, instance_of(stages=(3, 2, 1)))
    places = [[entry.layer for entry in table.entries if entry.role == "position"] for table in tables]
    assert places == [[1], [3], [5]]


def test_what_an_instance_lacks_takes_no_room() -> None:
    model = Model(2, (paged("a", buffer("key", "0..1", payload(4))),), LayerSet((1,)))
    instance = instance_of(stages=(2,), without=(Without(("key",), LayerSet((1,))),))
    assert [entry.layer for entry in tables_of(model, instance)[0].entries] == [0]


@given(
    st.integers(1, 3), st.integers(1, 4), st.sampled_from(["coalesced", "interleaved", "separate", "key+index|value"])
)
def test_every_rule_places_every_buffer_once_and_back_to_back(tp: int, stages: int, rule: str) -> None:
    model = model_of(*key_value("0..3", 6, 2), buffer("index", "1..3", tokens(), payload(2)), layers=4)
    cut = (4,) if stages == 1 else (2, *[0] * (stages - 2), 2)
    instance: Instance = instance_of(tp=tp, stages=cut, packing=(("a", rule),))
    for rank, table in zip(instance.topology.ranks(), tables_of(model, instance), strict=True):
        layers = instance.topology.stage_layers(rank.pp)
        keys = [(entry.layer, entry.role) for entry in table.entries]
        assert len(set(keys)) == len(keys)
        assert set(keys) == {(b_layer, b.role) for b in model.groups[0].buffers for b_layer in b.layers} & {
            (layer, role) for layer in layers for role in ("key", "value", "index")
        }
        by_pool = sorted(table.entries, key=lambda entry: (entry.pool, entry.offset))
        for pool, members in groupby(by_pool, key=lambda entry: entry.pool):
            assert _end_to_end(list(members)) == table.pools[pool].slot_bytes


def _end_to_end(entries: list[Entry]) -> int:
    end = 0
    for entry in entries:
        assert entry.offset == end
        end += entry.nbytes
    return end


def test_packing_is_the_same_for_all_tensor_ranks_of_a_stage_unless_shares_are_uneven() -> None:
    even = tables_of(model_of(*key_value([0, 1], 6, 2)), instance_of(tp=4, stages=(2,)))
    assert len(set(even)) == 1
    floor = model_of(buffer("key", "0..1", heads(6, Split.FLOOR), tokens(), payload(2)))
    assert [table.pools[0].slot_bytes for table in tables_of(floor, instance_of(tp=4, stages=(2,)))] == [4, 8, 4, 8]


def test_a_group_without_layers_on_the_stage_has_no_pool() -> None:
    model = Model(2, (paged("a", buffer("key", [0], payload(4))), state("s", buffer("ssm", [1], payload(8)))))
    instance = instance_of(stages=(1, 1))
    assert pack_group(model, 1, instance, instance.topology.rank(0)) == ()
    assert [table.groups() for table in tables_of(model, instance)] == [(0,), (1,)]
