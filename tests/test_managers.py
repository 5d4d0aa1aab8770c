"""What the managers hand over: positional tables and chunks (spec: blocks, tables, chunked prefill)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.managers.chunks import chunks_of
from differential.managers.facts import RankFacts
from differential.managers.tables import gather_facts
from oracle.model.buffers import LayerGroup, Model
from oracle.model.case import Case, Request, SideState, SlotList
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from tests.mapping_cases import TOKENS, buffer, case_of, keys_only, paged, payload, state


def listed(facts: RankFacts, request: int = 0, group: int = 0) -> list[int]:
    """Ordinals of the blocks that a rank lists."""
    table = facts.blocks[request, group]
    return [table.first + i * table.stride for i, slot in enumerate(table.slots.tolist()) if slot >= 0]


def group_of(window: int | None, sinks: int = 0) -> LayerGroup:
    return paged(buffer("key", "0", TOKENS), window=window, sinks=sinks)


def windowed(tokens: int, prompt: int, window: int | None, sinks: int = 0, **others: object) -> Case:
    return case_of(
        Model(1, (group_of(window, sinks),)), Topology(), Topology(), Request(0, prompt), tokens=tokens, **others
    )


def test_every_prompt_block_is_listed_in_its_own_slot() -> None:
    case = case_of(keys_only(1), Topology(2), Topology(), Request(0, 7), Request(1, 2))
    facts = gather_facts(case)
    side = lay_out(case, "context")
    for rank in range(2):
        assert facts.context[rank].table is side.tables[rank]
        for request, blocks in ((0, 4), (1, 1)):
            table = facts.context[rank].blocks[request, 0]
            assert (table.first, table.stride, len(table.slots)) == (0, 1, blocks)
            assert table.slots.tolist() == side.slots[rank][0][request].tolist()


@pytest.mark.parametrize(
    ("tokens", "prompt", "window", "sinks", "expected"),
    [
        (8, 32, 16, 0, [2, 3]),
        (8, 32, 16, 4, [0, 2, 3]),
        (8, 32, 16, 9, [0, 1, 2, 3]),
        (4, 8, 1, 0, []),
        (4, 8, 9, 0, [0, 1]),
        (4, 8, 5, 0, [1]),
        (4, 8, 6, 0, [0, 1]),
        (1, 8, 8, 0, [1, 2, 3, 4, 5, 6, 7]),
        (128, 255, 128, 0, [1]),
        (128, 254, 128, 0, [0, 1]),
    ],
)
def test_blocks_that_fell_out_of_the_window_are_holes(tokens, prompt, window, sinks, expected) -> None:
    facts = gather_facts(windowed(tokens, prompt, window, sinks))
    assert listed(facts.context[0]) == listed(facts.generation[0]) == expected


def test_a_reserve_keeps_more_on_its_side_only() -> None:
    facts = gather_facts(windowed(4, 20, 4, generation={"reserve": (("full", 4),)}))
    assert listed(facts.context[0]) == [4] and listed(facts.generation[0]) == [3, 4]


def test_a_receiver_does_not_list_the_whole_blocks_it_has_cached() -> None:
    case = case_of(
        keys_only(1), Topology(), Topology(), Request(0, 18, context=SideState(6), generation=SideState(10)), tokens=4
    )
    facts = gather_facts(case)
    assert listed(facts.context[0]) == [0, 1, 2, 3, 4]
    assert listed(facts.generation[0]) == [2, 3, 4]


def test_a_group_is_as_long_as_the_length_it_names() -> None:
    cross = paged(buffer("cross", "0", TOKENS), name="cross", length="encoder")
    model = Model(1, (group_of(None), cross))
    request = Request(0, 4, lengths=(("encoder", 9),))
    facts = gather_facts(case_of(model, Topology(), Topology(), request))
    assert [listed(facts.context[0], 0, group) for group in (0, 1)] == [[0, 1], [0, 1, 2, 3, 4]]


def test_helix_ranks_list_every_cp_th_block() -> None:
    # X6: T=4 P=30 cp=3, four blocks cached on the generation side.
    case = case_of(keys_only(1), Topology(), Topology(1, (1,), 3), Request(0, 30, generation=SideState(16)), tokens=4)
    facts = gather_facts(case).generation
    assert [(table.first, table.stride, len(table.slots)) for rank in facts for table in rank.blocks.values()] == [
        (0, 3, 3),
        (1, 3, 3),
        (2, 3, 2),
    ]
    assert [listed(rank) for rank in facts] == [[6], [4, 7], [5]]


def test_a_helix_rank_may_own_no_block() -> None:
    facts = gather_facts(case_of(keys_only(1), Topology(), Topology(1, (1,), 2), Request(0, 2)))
    assert [listed(rank) for rank in facts.generation] == [[0], []]


def test_state_has_one_entry_on_every_helix_rank() -> None:
    model = Model(1, (state(buffer("ssm", "0", payload(2))),))
    case = case_of(model, Topology(), Topology(1, (1,), 2), Request(0, 9, generation=SideState(8)))
    tables = [rank.blocks[0, 0] for rank in gather_facts(case).generation]
    assert [(table.first, table.stride, len(table.slots)) for table in tables] == [(0, 1, 1)] * 2
    assert [listed(rank) for rank in gather_facts(case).generation] == [[0], [0]]


def test_a_request_is_only_on_ranks_of_its_attention_data_parallel_rank() -> None:
    topology = Topology(2, (1, 1), attention_dp=True)
    case = case_of(keys_only(1, layers=2), topology, Topology(1, (2,)), Request(0, 2, 1), Request(1, 2, 0))
    assert [sorted(rank.blocks) for rank in gather_facts(case).context] == [[(1, 0)], [(0, 0)], [(1, 0)], [(0, 0)]]


def test_a_rank_holds_a_group_iff_its_stage_has_one_of_its_layers() -> None:
    model = Model(3, (paged(buffer("key", "0..1", TOKENS)), paged(buffer("key", "2", TOKENS), name="last", window=99)))
    facts = gather_facts(case_of(model, Topology(1, (2, 1, 0)), Topology(1, (3,))))
    assert [sorted(rank.blocks) for rank in facts.context] == [[(0, 0)], [(0, 1)], []]
    assert sorted(facts.generation[0].blocks) == [(0, 0), (0, 1)]


def with_lists(case: Case, name: str, *rows: SlotList) -> Case:
    return Case(case.model, case.context, case.generation, case.requests, **{name: rows})


def test_explicit_slots_are_what_is_there() -> None:
    case = with_lists(windowed(4, 12, 4), "tables", SlotList("context", 0, "full", 0, (5, -1, 2)))
    facts = gather_facts(case)
    assert facts.context[0].blocks[0, 0].slots.tolist() == [5, -1, 2]
    assert listed(facts.generation[0]) == [2]


def test_explicit_slots_of_a_receiver_leave_out_what_it_has_cached() -> None:
    request = Request(0, 12, generation=SideState(4))
    case = case_of(keys_only(1), Topology(), Topology(), request, tokens=4)
    facts = gather_facts(with_lists(case, "tables", SlotList("generation", 0, "full", 0, (5, 6, 2))))
    assert listed(facts.generation[0]) == [1, 2]


def test_presented_lists_replace_the_true_ones_on_their_rank() -> None:
    case = with_lists(windowed(4, 12, 4), "presented", SlotList("context", 0, "full", 0, (4, 3, -1, 0, 1)))
    facts = gather_facts(case)
    assert facts.context[0].blocks[0, 0].slots.tolist() == [4, 3, -1, 0, 1]
    assert listed(facts.generation[0]) == [2]


def test_presented_lists_are_numbered_like_the_request() -> None:
    case = case_of(keys_only(1), Topology(), Topology(1, (1,), 2), Request(0, 8))
    case = with_lists(case, "presented", SlotList("generation", 1, "full", 0, (0, 1, 2, 3)))
    assert gather_facts(case).generation[1].blocks[0, 0].slots.tolist() == [1, 3]


def test_gathering_twice_leaves_the_slots_alone() -> None:
    case = windowed(4, 12, 4)
    before = lay_out(case, "context").slots[0][0][0].tolist()
    gather_facts(case)
    assert lay_out(case, "context").slots[0][0][0].tolist() == before and -1 not in before


def slices(prompt: int, cuts: tuple[int, ...], tokens: int, reused: int = 0) -> list[tuple[int, int, bool]]:
    request = Request(0, prompt, cuts=cuts, context=SideState(reused))
    return [(chunk.first, chunk.end, chunk.last) for chunk in chunks_of(request, tokens)]


def test_without_cuts_one_last_slice_has_all_blocks() -> None:
    assert slices(18, (), 4) == [(0, 5, True)]


def test_slices_of_a_reused_prefix_start_at_block_0() -> None:
    # X1: T=4 P=18, 6 tokens reused, cuts at 9 and 13.
    assert slices(18, (9, 13), 4, 6) == [(0, 2, False), (2, 3, False), (3, 5, True)]


def test_a_slice_without_a_full_block_is_left_out_unless_it_is_the_last() -> None:
    assert slices(10, (1, 2, 9), 4) == [(0, 2, False), (2, 3, True)]
    assert slices(5, (4,), 4, 4) == [(0, 2, True)]


def test_a_prompt_that_was_cached_whole_is_sent_in_one_slice() -> None:
    assert slices(8, (4,), 4, 8) == [(0, 2, True)]


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 40), st.sets(st.integers(1, 39), max_size=5))
def test_slices_tile_the_prompt_in_order(prompt: int, tokens: int, reused: int, cuts: set[int]) -> None:
    found = slices(prompt, tuple(sorted(cut for cut in cuts if cut < prompt)), tokens, min(reused, prompt))
    assert [first for first, _, _ in found] == [0] + [end for _, end, _ in found[:-1]]
    assert found[-1][1] == -(-prompt // tokens)
    assert [last for _, _, last in found] == [False] * (len(found) - 1) + [True]
    assert all(first < end for first, end, _ in found)
