"""Pieces against the enumeration they stand for: identities, slots, who is elected; and the algebra of stretches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.model.axes import Grid
from oracle.model.buffers import Buffer
from oracle.model.case import Case
from oracle.model.counts import sub_pages
from oracle.model.errors import InvalidCase
from oracle.model.notation import parse_buffer
from oracle.model.topology import Topology
from oracle.truth.elements import truth_of
from oracle.truth.holders import seat
from oracle.truth.identity import stored_identity
from oracle.truth.intervals.known import known_of, unite
from oracle.truth.intervals.pieces import Pieces, cut, join, stored_pieces
from oracle.truth.intervals.report import source_id
from oracle.truth.reserved import NEVER
from tests.interval_cases import bytes_of, kind_cases
from tests.kind_declarations import TEXTS
from tests.small_cases import small_cases

TOPOLOGIES = (Topology(1), Topology(2), Topology(4), Topology(2, cp=2), Topology(2, attention_dp=True), Topology(3))


def spread(pieces: Pieces) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(local offset, global offset, row) of every byte."""
    inner = np.concatenate([np.arange(length) for length in pieces.length])
    start, ident, row = (np.repeat(column, pieces.length) for column in (pieces.start, pieces.ident, pieces.row))
    return start + inner, ident + inner, row


def stored(buffer: Buffer, layout: str, topology: Topology, number: int, tokens: int) -> tuple[object, ...]:
    """Arguments of ``stored_identity``."""
    rank = topology.rank(number)
    bits = tuple(part.bits for part in buffer.parts)
    seats = seat(topology, rank, Grid.TP), seat(topology, rank, Grid.TPCP)
    return (buffer.parts, bits, *sub_pages(buffer, tokens), layout, *seats)


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_are_the_identity_of_every_stored_byte(text: str) -> None:
    buffer = parse_buffer(text)
    for layout in ("", "HND", "NHD"):
        for topology in TOPOLOGIES:
            for number in range(topology.size):
                try:
                    where = stored(buffer, layout, topology, number, 8)
                    ids, rows = stored_identity(*where)
                except InvalidCase:  # shares that do not divide
                    continue
                for by_row in (False, True):
                    pieces, size = stored_pieces(*where, by_row)
                    local, whole, row = spread(pieces)
                    assert np.array_equal(local, np.arange(size))
                    assert np.array_equal(whole, ids)
                    assert np.array_equal(row, rows if by_row else np.full(size, -1))


@pytest.mark.parametrize(
    ("text", "layout", "count"),
    [
        ("key @ 0 : H(8).heads T D(128) ; 16", "HND", 1),  # two heads, one after the other, all tokens of both
        ("key @ 0 : H(8).heads T D(128) ; 16", "NHD", 64),  # a row of each of 32 tokens and two heads
        ("key @ 0 : T H(8).heads D(128) ; 16", "NHD", 32),  # the two heads of a token stand together in the whole too
        ("key @ 0 : T D(576) ; 16", "", 1),
        ("ssm @ 0 : H(64).even@TPCP P(64) N(128) ; 32", "", 1),
        ("conv @ 0 : C[x:64.even, B:16.even]@TPCP W(3) ; 16", "", 2),
        ("key @ 0 : H(8).cyc T D(4) ; 8", "", 2),
    ],
)
def test_pieces_are_as_long_as_they_can_be(text: str, layout: str, count: int) -> None:
    pieces, _ = stored_pieces(*stored(parse_buffer(text), layout, Topology(4), 1, 32), False)
    assert len(pieces.start) == count


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(small_cases() | kind_cases().filter(lambda case: bytes_of(case) < 1 << 18))
def test_what_is_known_of_a_slot_is_what_is_enumerated(case: Case) -> None:
    truth, known = truth_of(case), known_of(case)
    assert known.lost == truth.lost
    assert known.unserved == truth.unserved
    due = np.full_like(truth.due, NEVER)
    elected = np.full_like(truth.elected, -1)
    for rank, starts in enumerate(truth.generation.starts):
        for pool, start in enumerate(starts):
            stride = truth.generation.side.tables[rank].pools[pool].slot_stride
            owners = known.owners("generation", rank, pool)
            for slot in np.flatnonzero(owners.block >= 0).tolist():
                block = owners.block[slot]
                group, request, ordinal, code = (
                    int(column[block]) for column in (owners.group, owners.request, owners.ordinal, owners.code)
                )
                residue = ordinal % case.context.topology.cp if case.model.groups[group].is_paged else 0
                held = known.due_map(rank, pool, group, request, residue, by_row=True)
                for begin, end, ident, row, sender in zip(
                    *((held.start, held.end, held.ident, held.row, held.elected) if held else [[]] * 5), strict=True
                ):
                    place = slice(start + slot * stride + begin, start + slot * stride + end)
                    first = known.code_at(code, int(row)) * known.generation_keys.ordinals + ordinal
                    due[place] = first * known.generation_keys.width + ident + np.arange(end - begin)
                    elected[place] = sender
    assert np.array_equal(due, truth.due)
    assert np.array_equal(elected, truth.elected)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(small_cases(), st.randoms(use_true_random=False))
def test_source_bytes_have_the_ids_that_are_enumerated(case: Case, random) -> None:  # type: ignore[no-untyped-def]
    truth, known = truth_of(case), known_of(case)
    for rank, starts in enumerate(truth.context.starts):
        for pool, start in enumerate(starts):
            what = truth.context.side.tables[rank].pools[pool]
            layers = truth.context.side.tables[rank].pool_extent(pool) - what.count * what.slot_stride
            for _ in range(20):
                layer = random.randrange(layers // what.layer_stride + 1) if what.layer_stride else 0
                slot, offset = random.randrange(what.count), random.randrange(what.slot_bytes)
                place = start + layer * what.layer_stride + slot * what.slot_stride + offset
                found = source_id(known, rank, pool, slot, offset + layer * what.layer_stride)
                assert found == truth.source[place]


STRETCHES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=12)


@given(STRETCHES, st.sets(st.integers(-3, 60)))
def test_cut_stretches_hold_the_same_offsets_and_span_no_bound(stretches: list, bounds: set[int]) -> None:
    start, length = (np.array([pair[i] for pair in stretches], dtype=np.int64) for i in (0, 1))
    edges = np.array(sorted(bounds), dtype=np.int64)
    pieces = cut(start, length, edges)
    crossed = any(begin < edge < begin + size for begin, size in stretches for edge in bounds)
    assert (pieces is not None) == crossed
    if pieces is None:
        return
    origin, shift, size = pieces
    found: list[tuple[int, int]] = []
    for number, first, count in zip(origin, shift, size, strict=True):
        begin = start[number] + first
        assert count > 0
        assert not any(begin < edge < begin + count for edge in bounds)
        found += [(int(number), int(begin) + step) for step in range(count)]
    assert found == [(n, begin + step) for n, (begin, count) in enumerate(stretches) for step in range(count)]


@given(STRETCHES)
def test_united_stretches_are_disjoint_and_hold_the_same_offsets(stretches: list) -> None:
    starts = np.array([begin for begin, _ in stretches], dtype=np.int64)
    ends = np.array([begin + size for begin, size in stretches], dtype=np.int64)
    first, last = unite(starts, ends)
    assert (first[1:] > last[:-1]).all()
    found = [offset for begin, end in zip(first, last, strict=True) for offset in range(begin, end)]
    assert found == sorted({offset for begin, size in stretches for offset in range(begin, begin + size)})


def test_pieces_of_two_rows_are_not_joined() -> None:
    start, ident, length = np.array([0, 4, 8]), np.array([10, 14, 18]), np.array([4, 4, 4])
    assert join(Pieces(start, ident, length, np.array([1, 1, 2]))).length.tolist() == [8, 4]
    assert join(Pieces(start, ident + np.array([0, 0, 1]), length, np.array([1, 1, 1]))).length.tolist() == [8, 4]
