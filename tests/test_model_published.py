"""Packed slots of published models have the published sizes.

Shapes come from public model configurations, sizes from arithmetic on them (spec: kinds). A block has
32 tokens for the windowed models and 128 for the others.
"""

from __future__ import annotations

import pytest

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, Model, Move, MoveState, Part
from oracle.model.counts import buffer_bytes
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.pages import PageTable
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

EVEN_STATE = {"split": Split.EVEN, "grid": Grid.TPCP}


def packed(model: Model, **options: object) -> PageTable:
    """The page table of rank 0."""
    options.setdefault("tokens_per_block", 128)
    options.setdefault("stages", (model.layers,))
    return tables_of(model, instance_of(**options))[0]


def pools_of(table: PageTable, group: int) -> list[tuple[int, int]]:
    """(slot bytes, members) of each pool of a group."""
    members = [entry.pool for entry in table.entries if entry.group == group]
    return [(table.pools[pool].slot_bytes, members.count(pool)) for pool in sorted(set(members))]


def nbytes(one: Buffer, *, tokens_per_block: int = 128, **options: object) -> int:
    instance: Instance = instance_of(tokens_per_block=tokens_per_block, **options)
    return buffer_bytes(one, instance, instance.topology.rank(0))


def footer(role: str, layers: str, data: int, tail: int, *, rows: Axis | None = None, sub_rows: int = 0) -> Buffer:
    """Rows of ``data`` bytes, then as many rows of ``tail`` bytes, in each sub-page."""
    axis = rows or tokens()
    parts = (Part((axis, payload(data)), 8), Part((axis, payload(tail)), 8))
    return Buffer(role, LayerSet.parse(layers), parts, sub_rows=sub_rows)


# ---- dense K/V, latents and scales


@pytest.mark.parametrize(("bits", "size"), [(16, 1152), (8, 576)])
def test_a_latent_token_is_1152_or_576_bytes_on_every_tensor_rank(bits: int, size: int) -> None:
    latent = buffer("key", [0], tokens(), payload(512 + 64), bits=bits)
    assert {nbytes(latent, tokens_per_block=1, tp=tp) for tp in (1, 2, 4)} == {size}


def test_data_and_scales_of_four_bit_heads_have_two_units_in_one_group() -> None:
    key = buffer("key", [0], heads(8), tokens(), payload(128), bits=4)
    scale = buffer("key_block_scale", [0], heads(8), tokens(), payload(128 // 16))
    assert [nbytes(one, tp=8) for one in (key, scale)] == [128 * 128 // 2, 128 * 128 // 16]
    table = packed(Model(1, (paged("full", key, scale),)), tp=8)
    assert pools_of(table, 0) == [(8192, 1), (1024, 1)]
    assert len({pool.pool_group for pool in table.pools}) == 1


def test_two_stages_of_deepseek_v3_hold_31_and_30_latents() -> None:
    model = Model(61, (paged("full", buffer("key", "0..60", tokens(), payload(576), bits=16)),))
    tables = tables_of(model, instance_of(stages=(31, 30), tokens_per_block=32))
    assert [pools_of(table, 0) for table in tables] == [[(31 * 32 * 1152, 31)], [(30 * 32 * 1152, 30)]]


def test_three_stages_of_llama_3_70b_hold_27_27_and_26_layers() -> None:
    model = Model(80, (paged("full", *key_value("0..79", 8, 128)),))
    tables = tables_of(model, instance_of(tp=8, stages=(27, 27, 26), tokens_per_block=32))
    assert [pools_of(table, 0)[0][1] for table in tables[::8]] == [54, 54, 52]


# ---- windows


def alternating(layers: int, period: int, window: int, count: int, dim: int) -> Model:
    """Windowed layers with one full layer at the end of each ``period``."""
    full = range(period - 1, layers, period)
    local = sorted(set(range(layers)) - set(full))
    window_group = paged("window", *key_value(local, count, dim), window=window)
    return Model(layers, (window_group, paged("full", *key_value(full, count, dim))))


def test_gemma_3_27b_keeps_52_windowed_and_10_full_layers_in_pool_groups_of_their_own() -> None:
    table = packed(alternating(62, 6, 1024, 16, 128), tokens_per_block=32)
    assert pools_of(table, 0) == [(13_631_488, 104)]
    assert pools_of(table, 1) == [(2_621_440, 20)]
    assert [pool.pool_group for pool in table.pools] == [0, 1]


def test_gpt_oss_20b_shares_one_pool_group_between_its_two_retentions() -> None:
    model = alternating(24, 2, 128, 8, 64)
    table = packed(model, tokens_per_block=32)
    assert pools_of(table, 0) == pools_of(table, 1) == [(786_432, 24)]
    assert len(table.pools) == 1
    first = [next(entry for entry in table.entries if entry.group == group) for group in (0, 1)]
    assert [(entry.layer, entry.offset) for entry in first] == [(0, 0), (1, 0)]


def test_a_stage_of_five_alternating_layers_shares_no_pool_group() -> None:
    first, second = tables_of(alternating(24, 2, 128, 8, 64), instance_of(stages=(5, 19), tokens_per_block=32))
    assert [(pools_of(first, 0), pools_of(first, 1))] == [([(6 * 32_768, 6)], [(4 * 32_768, 4)])]
    assert [len(table.pools) for table in (first, second)] == [2, 2]


# ---- MiniMax M3


def m3(bits: int, index_bits: int) -> Model:
    index = buffer("index_key", "3..59", tokens(), payload(128), bits=index_bits)
    scales = ()
    if bits == 4:
        scales = tuple(
            buffer(f"{role}_block_scale", "0..59", heads(4), tokens(), payload(8)) for role in ("key", "value")
        )
    return Model(60, (paged("full", *key_value("0..59", 4, 128, bits=bits), index, *scales),))


@pytest.mark.parametrize(
    ("bits", "index_bits", "tp", "pools"),
    [
        (16, 16, 1, [(120 * 131_072, 120), (57 * 32_768, 57)]),
        (16, 16, 2, [(120 * 65_536, 120), (57 * 32_768, 57)]),
        (16, 16, 4, [(177 * 32_768, 177)]),
        (16, 16, 8, [(177 * 32_768, 177)]),
        (8, 16, 1, [(120 * 65_536, 120), (57 * 32_768, 57)]),
        (8, 16, 2, [(177 * 32_768, 177)]),
        (8, 16, 4, [(120 * 16_384, 120), (57 * 32_768, 57)]),
        (8, 8, 2, [(120 * 32_768, 120), (57 * 16_384, 57)]),
        (8, 8, 4, [(177 * 16_384, 177)]),
        (4, 16, 1, [(177 * 32_768, 177), (120 * 4_096, 120)]),
    ],
)
def test_m3_coalesces_its_index_key_by_tensor_size_and_width_alone(
    bits: int, index_bits: int, tp: int, pools: list[tuple[int, int]]
) -> None:
    assert sorted(pools_of(packed(m3(bits, index_bits), tp=tp), 0)) == sorted(pools)
    widths = [pool.slot_bytes for pool in packed(m3(bits, index_bits), tp=tp).pools]
    assert widths == sorted(widths, reverse=True)


def test_the_layer_stride_of_m3_is_uneven_where_the_index_key_is_coalesced() -> None:
    table = packed(m3(16, 16), tp=4)
    offsets = {(entry.layer, entry.role): entry.offset // 32_768 for entry in table.entries}
    assert [offsets[layer, "key"] for layer in (0, 1, 2, 3, 4, 5)] == [0, 2, 4, 6, 9, 12]
    assert [offsets[3, role] for role in ("key", "value", "index_key")] == [6, 7, 8]


# ---- opaque records


def test_an_index_row_is_132_or_68_bytes_with_its_scale_after_all_data() -> None:
    assert nbytes(footer("index_key", "0", 128, 4)) == 128 * 132
    assert nbytes(footer("index_key", "0", 64, 4)) == 128 * 68


def test_a_record_with_inline_scales_is_656_bytes() -> None:
    assert nbytes(buffer("key", [0], tokens(), payload(512 + 4 * 4 + 64 * 2)), tokens_per_block=64) == 64 * 656


@pytest.mark.parametrize("tokens_per_block", [32, 64, 128])
def test_a_record_with_a_footer_is_584_bytes_whatever_the_sub_page(tokens_per_block: int) -> None:
    record = footer("swa", "0", 448 + 128, 8, sub_rows=64)
    assert nbytes(record, tokens_per_block=tokens_per_block) == tokens_per_block * 584


# ---- recurrent state


def recurrent(layers: str, count: int, dim: int, width: int, sections: tuple[int, ...]) -> tuple[Buffer, Buffer]:
    """SSM state in FP32 and convolution state (three earlier tokens) in BF16."""
    ssm = buffer("ssm_state", layers, heads(count, **EVEN_STATE), payload(dim, "P"), payload(width, "N"), bits=32)
    return ssm, buffer("conv_state", layers, channels(*sections), payload(3, "W"), bits=16)


@pytest.mark.parametrize(
    ("name", "count", "dim", "width", "sections", "conv", "ssm"),
    [
        ("Nemotron-H 8B", 128, 64, 128, (8192, 1024, 1024), 61_440, 4 << 20),
        ("Qwen3-Next 80B", 32, 128, 128, (2048, 2048, 4096), 49_152, 2 << 20),
        ("Qwen4Exp", 48, 128, 128, (2048, 2048, 6144), 61_440, 3_145_728),
        ("Kimi Linear 48B", 32, 128, 128, (4096, 4096, 4096), 73_728, 2 << 20),
        ("Kimi K3", 96, 128, 128, (12_288, 12_288, 12_288), 221_184, 6_291_456),
    ],
)
def test_recurrent_state_has_its_published_size_and_is_cut_by_tensor_and_context_ranks(
    name: str, count: int, dim: int, width: int, sections: tuple[int, ...], conv: int, ssm: int
) -> None:
    buffers = recurrent("0", count, dim, width, sections)
    assert [nbytes(one) for one in buffers] == [ssm, conv]
    assert [nbytes(one, tp=4, cp=2) for one in buffers] == [ssm // 8, conv // 8]
    assert [nbytes(one, tp=4, attention_dp=True) for one in buffers] == [ssm, conv]


def test_kimi_k3_keeps_449_megabytes_of_state_a_request() -> None:
    # Which layers are recurrent changes no size, so they come first here.
    model = Model(
        93,
        (
            state("state", *recurrent("0..68", 96, 128, 128, (12_288,) * 3)),
            paged("full", buffer("key", range(69, 93), tokens(), payload(576), bits=16)),
        ),
    )
    pools = pools_of(packed(model), 0)
    assert pools == [(69 * 6_291_456, 69), (69 * 221_184, 69)]
    assert sum(size for size, _ in pools) == 449_372_160


def test_state_heads_without_a_whole_share_have_no_layout() -> None:
    ssm, conv = recurrent("0", 6, 4, 4, (6, 3, 3))
    accepted = "an even split over 4 ranks needs a multiple of 4"
    assert_impossible(lambda: nbytes(ssm, tp=2, cp=2), "buffer ssm_state, axis H", 6, accepted)
    assert_impossible(lambda: nbytes(conv, tp=4), "buffer conv_state, axis C", 6, accepted)


def test_one_b_or_c_group_may_be_whole_on_every_rank_beside_split_channels() -> None:
    sections = (Section("x", 8), Section("B", 2, Split.ALL), Section("C", 2, Split.ALL))
    conv = buffer("conv", [0], Axis("C", grid=Grid.TPCP, sections=sections), payload(3, "W"), bits=16)
    assert nbytes(conv, tp=2) == (4 + 2 + 2) * 3 * 2


# ---- Qwen4Exp


def qwen4exp(bits: int = 16) -> Model:
    attention = LayerSet.of(range(3, 48, 4))
    recurrent_layers = str(LayerSet.of(layer for layer in range(48) if layer not in attention))
    convolution = buffer("ple_conv_state", [1], payload(10_240, "C"), payload(9, "W"), bits=16)
    ngram = buffer("ple_ngram_context", [1], payload(2, "W"), bits=64)
    position = buffer(
        "qsa_index_position", attention, tokens(), payload(3), bits=32, request_scope=True, first_local=True
    )
    index = buffer("index_key", attention, tokens(), payload(128), bits=16)
    return Model(
        48,
        (
            state("state", *recurrent(recurrent_layers, 48, 128, 128, (2048, 2048, 6144)), convolution, ngram),
            paged("full", *key_value(attention, 2, 256, bits=bits), index, position),
        ),
    )


def test_qwen4exp_packs_state_index_and_position_into_the_published_sizes() -> None:
    table = packed(qwen4exp())
    assert pools_of(table, 0) == [(36 * 3_145_728, 36), (36 * 61_440, 36), (184_320, 1), (16, 1)]
    assert pools_of(table, 1) == [(24 * 2 * 128 * 512, 24), (12 * 128 * 256, 12), (128 * 12, 1)]


def test_the_index_key_of_qwen4exp_is_coalesced_with_one_fp8_head() -> None:
    assert pools_of(packed(qwen4exp(), tp=2), 1)[:2] == [(24 * 128 * 512, 24), (12 * 128 * 256, 12)]
    assert pools_of(packed(qwen4exp(8), tp=2), 1) == [(36 * 128 * 256, 36), (128 * 12, 1)]


def test_the_position_of_qwen4exp_sits_on_the_first_attention_layer_of_each_stage() -> None:
    tables = tables_of(qwen4exp(), instance_of(stages=(24, 24), tokens_per_block=128))
    places = [[entry.layer for entry in table.entries if entry.role == "qsa_index_position"] for table in tables]
    assert places == [[3], [27]]


# ---- FP4 MLA


@pytest.mark.parametrize("rewind", [0, 3])
def test_fp4_mla_has_six_sizes_two_of_them_derived(rewind: int) -> None:
    derived = (Move(MoveState.DERIVED, inputs=("key", "key_block_scale")),)
    model = Model(
        3,
        (
            paged(
                "full",
                buffer("key", "0..1", tokens(), payload(640), bits=4, ids=(2, 0)),
                buffer("key_block_scale", "0..1", tokens(), payload(40), ids=(2, 0)),
                buffer("mla_v_scale", "0..1", payload(4096), moves=derived, ids=(2, 0)),
                buffer("mla_v_packed", "0..1", payload(32_768), moves=derived, ids=(2, 0)),
            ),
            paged(
                "tail",
                buffer("mla_hp_tail", "0..1", payload(16 + rewind, "R"), payload(576), bits=16, ids=(2, 1)),
                window=16 + rewind,
            ),
            paged("fallback", buffer("key", [2], tokens(), payload(576), bits=16, ids=(2, 0)), window=1 << 20),
        ),
    )
    table = packed(model)
    assert pools_of(table, 0) == [(2 * 40_960, 2), (2 * 32_768, 2), (2 * 5_120, 2), (2 * 4_096, 2)]
    assert pools_of(table, 1) == [(2 * (18_432 + 1_152 * rewind), 2)]
    assert pools_of(table, 2) == [(147_456, 1)]


# ---- DeepSeek-V4 and CSA2


def v4_flash() -> Model:
    ratios = [0, 0, *[4, 128] * 20, 4]
    fine = [layer for layer, ratio in enumerate(ratios) if ratio == 4]
    coarse = [layer for layer, ratio in enumerate(ratios) if ratio == 128]
    fine_text = str(LayerSet.of(fine))

    def states(layers: list[int], width: int, *roles: str) -> list[Buffer]:
        return [buffer(role, layers, tokens(), payload(width), bits=32, ids=(7, 2)) for role in roles]

    return Model(
        43,
        (
            paged(
                "w128",
                *states(coarse, 512, "compressor_kv", "compressor_score"),
                buffer("swa", range(43), tokens(), payload(512), ids=(7, 0)),
                window=128,
            ),
            paged(
                "full",
                buffer("compress", fine, tokens(4), payload(512), ids=(7, 1)),
                buffer("compress", coarse, tokens(128), payload(512), ids=(7, 1)),
                footer("indexer_compress", fine_text, 128, 4, rows=tokens(4)),
            ),
            paged(
                "w8",
                *states(fine, 1024, "compressor_kv", "compressor_score"),
                *states(fine, 256, "indexer_compressor_kv", "indexer_compressor_score"),
                window=8,
            ),
        ),
    )


def test_deepseek_v4_flash_has_seven_pools_in_three_retentions() -> None:
    table = packed(v4_flash())
    assert pools_of(table, 0) == [(10_485_760, 40), (2_818_048, 43)]
    assert pools_of(table, 1) == [(344_064, 21), (88_704, 21), (10_240, 20)]
    assert pools_of(table, 2) == [(22_020_096, 42), (5_505_024, 42)]


@pytest.mark.parametrize(("ratio", "main", "index"), [(2, 18_432, 4_352), (1, 36_864, 8_704)])
def test_csa2_blocks_have_one_index_page_for_64_rows(ratio: int, main: int, index: int) -> None:
    assert nbytes(buffer("csa2_global", [2], tokens(ratio), payload(256 + 32))) == main
    assert nbytes(footer("csa2_index", "2", 64, 4, rows=tokens(ratio), sub_rows=64)) == index


def test_csa2_windows_and_compressor_states_are_528_and_2048_bytes_a_token() -> None:
    assert nbytes(buffer("csa2_swa", [0], tokens(), payload(512 + 16))) == 128 * 528
    assert nbytes(buffer("csa2_compressor_kv", [2], tokens(), payload(512), bits=32)) == 128 * 2048


def test_alias_layers_of_csa2_take_no_room() -> None:
    aliases = LayerSet.of(set(range(3, 26)) - {8, 14, 20})
    main = buffer("csa2_global", [2, 8, 14, 20], tokens(2), payload(288), alias=aliases, ids=(3, 1))
    table = packed(Model(26, (paged("full", main),)))
    assert pools_of(table, 0) == [(4 * 18_432, 4)]
    assert [entry.layer for entry in table.entries] == [2, 8, 14, 20]


def test_a_v4_block_of_128_tokens_holds_one_row_of_the_coarsest_compression() -> None:
    assert nbytes(buffer("compress", [0], tokens(128), payload(512))) == 512
    assert nbytes(buffer("compress", [0], tokens(128), payload(512)), tokens_per_block=256) == 1024
