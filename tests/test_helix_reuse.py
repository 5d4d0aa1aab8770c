"""Helix with a reused prefix: the mapping serves it and keeps each rank's phase; beside it, native and anchors."""

from __future__ import annotations

from itertools import product

import pytest

from oracle.model.case import Case, Native, Request, SideState
from tests.block_moves import codes_of, moves, verdict_of
from tests.small_cases import case_of, group

SIZE = 2
SERVED = ("mapping", "mapping:suffix", "mapping:anchors")


def reused(blocks: int, cached: int, cp: int, *, window: int | None = None, managers: tuple[str, str]) -> Case:
    """A prompt that ends in the middle of its last block; the receiver has ``cached`` blocks of all ranks together."""
    return case_of(
        group("key @ 0 : H(1).heads T D(1) ; 8", "value @ 0 : H(1).heads T D(1) ; 8", window=window),
        "tp1",
        f"tp1 cp{cp}",
        size=SIZE,
        requests=(Request(0, blocks * SIZE - 1, generation=SideState(cached=cached * SIZE)),),
        context_side={"manager": managers[0]},
        generation_side={"manager": managers[1]},
        native=Native((("all", "nhd"),)),
    )


@pytest.mark.parametrize("cp", [2, 3, 4])
@pytest.mark.parametrize("managers", list(product(("v1", "v2"), repeat=2)))
def test_every_rank_gets_its_own_blocks_behind_the_prefix(cp: int, managers: tuple[str, str]) -> None:
    # Every number of blocks up to three a rank, and every prefix of whole blocks.
    for blocks in range(1, 3 * cp + 1):
        for cached in range(blocks):
            case = reused(blocks, cached, cp, managers=managers)
            for name in SERVED:
                for rank in range(cp):
                    expected = [o for o in range(blocks) if o % cp == rank and o >= cached]
                    assert moves(case, name, rank=rank) == [(o, o) for o in expected]
            assert verdict_of(case, "mapping")


@pytest.mark.parametrize("blocks", [4, 5, 6])
@pytest.mark.parametrize("cached", [1, 2, 3])
def test_native_refuses_what_the_mapping_serves(blocks: int, cached: int) -> None:
    case = reused(blocks, cached, 2, managers=("v2", "v2"))
    for name in SERVED:
        assert codes_of(case, name) == [] and verdict_of(case, name)
    assert codes_of(case, "native") == ["helix_prefix_reuse"]
    # It could be served: the judge does not take the refusal for a right one, and the ledger knows it.
    assert not verdict_of(case, "native")
    assert codes_of(reused(blocks, 0, 2, managers=("v2", "v2")), "native") == []


@pytest.mark.parametrize("cp", [2, 3])
def test_with_a_window_the_mapping_intersects_and_the_others_refuse(cp: int) -> None:
    # 8 blocks, of which the window reaches the last three; five, six or seven are reused.
    for cached in (0, 5, 6, 7):
        case = reused(8, cached, cp, window=5, managers=("v2", "v2"))
        for name in ("mapping", "mapping:suffix"):
            for rank in range(cp):
                expected = [o for o in range(max(5, cached), 8) if o % cp == rank]
                assert moves(case, name, rank=rank) == [(o, o) for o in expected]
            assert verdict_of(case, name)
        assert codes_of(case, "mapping:anchors") == ["window_with_context_parallelism"]
        assert verdict_of(case, "mapping:anchors")
        assert codes_of(case, "native") == ["helix_prefix_reuse" if cached else "helix_window"]
