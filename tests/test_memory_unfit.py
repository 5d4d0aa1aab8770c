"""Memory that does not suit a case is told by side, rank and pool, with what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from differential.engines import EngineUnavailable, find_engine
from kvwitness import check_memory, fill_memory, pool_sizes, read_memory
from oracle.model.case import SIDES, Case
from oracle.model.errors import InvalidCase
from oracle.truth.verdict import Kind
from tests.memories import Memories, needs_torch, numpy_views, pools_of, wide_case
from tests.small_cases import case_of, group, model_of


@pytest.fixture
def case() -> Case:
    return wide_case()


# Memory that does not suit


def refusal(case: Case, memories: Any, **options: Any) -> str:
    with pytest.raises(InvalidCase) as told:
        check_memory(case, memories, lambda: pytest.fail("nothing may run"), **options)
    return str(told.value)


def with_pool(case: Case, pool: Any, side: str = "generation", rank: int = 1) -> Memories:
    memories = pools_of(case)
    memories[side][rank][0] = pool
    return memories


SIZED = "generation rank 1 pool 0 = {} is not possible: {}"
NOT_WRITABLE = "expected memory that can be written"


@pytest.mark.parametrize(
    ("pool", "value", "accepted"),
    [
        (bytearray(2239), "'2239 B on cpu'", "expected 2240 B: 7 slots, 320 B apart"),
        (np.zeros(2240, dtype=np.int16), "'4480 B on cpu'", "expected 2240 B: 7 slots, 320 B apart"),
        (bytes(2240), "'2240 B, read-only'", NOT_WRITABLE),
        (np.broadcast_to(np.uint8(0), (2240,)), "'2240 B, read-only'", NOT_WRITABLE),
        (np.empty(280, dtype=object), "'object'", "expected elements that are bytes, not Python objects"),
        (3, "'int'", "expected a tensor, an array, a writable buffer or (pointer, bytes, device)"),
        ((1, 2), "(1, 2)", "expected (pointer, bytes, device), such as (address, 4096, 'cuda:0')"),
        ((0, 2240, "cpu"), "(0, 2240, 'cpu')", "expected a pointer above 0 and no negative number of bytes"),
    ],
)
def test_a_pool_that_does_not_suit_is_named_with_what_is_expected(
    case: Case, pool: Any, value: str, accepted: str
) -> None:
    assert refusal(case, with_pool(case, pool)) == SIZED.format(value, accepted)


def test_a_pointer_on_no_known_kind_of_device_is_refused(case: Case) -> None:
    told = refusal(case, with_pool(case, (9, 2240, "abacus")))
    assert told == SIZED.format("(9, 2240, 'abacus')", "expected the device cpu, cuda, cuda:1 and so on")


def test_the_bytes_expected_count_guards_and_layers(case: Case) -> None:
    assert refusal(case, pools_of(case), guard=8).endswith(
        "expected 4496 B: 7 slots, 640 B apart with 8 B of guard on either end"
    )
    packing = {"packing": (("kv", "layer_major separate"),)}
    layered = case_of("key @ 0..1 : T D(2) ; 8", sides=packing)
    assert refusal(layered, with_pool(layered, bytearray(1), "generation", 0)) == (
        "generation rank 0 pool 0 = '1 B on cpu' is not possible: expected 24 B: 3 slots in 2 layers, 4 B apart"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: 5, "memories = 'int' is not possible: expected a mapping with the keys context and generation"),
        (
            lambda m: {**m, "decode": []},
            "memories = ['context', 'decode', 'generation'] is not possible: expected a mapping with the keys context"
            " and generation",
        ),
        (
            lambda m: {"context": m["context"]},
            "memories.generation = 'no memory of rank 0' is not possible: expected its 1 pools: [2240] B",
        ),
        (
            lambda m: {**m, "generation": m["generation"][:1]},
            "memories.generation = '1 ranks' is not possible: expected 2, or a mapping from rank numbers",
        ),
        (
            lambda m: {**m, "generation": {0: m["generation"][0]}},
            "memories.generation = 'no memory of rank 1' is not possible: expected its 1 pools: [2240] B",
        ),
        (
            lambda m: {**m, "generation": {2: m["generation"][0]}},
            "memories.generation = 2 is not possible: generation has the ranks 0..1",
        ),
        (
            lambda m: {**m, "generation": bytearray(9)},
            "memories.generation = 'bytearray' is not possible: expected a list by rank or a mapping",
        ),
        (
            lambda m: {**m, "generation": [bytearray(2240), m["generation"][1]]},
            "generation rank 0 = 'bytearray' is not possible: expected a list of its pools or a mapping from (layer,"
            " role)",
        ),
        (
            lambda m: {**m, "generation": [[], m["generation"][1]]},
            "generation rank 0 = '0 pools' is not possible: expected 1",
        ),
    ],
)
def test_memories_that_leave_something_out_are_told(case: Case, change: Callable[[Memories], Any], text: str) -> None:
    assert refusal(case, change(pools_of(case))) == text


def test_arrays_by_layer_that_do_not_suit_are_named(case: Case) -> None:
    _, views = numpy_views(case)
    good = views["generation"][1][0, "key"]
    views["generation"][1] = {(0, "key"): good[:6]}
    assert refusal(case, views) == (
        "generation rank 1 key of layer 0 = '1920 B of shape (6, 320) on cpu' is not possible: expected 2240 B: 7 "
        "slots along the first axis, 320 B each"
    )
    views["generation"][1] = {(0, "key"): good.T}
    assert "'2240 B of shape (320, 7) on cpu'" in refusal(case, views)
    for other in ({}, {(0, "key"): good, (1, "key"): good}):
        views["generation"][1] = other
        assert refusal(case, views).endswith("expected each (layer, role) of [(0, 'key')] once, and no other")


def test_groups_that_share_a_pool_are_given_as_pools() -> None:
    model = model_of(
        group("key @ 0 : T D(4) ; 8"),
        group("local @ 1 : T D(4) ; 8", name="local", window=2, domain="second"),
        layers=2,
    )
    case = case_of(model)
    assert pool_sizes(case, "context") == [[8 * 7]]
    views = {side: [{(0, "key"): np.zeros((7, 8), "u1"), (1, "local"): np.zeros((7, 8), "u1")}] for side in SIDES}
    assert refusal(case, views) == (
        "context rank 0 = 'arrays by layer' is not possible: the groups kv, local share pool 0: give the rank's pools"
    )


def test_memories_that_overlap_are_told(case: Case) -> None:
    whole = np.zeros(9000, dtype=np.uint8)
    address = whole.__array_interface__["data"][0]
    memories = pools_of(case)
    memories["context"][0][0] = whole[:4480]
    memories["generation"][0][0] = whole[4480:6720]
    memories["generation"][1][0] = whole[6719:8959]
    where = f"at {address + 6719:#x}, where bytes of generation rank 0 pool 0 lie"
    told = f"generation rank 1 pool 0 = {where!r} is not possible: expected memories that do not overlap"
    assert refusal(case, memories) == told
    memories["generation"][1][0] = whole[6720:8960]
    assert check_memory(case, memories, lambda: None).counts == {Kind.MISSING: 1280}
    folded = np.lib.stride_tricks.as_strided(np.zeros(2240, np.uint8), (7, 320), (300, 1))
    memories["generation"][1][0] = folded
    assert "where bytes of its own lie" in refusal(case, memories)


def test_a_plane_that_does_not_exist_is_told(case: Case) -> None:
    for plane in (2, -1, True, None):
        for ask in (fill_memory, read_memory):
            with pytest.raises(InvalidCase) as told:
                ask(case, pools_of(case), plane)  # type: ignore[arg-type]
            assert str(told.value) == f"plane = {plane!r} is not possible: this case has the planes 0..1"
    with pytest.raises(InvalidCase, match="side = 'sender' is not possible: expected context or generation"):
        pool_sizes(case, "sender")


# Tensors and devices


@needs_torch
def test_tensors_without_plain_memory_are_refused(case: Case) -> None:
    import torch

    memories = pools_of(case)
    extent = len(memories["generation"][1][0])
    for tensor, what in (
        (torch.empty(extent, dtype=torch.uint8, device="meta"), "a tensor (meta)"),
        (torch.zeros(extent).to_sparse(), "a tensor (torch.sparse_coo)"),
        (torch.zeros(extent, dtype=torch.complex64).conj(), "a tensor (torch.complex64)"),
    ):
        memories["generation"][1][0] = tensor
        assert refusal(case, memories) == (
            f"generation rank 1 pool 0 = {what!r} is not possible: expected a strided tensor with memory of its own"
        )


@needs_torch
def test_memory_on_a_device_that_does_not_exist_is_told(case: Case) -> None:
    memories = pools_of(case)
    memories["generation"][0][0] = (4096, len(memories["generation"][0][0]), "cuda:99")
    with pytest.raises(
        EngineUnavailable, match=r"generation rank 0 pool 0 = .*'cuda:99'.* the device cuda:99 does not exist"
    ):
        check_memory(case, memories, lambda: None)

    class Array:
        """Of some other library."""

        def __init__(self) -> None:
            self.__cuda_array_interface__ = {"data": (4096, False), "shape": (8,), "typestr": "|u1", "version": 3}

    if find_engine("torch", device="cuda").available() is not None:
        memories["generation"][0][0] = Array()
        with pytest.raises(
            EngineUnavailable, match="generation rank 0 pool 0 = 'Array' is not possible: the device cuda"
        ):
            check_memory(case, memories, lambda: None)
