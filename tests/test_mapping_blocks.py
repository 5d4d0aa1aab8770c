"""Which blocks the mapping sends, and in which slice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from differential.managers.facts import BlockTable
from differential.managers.tables import gather_facts
from differential.subjects.mapping.blocks import share_blocks, stale_end
from oracle.model.buffers import Model
from oracle.model.case import Case, Request, SideState, SlotList
from oracle.model.topology import Topology
from oracle.model.writes import Writes
from tests.mapping_cases import TOKENS, buffer, case_of, keys_only, paged, payload, plan_of, state


def sent(case: Case, writes: Writes | None = None) -> dict[tuple[int, int, int], list[tuple[int, int]]]:
    """(source, destination) ordinals by (group, destination rank, chunk); slots are looked up in the facts."""
    facts = gather_facts(case)
    found: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for segment in (writes or plan_of(case)).segments:
        ordinals = []
        for side, rank, pool, bases in (
            (facts.context, segment.source_rank, segment.source_pool, segment.source_bases),
            (facts.generation, segment.destination_rank, segment.destination_pool, segment.destination_bases),
        ):
            table = side[rank].blocks[segment.request, segment.group]
            where = {slot: table.first + i * table.stride for i, slot in enumerate(table.slots.tolist()) if slot >= 0}
            ordinals.append([where[base // side[rank].table.pools[pool].slot_stride] for base in bases.tolist()])
        key = (segment.group, segment.destination_rank, segment.chunk)
        found.setdefault(key, []).extend(zip(*ordinals, strict=True))
    return found


def same(*ordinals: int) -> list[tuple[int, int]]:
    return [(ordinal, ordinal) for ordinal in ordinals]


# X1: full attention, reuse with a partial block, chunked with its own reuse.
def test_chunks_of_a_reused_prompt_send_what_the_receiver_lacks() -> None:
    request = Request(0, 18, cuts=(9, 13), context=SideState(6), generation=SideState(10))
    case = case_of(keys_only(1), Topology(), Topology(), request, tokens=4)
    assert sent(case) == {(0, 0, 1): same(2), (0, 0, 2): same(3, 4)}
    uncut = case_of(keys_only(1), Topology(), Topology(), Request(0, 18, generation=SideState(10)), tokens=4)
    assert sent(uncut) == {(0, 0, 0): same(2, 3, 4)}


# X8: a windowed group waits for the last slice and is sent whole.
def test_a_windowed_group_state_and_other_lengths_wait_for_the_last_slice() -> None:
    model = Model(
        1,
        (
            paged(buffer("key", "0", TOKENS)),
            paged(buffer("window_key", "0", TOKENS), name="window", window=8),
            paged(buffer("wide_key", "0", TOKENS), name="wide", window=33),
            state(buffer("ssm", "0", payload(2))),
            paged(buffer("cross", "0", TOKENS), name="cross", length="encoder"),
        ),
    )
    request = Request(0, 32, cuts=(16,), lengths=(("encoder", 9),))
    case = case_of(model, Topology(), Topology(), request, tokens=4)
    assert sent(case) == {
        (0, 0, 0): same(0, 1, 2, 3),
        (0, 0, 1): same(4, 5, 6, 7),
        (1, 0, 1): same(6, 7),
        (2, 0, 0): same(0, 1, 2, 3),
        (2, 0, 1): same(4, 5, 6, 7),
        (3, 0, 1): same(0),
        (4, 0, 1): same(0, 1, 2),
    }


def test_segments_come_in_sending_order() -> None:
    case = case_of(keys_only(4), Topology(2), Topology(4), Request(0, 8, cuts=(2, 6)))
    chunks = [segment.chunk for segment in plan_of(case).segments]
    assert chunks == sorted(chunks) and set(chunks) == {0, 1, 2}


# X4: the receiver keeps a wider window; block 3 has no source and needs none.
def test_sides_with_unequal_windows_exchange_what_both_keep() -> None:
    model = Model(1, (paged(buffer("key", "0", TOKENS), window=4),))
    case = case_of(model, Topology(), Topology(), Request(0, 20), tokens=4, generation={"reserve": (("full", 4),)})
    assert sent(case) == {(0, 0, 0): same(4)}


# X9, X10.
@pytest.mark.parametrize(
    ("tokens", "prompt", "window", "sinks", "expected"), [(8, 32, 16, 4, same(0, 2, 3)), (4, 8, 1, 0, None)]
)
def test_sinks_are_sent_and_stale_blocks_are_not(tokens, prompt, window, sinks, expected) -> None:
    model = Model(1, (paged(buffer("key", "0", TOKENS), window=window, sinks=sinks),))
    case = case_of(model, Topology(), Topology(), Request(0, prompt), tokens=tokens)
    assert sent(case) == ({(0, 0, 0): expected} if expected else {})
    assert len(plan_of(case).pairs) == 1


# X6 and S7: Helix with reuse keeps the phase.
def test_helix_receivers_get_their_own_uncached_blocks() -> None:
    case = case_of(keys_only(1), Topology(), Topology(1, (1,), 3), Request(0, 30, generation=SideState(16)), tokens=4)
    assert sent(case) == {(0, 0, 0): same(6), (0, 1, 0): same(4, 7), (0, 2, 0): same(5)}


def test_helix_senders_meet_a_whole_receiver() -> None:
    writes = plan_of(case_of(keys_only(1), Topology(1, (1,), 2), Topology(), Request(0, 5), tokens=1))
    assert {s.source_rank: len(s.source_bases) for s in writes.segments} == {0: 3, 1: 2}


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (2, 2)])
def test_chunks_to_or_from_context_parallel_ranks_refuse_their_request_alone(sizes) -> None:
    sides = [Topology(1, (1,), size) for size in sizes]
    model = keys_only(1)
    writes = plan_of(case_of(model, *sides, Request(0, 2, cuts=(1,)), tokens=1))
    assert [(each.code, each.request) for each in writes.refusals] == [("chunks_with_context_parallelism", 0)]
    assert not writes.segments
    assert not plan_of(case_of(model, *sides, Request(0, 2), tokens=1)).refusals
    # The only slice has all blocks where no cut ends one.
    assert not plan_of(case_of(model, *sides, Request(0, 2, cuts=(1,)), tokens=2)).refusals


# I1, I2: what lies behind the prompt is not the prompt.
def test_slots_behind_the_prompt_are_not_sent() -> None:
    case = case_of(keys_only(1), Topology(), Topology(), Request(0, 7), tokens=4)
    lists = (
        SlotList("context", 0, "full", 0, (0, 1, 2)),
        SlotList("generation", 0, "full", 0, (4, 3, 2)),
    )
    presented = Case(case.model, case.context, case.generation, case.requests, presented=lists)
    (segment,) = plan_of(presented).segments
    assert segment.source_bases.tolist() == [0, 4] and segment.destination_bases.tolist() == [16, 12]


def test_a_shorter_list_is_a_lost_tail() -> None:
    case = case_of(keys_only(1), Topology(), Topology(), Request(0, 8), tokens=4)
    lists = (SlotList("context", 0, "full", 0, (1,)),)
    writes = plan_of(Case(case.model, case.context, case.generation, case.requests, presented=lists))
    assert not writes.segments and "block 1 of group full" in writes.refusals[0].reason


def test_bases_are_slots_times_the_slot_stride_of_each_side() -> None:
    case = case_of(keys_only(2, layers=2), Topology(2, (2,)), Topology(1, (1, 1)), Request(0, 6))
    facts = gather_facts(case)
    for segment in plan_of(case).segments:
        for side, rank, bases, stride in (
            (facts.context, segment.source_rank, segment.source_bases, 4),
            (facts.generation, segment.destination_rank, segment.destination_bases, 4),
        ):
            assert bases.tolist() == (side[rank].blocks[0, 0].slots * stride).tolist()
        assert segment.runs.dtype == segment.source_bases.dtype == np.int64


@pytest.mark.parametrize(
    ("tokens", "window", "prompt", "expected"),
    [(8, 16, 32, 2), (4, 4, 8, 1), (128, 128, 156800, 1224), (128, 131, 156800, 1223), (4, 13, 32, 5), (1, 8, 8, 1)],
)
def test_the_window_reaches_back_from_the_query_about_to_run(tokens, window, prompt, expected) -> None:
    assert stale_end(paged(buffer("key", "0", TOKENS), window=window), prompt, tokens) == expected


SPANS = st.tuples(st.integers(1, 4), st.integers(0, 3))
TABLES = st.tuples(st.integers(1, 4), st.integers(0, 3), st.lists(st.sampled_from([-1, 0, 1, 2]), max_size=8))


@example((2, 0, [0] * 6), (3, 1), [(1, 0, [0] * 6)], 12)
@given(TABLES, SPANS, st.lists(TABLES, min_size=1, max_size=3), st.integers(0, 12))
def test_shared_blocks_are_the_common_ordinals_of_both_tables(own, span, others, blocks) -> None:
    """Compared with two dictionaries, entry by entry; slots are made distinct so that a mix-up shows."""

    def table(first: int, stride: int, slots: list[int], number: int) -> BlockTable:
        marked = [-1 if slot < 0 else 100 * number + i for i, slot in enumerate(slots)]
        return BlockTable(first % stride, stride, np.array(marked, dtype=np.int64))

    destination = table(own[1], own[0], own[2], 0)
    tables = {i: table(span[1], span[0], slots, i) for i, (_, _, slots) in enumerate(others, 1)}
    sources = tuple(tables)
    stride, first = span[0], span[1] % span[0]
    common = [o for o in range(60) if o % own[0] == own[1] % own[0] and o % stride == first]
    if not common:
        return

    def listed(given: BlockTable) -> dict[int, int]:
        return {given.first + i * given.stride: slot for i, slot in enumerate(given.slots.tolist()) if slot >= 0}

    wanted, held = listed(destination), {source: listed(given) for source, given in tables.items()}
    expected = {
        o: (slot, {source: slots[o] for source, slots in held.items() if o in slots})
        for o, slot in wanted.items()
        if o in common and o < blocks
    }
    found = {}
    for shared in share_blocks(destination, tables, sources, blocks):
        for i, ordinal in enumerate(shared.numbers().tolist()):
            assert ordinal not in found
            slots = {source: int(row[i]) for source, row in zip(shared.sources, shared.source_slots, strict=True)}
            found[ordinal] = (int(shared.slots[i]), slots)
    assert found == expected
