"""What the judge says of plans that are right, wrong in one way, or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from oracle.model.buffers import LayerGroup, Model
from oracle.model.case import Case, Request, SideState
from oracle.model.errors import InvalidCase
from oracle.model.writes import Pair, Segment, Writes
from oracle.truth.elements import truth_of
from oracle.truth.judge import carried_bytes, judge
from oracle.truth.verdict import Kind, Outcome
from tests.reference import Reference, plan_of, read, right_rows
from tests.small_cases import case_of, group, small_cases

REQUEST, CHUNK, GROUP, SOURCE, DESTINATION, SOURCE_POOL, DESTINATION_POOL, READ, WRITTEN, BYTES = range(10)
"""Columns of a row."""
MHA = "key @ 0 : H(2).heads T D(1) ; 8"
MLA = "key @ 0 : T D(2) ; 8"


def rows_of(case: Case, **options: object) -> tuple[list[list[int]], Reference]:
    reference = read(case)
    return right_rows(case, reference, **options), reference


def kinds(case: Case, rows: list[list[int]], reference: Reference, **options: object) -> dict[str, int]:
    """Bytes by kind of violation."""
    verdict = judge(case, plan_of(rows, reference), **options)
    assert (verdict.outcome is Outcome.PASS) == (not verdict.counts) == (not verdict.violations)
    return {kind.value: count for kind, count in verdict.counts.items()}


# ---- right plans


@settings(max_examples=150, deadline=None)
@given(small_cases())
def test_a_right_plan_passes_with_and_without_its_optional_bytes(case: Case) -> None:
    reference = read(case)
    served = not truth_of(case).unserved
    for optional in (True, False):
        rows = right_rows(case, reference, optional=optional)
        verdict = judge(case, plan_of(rows, reference))
        assert (verdict.outcome is Outcome.PASS) == served
        assert verdict.nbytes == verdict.runs == len(rows)


def test_runs_of_many_bytes_are_judged_as_their_bytes_are() -> None:
    case = case_of(MHA, prompts=4)
    _, reference = rows_of(case)
    context, generation = truth_of(case).context.side, truth_of(case).generation.side
    bases = [side.slots[0][0][0] * 4 for side in (context, generation)]
    pair = (Pair(0, 0, 0),)
    whole = Writes(pair, (Segment(0, 0, 0, 0, 0, 0, 0, *bases, np.array([[0, 0, 4]])),))
    halves = Writes(pair, (Segment(0, 0, 0, 0, 0, 0, 0, *bases, np.array([[0, 0, 2], [2, 2, 2]])),))
    swapped = Writes(pair, (Segment(0, 0, 0, 0, 0, 0, 0, *bases, np.array([[0, 2, 2], [2, 0, 2]])),))
    assert judge(case, whole) and judge(case, halves)
    assert judge(case, swapped).counts == {Kind.WRONG_ELEMENT: 8}
    assert np.array_equal(np.sort(carried_bytes(case, whole).source), np.sort(carried_bytes(case, halves).source))
    assert reference.pairs == {0: {(0, 0)}}


def test_a_longer_prompt_of_another_length_does_not_change_what_is_padding() -> None:
    # 3 of 4 tokens: the last one is optional, unless padding is due.
    case = case_of(MLA, prompts=3)
    rows, reference = rows_of(case)
    past = [row for row in rows if not reference.wanted[row[DESTINATION], 0, row[WRITTEN]].required]
    assert len(past) == 2
    short = [row for row in rows if row not in past]
    assert kinds(case, short, reference) == {}
    assert kinds(case, short, reference, padding="due") == {"missing": 2}
    assert kinds(case, rows, reference, padding="due") == {}


def test_bytes_of_an_optional_row_are_right_or_not_there() -> None:
    case = case_of(MLA, prompts=3)
    rows, reference = rows_of(case)
    past = next(row for row in rows if not reference.wanted[row[DESTINATION], 0, row[WRITTEN]].required)
    past[READ] = rows[0][READ]
    assert kinds(case, rows, reference) == {"wrong element": 1}


# ---- one thing wrong


def test_stray_bytes_are_nothing_else_besides() -> None:
    # The same stray byte twice, read where nothing is resident, from a rank that nothing elects.
    case = case_of(MLA, "tp2", "tp1")
    rows, reference = rows_of(case)
    free = next(b for b in range(1000) if (0, 0, b) not in reference.wanted)
    stale = next(b for b in range(1000) if (1, 0, b) not in reference.source)
    stray = [0, 0, 0, 1, 0, 0, 0, stale, free, 1]
    assert kinds(case, [*rows, stray, stray], reference) == {"stray": 2, "stale source": 2}


def test_the_first_of_two_writes_is_judged_and_the_second_is_a_duplicate() -> None:
    case = case_of(MLA)
    rows, reference = rows_of(case)
    wrong = [*rows[0]]
    wrong[READ] = rows[1][READ]
    assert kinds(case, [*rows, wrong], reference) == {"duplicate": 1}
    assert kinds(case, [wrong, *rows], reference) == {"duplicate": 1, "wrong element": 1}


def test_a_third_write_is_a_second_duplicate() -> None:
    case = case_of(MLA)
    rows, reference = rows_of(case)
    assert kinds(case, [*rows, rows[0], rows[0]], reference) == {"duplicate": 2}


def test_a_wrong_element_is_not_asked_who_sent_it() -> None:
    case = case_of(MLA, "tp2", "tp1")
    rows, reference = rows_of(case)
    rows[0][SOURCE] = 1
    twin = next(place for place, identity in reference.source.items() if place[0] == 1 and identity is not None)
    rows[0][READ] = twin[2] + 1  # byte 1 of the twin's first row in place of byte 0
    assert kinds(case, rows, reference) == {"wrong element": 1}


def test_a_byte_with_a_wrong_write_is_not_missing() -> None:
    case = case_of(MLA)
    rows, reference = rows_of(case)
    rows[0][READ] = rows[1][READ]
    assert "missing" not in kinds(case, rows, reference)


def test_reading_a_slot_that_is_not_resident_is_stale_and_wrong() -> None:
    case = case_of(MLA)
    rows, reference = rows_of(case)
    rows[0][READ] = next(b for b in range(1000) if (0, 0, b) not in reference.source)
    assert kinds(case, rows, reference) == {"stale source": 1, "wrong element": 1}


def test_reading_padding_is_a_wrong_element() -> None:
    case = case_of("key @ 0 : T D(2) ; 8 ; pad(6)")
    rows, reference = rows_of(case)
    rows[0][READ] = next(b for (_, _, b), identity in reference.source.items() if identity is None)
    assert kinds(case, rows, reference) == {"wrong element": 1}


def test_a_run_past_the_slot_is_clipped_and_the_rest_is_judged() -> None:
    case = case_of(MLA, prompts=2)
    reference = read(case)
    (slot,) = truth_of(case).generation.side.slots[0][0][0].tolist()
    (source,) = truth_of(case).context.side.slots[0][0][0].tolist()
    assert kinds(case, [[0, 0, 0, 0, 0, 0, 0, source * 4, slot * 4, 4]], reference) == {}
    assert kinds(case, [[0, 0, 0, 0, 0, 0, 0, source * 4, slot * 4, 7]], reference) == {"out of bounds": 3}
    tail = [[0, 0, 0, 0, 0, 0, 0, source * 4 + 1, slot * 4 + 2, 4]]
    assert kinds(case, tail, reference) == {"out of bounds": 2, "wrong element": 2, "missing": 2}


@pytest.mark.parametrize(
    ("column", "value"),
    [(READ, -1), (WRITTEN, -1), (READ, 10**9), (WRITTEN, 10**9), (SOURCE_POOL, 1), (DESTINATION_POOL, -1)],
)
def test_places_that_do_not_exist_are_out_of_bounds(column: int, value: int) -> None:
    case = case_of(MLA)
    rows, reference = rows_of(case)
    extra = [*rows[0]]
    extra[column] = value
    assert kinds(case, [*rows, extra], reference) == {"out of bounds": 1}


@pytest.mark.parametrize(("column", "value"), [(SOURCE, 1), (SOURCE, -1), (DESTINATION, 1), (DESTINATION, -1)])
def test_ranks_that_do_not_exist_are_unpaired_and_out_of_bounds(column: int, value: int) -> None:
    case = case_of(MLA)
    rows, reference = rows_of(case)
    extra = [*rows[0]]
    extra[column] = value
    assert kinds(case, [*rows, extra], reference) == {"unpaired sender": 1, "out of bounds": 1}


def test_the_bytes_of_an_unpaired_sender_are_still_judged() -> None:
    # tp 2 to tp 2: rank 1 holds the same latent, and rank 0 never hears from it.
    case = case_of(MLA, "tp2", "tp2")
    rows, reference = rows_of(case)
    place = {identity: b for (rank, _, b), identity in reference.source.items() if rank == 1}
    for row in rows:
        if row[DESTINATION] == 0:
            row[SOURCE] = 1
            row[READ] = place[reference.wanted[0, 0, row[WRITTEN]].identity]
    assert kinds(case, rows, reference) == {"unpaired sender": 4, "not elected": 4}
    assert kinds(case, rows, reference, election="own") == {"unpaired sender": 4}


def test_the_key_rotates_the_election_and_own_election_is_not_judged() -> None:
    requests = (Request(0, 2, generation_dp=1),)
    case = case_of(MLA, "tp4", "tp2 dp", requests=requests)
    rows, reference = rows_of(case)
    assert {row[SOURCE] for row in rows} == {1}
    place = {identity: b for (rank, _, b), identity in reference.source.items() if rank == 0}
    for row in rows:
        row[SOURCE] = 0
        row[READ] = place[reference.wanted[1, 0, row[WRITTEN]].identity]
    assert kinds(case, rows, reference) == {"not elected": 4}
    assert kinds(case, rows, reference, election="own") == {}


def test_what_a_request_has_cached_is_not_written() -> None:
    requests = (Request(0, 4, generation=SideState(2)),)
    case = case_of(MLA, requests=requests)
    rows, reference = rows_of(case)
    slot = int(truth_of(case).generation.side.slots[0][0][0][0])
    assert kinds(case, [*rows, [*rows[0][:WRITTEN], slot * 4, 1]], reference) == {"stray": 1}


@pytest.mark.parametrize("move", ["derived(key)", "rebuilt", "never"])
def test_a_buffer_that_does_not_move_is_not_written(move: str) -> None:
    case = case_of(group("key @ 0 : T D(1) ; 8", f"other @ 0 : T D(1) ; 8 ; {move}"))
    rows, reference = rows_of(case)
    assert len(rows) == 2
    other = next(e for e in truth_of(case).generation.side.tables[0].entries if e.role == "other")
    slot = int(truth_of(case).generation.side.slots[0][0][0][0])
    pool = truth_of(case).generation.side.tables[0].pools[other.pool]
    where = slot * pool.slot_stride + other.offset
    extra = [0, 0, 0, 0, 0, 0, other.pool, rows[0][READ], where, 1]
    assert kinds(case, [*rows, extra], reference) == {"stray": 1}


def test_a_neighbour_of_the_same_pool_group_is_another_block() -> None:
    # Two windows with slots of one size share a pool; a slot of one group is stray for the other's blocks.
    local = group("local @ 0 : T D(2) ; 8", name="local", window=2)
    case = case_of_groups(local)
    rows, reference = rows_of(case)
    side = truth_of(case).generation.side
    assert {entry.pool for entry in side.tables[0].entries} == {0}
    stale = int(side.slots[0][1][0][0])
    assert kinds(case, [*rows, [*rows[0][:WRITTEN], stale * 4, 1]], reference) == {"stray": 1}


def case_of_groups(local: LayerGroup) -> Case:
    return case_of(Model(1, (group(MLA), local)), prompts=4)


# ---- pairs


def test_a_pair_that_carries_no_byte_is_still_due() -> None:
    case = case_of(MLA, "tp2", "tp1")
    rows, reference = rows_of(case)
    plan = plan_of(rows, reference)
    assert plan.pairs == (Pair(0, 0, 0), Pair(0, 1, 0))
    verdict = judge(case, replace(plan, pairs=plan.pairs[:1]))
    assert verdict.counts == {Kind.MISSING: 0}
    assert [(v.source, v.destination, v.note) for v in verdict.violations] == [(1, 0, "the plan leaves out this pair")]
    assert judge(case, replace(plan, pairs=plan.pairs[:1]), election="own")


def test_a_pair_that_one_side_alone_counts_on_is_no_pair() -> None:
    case = case_of(MLA, "tp2", "tp1")
    rows, reference = rows_of(case)
    plan = plan_of(rows, reference)
    verdict = judge(case, replace(plan, pairs=(plan.pairs[0], Pair(0, 1, 0, "sender"))))
    assert verdict.counts == {Kind.MISSING: 0}


def test_a_pair_whose_shares_do_not_overlap_is_an_unpaired_sender() -> None:
    case = case_of(MLA, "tp2", "tp2")
    rows, reference = rows_of(case)
    plan = plan_of(rows, reference)
    verdict = judge(case, replace(plan, pairs=(*plan.pairs, Pair(0, 1, 0))))
    assert verdict.counts == {Kind.UNPAIRED_SENDER: 0}
    assert verdict.outcome is Outcome.FAIL


# ---- arguments


def test_unknown_options_are_named() -> None:
    case = case_of(MLA)
    with pytest.raises(InvalidCase, match="padding = 'maybe' is not possible: expected optional or due"):
        judge(case, Writes(), padding="maybe")  # type: ignore[arg-type]
    with pytest.raises(InvalidCase, match="election = 'none' is not possible: expected paired or own"):
        judge(case, Writes(), election="none")  # type: ignore[arg-type]
