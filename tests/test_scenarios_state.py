"""Two scenarios of reported faults in recurrent state, with their numbers: through the subjects and the judge.

S3: convolution state of unequal sections, some replicated (reports B56, B57, B58). S8: replicated state
of Helix receivers, its election and the order of the state grid (report B47). Bytes are counted from the
start of a slot, in which the roles stand side by side.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from differential.compare import FIRST, ByteDifference, compare
from differential.ledger import settle
from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.case import Case, Native
from oracle.model.writes import Refusal, Writes
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome
from tests.small_cases import case_of, group
from tests.test_scenarios import Move, counts, moves, plan, writes_of

SIDE_BY_SIDE = {"packing": (("kv", "interleaved"),)}


def state(context: str, generation: str, *buffers: str, **mappers: str) -> Case:
    """One slot of state a request, its roles side by side; ``mappers`` are what the legacy sender declares."""
    case = case_of(group(*buffers, state=True), context, generation, prompts=3, sides=SIDE_BY_SIDE)
    return replace(case, native=Native(tuple(mappers.items())))


def by_bytes(found: list[Move]) -> list[Move]:
    """The same moves, a byte each."""
    return [(source, start + n, to, end + n, 1) for source, start, to, end, nbytes in found for n in range(nbytes)]


def rows_of(found: list[Move], destination: int, below: int) -> list[int]:
    """The source bytes of the first ``below`` bytes of a receiver, in their order there."""
    arrived = {end: start for _, start, to, end, _ in by_bytes(found) if to == destination and end < below}
    assert sorted(arrived) == list(range(below))
    return [arrived[place] for place in range(below)]


def senders(found: list[Move], destination: int, places: range) -> list[list[int]]:
    """Who writes each of these bytes of a receiver."""
    moved = by_bytes(found)
    return [[source for source, _, to, end, _ in moved if (to, end) == (destination, place)] for place in places]


# ---- S3: sections of their own widths and splits

SSM = "ssm @ 0 : H(4).even@TPCP ; 8"
ONE_GROUP = "conv @ 0 : C[x:8.even, B:2.all, C:2.all]@TPCP ; 8"
TWO_GROUPS = "conv @ 0 : C[x:8.even, B:4.even, C:4.even]@TPCP ; 8"


def test_replicated_sections_arrive_whole_and_the_sharded_one_by_halves() -> None:
    case = state("tp1", "tp2", ONE_GROUP, SSM)
    found = moves(case, plan(case))
    assert rows_of(found, 0, 8) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert rows_of(found, 1, 8) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_scaling_every_section_by_the_ratio_reads_one_section_as_another() -> None:
    """Rank 0 takes 12, 13 for C, rank 1 takes C for B and 14, 15 for C: bytes of the state heads behind them."""
    case = state("tp1", "tp2", ONE_GROUP, SSM)
    right = [(0, 12 + 2 * rank, rank, 8, 2) for rank in (0, 1)]
    x = [(0, 4 * rank, rank, 0, 4) for rank in (0, 1)]
    scaled = [(0, 8, 0, 4, 2), (0, 12, 0, 6, 2), (0, 10, 1, 4, 2), (0, 14, 1, 6, 2)]
    assert counts(case, x + scaled + right) == {Kind.WRONG_ELEMENT: 6}
    verdict = judge(case, writes_of(case, x + scaled + right))
    told = {
        (v.destination, v.place.offset if v.place else None): (v.due.indices, v.found.role, v.found.indices)
        for v in verdict.violations
        if v.due and v.found
    }
    assert told == {
        (0, 6): ((("C", 10),), "ssm", (("H", 0),)),
        (1, 4): ((("C", 8),), "conv", (("C", 10),)),
        (1, 6): ((("C", 10),), "ssm", (("H", 2),)),
    }


def test_halves_of_each_section_arrive_where_all_are_sharded() -> None:
    case = state("tp1", "tp2", TWO_GROUPS, SSM)
    found = moves(case, plan(case))
    assert rows_of(found, 0, 8) == [0, 1, 2, 3, 8, 9, 12, 13]
    assert rows_of(found, 1, 8) == [4, 5, 6, 7, 10, 11, 14, 15]


def test_a_flat_split_gives_one_rank_all_of_x_and_the_other_the_rest() -> None:
    case = state("tp1", "tp2", TWO_GROUPS, SSM)
    heads = [(0, 16 + 2 * rank, rank, 8, 2) for rank in (0, 1)]
    flat = [(0, 0, 0, 0, 8), (0, 8, 1, 0, 8)]
    # Right by chance are x 0..3 on rank 0, and C 14, 15 on rank 1.
    assert counts(case, flat + heads) == {Kind.WRONG_ELEMENT: 4 + 6}


def test_the_legacy_sender_cuts_sections_that_are_all_sharded_alike() -> None:
    case = state("tp1", "tp2", TWO_GROUPS, SSM, conv="sectioned", ssm="indexed")
    plans = [subject.plan(case, gather_facts(case)) for subject in (Mapping(), make())]
    assert compare(case, *plans).identical


def test_gathered_replicated_sections_have_one_writer() -> None:
    case = state("tp2", "tp1", ONE_GROUP, SSM)
    found = moves(case, plan(case))
    assert senders(found, 0, range(12)) == [[0]] * 4 + [[1]] * 4 + [[0]] * 4
    twice = [*found, (1, 4, 0, 8, 4)]
    assert counts(case, twice) == {Kind.DUPLICATE: 4}
    by_the_other = [move for move in by_bytes(found) if move[3] not in range(8, 12)] + [(1, 4, 0, 8, 4)]
    assert counts(case, by_the_other) == {Kind.NOT_ELECTED: 4}


def test_a_gather_of_whole_pieces_breaks_the_order_of_sections() -> None:
    """Shards joined one after another, as if sections did not matter."""
    case = state("tp2", "tp1", TWO_GROUPS, SSM)
    heads = [(rank, 8, 0, 16 + 2 * rank, 2) for rank in (0, 1)]
    joined = [(rank, 0, 0, 8 * rank, 8) for rank in (0, 1)]
    assert counts(case, joined + heads)[Kind.WRONG_ELEMENT] == 10
    found = moves(case, plan(case))
    assert rows_of([move for move in found if move[0] == 0], 0, 4) == [0, 1, 2, 3]
    assert senders(found, 0, range(16)) == [[0]] * 4 + [[1]] * 4 + [[0]] * 2 + [[1]] * 2 + [[0]] * 2 + [[1]] * 2


# ---- S8: replicated state under Helix, and the order of the grid

SHARDED = "sharded @ 0 : H(4).even@TPCP ; 8"
REPLICATED = "replicated @ 0 : B(3) ; 8"
DECLARED = {"sharded": "indexed", "replicated": "replicated"}


def helix(context: str, generation: str) -> Case:
    return state(context, generation, SHARDED, REPLICATED, **DECLARED)


def test_replicated_state_arrives_once_on_both_context_parallel_ranks_from_the_elected_source() -> None:
    case = helix("tp2", "tp1 cp2")
    writes = plan(case)
    assert [(pair.source, pair.destination) for pair in writes.pairs] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    found = moves(case, writes)
    for receiver in (0, 1):
        assert senders(found, receiver, range(2)) == [[receiver]] * 2  # the shard, from the partner in the grid
        assert senders(found, receiver, range(2, 5)) == [[0]] * 3
    assert judge(case, writes).outcome is Outcome.PASS


def test_the_legacy_sender_leaves_the_second_context_parallel_rank_without_it() -> None:
    case = helix("tp2", "tp1 cp2")
    facts = gather_facts(case)
    plans = Mapping().plan(case, facts), make().plan(case, facts)
    comparison = compare(case, *plans, names=("mapping", "native"))
    assert comparison.bytes == (ByteDifference(1, 0, 0, "replicated", 0, 3, (0,), (), FIRST, request=0),)
    assert list(settle(case, comparison).accepted) == ["replicated-state-under-helix"]
    assert judge(case, plans[1], election="own").counts == {Kind.MISSING: 3}


def test_replicated_state_from_the_grid_partner_is_right_bytes_from_an_unelected_rank() -> None:
    case = helix("tp2", "tp1 cp2")
    found = [move for move in by_bytes(moves(case, plan(case))) if not (move[2] == 1 and move[3] >= 2)]
    assert counts(case, [*found, (1, 2, 1, 2, 3)]) == {Kind.NOT_ELECTED: 3}


PEERS = [(0, 0), (0, 1), (1, 0), (1, 1)]
"""(cp, tp) of the receivers, in the order in which they are told."""


def slices(found: list[Move]) -> list[int]:
    """Which half of its sender's shard each of ``PEERS`` reads; receiver (tp, cp) is rank 2*tp + cp."""
    return [next(start for _, start, to, end, _ in found if to == 2 * tp + cp and end == 0) for cp, tp in PEERS]


@pytest.mark.parametrize("subject", [Mapping(), make()], ids=["mapping", "native"])
def test_a_receiver_reads_the_slice_of_its_place_in_the_grid_context_parallel_coordinate_innermost(subject) -> None:  # type: ignore[no-untyped-def]
    case = helix("tp2", "tp2 cp2")
    writes = subject.plan(case, gather_facts(case))
    assert isinstance(writes, Writes) and not isinstance(writes, Refusal)
    found = moves(case, writes)
    assert slices(found) == [0, 0, 1, 1]
    sources = {to: source for source, _, to, end, _ in found if end == 0}
    assert [sources[2 * tp + cp] for cp, tp in PEERS] == [0, 1, 0, 1]


def test_a_grid_counted_the_other_way_has_the_right_sizes_and_wrong_bytes() -> None:
    case = helix("tp2", "tp2 cp2")
    found = by_bytes(moves(case, plan(case)))
    right = [move for move in found if move[3] != 0]
    tensor_innermost = [(tp, (cp * 2 + tp) % 2, 2 * tp + cp, 0, 1) for cp, tp in PEERS]
    wrong = sorted(right + tensor_innermost)
    assert slices(wrong) == [0, 1, 0, 1]
    assert [move[2:] for move in sorted(wrong, key=lambda m: m[2:])] == sorted(move[2:] for move in found)
    assert counts(case, wrong) == {Kind.WRONG_ELEMENT: 2}
