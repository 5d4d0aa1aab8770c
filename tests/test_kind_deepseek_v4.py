"""DeepSeek-V4: three retentions on one layer, rows of several tokens, internal layers with ids of their own."""

from __future__ import annotations

from statistics import median

import pytest

from differential.ledger import check_case
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.case import SIDES, Case
from oracle.model.counts import buffer_bytes, sub_pages
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds.deepseek_v4 import COARSE, FINE, FLASH, PRO, WINDOW, declare, forms
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of, roles_of

STATES = {"compressor_kv", "compressor_score"}
INDEX_STATES = {"indexer_compressor_kv", "indexer_compressor_score"}


def packed(ratios: tuple[int, ...], bits: int = 8, tokens_per_block: int = 128, **how: bool) -> PageTable:
    """The page table of a model without MTP layers on one rank."""
    model = declare(ratios, WINDOW, FINE, forms(bits, **how)).model
    (table,) = lay_out(deployment(model, {}, {}, prompt=1, tokens_per_block=tokens_per_block), "context").tables
    return table


# ---- at the published size (spec: kinds, DeepSeek-V4)


def test_flash_has_seven_pools_in_three_retentions() -> None:
    table = packed(FLASH)
    assert pools_of(table, 0) == [(40 * 262_144, 40), (43 * 65_536, 43)] == [(10_485_760, 40), (2_818_048, 43)]
    assert pools_of(table, 1) == [(344_064, 21), (88_704, 21), (10_240, 20)]
    assert pools_of(table, 2) == [(22_020_096, 42), (5_505_024, 42)]
    assert roles_of(table, 0) == [STATES, {"swa"}]
    assert roles_of(table, 1) == [{"compress"}, {"indexer_compress"}, {"compress"}]
    assert roles_of(table, 2) == [STATES, INDEX_STATES]
    assert len({pool.pool_group for pool in table.pools}) == 3


def test_the_mtp_layer_of_flash_adds_a_window_and_nothing_else() -> None:
    (table,) = deployed("deepseek-v4-flash")
    assert pools_of(table, 0) == [(10_485_760, 40), (44 * 65_536, 44)]
    assert [pools_of(table, group) for group in (1, 2)] == [pools_of(packed(FLASH), group) for group in (1, 2)]
    assert [entry.role for entry in table.entries if entry.layer == 43] == ["swa"]


def test_pro_has_30_fine_and_31_coarse_layers() -> None:
    assert (PRO.count(FINE), PRO.count(COARSE), len(PRO)) == (30, 31, 61)
    table = packed(PRO)
    assert pools_of(table, 0) == [(62 * 262_144, 62), (61 * 65_536, 61)]
    assert pools_of(table, 1) == [(30 * 16_384, 30), (30 * 4_224, 30), (31 * 512, 31)]
    assert pools_of(table, 2) == [(60 * 524_288, 60), (60 * 131_072, 60)]


@pytest.mark.parametrize(("bits", "main", "window"), [(16, 32_768, 131_072), (8, 16_384, 65_536), (4, 8_192, 65_536)])
def test_with_four_bits_the_window_keeps_eight(bits: int, main: int, window: int) -> None:
    table = packed((FINE,), bits)
    sizes = {entry.role: entry.nbytes for entry in table.entries}
    assert (sizes["compress"], sizes["swa"]) == (main, window)
    assert sizes.get("compress_block_scale") == (128 // 4 * 512 // 16 if bits == 4 else None)
    assert sizes["indexer_compress"] == 32 * (68 if bits == 4 else 132)


def test_records_of_584_bytes_have_their_scales_after_64_rows() -> None:
    sizes = {entry.role: entry.nbytes for entry in packed((COARSE, FINE), records=True).entries if entry.layer == 1}
    assert (sizes["swa"], sizes["compress"]) == (128 * 584, 32 * 584)
    model = declare((FINE,), WINDOW, FINE, forms(8, records=True)).model
    swa, compress = (group.buffers[0] for group in model.groups[:2])
    assert [part.axes[-1].size for part in swa.parts] == [576, 8]
    assert (sub_pages(swa, 128), sub_pages(compress, 128), sub_pages(compress, 256)) == ((2, 64), (1, 32), (1, 64))


@pytest.mark.parametrize(("tokens", "rows"), [(128, 1), (256, 2)])
def test_a_block_holds_one_or_two_rows_of_the_coarsest_compression(tokens: int, rows: int) -> None:
    model = declare((COARSE,), WINDOW, FINE, forms(8)).model
    (compress,) = model.groups[1].buffers
    instance = Instance(tokens_per_block=tokens)
    assert buffer_bytes(compress, instance, instance.topology.rank(0)) == rows * 512


def test_coarse_states_are_kept_as_long_as_the_window_and_fine_ones_for_two_rows() -> None:
    model = deployment("deepseek-v4-flash", {}, {}, prompt=1).model
    assert [(group.name, group.window) for group in model.groups] == [("window", 128), ("full", None), ("states_8", 8)]
    assert [buffer.layers.ids[:2] for buffer in model.groups[0].buffers] == [(0, 1), (3, 5), (3, 5)]
    assert model.groups[2].buffers[0].layers.ids[0] == 2


def test_an_internal_layer_is_seven_times_its_layer_and_the_first_of_its_types() -> None:
    model = deployment("deepseek-v4-flash", {}, {}, prompt=1).model
    ids = {
        (layer, buffer.role): buffer.ids[0] * layer + buffer.ids[1]
        for group in model.groups
        for buffer in group.buffers
        for layer in buffer.layers.ids
    }
    assert [ids[0, "swa"], ids[2, "swa"], ids[3, "swa"], ids[43, "swa"]] == [0, 14, 21, 301]
    assert {ids[3, role] for role in STATES} == {21}
    assert {ids[2, role] for role in STATES | INDEX_STATES} == {15}
    assert (ids[2, "compress"], ids[2, "indexer_compress"], ids[3, "compress"]) == (19, 19, 26)


def test_every_tensor_rank_holds_the_same_and_stages_their_own_layers() -> None:
    tables = deployed("deepseek-v4-flash", tp=4)
    assert len(set(tables)) == 1
    first, second = deployed("deepseek-v4-flash", pp=2)
    assert [sum(e.role == "swa" for e in table.entries) for table in (first, second)] == [22, 22]
    assert [pools_of(table, 1)[2][1] for table in (first, second)] == [10, 10]


# ---- small ones


def test_every_combination_of_numbers_builds() -> None:
    build_samples("deepseek_v4", 1_500)


def one_row_blocks(case: Case) -> bool:
    """Whether a block of either side holds one row of some buffer."""
    return any(
        sub_pages(buffer, case.side(side).tokens_per_block) == (1, 1) and buffer.tokens_per_row > 1
        for side in SIDES
        for group in case.model.groups
        for buffer in group.buffers
    )


REACHED = {
    "a block of one row": one_row_blocks,
    "three retentions": lambda case: len(case.model.groups) == 3,
    "four retentions": lambda case: len(case.model.groups) == 4,
    "coarse states in the window's group": lambda case: any(
        {"swa", "compressor_kv"} <= {buffer.role for buffer in group.buffers} for group in case.model.groups
    ),
    "a footer of several sub-pages": lambda case: any(
        sub_pages(buffer, case.context.tokens_per_block)[0] > 1
        for group in case.model.groups
        for buffer in group.buffers
    ),
    "block scales": lambda case: any(
        buffer.role == "compress_block_scale" for group in case.model.groups for buffer in group.buffers
    ),
    "a fine layer and a coarse one": lambda case: (
        len({b.tokens_per_row for group in case.model.groups for b in group.buffers if b.role == "compress"}) == 2
    ),
    "a row that is not full": lambda case: any(
        request.prompt % buffer.tokens_per_row
        for request in case.requests
        for group in case.model.groups
        for buffer in group.buffers
    ),
    "Helix": lambda case: case.generation.topology.cp > 1,
    "an uneven cut": lambda case: len(set(case.context.topology.stages)) > 1,
}


@pytest.mark.parametrize("name", REACHED)
def test_what_v4_is_there_for_is_drawn(name: str) -> None:
    assert sum(map(REACHED[name], drawn("deepseek_v4"))) >= 5


def test_small_models_stay_small() -> None:
    cases = drawn("deepseek_v4")
    assert median(case.model.layers for case in cases) >= 2
    assert max(map(bytes_by_rank, cases)) < 6_000


@pytest.mark.parametrize("prompt", [4096, 4096 + 7])
def test_all_buffers_of_a_deployment_arrive_from_both_senders_alike(prompt: int) -> None:
    case = deployment("deepseek-v4-flash", {"tp": 2}, {"tp": 4, "pp": 2}, prompt=prompt)
    checked = check_case(case, [Mapping(), make()])
    assert checked.passed and [settled.verdict for settled in checked.settled] == ["identical"]
