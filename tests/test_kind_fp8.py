"""FP8 K/V: one byte an element, and no scale in the cache."""

from __future__ import annotations

import pytest

from differential.ledger import check_case
from oracle.model.buffers import Model
from oracle.model.case import Case
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.kinds import fp8
from tests.kind_cases import build_samples, drawn, pools_of
from tests.ledger_cases import subjects

LLAMA = 80, 8, 128
"""Layers, K/V heads and their size, of Llama-3 70B."""


def case_of(context: dict[str, object], generation: dict[str, object], prompt: int = 100, **options: object) -> Case:
    declared = fp8.declare(*LLAMA)
    return deployment(declared.model, context, generation, prompt=prompt, native=declared.native, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("tp", "heads"), [(1, 8), (4, 2), (8, 1), (16, 1)])
def test_a_key_has_a_byte_an_element_half_of_bf16(tp: int, heads: int) -> None:
    (table, *_) = lay_out(case_of({"tp": tp}, {}), "context").tables
    assert {entry.nbytes for entry in table.entries} == {heads * 32 * 128}
    assert pools_of(table) == [(160 * heads * 32 * 128, 160)]
    (bf16, *_) = lay_out(deployment("llama-3-70b", {"tp": tp}, {}, prompt=1), "context").tables
    assert 2 * table.pools[0].slot_bytes == bf16.pools[0].slot_bytes


def test_no_buffer_holds_the_scale_of_a_tensor() -> None:
    model: Model = fp8.declare(*LLAMA).model
    assert [buffer.role for group in model.groups for buffer in group.buffers] == ["key", "value"]
    assert {part.bits for group in model.groups for buffer in group.buffers for part in buffer.parts} == {8}


@pytest.mark.parametrize(("tp", "own_tp"), [(4, 8), (16, 2)])
def test_shares_of_fp8_heads_arrive_as_those_of_bf16_do(tp: int, own_tp: int) -> None:
    checked = check_case(case_of({"tp": tp}, {"tp": own_tp}), subjects("native"))
    assert checked.passed and checked.settled[0].identical


def test_fp8_on_one_side_and_bf16_on_the_other_is_refused_by_both() -> None:
    declared = next(case for case in drawn("fp8", 2_000) if case.generation.element_bits)
    assert declared.generation.bits_of("key", 8) == 16
    checked = check_case(declared, subjects("native"))
    refusals = [verdict.refusals[0].code for verdict in checked.result.verdicts.values()]
    assert refusals == ["element_width_differs", "element_size_differs"]
    assert checked.passed


def test_every_number_builds_and_odd_widths_are_drawn() -> None:
    build_samples("fp8", 2_000)
    assert all(part.bits == 8 for case in drawn("fp8") for b in case.model.groups[0].buffers for part in b.parts)
    sizes = {tuple(b.parts[0].axes[-1].size for b in case.model.groups[0].buffers) for case in drawn("fp8")}
    assert {(1, 1), (3, 3), (5, 5), (7, 7)} < sizes
    assert sum(key != value for key, value in sizes) >= 3
