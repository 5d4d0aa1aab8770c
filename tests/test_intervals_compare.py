"""One slot compared by hand: who is judged, in which order, and blocks that are the same in part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oracle.model.case import Content, Request, SlotList
from oracle.model.sides import lay_out
from oracle.model.writes import Writes
from oracle.truth.blocks import DUE, OPTIONAL
from oracle.truth.intervals.compare import Due, Visit, compare
from oracle.truth.intervals.known import DueMap
from oracle.truth.intervals.slots import SlotMap
from oracle.truth.intervals.visits import Runs
from oracle.truth.reserved import FOREIGN, PADDING
from oracle.truth.verdict import Kind
from tests.interval_cases import planned
from tests.small_cases import case_of
from tests.test_intervals_agree import MODES, agreed


def column(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def slot(*pieces: tuple[int, int, int]) -> SlotMap:
    """Of (start, end, id at the start)."""
    start, end, ident = (column(*values) for values in zip(*pieces, strict=True))
    whole = np.ones(len(start), dtype=bool)
    return SlotMap(start, end, ident, np.full_like(start, -1), whole, np.unique(np.concatenate((start, end))))


def due(*pieces: tuple[int, int, int, int], klass: int = DUE) -> Due:
    """Of (start, end, id at the start, elected)."""
    held = slot(*[piece[:3] for piece in pieces])
    elected = column(*[piece[3] for piece in pieces])
    return Due(DueMap(held.start, held.end, held.ident, held.row, elected, held.bounds), klass, 1)


def runs(*rows: tuple[int, int, int]) -> Runs:
    source, destination, nbytes = (column(*values) for values in zip(*rows, strict=True))
    return Runs(np.arange(len(rows)), source, destination, nbytes)


def sizes(wanted: Due | None, *visits: Visit, paired: bool = True) -> dict[str, int]:
    found = compare(wanted, list(visits), comparable=True, paired=paired)
    return {kind.value: int(cuts.nbytes.sum()) for kind, cuts in found.items()}


WANTED = due((0, 8, 100, 0), (8, 12, 300, 1))
HELD = slot((0, 8, 100), (8, 12, 300))


def test_runs_are_right_piece_by_piece() -> None:
    whole = runs((0, 0, 12))
    assert sizes(WANTED, Visit(whole, 0, HELD, PADDING, True)) == {"not elected": 4}
    assert sizes(WANTED, Visit(whole, 0, HELD, PADDING, True), paired=False) == {}
    assert sizes(WANTED, Visit(whole, 0, HELD, PADDING, False)) == {"wrong element": 12}
    assert sizes(WANTED, Visit(whole, 0, None, FOREIGN, False)) == {"stale source": 12, "wrong element": 12}
    assert sizes(None, Visit(whole, 0, HELD, PADDING, True)) == {"stray": 12}
    assert sizes(WANTED) == {"missing": 12}
    assert sizes(due((0, 8, 100, 0), klass=OPTIONAL)) == {}


def test_padding_is_wrong_and_what_nobody_holds_is_stale() -> None:
    gap = slot((0, 3, 100), (5, 8, 105))
    wanted = due((0, 8, 100, 0))
    assert sizes(wanted, Visit(runs((0, 0, 8)), 0, gap, PADDING, True)) == {"wrong element": 2}
    assert sizes(wanted, Visit(runs((0, 0, 8)), 0, gap, FOREIGN, True)) == {"wrong element": 2, "stale source": 2}


def test_of_three_runs_over_one_byte_the_first_is_judged_and_two_are_duplicates() -> None:
    wanted = due((0, 8, 100, 0))
    rows = runs((0, 0, 8), (3, 2, 3), (2, 2, 1))
    assert sizes(wanted, Visit(rows, 0, HELD, PADDING, True)) == {"duplicate": 4}
    rows = runs((3, 2, 3), (0, 0, 8), (2, 2, 1))
    assert sizes(wanted, Visit(rows, 0, HELD, PADDING, True)) == {"duplicate": 4, "wrong element": 3}


def test_stray_bytes_are_no_duplicates() -> None:
    wanted = due((0, 4, 100, 0))
    rows = runs((0, 0, 6), (4, 4, 2))
    assert sizes(wanted, Visit(rows, 0, HELD, PADDING, True)) == {"stray": 4}


def test_bytes_come_in_plan_order_though_senders_take_turns() -> None:
    other = slot((0, 12, 0))
    visits = [
        Visit(runs((0, 6, 2), (4, 0, 2)), 0, HELD, PADDING, True),
        Visit(runs((0, 2, 2)), 0, other, PADDING, True),
        Visit(runs((0, 4, 2)), 0, HELD, PADDING, True),
    ]
    wrong = compare(due((0, 8, 500, 0)), visits, comparable=True, paired=True)[Kind.WRONG_ELEMENT]
    assert wrong.visit.tolist() == [0, 0, 1, 2]
    assert wrong.run.tolist() == [0, 1, 0, 0]
    assert wrong.destination.tolist() == [6, 0, 2, 4]


def test_missing_bytes_lie_between_the_written_ones() -> None:
    rows = runs((1, 1, 2), (9, 9, 1))
    found = compare(WANTED, [Visit(rows, 0, HELD, PADDING, True)], comparable=True, paired=False)
    missing = found[Kind.MISSING]
    spans = zip(missing.destination.tolist(), missing.nbytes.tolist(), missing.ident.tolist(), strict=True)
    assert list(spans) == [(0, 1, 100), (3, 5, 103), (8, 1, 300), (10, 2, 302)]


def test_blocks_of_two_contents_are_the_same_as_far_as_the_prefix_is_shared() -> None:
    # One block of 8 tokens of each request: the second repeats 3 tokens of the first, the third 5 of them.
    case = case_of(
        "key @ 0 : T D(2) ; 8",
        size=8,
        requests=tuple(Request(number, 8) for number in range(3)),
        contents=(Content(), Content(0, 3), Content(0, 5)),
    )
    plan = planned(case)
    assert isinstance(plan, Writes)
    there = [int(slots[0]) * 16 for slots in lay_out(case, "context").slots[0][0]]
    by_request = {segment.request: segment for segment in plan.segments}
    # The first request is sent the second one's block, the third one the first one's.
    by_request[0] = replace(by_request[0], source_bases=np.array([there[1]]))
    by_request[2] = replace(by_request[2], source_bases=np.array([there[0]]))
    spoilt = replace(plan, segments=tuple(by_request.values()))
    for padding, election in MODES:
        verdict = agreed(case, spoilt, padding, election)
        assert verdict.counts == {Kind.WRONG_ELEMENT: (8 - 3) * 2 + (8 - 5) * 2}


def test_what_is_written_to_a_refused_request_is_told_as_its_own() -> None:
    # The first block of request 0 is lost; another request's block lands in the slot of its second one.
    lists = ((-1, 2), (3, 4))
    tables = tuple(SlotList("context", 0, "kv", number, slots) for number, slots in enumerate(lists))
    case = case_of("key @ 0 : T D(2) ; 8", prompts=[4, 4], tables=tables)
    plan = planned(case)
    assert isinstance(plan, Writes)
    assert [refusal.request for refusal in plan.refusals] == [0]
    (segment,) = plan.segments
    theirs = int(lay_out(case, "generation").slots[0][0][0][1]) * 4
    astray = replace(segment, source_bases=segment.source_bases[:1], destination_bases=np.array([theirs]))
    for padding, election in MODES:
        verdict = agreed(case, replace(plan, segments=(segment, astray)), padding, election)
        assert verdict.counts == {Kind.STRAY: 4}
        assert [violation.request for violation in verdict.violations] == [0]


def test_another_requests_block_of_the_same_number_makes_no_holder() -> None:
    lists = ((-1, 2), (3, 4))
    tables = tuple(SlotList("context", 0, "kv", number, slots) for number, slots in enumerate(lists))
    case = case_of("key @ 0 : T D(2) ; 8", prompts=[4, 4], tables=tables)
    verdict = agreed(case, Writes(), "optional", "own")
    assert verdict.counts == {Kind.MISSING: 16}
    found = {(violation.request, violation.ordinal): violation.holders for violation in verdict.violations}
    assert found == {(0, 0): (), (0, 1): (0,), (1, 0): (0,), (1, 1): (0,)}
