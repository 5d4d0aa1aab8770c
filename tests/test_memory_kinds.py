"""Memory that others allocated is taken as its bytes, whatever its strides, element type and allocator."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.engines.surface import Geometry, find_overlap, surface_of
from kvwitness import check_memory, pool_sizes
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.writes import Segment
from oracle.truth.verdict import Kind
from tests.engine_mistakes import by_runs, drop_the_last_run, swap_two_runs
from tests.memories import HOST, mover, needs_torch, numpy_views, pools_of, right_plan, wide_case
from tests.small_cases import case_of, group, model_of


@pytest.fixture
def case() -> Case:
    return wide_case()


# Memory of any kind


@pytest.mark.parametrize(
    "make",
    [
        bytearray,
        lambda extent: np.zeros(extent, dtype=np.uint8),
        lambda extent: np.zeros(extent // 4, dtype=np.float32),
        lambda extent: np.zeros((extent // 16, 4), dtype=[("a", "<u2"), ("b", "<u2")])[:, :],
        lambda extent: np.zeros(2 * extent, dtype=np.int8)[::2],
        lambda extent: np.zeros(extent // 2, dtype=np.float16)[::-1],
        lambda extent: np.zeros((32, extent // 32), dtype=np.uint8).T,
        lambda extent: memoryview(bytearray(extent)),
        lambda extent: (ctypes.c_uint16 * (extent // 2))(),
        lambda extent: memoryview(mmap.mmap(-1, extent)),
    ],
    ids=["bytearray", "uint8", "float32", "record", "every second", "reversed", "transposed", "view", "ctypes", "mmap"],
)
def test_memory_of_the_host_is_taken_as_its_bytes_in_order(case: Case, make: Callable[[int], Any]) -> None:
    memories = pools_of(case, make)
    plan = right_plan(case)

    def transfer() -> None:
        """Through a copy, for a transfer of its own knows its memory better than the host engine does."""
        surfaces = [[[surface_of("", m) for m in rank] for rank in memories[side]] for side in SIDES]
        held = [[[bytearray(s.read().tobytes()) for s in rank] for rank in side] for side in surfaces]
        HOST.carry(plan, *held)
        for rank, copies in zip(surfaces[1], held[1], strict=True):
            for surface, copy in zip(rank, copies, strict=True):
                surface.write(np.frombuffer(copy, dtype=np.uint8))

    assert check_memory(case, memories, transfer)
    assert check_memory(case, memories, lambda: None).counts == {Kind.MISSING: 1280}


def test_memory_is_known_by_its_address(case: Case) -> None:
    buffers = pools_of(case)

    def address(pool: bytearray) -> int:
        return ctypes.addressof((ctypes.c_uint8 * len(pool)).from_buffer(pool))

    known = {side: [[(address(pool), len(pool), "cpu") for pool in rank] for rank in buffers[side]] for side in SIDES}
    assert check_memory(case, known, mover(right_plan(case), buffers))
    assert check_memory(case, known, mover(drop_the_last_run(right_plan(case)), buffers)).counts == {Kind.MISSING: 160}


def test_memory_may_be_given_as_one_array_for_each_layer_and_role() -> None:
    buffers = ("key @ 0..1 : H(2).heads T D(40) ; 16", "value @ 0..1 : H(2).heads T D(20) ; 16 ; pad(256)")
    case = case_of(model_of(group(*buffers), layers=2), "tp2 pp1+1", "tp1", prompts=(3, 4))
    pools, views = numpy_views(case)
    plan = right_plan(case)
    assert check_memory(case, views, mover(plan, pools))
    assert check_memory(case, {"context": pools["context"], "generation": views["generation"]}, mover(plan, pools))
    for wrong in (drop_the_last_run(plan), swap_two_runs(plan)):
        by_view, by_pool = (check_memory(case, memories, mover(wrong, pools)) for memories in (views, pools))
        assert by_view == by_pool and not by_view

    table = lay_out(case, "generation").tables[0]
    value = next(entry for entry in table.entries if entry.role == "value")
    assert value.nbytes == 160, "and 96 B of padding"

    def into_padding() -> None:
        HOST.carry(plan, pools["context"], pools["generation"])
        pools["generation"][0][value.pool][value.offset + 200] = 7

    zero = np.zeros(1, dtype=np.int64)
    row = np.array([[0, value.offset + 200, 1]])
    stray = Segment(0, 0, 0, 0, 0, 0, value.pool, zero, zero, row)
    padded = replace(plan, segments=(*plan.segments, stray))
    assert check_memory(case, views, mover(padded, pools), writes=padded)
    assert check_memory(case, pools, mover(padded, pools), writes=padded).counts[Kind.STRAY] == 1
    assert check_memory(case, views, into_padding), "what lies between the arrays is not the case's"
    assert check_memory(case, pools, into_padding).counts == {Kind.STRAY: 1}


def test_a_guard_shows_what_leaves_the_pool(case: Case) -> None:
    memories = pools_of(case, lambda extent: bytearray(extent + 32))
    inside = {side: [[memoryview(pool)[16:-16] for pool in rank] for rank in memories[side]] for side in SIDES}
    right = mover(right_plan(case), inside)
    assert check_memory(case, memories, right, guard=16)
    for position in (0, 15, -16, -1):

        def spill(position: int = position) -> None:
            right()
            memories["generation"][1][0][position] = 1

        verdict = check_memory(case, memories, spill, guard=16)
        assert verdict.counts == {Kind.OUT_OF_BOUNDS: 1}
        assert (verdict.violations[0].destination, verdict.violations[0].note) == (
            1,
            "a guard of 64 B around the pool was written",
        )

    def spread() -> None:
        """A byte that nothing has reached, onto the guard before it."""
        right()
        memories["generation"][0][0][15] = memories["generation"][0][0][16]

    untouched = memories["generation"][0][0][16]
    assert untouched in (254, 255), "slot 0 is not in use"
    assert check_memory(case, memories, spread, guard=16).counts == {Kind.OUT_OF_BOUNDS: 1}
    with pytest.raises(InvalidCase, match="guard = 65 is not possible: expected 0 to 64 bytes"):
        check_memory(case, memories, right, guard=65)


# Tensors


@needs_torch
@pytest.mark.parametrize(
    "dtype", ["uint8", "bfloat16", "float16", "float32", "int64", "float8_e4m3fn", "bool", "complex64"]
)
def test_tensors_of_any_strides_and_element_type_are_taken_as_their_bytes(case: Case, dtype: str) -> None:
    import torch

    kind = getattr(torch, dtype)
    size = torch.empty(0, dtype=kind).element_size()
    tensors, views = {}, {}
    for side in SIDES:
        width = pool_sizes(case, side)[0][0] // 7
        # (slots, 3 fields, width): the pool is the middle field, so neither dense nor at the start.
        tensors[side] = [torch.zeros((7, 3, width // size), dtype=kind) for _ in pool_sizes(case, side)]
        views[side] = [[tensor[:, 1]] for tensor in tensors[side]]
    plan = right_plan(case)

    def transfer() -> None:
        for run in by_runs(plan):
            source, destination = (
                tensors[side][rank].view(torch.uint8).numpy()[:, 1]
                if not kind.is_complex
                else torch.view_as_real(tensors[side][rank]).view(torch.uint8).reshape(7, 3, -1).numpy()[:, 1]
                for side, rank in zip(SIDES, (run.source_rank, run.destination_rank), strict=True)
            )
            read_at, write_at, nbytes = run.runs[0].tolist()
            row, column = divmod(read_at, source.shape[1])
            to_row, to_column = divmod(write_at, destination.shape[1])
            destination[to_row, to_column : to_column + nbytes] = source[row, column : column + nbytes]

    assert not views["context"][0][0].is_contiguous()
    assert check_memory(case, views, transfer)
    assert all((tensor.view(-1)[0] == 0).item() for tensor in tensors["generation"]), "nothing else is touched"
    plan = drop_the_last_run(plan)
    assert check_memory(case, views, transfer).counts == {Kind.MISSING: 160}


@needs_torch
def test_caches_of_inference_mode_and_of_training_are_taken(case: Case) -> None:
    import torch

    with torch.inference_mode():
        memories = pools_of(case, lambda extent: torch.empty(extent, dtype=torch.uint8))
    memories["context"] = [
        [torch.zeros(len(pool) // 4, requires_grad=True) for pool in rank] for rank in memories["context"]
    ]
    assert check_memory(case, memories, lambda: None).counts == {Kind.MISSING: 1280}


# Views of one memory may interleave


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    dimensions = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(dimensions))
    strides = tuple(draw(st.integers(-9, 9)) for _ in range(dimensions))
    return Geometry(draw(st.integers(100, 140)), shape, strides, draw(st.sampled_from([1, 2, 4])))


def every_address(geometry: Geometry) -> list[int]:
    found = [geometry.pointer]
    for size, stride in zip(geometry.shape, geometry.strides, strict=True):
        found = [address + stride * index for address in found for index in range(size)]
    return [address + byte for address in found for byte in range(geometry.itemsize)]


class Flat:
    def __init__(self, geometry: Geometry, device: str) -> None:
        self.geometry = geometry
        self.device = device


@given(st.lists(st.tuples(geometries(), st.sampled_from(["cpu", "cuda:0"])), min_size=1, max_size=3))
def test_overlaps_are_found_exactly(given_: list[tuple[Geometry, str]]) -> None:
    surfaces = [Flat(*pair) for pair in given_]
    expected: dict[tuple[str, int], int] = {}
    twice = False
    for surface in surfaces:
        addresses = every_address(surface.geometry)
        assert surface.geometry.span() == (min(addresses), max(addresses) + 1)
        assert surface.geometry.nbytes == len(addresses)
        for address in addresses:
            twice |= (surface.device, address) in expected
            expected[surface.device, address] = 1
    found = find_overlap(surfaces)  # type: ignore[arg-type]
    assert (found is not None) is twice
    if found is not None:
        one, other, address = found
        assert address in every_address(surfaces[one].geometry) and address in every_address(surfaces[other].geometry)
