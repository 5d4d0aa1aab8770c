"""Which blocks the legacy sender pairs, by positional tables and by the older suffix lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from differential.managers.facts import BlockTable, Chunk
from differential.managers.tables import gather_facts
from differential.subjects.native import alignment, make, mappers
from differential.subjects.native.alignment import Piece, align_states, align_suffixes, align_tables, stale_blocks
from differential.subjects.native.refusals import Refused
from differential.subjects.native.requests import request_pieces
from oracle.model.case import Case, Native, Request
from oracle.model.writes import Writes
from tests.small_cases import case_of, group, model_of

NATIVE = Native((("all", "indexed"),))
Rule = Callable[..., alignment.Slots]


def pairs(
    rule: Rule,
    source: Sequence[int],
    destination: Sequence[int],
    *,
    prompt: int,
    size: int,
    window: int | None = None,
    chunk: Chunk | None = None,
    helix: tuple[int, int] | None = None,
) -> list[tuple[int, int]]:
    """(source slot, destination slot) of one group; ``helix`` is (rank, size) of a receiver that lists its own."""
    first, stride = helix or (0, 1)
    lists = (np.array(slots, dtype=np.int64) for slots in (source, destination))
    tables = BlockTable(0, 1, next(lists)), BlockTable(first, stride, next(lists))
    slots = rule(*tables, Piece(True, prompt, size, size, window, chunk), helix)
    return list(zip(*(own.tolist() for own in slots), strict=True))


def test_a_partly_reused_block_is_sent_whole() -> None:
    source, destination = range(10, 15), (-1, -1, 22, 23, 24)
    assert pairs(align_tables, source, destination, prompt=18, size=4) == [(12, 22), (13, 23), (14, 24)]


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (Chunk(0, 2, False), []),
        (Chunk(2, 3, False), [(12, 22)]),
        (Chunk(3, 5, True), [(13, 23), (14, 24)]),
    ],
)
@pytest.mark.parametrize("rule", [align_tables, align_suffixes])
def test_chunks_send_their_blocks_of_the_whole_table(rule: Rule, chunk: Chunk, expected: list[tuple[int, int]]) -> None:
    source, destination = range(10, 15), (-1, -1, 22, 23, 24)
    assert pairs(rule, source, destination, prompt=18, size=4, chunk=chunk) == expected


def test_blocks_past_the_prompt_are_cut() -> None:
    source, destination = (-1, -1, 102, 103), (-1, -1, 202, 203, 204)
    assert pairs(align_tables, source, destination, prompt=32, size=8, window=16) == [(102, 202), (103, 203)]


@pytest.mark.parametrize("rule", [align_tables, align_suffixes])
def test_a_wider_window_of_the_receiver_moves_no_block(rule: Rule) -> None:
    source, destination = (-1, -1, -1, -1, 14), (-1, -1, -1, 23, 24)
    assert pairs(rule, source, destination, prompt=20, size=4, window=4) == [(14, 24)]


def test_a_block_lost_by_the_source_is_silently_not_sent() -> None:
    source, destination = (-1,) * 8 + (208,), (-1,) * 7 + (307, 308)
    assert pairs(align_tables, source, destination, prompt=1150, size=128, window=133) == [(208, 308)]


def test_tables_carry_sinks_that_suffixes_mistake() -> None:
    source, destination = (50, -1, 52, 53), (-1, -1, 62, 63)
    assert pairs(align_tables, source, destination, prompt=32, size=8, window=16) == [(52, 62), (53, 63)]
    assert pairs(align_suffixes, source, destination, prompt=32, size=8, window=16) == [(50, 62), (52, 63)]


@pytest.mark.parametrize("rule", [align_tables, align_suffixes])
def test_nothing_live_sends_nothing(rule: Rule) -> None:
    assert pairs(rule, (-1, -1), (-1, -1), prompt=8, size=4, window=1) == []


def test_tables_are_striped_over_helix_receivers() -> None:
    first = pairs(align_tables, range(7), (20, 21, 22, 23), prompt=7, size=1, helix=(0, 2))
    assert first == [(0, 20), (2, 21), (4, 22), (6, 23)]
    second = pairs(align_tables, range(7), (30, 31, 32), prompt=7, size=1, helix=(1, 2))
    assert second == [(1, 30), (3, 31), (5, 32)]


def test_tables_of_unequal_length_are_refused() -> None:
    tables = BlockTable(0, 2, np.array([4])), BlockTable(0, 1, np.array([5, 6]))
    with pytest.raises(Refused, match="the source lists 1 blocks, the destination 2"):
        align_tables(*tables, Piece(True, 8, 4, 4, None, None), None)


def test_suffixes_pair_an_unevicted_block_with_the_receivers_live_one() -> None:
    assert pairs(align_suffixes, (100, 101), (-1, 201), prompt=8, size=4, window=4) == [(100, 201)]
    assert pairs(align_tables, (100, 101), (-1, 201), prompt=8, size=4, window=4) == [(101, 201)]


def test_suffixes_of_helix_receivers_are_measured_against_all_blocks() -> None:
    source, destination = range(8), (-1, 103, 105, 107)
    found = pairs(align_suffixes, source, destination, prompt=32, size=4, window=13, helix=(1, 2))
    assert found == [(1, 103), (3, 105), (5, 107)]


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        ((10, 11, 12), (20, 21, 22), [(10, 20), (11, 21), (12, 22)]),
        ((10, 11, 12, 13, 14), (-1, -1, 20, 21, 22), [(12, 20), (13, 21), (14, 22)]),
        ((-1, 11, 12), (-1, -1, 22), [(12, 22)]),
        ((10, 11, 12), (-1, -1, -1), []),
    ],
)
def test_suffixes_are_aligned_at_the_end(
    source: tuple[int, ...], destination: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    assert pairs(align_suffixes, source, destination, prompt=4 * len(source), size=4) == expected


def test_a_longer_suffix_of_the_destination_is_refused_unless_windowed() -> None:
    source, destination = (-1, 11), (20, 21)
    with pytest.raises(Refused, match="2 blocks on the destination, 1 on the source"):
        pairs(align_suffixes, source, destination, prompt=8, size=4)
    assert pairs(align_suffixes, source, destination, prompt=8, size=4, window=5) == [(11, 21)]


@pytest.mark.parametrize(
    ("tokens", "window", "size", "stale"),
    [(8, 1, 4, 2), (8, 8, 1, 1), (8, 8, 2, 0), (8, 9, 1, 0), (8, None, 1, 0), (7, 4, 4, 1), (6, 4, 4, 0)],
)
def test_a_window_counts_the_token_about_to_run(tokens: int, window: int | None, size: int, stale: int) -> None:
    assert stale_blocks(tokens, window, size) == stale


@pytest.mark.parametrize("lost", ["source", "destination", "both"])
def test_a_missing_state_slot_sends_nothing(lost: str) -> None:
    held, empty = BlockTable(0, 1, np.array([3])), BlockTable(0, 1, np.array([-1]))
    tables = {"source": (empty, held), "destination": (held, empty), "both": (empty, empty)}[lost]
    assert all(len(slots) == 0 for slots in align_states(*tables))
    assert [slots.tolist() for slots in align_states(held, held)] == [[3], [3]]


TWO_GROUPS = model_of(group("key @ 0 : T D(1) ; 8"), group("key @ 1 : T D(1) ; 8", name="local", window=8), layers=2)


def chunked(cuts: tuple[int, ...], options: str, model: object = TWO_GROUPS) -> tuple[Case, Writes]:
    case = case_of(model, requests=(Request(0, 32, cuts=cuts),), size=4, native=NATIVE)  # type: ignore[arg-type]
    plan = make(options).plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    assert not plan.refusals
    return case, plan


@pytest.mark.parametrize("options", ["", "suffix"])
def test_windowed_groups_go_whole_with_the_last_chunk(options: str) -> None:
    _, plan = chunked((13, 16), options)
    sent = [(segment.chunk, segment.group, len(segment.source_bases)) for segment in plan.segments]
    assert sent == [(0, 0, 3), (1, 0, 1), (2, 0, 4), (2, 1, 2)]


@pytest.mark.parametrize("options", ["", "suffix"])
def test_cuts_do_not_change_what_is_sent(options: str) -> None:
    def moved(plan: Writes) -> list[tuple[int, ...]]:
        columns = plan.columns()
        names = ("src_pool", "dst_pool", "src_offset", "dst_offset", "nbytes")
        return sorted(zip(*(columns[name].tolist() for name in names), strict=True))

    _, whole = chunked((), options)
    for cuts in ((1,), (4,), (5, 6, 7), (4, 8, 31)):
        assert moved(chunked(cuts, options)[1]) == moved(whole)


def test_a_window_that_reaches_back_to_the_start_streams() -> None:
    case = case_of(TWO_GROUPS, requests=(Request(0, 7, cuts=(4,)),), size=4, native=NATIVE)
    pieces = request_pieces(case, case.requests[0], Chunk(0, 1, False))
    assert [piece is None for piece in pieces] == [False, False]


def test_runs_are_joined_only_where_both_sides_touch() -> None:
    assert mappers.touches([0, 10, 4], 4, 14)
    assert not mappers.touches([0, 10, 4], 4, 15)
    assert not mappers.touches([0, 10, 4], 5, 14)
