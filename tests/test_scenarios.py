"""Two small scenarios of reported faults with their numbers, through the mapping and the judge.

Each has the planners that were wrong in the reports, and the violations that they must give.
"""

from __future__ import annotations

from collections import Counter

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from oracle.model.case import Case, Slots
from oracle.model.sides import lay_out
from oracle.model.writes import Pair, Writes
from oracle.truth.elements import truth_of
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome
from tests.small_cases import case_of

ONE_SLOT = Slots(counts=(("kv", 1),))
"""Pools of a single slot: what leaves the block leaves the pool."""

Move = tuple[int, int, int, int, int]
"""(source rank, byte in its block, destination rank, byte in its block, bytes)"""


def plan(case: Case) -> Writes:
    """What the mapping writes."""
    found = Mapping().plan(case, gather_facts(case))
    assert isinstance(found, Writes) and not found.refusals
    return found


def moves(case: Case, writes: Writes) -> list[Move]:
    """The runs of a plan of one block, counted from the start of the block."""
    columns = writes.columns()
    slots = {side: lay_out(case, side).slots for side in ("context", "generation")}
    found = []
    for source, destination, start, end, nbytes in zip(
        *(columns[name].tolist() for name in ("src_rank", "dst_rank", "src_offset", "dst_offset", "nbytes")),
        strict=True,
    ):
        starts = []
        for side, rank in (("context", source), ("generation", destination)):
            (slot,) = slots[side][rank][0][0].tolist()
            starts.append(slot * lay_out(case, side).tables[rank].pools[0].slot_stride)
        found.append((source, start - starts[0], destination, end - starts[1], nbytes))
    return sorted(found)


def writes_of(case: Case, wanted: list[Move]) -> Writes:
    """A plan of these moves that names the pairs of the mapping."""
    rows = []
    for source, start, destination, end, nbytes in wanted:
        bases = []
        for side, rank in (("context", source), ("generation", destination)):
            (slot,) = lay_out(case, side).slots[rank][0][0].tolist()
            bases.append(slot * lay_out(case, side).tables[rank].pools[0].slot_stride)
        rows.append((0, 0, 0, source, destination, 0, 0, bases[0] + start, bases[1] + end, nbytes))
    return Writes.from_runs(rows, pairs=plan(case).pairs)


def counts(case: Case, wanted: list[Move]) -> dict[Kind, int]:
    return judge(case, writes_of(case, wanted)).counts


def heads_held(case: Case, side: str) -> list[list[int]]:
    """The heads of the block of one token on each rank, as the memory of the side has them."""
    truth = truth_of(case)
    flat, memory, keys = {
        "context": (truth.context, truth.source, truth.context_keys),
        "generation": (truth.generation, truth.due, truth.generation_keys),
    }[side]
    found = []
    for rank in range(case.side(side).topology.size):
        end = next((row[0] for row in flat.starts[rank + 1 :]), flat.size)
        ids = [number for number in memory[flat.starts[rank][0] : end].tolist() if number >= 0]
        found.append([dict(keys.decode(case, side, number).indices)["H"] for number in ids])
    return found


# ---- S1: heads on more ranks than there are heads, in both directions


def one_byte_heads(heads: int, context: str, generation: str) -> Case:
    """One layer, one block of one token, one byte a head."""
    return case_of(f"key @ 0 : H({heads}).heads T D(1) ; 8", context, generation, prompts=1, size=1, slots=ONE_SLOT)


def test_two_heads_to_four_ranks() -> None:
    case = one_byte_heads(2, "tp1", "tp4")
    assert heads_held(case, "generation") == [[0], [0], [1], [1]]
    assert moves(case, plan(case)) == [(0, 0, 0, 0, 1), (0, 0, 1, 0, 1), (0, 1, 2, 0, 1), (0, 1, 3, 0, 1)]
    assert judge(case, plan(case)).outcome is Outcome.PASS


def test_two_heads_to_four_ranks_by_rank_modulo_heads() -> None:
    case = one_byte_heads(2, "tp1", "tp4")
    verdict = judge(case, writes_of(case, [(0, rank % 2, rank, 0, 1) for rank in range(4)]))
    assert verdict.counts == {Kind.WRONG_ELEMENT: 2}
    assert {violation.destination for violation in verdict.violations} == {1, 2}


def test_eight_ranks_with_four_heads_to_one_rank() -> None:
    case = one_byte_heads(4, "tp8", "tp1")
    assert heads_held(case, "context") == [[0], [0], [1], [1], [2], [2], [3], [3]]
    assert moves(case, plan(case)) == [(0, 0, 0, 0, 1), (2, 0, 0, 1, 1), (4, 0, 0, 2, 1), (6, 0, 0, 3, 1)]
    assert judge(case, plan(case)).outcome is Outcome.PASS


def test_planner_a_sends_from_the_first_rank_only() -> None:
    case = one_byte_heads(4, "tp8", "tp1")
    assert counts(case, [(0, 0, 0, 0, 1)]) == {Kind.MISSING: 3}


def test_planner_b_derives_eight_heads_from_eight_ranks() -> None:
    # Rank r at offset r: ranks 4 to 7 leave the block of four heads; ranks 1, 2, 3 bring the heads 0, 1, 1.
    case = one_byte_heads(4, "tp8", "tp1")
    expected = {Kind.OUT_OF_BOUNDS: 4, Kind.WRONG_ELEMENT: 3}
    assert counts(case, [(rank, 0, 0, rank, 1) for rank in range(8)]) == expected


def test_planner_b_in_a_pool_of_more_slots_writes_into_the_next_one() -> None:
    case = case_of("key @ 0 : H(4).heads T D(1) ; 8", "tp8", "tp1", prompts=1, size=1)
    expected = {Kind.STRAY: 4, Kind.WRONG_ELEMENT: 3}
    assert counts(case, [(rank, 0, 0, rank, 1) for rank in range(8)]) == expected


def test_planner_c_sends_from_both_twins() -> None:
    case = one_byte_heads(4, "tp8", "tp1")
    assert counts(case, [(rank, 0, 0, rank // 2, 1) for rank in range(8)]) == {Kind.DUPLICATE: 4}


def test_the_second_twin_alone_is_right_and_not_elected() -> None:
    case = one_byte_heads(4, "tp8", "tp1")
    wanted = [(2 * head + 1, 0, 0, head, 1) for head in range(4)]
    assert counts(case, wanted) == {Kind.NOT_ELECTED: 4}
    assert judge(case, writes_of(case, wanted), election="own").outcome is Outcome.PASS


def test_four_ranks_with_two_heads_to_one_rank() -> None:
    case = one_byte_heads(2, "tp4", "tp1")
    assert heads_held(case, "context") == [[0], [0], [1], [1]]
    assert moves(case, plan(case)) == [(0, 0, 0, 0, 1), (2, 0, 0, 1, 1)]
    # A total of 4 heads, derived from 4 ranks of one head each.
    expected = {Kind.OUT_OF_BOUNDS: 2, Kind.WRONG_ELEMENT: 1}
    assert counts(case, [(rank, 0, 0, rank, 1) for rank in range(4)]) == expected


# ---- S2: token-major blocks cut as if they were head-major


def two_tokens(context: str, generation: str, orders: tuple[str, str]) -> Case:
    """Four heads, one block of two tokens, one byte each; the orders of both sides."""
    case = case_of(
        "key @ 0 : H(4).heads T D(1) ; 8",
        context,
        generation,
        prompts=2,
        size=2,
        slots=ONE_SLOT,
        context_side={"layout": orders[0]},
        generation_side={"layout": orders[1]},
    )
    # With one head a rank, or one token a block, the two orders are the same.
    heads = 4 // max(case.context.topology.tp, case.generation.topology.tp)
    assert heads > 1 and case.context.tokens_per_block > 1
    return case


HALVES = [(0, 0, 0, 0, 4), (0, 4, 1, 0, 4)]
"""The block cut in two, as for head-major blocks."""


def source_bytes(found: list[Move], destination: int) -> list[int]:
    return [start + n for _, start, rank, _, nbytes in found if rank == destination for n in range(nbytes)]


def test_token_major_blocks_are_cut_in_every_token() -> None:
    case = two_tokens("tp1", "tp2", ("NHD", "NHD"))
    found = moves(case, plan(case))
    assert source_bytes(found, 0) == [0, 1, 4, 5]
    assert source_bytes(found, 1) == [2, 3, 6, 7]
    assert len(found) == 4  # two runs for each rank
    assert judge(case, plan(case)).outcome is Outcome.PASS


def test_token_major_blocks_cut_in_halves_are_wrong() -> None:
    case = two_tokens("tp1", "tp2", ("NHD", "NHD"))
    verdict = judge(case, writes_of(case, HALVES))
    assert verdict.counts == {Kind.WRONG_ELEMENT: 4}
    by_rank = Counter({v.destination: 0 for v in verdict.violations})
    for violation in verdict.violations:
        by_rank[violation.destination] += violation.nbytes
    assert by_rank == {0: 2, 1: 2}


def test_head_major_blocks_are_cut_in_halves() -> None:
    case = two_tokens("tp1", "tp2", ("HND", "HND"))
    assert moves(case, plan(case)) == HALVES
    assert judge(case, plan(case)).outcome is Outcome.PASS


def test_token_major_blocks_are_reordered_for_a_head_major_receiver() -> None:
    case = two_tokens("tp1", "tp2", ("NHD", "HND"))
    found = moves(case, plan(case))
    assert sorted(source_bytes(found, 0)) == [0, 1, 4, 5]
    by_byte = {end + n: start + n for _, start, rank, end, nbytes in found if rank == 1 for n in range(nbytes)}
    assert [by_byte[byte] for byte in range(4)] == [2, 6, 3, 7]  # h2t0 h2t1 h3t0 h3t1
    assert judge(case, plan(case)).outcome is Outcome.PASS
    # byte 0 of rank 0 and byte 3 of rank 1 are where both orders put them
    assert counts(case, HALVES)[Kind.WRONG_ELEMENT] == 6


def test_token_major_halves_are_gathered_token_by_token() -> None:
    case = two_tokens("tp2", "tp1", ("NHD", "NHD"))
    assert moves(case, plan(case)) == [(0, 0, 0, 0, 2), (0, 2, 0, 4, 2), (1, 0, 0, 2, 2), (1, 2, 0, 6, 2)]
    assert judge(case, plan(case)).outcome is Outcome.PASS
    assert counts(case, [(0, 0, 0, 0, 4), (1, 0, 0, 4, 4)]) == {Kind.WRONG_ELEMENT: 4}


@pytest.mark.parametrize("orders", [("HND", "NHD"), ("NHD", "HND")])
def test_whole_blocks_between_orders_are_wrong_where_the_orders_differ(orders: tuple[str, str]) -> None:
    case = two_tokens("tp1", "tp1", orders)
    assert judge(case, plan(case)).outcome is Outcome.PASS
    # of 8 bytes the first and the last are where both orders put them
    assert counts(case, [(0, 0, 0, 0, 8)]) == {Kind.WRONG_ELEMENT: 6}


def test_the_pairs_of_the_scenarios_are_those_of_the_mapping() -> None:
    case = one_byte_heads(4, "tp8", "tp1")
    assert plan(case).pairs == tuple(Pair(0, rank, 0) for rank in range(8))
