"""DeepSeek-V4 in vLLM: records of 584 bytes whose pages end in padding."""

from __future__ import annotations

from statistics import median

import pytest

from differential.runner import run_case
from differential.subjects.mapping import Mapping
from oracle.model.case import SIDES, Case, Request
from oracle.model.instance import Instance
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.deployments import deployment
from strategies.kinds.compressed import Forms, Rows
from strategies.kinds.deepseek_v4 import COARSE, FINE, FLASH, WINDOW
from strategies.kinds.vllm_v4 import ALIGNMENT, declare
from tests.kind_cases import build_samples, bytes_by_rank, drawn


def slots(ratios: tuple[int, ...], tokens_per_block: int) -> dict[tuple[str, int], tuple[int, int]]:
    """(bytes stored, bytes to the next buffer of the pool) by (role, layer)."""
    case = deployment(declare(ratios, WINDOW, FINE).model, {}, {}, prompt=1, tokens_per_block=tokens_per_block)
    (table,) = lay_out(case, "context").tables
    found = {}
    for entry in table.entries:
        members = sum(other.pool == entry.pool and other.group == entry.group for other in table.entries)
        found[entry.role, entry.layer] = entry.nbytes, table.pools[entry.pool].slot_bytes // members
    return found


# ---- at the published size (spec: kinds, vLLM and opaque token records)


@pytest.mark.parametrize(
    ("role", "ratio", "tokens", "stored", "page"),
    [
        ("swa", 0, 64, 64 * 584, 65 * 576),
        ("compress", FINE, 256, 64 * 584, 65 * 576),
        ("compress", COARSE, 256, 2 * 584, 3 * 576),
        ("compress", COARSE, 128, 584, 2 * 576),
        ("indexer_compress", FINE, 256, 64 * 132, 15 * 576),
    ],
)
def test_pages_of_a_layer_are_multiples_of_576_bytes(
    role: str, ratio: int, tokens: int, stored: int, page: int
) -> None:
    tokens_per_block = max(tokens, ratio)
    assert slots((ratio,), tokens_per_block)[role, 0] == (stored, page)
    assert page - stored < ALIGNMENT


def test_every_page_of_flash_is_aligned_and_none_is_by_chance() -> None:
    found = slots(FLASH, 256)
    assert all(page % ALIGNMENT == 0 <= page - stored < ALIGNMENT for stored, page in found.values())
    assert sum(stored % ALIGNMENT != 0 for stored, _ in found.values()) == len(found)


def test_all_of_it_is_judged_at_its_real_size() -> None:
    case = deployment(declare(FLASH, WINDOW, FINE).model, {"tp": 4}, {"tp": 8}, prompt=4096, tokens_per_block=256)
    verdict = run_case(case, [Mapping()]).verdicts["mapping"]
    assert verdict and verdict.pairs == 8
    # 21 fine layers keep 16 blocks of 64 rows and their index, 20 coarse ones 16 blocks of 2 rows.
    full = 16 * (21 * 64 * (584 + 132) + 20 * 2 * 584)
    # All windows reach back one block: 43 of records, 40 of coarse states, and four of fine states a layer.
    states = 256 * 4 * (40 * 512 + 42 * 1024 + 42 * 256)
    assert verdict.nbytes == 8 * (full + 256 * 43 * 584 + states)


# ---- small ones


def test_every_combination_of_numbers_builds() -> None:
    build_samples("vllm_v4", 1_500)


def padded(case: Case, side: str) -> bool:
    """Whether some pool of ``side`` holds more bytes than its buffers."""
    table = lay_out(case, side).tables[0]
    return any(
        pool.slot_bytes > sum({(e.offset, e.nbytes): e.nbytes for e in table.entries if e.pool == number}.values())
        for number, pool in enumerate(table.pools)
    )


def last_pages(case: Case) -> set[int]:
    """Rows of the last sub-page of a block, by footer."""
    size = case.context.tokens_per_block
    return {
        size // buffer.tokens_per_row % buffer.sub_rows if size // buffer.tokens_per_row < buffer.sub_rows else 0
        for group in case.model.groups
        for buffer in group.buffers
        if buffer.sub_rows
    }


REACHED = {
    "padding on a side": lambda case: any(padded(case, side) for side in SIDES),
    "a footer of less than a sub-page": lambda case: any(last_pages(case)),
    "coarse states in the window's group": lambda case: any(
        {"swa", "compressor_kv"} <= {buffer.role for buffer in group.buffers} for group in case.model.groups
    ),
    "a fine layer": lambda case: any(
        b.role == "indexer_compress" for group in case.model.groups for b in group.buffers
    ),
}


@pytest.mark.parametrize("name", REACHED)
def test_what_aligned_records_are_there_for_is_drawn(name: str) -> None:
    assert sum(map(REACHED[name], drawn("vllm_v4"))) >= 5


def test_small_models_stay_small() -> None:
    cases = drawn("vllm_v4")
    assert all(case.native is None for case in cases)
    assert median(case.model.layers for case in cases) >= 2
    assert max(map(bytes_by_rank, cases)) < 6_000


def test_no_byte_of_the_padding_is_written() -> None:
    rows = Rows(((3, 8), (1, 8)), 2)
    model = declare((0, 0), 4, 2, Forms(rows, rows, rows, 1, 1, align=5)).model
    side = Instance(Topology(1, (2,)), 4)
    case = Case(model, side, side, (Request(0, 4),))
    (table,) = lay_out(case, "generation").tables
    assert [pool.slot_bytes for pool in table.pools] == [2 * 20]
    verdict = run_case(case, [Mapping()]).verdicts["mapping"]
    assert verdict and verdict.nbytes == 2 * 16
