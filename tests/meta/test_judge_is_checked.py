"""The judge is checked: right plans are spoiled one byte at a time, and each kind of violation must be named.

Plans and expectations come from ``tests.reference``, which shares no code with the judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracle.model.case import Case, Content, Request, SideState
from oracle.model.sides import lay_out
from oracle.model.writes import Pair, Refusal
from oracle.truth.elements import truth_of
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome, Verdict
from tests.reference import Reference, judged, plan_of, read, right_rows, room
from tests.small_cases import case_of, group, model_of, small_cases

SOURCE, DESTINATION, SOURCE_POOL, DESTINATION_POOL, READ, WRITTEN, BYTES = range(3, 10)
Rows = list[list[int]]


@cache
def repeated_heads() -> Case:
    """tp 4 to tp 2, two heads on two source ranks each, the last row of the prompt past its end."""
    return case_of(
        "key @ 0 : H(2).heads T D(1) ; 8",
        "tp4",
        "tp2",
        prompts=3,
        context_side={"layout": "NHD"},
        generation_side={"layout": "HND"},
    )


@cache
def windowed_with_state() -> Case:
    """A window, padding, a replicated state, a block that is reused; one sender to two context-parallel ranks."""
    model = model_of(
        group("key @ 0 : T D(1) ; 8 ; pad(4)", window=4),
        group("ple @ 0 : W(3) ; 8", name="state", state=True),
    )
    requests = (Request(0, 9, generation=SideState(3)),)
    return case_of(model, "tp2", "tp1 cp2", requests=requests, generation_side={"reserve": (("kv", 2),)})


@cache
def shared_prefix() -> Case:
    """Two requests of one prefix on two attention-DP ranks, two stages to one, a buffer that is derived."""
    model = model_of(group("key @ 0..1 : T D(1) ; 8", "value @ 0..1 : T D(1) ; 8 ; derived(key)"), layers=2)
    requests = (Request(0, 4), Request(1, 5, generation_dp=1, generation=SideState(2)))
    return case_of(model, "tp2 pp1+1", "tp2 dp", requests=requests, contents=(Content(), Content(0, 3)))


CASES = [repeated_heads, windowed_with_state, shared_prefix]
each_case = pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)


def right(case: Case) -> tuple[Rows, Reference]:
    reference = read(case)
    rows = right_rows(case, reference)
    assert judge(case, plan_of(rows, reference))
    return rows, reference


def spoiled(rows: Rows, index: int, **columns: int) -> Rows:
    """``rows`` with columns of one row replaced."""
    row = [*rows[index]]
    for name, value in columns.items():
        row[globals()[name]] = value
    return [*rows[:index], row, *rows[index + 1 :]]


def counts(verdict: Verdict) -> dict[str, int]:
    assert (verdict.outcome is Outcome.FAIL) == bool(verdict.counts) == bool(verdict.violations)
    return {kind.value: count for kind, count in verdict.counts.items()}


def assert_found(case: Case, reference: Reference, rows: Rows, expected: dict[str, int]) -> Verdict:
    verdict = judge(case, plan_of(rows, reference))
    assert counts(verdict) == expected == judged(case, reference, rows)
    return verdict


def assert_place(verdict: Verdict, case: Case, rank: int, pool: int, offset: int) -> None:
    """The first violation names this byte of the destination."""
    place = verdict.violations[0].place
    assert place is not None
    what = lay_out(case, "generation").tables[place.rank].pools[place.pool]
    assert (place.rank, place.pool, place.slot * what.slot_stride + place.offset) == (rank, pool, offset)


def memory(case: Case, side: str) -> Iterator[tuple[int, int, int]]:
    """Every byte of a side: (rank, pool, byte in the pool)."""
    for rank, table in enumerate(lay_out(case, side).tables):
        for pool in range(len(table.pools)):
            for offset in range(table.pool_extent(pool)):
                yield rank, pool, offset


@each_case
def test_a_byte_left_out_is_missing(build: object) -> None:
    case = build()
    rows, reference = right(case)
    for index, row in enumerate(rows):
        place = (row[DESTINATION], row[DESTINATION_POOL], row[WRITTEN])
        rest = rows[:index] + rows[index + 1 :]
        if reference.wanted[place].required:
            assert_place(assert_found(case, reference, rest, {"missing": 1}), case, *place)
        else:
            assert_found(case, reference, rest, {})


@each_case
def test_a_byte_from_any_other_place_of_the_sender_is_a_wrong_element(build: object) -> None:
    case = build()
    rows, reference = right(case)
    for index, row in enumerate(rows):
        place = (row[DESTINATION], row[DESTINATION_POOL], row[WRITTEN])
        for origin in memory(case, "context"):
            if origin[0] != row[SOURCE] or origin[2] == row[READ]:
                continue
            changed = spoiled(rows, index, SOURCE_POOL=origin[1], READ=origin[2])
            if origin not in reference.source:
                expected = {"stale source": 1, "wrong element": 1}
            elif reference.source[origin] == reference.wanted[place].identity:
                expected = {}
            else:
                expected = {"wrong element": 1}
            verdict = assert_found(case, reference, changed, expected)
            if expected:
                assert_place(verdict, case, *place)


@each_case
def test_a_byte_written_twice_is_a_duplicate(build: object) -> None:
    case = build()
    rows, reference = right(case)
    for row in rows:
        place = (row[DESTINATION], row[DESTINATION_POOL], row[WRITTEN])
        assert_place(assert_found(case, reference, [*rows, row], {"duplicate": 1}), case, *place)


@each_case
def test_a_byte_from_another_replica_is_not_elected(build: object) -> None:
    case = build()
    rows, reference = right(case)
    replicas = 0
    for index, row in enumerate(rows):
        wanted = reference.wanted[row[DESTINATION], row[DESTINATION_POOL], row[WRITTEN]]
        for other in wanted.candidates:
            if other == row[SOURCE]:
                continue
            replicas += 1
            twin = next(
                place for place, what in reference.source.items() if place[0] == other and what == wanted.identity
            )
            changed = spoiled(rows, index, SOURCE=other, SOURCE_POOL=twin[1], READ=twin[2])
            verdict = assert_found(case, reference, changed, {"not elected": 1})
            (violation,) = verdict.violations
            assert (violation.source, violation.elected, violation.holders) == (other, row[SOURCE], wanted.candidates)
    assert replicas


@each_case
def test_a_byte_from_an_unpaired_rank_is_from_an_unpaired_sender(build: object) -> None:
    case = build()
    rows, reference = right(case)
    for index, row in enumerate(rows):
        for other in range(case.context.topology.size):
            if (other, row[DESTINATION]) in reference.pairs[row[0]]:
                continue
            if row[SOURCE_POOL] >= len(lay_out(case, "context").tables[other].pools):
                continue
            changed = spoiled(rows, index, SOURCE=other)
            found = counts(judge(case, plan_of(changed, reference)))
            assert found == judged(case, reference, changed)
            assert found["unpaired sender"] == 1


@each_case
def test_an_extra_byte_anywhere_in_the_destination_is_reported(build: object) -> None:
    case = build()
    rows, reference = right(case)
    written = {(row[DESTINATION], row[DESTINATION_POOL], row[WRITTEN]) for row in rows}
    nowhere = 0
    for rank, pool, offset in memory(case, "generation"):
        request, source = next(
            (request, source)
            for request, pairs in reference.pairs.items()
            for source, destination in sorted(pairs)
            if destination == rank
        )
        extra = [request, 0, 0, source, rank, 0, pool, 0, offset, 1]
        stale = {"stale source": 1} if (source, 0, 0) not in reference.source else {}
        kind = "duplicate" if (rank, pool, offset) in written else "stray"
        if kind == "stray" and (rank, pool, offset) in reference.wanted:
            kind = "wrong element"  # of an optional block that no source holds
        nowhere += kind == "stray"
        verdict = assert_found(case, reference, [*rows, extra], {kind: 1, **stale})
        assert_place(verdict, case, rank, pool, offset)
    assert nowhere


@each_case
def test_a_run_that_leaves_its_slot_is_out_of_bounds(build: object) -> None:
    case = build()
    rows, reference = right(case)
    for index, row in enumerate(rows):
        left = room(case, "generation", row[DESTINATION], row[DESTINATION_POOL], row[WRITTEN])
        there = room(case, "context", row[SOURCE], row[SOURCE_POOL], row[READ])
        changed = spoiled(rows, index, BYTES=left + 1)
        found = counts(judge(case, plan_of(changed, reference)))
        assert found == judged(case, reference, changed)
        assert found["out of bounds"] == left + 1 - min(left, there) >= 1


@each_case
def test_a_byte_past_the_pool_is_out_of_bounds_on_either_side(build: object) -> None:
    case = build()
    rows, reference = right(case)
    for index, row in enumerate(rows):
        required = reference.wanted[row[DESTINATION], row[DESTINATION_POOL], row[WRITTEN]].required
        expected = {"out of bounds": 1} | ({"missing": 1} if required else {})
        for column in ("READ", "WRITTEN"):
            for value in (-1, 1 << 40):
                assert_found(case, reference, spoiled(rows, index, **{column: value}), expected)


@each_case
def test_a_pair_left_out_or_added_is_reported(build: object) -> None:
    case = build()
    rows, reference = right(case)
    plan = plan_of(rows, reference)
    for index in range(len(plan.pairs)):
        less = replace(plan, pairs=plan.pairs[:index] + plan.pairs[index + 1 :])
        assert counts(judge(case, less)) == {"missing": 0}
    for request in reference.pairs:
        for source in range(case.context.topology.size):
            for destination in range(case.generation.topology.size):
                if (source, destination) not in reference.pairs[request]:
                    more = replace(plan, pairs=(*plan.pairs, Pair(request, source, destination)))
                    assert counts(judge(case, more)) == {"unpaired sender": 0}


@each_case
def test_a_refusal_of_what_can_be_served_is_false(build: object) -> None:
    case = build()
    reference = read(case)
    plan = plan_of(right_rows(case, reference), reference)
    for request in (None, *range(len(case.requests))):
        others = replace(plan, refusals=(Refusal("no", "because", request),))
        kept = [segment for segment in others.segments if request is not None and segment.request != request]
        verdict = judge(case, replace(others, segments=tuple(kept)))
        assert counts(verdict) == {"false refusal": 1}


def test_spoiling_plans_reaches_every_kind_but_torn() -> None:
    # Torn bytes exist in memory alone: a plan has none.
    case = repeated_heads()
    rows, reference = right(case)
    stale = next(p for p in memory(case, "context") if p[0] == rows[0][SOURCE] and p not in reference.source)
    free = next(p for p in memory(case, "generation") if p[0] == rows[0][DESTINATION] and p not in reference.wanted)
    wanted = reference.wanted[rows[0][DESTINATION], 0, rows[0][WRITTEN]]
    other = next(rank for rank in wanted.candidates if rank != rows[0][SOURCE])
    twin = next(place for place, what in reference.source.items() if place[0] == other and what == wanted.identity)
    plans = [
        rows[1:],
        [*rows, rows[0]],
        spoiled(rows, 0, READ=rows[1][READ]),
        spoiled(rows, 0, READ=stale[2]),
        spoiled(rows, 0, SOURCE=other, READ=twin[2]),
        spoiled(rows, 0, SOURCE=3),
        spoiled(rows, 0, WRITTEN=free[2]),
        spoiled(rows, 0, WRITTEN=-1),
    ]
    found = set(judge(case, Refusal("no", "")).kinds)
    for plan in plans:
        found |= judge(case, plan_of(plan, reference)).kinds
    assert found == set(Kind) - {Kind.TORN}


# ---- random cases, several things wrong at once


@settings(max_examples=200, deadline=None)
@given(small_cases(), st.data())
def test_any_plan_is_judged_as_the_reference_judges_it(case: Case, data: st.DataObject) -> None:
    padding = data.draw(st.sampled_from(["optional", "due"]))
    reference = read(case, padding)
    rows = right_rows(case, reference)
    assume(rows and not truth_of(case).unserved and not truth_of(case).lost)
    number = st.integers(0, 1 << 16)
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(number) % len(rows)
        choice = data.draw(number)
        what = choice % 8
        row = [*rows[index]]
        if what == 0:
            del rows[index]
            if not rows:
                return
            continue
        if what == 1:
            rows.append(row)
        elif what == 2:
            row[READ] += choice // 8 % 7 - 3
        elif what == 3:
            row[WRITTEN] += choice // 8 % 7 - 3
        elif what == 4:
            row[SOURCE] = choice // 8 % case.context.topology.size
        elif what == 5:
            row[DESTINATION] = choice // 8 % case.generation.topology.size
        elif what == 6:
            row[BYTES] += choice // 8 % 5
        else:
            row[READ], row[BYTES] = choice // 8 % 200, 1 + choice // 8 % 3
        rows[index] = row
    verdict = judge(case, plan_of(rows, reference), padding=padding)
    assert counts(verdict) == judged(case, reference, rows)


@settings(max_examples=100, deadline=None)
@given(small_cases(), st.data())
def test_an_extra_byte_anywhere_is_reported_in_any_case(case: Case, data: st.DataObject) -> None:
    reference = read(case)
    assume(any(reference.pairs.values()))
    places = list(memory(case, "generation"))
    assume(places)
    rank, pool, offset = places[data.draw(st.integers(0, 1 << 16)) % len(places)]
    rows = right_rows(case, reference)
    extra = [0, 0, 0, data.draw(st.integers(0, case.context.topology.size - 1)), rank, 0, pool, 0, offset, 1]
    assert not judge(case, plan_of([*rows, extra], reference))
