"""Whole plans worked out elsewhere: the numbers of the legacy sender's examples, which the mapping must write too."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.model.axes import Grid, Split
from oracle.model.buffers import Model
from oracle.model.case import Case, Request, SlotList, Slots
from oracle.model.topology import Topology
from tests.mapping_cases import TOKENS, buffer, case_of, heads, paged, payload, plan_of, sections, state

Row = tuple[int, int, str, int, int, int]
"""(source rank, destination rank, what, source offset, destination offset, bytes), offsets from the pool's start"""


def with_slots(case: Case, lists: list[tuple[str, int, str, tuple[int, ...]]], **counts: int) -> Case:
    """``case`` with the slots of request 0 given by (side, rank, group)."""
    rows = tuple(SlotList(side, rank, group, 0, slots) for side, rank, group, slots in lists)
    slots = Slots(counts=tuple(counts.items()))
    return Case(case.model, case.context, case.generation, case.requests, slots=slots, tables=rows)


def bytes_written(case: Case, source_pools: dict[tuple[int, int], str]) -> set[tuple[int, int, str, int, int]]:
    """Each byte as (source rank, destination rank, what, source offset, destination offset); each at most once.

    ``source_pools`` names what a (group, source pool) holds.
    """
    columns = plan_of(case).columns()
    found: list[tuple[int, int, str, int, int]] = []
    names = ("group", "src_rank", "dst_rank", "src_pool", "src_offset", "dst_offset", "nbytes")
    for group, source, destination, pool, from_, to, nbytes in zip(
        *(columns[name].tolist() for name in names), strict=True
    ):
        what = source_pools[group, pool]
        found += [(source, destination, what, from_ + i, to + i) for i in range(nbytes)]
    assert len(set(found)) == len(found)
    return set(found)


def as_bytes(rows: list[Row]) -> set[tuple[int, int, str, int, int]]:
    return {(s, d, what, from_ + i, to + i) for s, d, what, from_, to, nbytes in rows for i in range(nbytes)}


# Head mismatch and uneven stages: source, destination, layer, key and value offsets in the source and destination.
MISMATCH = [
    (0, 0, 288, 160),
    (0, 0, 304, 168),
    (0, 0, 320, 176),
    (0, 0, 336, 184),
    (0, 1, 296, 160),
    (0, 1, 312, 168),
    (0, 1, 328, 176),
    (0, 1, 344, 184),
    (0, 4, 352, 80),
    (0, 4, 368, 88),
    (0, 5, 360, 80),
    (0, 5, 376, 88),
]


def mismatch(order: str) -> Case:
    axes = (heads(4), TOKENS, payload(2)) if order == "HND" else (TOKENS, heads(4), payload(2))
    model = Model(3, (paged(*(buffer(role, "0..2", *axes, bits=16) for role in ("key", "value"))),))
    case = case_of(model, Topology(2, (3,)), Topology(4, (2, 1)))
    lists = [("context", rank, "full", (3,)) for rank in range(2)]
    return with_slots(case, lists + [("generation", rank, "full", (5,)) for rank in range(8)], full=7)


def test_a_head_mismatch_with_uneven_stages_writes_24_runs_of_8_bytes() -> None:
    rows = [(s, d, "kv", from_, to, 8) for s, d, from_, to in MISMATCH]
    rows += [(1, d + 2, "kv", from_, to, 8) for _, d, from_, to in MISMATCH]
    case = mismatch("HND")
    assert bytes_written(case, {(0, 0): "kv"}) == as_bytes(rows)
    writes = plan_of(case)
    assert (writes.run_count, writes.nbytes) == (24, 192)


def test_token_major_each_of_them_becomes_two_writes_of_4_bytes() -> None:
    rows: list[Row] = []
    for s, d, from_, to in MISMATCH:
        # The second of two heads starts one head's bytes of one token, 4, into the source's buffer.
        start = from_ - 4 if d in (1, 5) else from_
        for source, destination in ((s, d), (1, d + 2)):
            rows += [(source, destination, "kv", start, to, 4), (source, destination, "kv", start + 8, to + 4, 4)]
    assert (0, 1, "kv", 292, 160, 4) in rows and (0, 1, "kv", 300, 164, 4) in rows
    case = mismatch("NHD")
    assert bytes_written(case, {(0, 0): "kv"}) == as_bytes(rows)
    assert plan_of(case).run_count == 48


# Duplicated heads, an attention data-parallel receiver, a replicated index. By the legacy rule the odd ranks send to
# data-parallel rank 1; the mapping's key elects the same.
@pytest.mark.parametrize(("key", "first", "second", "index"), [(1, 1, 3, 1), (0, 0, 2, 0)])
def test_duplicated_heads_and_a_replicated_index_follow_the_key(key: int, first: int, second: int, index: int) -> None:
    roles = [buffer(role, "0", heads(2), TOKENS, payload(4)) for role in ("key", "value")]
    model = Model(1, (paged(*roles, buffer("index_key", "0", TOKENS, payload(6))),))
    case = case_of(model, Topology(4), Topology(2, attention_dp=True), Request(0, 2, 0, key))
    lists = [("context", rank, "full", (2,)) for rank in range(4)] + [("generation", key, "full", (4,))]
    rows: list[Row] = [
        (first, key, "kv", 32, 128, 8),
        (first, key, "kv", 40, 144, 8),
        (index, key, "index", 24, 48, 12),
        (second, key, "kv", 32, 136, 8),
        (second, key, "kv", 40, 152, 8),
    ]
    assert bytes_written(with_slots(case, lists, full=7), {(0, 0): "kv", (0, 1): "index"}) == as_bytes(rows)


LATENT: list[Row] = [
    (0, 0, "key", 320, 0, 32),
    (0, 0, "key", 448, 32, 32),
    (0, 1, "key", 352, 0, 32),
    (0, 1, "key", 480, 32, 32),
    (0, 2, "key", 384, 0, 32),
    (0, 3, "key", 416, 0, 32),
]
STATE: list[Row] = [
    (0, 0, "conv", 96, 8, 4),
    (0, 0, "conv", 104, 12, 2),
    (0, 0, "conv", 108, 14, 2),
    (0, 0, "ssm", 96, 8, 8),
    (0, 1, "conv", 100, 8, 4),
    (0, 1, "conv", 106, 12, 2),
    (0, 1, "conv", 110, 14, 2),
    (0, 1, "ssm", 104, 8, 8),
    (1, 2, "conv", 96, 8, 4),
    (1, 2, "conv", 104, 12, 2),
    (1, 2, "conv", 108, 14, 2),
    (1, 2, "ssm", 96, 8, 8),
    (1, 3, "conv", 100, 8, 4),
    (1, 3, "conv", 106, 12, 2),
    (1, 3, "conv", 110, 14, 2),
    (1, 3, "ssm", 104, 8, 8),
]
SIDE_STATE: list[Row] = [(0, rank, "ple", 36, 6, 6) for rank in range(4)]
"""The legacy sender writes those of receivers 0 and 1 only."""


def test_helix_receivers_get_latents_state_and_the_side_state_that_the_legacy_sender_forgets() -> None:
    latent = buffer("key", "0", TOKENS, payload(16))
    conv = buffer("conv", "1", sections(("x", 16, Split.EVEN), ("B", 8, Split.EVEN), ("C", 8, Split.EVEN)))
    ssm = buffer("ssm", "1", heads(4, Split.EVEN, Grid.TPCP), payload(8))
    model = Model(2, (paged(latent, name="latent"), state(conv, ssm, buffer("ple", "1", payload(6)))))
    separate = {"packing": (("state", "separate"),)}
    case = case_of(
        model, Topology(2, (2,)), Topology(1, (2,), 4), Request(0, 11), context=separate, generation=separate
    )
    lists: list[tuple[str, int, str, tuple[int, ...]]] = []
    for rank in range(2):
        lists += [("context", rank, "latent", tuple(range(10, 16))), ("context", rank, "state", (6,))]
    for rank in range(4):
        # Block o of the request is the (o // 4)-th of rank o % 4, in slot o // 4.
        slots = np.full(6, -1)
        slots[rank::4] = np.arange(len(slots[rank::4]))
        lists += [("generation", rank, "latent", tuple(slots.tolist())), ("generation", rank, "state", (1,))]
    names = {(0, 0): "key", (1, 1): "conv", (1, 2): "ssm", (1, 3): "ple"}
    found = bytes_written(with_slots(case, lists, latent=19, state=7), names)
    assert found == as_bytes(LATENT + STATE + SIDE_STATE)
