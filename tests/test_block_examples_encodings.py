"""What the implicit encoding got wrong, alignment, context parallelism and the decisions, in their own numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from differential.managers.extents import Extent
from differential.managers.facts import BlockTable
from differential.managers.holdings import Holdings
from differential.managers.suffix import Suffix
from differential.managers.suffix import place as place_suffix
from differential.managers.v2 import HOLE, PageList
from oracle.model.case import Case, Request, SideState
from oracle.truth.encodings import may_refuse
from oracle.truth.holding import held_blocks
from tests import block_definitions as by_definition
from tests.block_moves import ENCODED, codes_of, moves, verdict_of
from tests.encoded_lists import ANCHORS, RIGHT, SUFFIX, TABLES, ToldLists, align_tables
from tests.encoding_laws import law_B1
from tests.small_cases import case_of, group
from tests.test_block_examples import said
from tests.test_states_worked import due, optional, same, state_case

V1 = ("v1", "v1")


# ---- 2.2: what the implicit encoding got wrong, and what is right


@pytest.mark.parametrize(
    ("case", "side", "expected"),
    [
        (state_case(32, 8, 16, context=SideState(extra=2, drafts=2)), "context", [102, 103]),
        (state_case(32, 8, 16, context=SideState(reached=33), managers=("v1", "v2")), "context", [102, 103]),
        (state_case(31, 8, 16, context=SideState(extra=1, drafts=2)), "context", [102, 103]),
        (
            state_case(31, 8, 16, context=SideState(extra=1, drafts=2), managers=V1, reserve=(1, 0)),
            "context",
            [102, 103],
        ),
        (state_case(8, 4, 4, managers=V1), "context", [101]),
        (state_case(156_800, 128, 128, reserve=(0, 3)), "context", [1324]),
        (state_case(156_800, 128, 128, reserve=(0, 3)), "generation", [1423, 1424]),
        (state_case(10, 4, 5, context=SideState(reached=13), managers=("v1", "v2")), "context", [102]),
        (state_case(32, 4, 13, cp=2), "context", [105, 106, 107]),
        (state_case(32, 4, cp=2, generation=SideState(8)), "generation", [203, 205, 207]),
    ],
    ids=["I1", "I2", "I3", "I3 v1", "I4", "I5 sender", "I5 receiver", "I6", "I8", "I9"],
)
def test_a_suffix_made_right_is_the_truth(case: Case, side: str, expected: list[int]) -> None:
    rank = 1 if side == "generation" and case.generation.topology.cp > 1 else 0
    assert said(case, SUFFIX, side, rank) == expected
    if case.generation.topology.cp == 1:
        anchor = {"context": 100, "generation": 200}[side]
        assert said(case, ANCHORS, side) == (expected, expected[0] - anchor)


def test_i3_states_what_the_manager_reported_wrongly() -> None:
    # 31 tokens and one that is reported are 4 blocks; 33 were allocated, which are 5.
    case = state_case(31, 8, 16, context=SideState(extra=1, drafts=2))
    found = Holdings(case).listed("context", 0, 0, 0)
    assert isinstance(found, PageList)
    extent = ToldLists(case, SUFFIX).extent("context", 0, 0, 0)
    assert (extent.reported, extent.blocks, len(found.slots), len(found.compact())) == (4, 4, 5, 3)


def test_i5_and_i8_classes() -> None:
    assert due(state_case(156_800, 128, 128, reserve=(0, 3))) == [1224]
    assert optional(state_case(156_800, 128, 128, reserve=(0, 3))) == [1223]
    helix = state_case(32, 4, 13, cp=2, reserve=(8, 8))
    # Block 3 is stale for the model; whoever keeps more on both sides may move it.
    assert [block for block in due(helix) if block % 2] == [5, 7]
    assert 3 in optional(helix) and 3 not in optional(state_case(32, 4, 13, cp=2))
    for name in ENCODED:
        assert verdict_of(helix, name)


def test_i11_sinks_are_said_by_tables_and_refused_by_the_others() -> None:
    case = state_case(32, 8, 16, sinks=8)
    assert said(case, TABLES, "context") == [100, -1, 102, 103]
    assert [codes_of(case, name) for name in ENCODED] == [[], ["sinks_before_a_gap"], ["sinks_before_a_gap"]]


@pytest.mark.parametrize(
    ("length", "beams", "own"), [(3, 3, 3), (5, 3, 3), (8, 1, 8), (4, 3, 2), (1, 2, 1), (10, 4, 7)]
)
def test_how_many_entries_are_tails_is_guessed_from_a_length(length: int, beams: int, own: int) -> None:
    """What a reader of a suffix list can do at most: see which lists it is not sent."""
    ends = {3: 3, 5: 3, 8: 8, 4: 3, 1: 1, 10: 8}[length]
    placed = place_suffix(Suffix(np.arange(length), ends, beams))
    assert (len(placed.slots), len(placed.tails)) == (own, length - own)


# ---- 3.1: what two lists have in common, as tables


def table(first: int, slots: Iterable[int], length: int) -> BlockTable:
    entries = [HOLE] * first + list(slots)
    return BlockTable(0, 1, np.array(entries + [HOLE] * (length - len(entries)), dtype=np.int64))


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        ((0, range(10, 13)), (0, range(20, 23)), [(10, 20), (11, 21), (12, 22)]),
        ((0, range(10, 15)), (2, range(20, 23)), [(12, 20), (13, 21), (14, 22)]),
        ((1, range(10, 13)), (0, range(20, 24)), [(10, 21), (11, 22), (12, 23)]),
        ((1, range(10, 13)), (2, range(20, 22)), [(11, 20), (12, 21)]),
        ((0, range(10, 13)), (3, range(20, 23)), []),
        ((0, range(10, 14)), (2, range(20, 23)), [(12, 20), (13, 21)]),
    ],
)
def test_tables_meet_where_runs_do(
    source: tuple[int, range], destination: tuple[int, range], expected: list[tuple[int, int]]
) -> None:
    """The check rows of runs are in ``tests/test_spans.py``."""
    blocks = max(first + len(slots) for first, slots in (source, destination))
    tables = [table(*each, blocks) for each in (source, destination)]
    assert align_tables(*tables, blocks) == expected


# ---- 3.4: context parallelism


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("blocks", range(1, 13))
def test_a_rank_owns_every_so_many_blocks(blocks: int, ranks: int) -> None:
    for rank in range(ranks):
        extent = Extent(blocks, phase=rank, stride=ranks)
        mine = [block for block in range(blocks) if block % ranks == rank]
        assert extent.local(blocks) == len(mine) == max(0, -(-(blocks - rank) // ranks))
        for cached in range(blocks + 1):
            assert extent.local(cached) == max(0, -(-(cached - rank) // ranks))


def test_only_the_owner_of_the_last_block_has_a_partial_one() -> None:
    # X6: 12, 10 and 8 tokens of 30.
    case = state_case(30, 4, cp=3)
    lists = ToldLists(case, TABLES)
    tokens = [
        sum(1 for token in range(30) if token // 4 in lists.slots(lists.tell("generation", rank, 0, 0)))
        for rank in range(3)
    ]
    assert tokens == [12, 10, 8]


def test_a_prompt_with_fewer_blocks_than_ranks_is_served() -> None:
    # Decision: a rank that owns no block completes with nothing.
    for blocks in (1, 2, 3):
        case = state_case(4 * blocks, 4, cp=4)
        for how in RIGHT:
            law_B1(case, how)
        assert [len(moves(case, "mapping", rank=rank)) for rank in range(4)] == [
            int(rank < blocks) for rank in range(4)
        ]


# ---- decisions


def test_what_is_due_does_not_depend_on_what_the_source_still_holds() -> None:
    case = state_case(10, 4, 5, context=SideState(reached=13), managers=("v1", "v2"))
    assert due(case) == due(state_case(10, 4, 5)) == [1, 2]
    assert by_definition.lost(case, 0)


@pytest.mark.parametrize("name", ENCODED)
def test_an_early_chunk_with_a_hole_that_scratch_explains_is_sent(name: str) -> None:
    # The look-ahead of the second step reaches 4 tokens behind the prompt, so block 1 went to scratch though
    # the window of the prompt reaches it; the receiver has it cached. What is due is there, and goes.
    case = state_case(
        8,
        2,
        9,
        cuts=(4,),
        context=SideState(cached=2, drafts=4),
        generation=SideState(cached=4),
        more=({"scratch": 0, "look_ahead": 4}, {}),
    )
    assert held_blocks(case, "context", 0, 0).tolist() == [True, False, True, True]
    assert due(case) == [2, 3]
    assert moves(case, name) == same(2, 3)
    assert verdict_of(case, name)


def test_no_refusal_is_excused_where_only_sinks_are_out_of_reach() -> None:
    # One token a block, and the first is a sink: a receiver that went on to 2 tokens has left no other behind.
    case = case_of(
        group("key @ 0 : T D(1) ; 8", window=1, sinks=1),
        size=1,
        requests=(Request(0, 1, generation=SideState(reached=2)),),
        context_side={"reserve": (("kv", 1),)},
        generation_side={"reserve": (("kv", 1),)},
    )
    further = case_of(
        case.model,
        size=1,
        requests=(Request(0, 1, context=SideState(reached=3)),),
        context_side={"reserve": (("kv", 1),)},
        generation_side={"reserve": (("kv", 1),)},
    )
    for name, encoding in (("mapping:anchors", "anchors"), ("mapping:suffix", "suffix")):
        assert moves(case, name) == same(0) and not may_refuse(case, 0, encoding, "sinks_before_a_gap")  # type: ignore[arg-type]
        assert codes_of(further, name) == ["sinks_before_a_gap"] and verdict_of(further, name)
