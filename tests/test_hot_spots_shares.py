"""Hot spots of shares of an axis: equal sizes by accident, election, overlapping and mixed heads, sections, scales."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Part
from oracle.model.case import Case
from oracle.model.writes import Writes
from strategies.kinds import draft, fp8, gdn, gemma4, gqa, kda, mamba2, minimax_m3, nvfp4, qwen4_exp
from strategies.kinds.pieces import layers
from strategies.kinds.protocol import Declaration
from strategies.kinds.recurrent import STATE, delta_net, on_layers
from tests.hot_spots import (
    Kind,
    Outcome,
    Run,
    accepted,
    between,
    entry_of,
    from_rank,
    judged,
    of_native,
    planted,
    refusal_of,
    reported,
    right_plan,
    runs_of,
    served,
    tables_of,
)
from tests.kind_cases import share_a_pool

HYBRID = "SASA"


def m3(heads: int = 4, bits: int = 16, index_bits: int = 16, dim: int = 2, index_dim: int = 0) -> Declaration:
    """An index key of as many elements as a head, or of ``index_dim``."""
    return minimax_m3.declare(3, heads, dim, bits, (1, 2), index_dim or dim, index_bits, scaled=4)


def qwen(bits: int = 16, *, heads: int = 2, ple: int = 0) -> Declaration:
    """Heads of 4 elements and an index key of two of 16 bits: as long as a head of 8 bits."""
    on = on_layers(HYBRID, STATE)
    recurrent = (*delta_net(on, 2, 2, 4, 2, 1), *qwen4_exp.embedding(layers((ple,)), 3, 1, 1, context_first=False))
    return qwen4_exp.declare(HYBRID, heads, 4, bits, 2, 16, recurrent)


# ---- 1: equal sizes by accident


@pytest.mark.parametrize(
    ("declared", "one_pool"),
    [
        (m3(), {4}),
        (m3(bits=8), {2}),
        (m3(bits=8, index_bits=8), {4}),
        (m3(bits=4, dim=4), {1}),
        (m3(heads=2), {2, 4}),
        (m3(index_dim=3), set()),
        (qwen(8), {2, 4}),
        (qwen(16), set()),
    ],
    ids=["16+16", "8+16", "8+8", "4+16", "two heads", "never", "qwen4_exp 8+16", "qwen4_exp 16+16"],
)
def test_an_index_key_that_shares_a_pool_on_one_side_alone_is_served(declared: Declaration, one_pool: set[int]) -> None:
    for tokens in (1, 3):
        for context, generation in ((1, 2), (2, 1), (2, 4), (4, 1)):
            case = between(declared, f"tp{context}", f"tp{generation}", tokens=tokens, prompt=2 * tokens + 1)
            shared = [share_a_pool(tables[0], "key", "index_key") for tables in tables_of(case)]
            assert shared == [context in one_pool, generation in one_pool]
            assert {run.role for run in served(case)} >= {"key", "value", "index_key"}


def on_own_places(case: Case) -> Writes:
    """The right plan, had the sender taken the receiver's pools to be packed as its own are."""
    tables = tables_of(case)
    rows = []
    for run in runs_of(case, plan := right_plan(case)):
        own, peer = tables[0][run.source], tables[1][run.destination]
        read, true = (entry_of(table, run.group, run.layer, run.role) for table in (own, peer))
        wrong = read if read.pool < len(peer.pools) else true
        places = (
            run.source_slot * own.pools[read.pool].slot_stride + read.offset + run.source_offset,
            run.destination_slot * peer.pools[wrong.pool].slot_stride + wrong.offset + run.destination_offset,
        )
        rows.append((0, 0, run.group, run.source, run.destination, read.pool, wrong.pool, *places, run.nbytes))
    return Writes.from_runs(rows, pairs=plan.pairs)


def test_a_sender_that_takes_the_receivers_pools_for_its_own_is_reported() -> None:
    # Two layers of three hold K V I in one pool here, and K V beside a pool of I there.
    case = between(m3(), "tp4", "tp1")
    assert reported(case, on_own_places(case)) & {Kind.WRONG_ELEMENT, Kind.STRAY}
    case = between(m3(), "tp4", "tp4")
    assert not reported(case, on_own_places(case))


# ---- 6: election and grids


def test_a_layer_embedding_reaches_every_rank_of_a_helix_receiver() -> None:
    case = between(qwen(), "tp4", "tp2 cp2")
    found = [run for run in served(case) if run.role.startswith("ple_")]
    assert {(run.source, run.destination) for run in found} == {(0, 0), (0, 1), (2, 2), (2, 3)}
    verdict = of_native(case)
    # Elected among tensor ranks alone: the ranks that are paired with the others get it from nobody.
    assert {(each.kind, each.role, each.destination) for each in verdict.violations} == {
        (Kind.MISSING, role, rank) for role in ("ple_conv_state", "ple_ngram_context") for rank in (1, 3)
    }
    assert accepted(case) == {"replicated-state-under-helix"}


def test_an_embedding_that_an_unelected_rank_keeps_to_itself_is_missing() -> None:
    case = between(qwen(), "tp4", "tp2 cp2")
    plan = planted(case, lambda run: None if run.role.startswith("ple_") and run.destination == 1 else run)
    assert reported(case, plan) == {Kind.MISSING}


@pytest.mark.parametrize("key", range(4))
def test_the_key_is_taken_modulo_the_holders_of_each_buffer(key: int) -> None:
    case = between(m3(heads=2), "tp4", "tp4 dp", key=key)
    senders = {role: {run.source for run in served(case) if run.role == role} for role in ("key", "index_key")}
    assert senders == {"key": {key % 2, 2 + key % 2}, "index_key": {key % 4}}
    as_a_head = planted(case, lambda run: from_rank(case, run, key % 2) if run.role == "index_key" else run)
    assert reported(case, as_a_head) == ({Kind.NOT_ELECTED} if key > 1 else set())


# ---- 7: overlapping shares of heads


@pytest.mark.parametrize(
    "declared",
    [gqa.declare(1, 6, 1, 16), fp8.declare(1, 6, 3), nvfp4.declare(1, 6, 16), m3(heads=6)],
    ids=["gqa", "fp8", "nvfp4", "minimax_m3"],
)
def test_overlapping_shares_of_heads_arrive_once(declared: Declaration) -> None:
    case = between(declared, "tp4", "tp2", prompt=1, tokens=1)
    keys = [run for run in served(case) if run.role == "key" and run.layer == 0]
    width = entry_of(tables_of(case)[0][0], 0, 0, "key").nbytes // 2
    # Sources hold heads 0-1, 1-2, 3-4 and 4-5: the first that holds a head sends it.
    sent = {rank: sum(run.nbytes for run in keys if run.source == rank) // width for rank in range(4)}
    assert sent == {0: 2, 1: 1, 2: 2, 3: 1}


def test_a_head_that_both_of_its_holders_send_is_a_duplicate() -> None:
    case = between(gqa.declare(1, 6, 1, 16), "tp4", "tp2", prompt=1, tokens=1)

    def all_send(run: Run) -> Iterable[Run]:
        # Two heads come from ranks 0 and 2; the second of them is the first of the next rank.
        if run.nbytes == 2:
            return [run]
        again = from_rank(case, run, run.source + 1)
        return [run, replace(again, source_offset=0, destination_offset=run.destination_offset + 2, nbytes=2)]

    assert judged(case, planted(case, all_send)).counts == {Kind.DUPLICATE: 2 * 2 * 2}
    assert Kind.DUPLICATE in of_native(case).kinds and accepted(case) == {"uneven-heads"}


@pytest.mark.parametrize(
    "declared",
    [gqa.declare(1, 3, 1, 16), fp8.declare(1, 3, 1), nvfp4.declare(1, 3, 16), m3(heads=3)],
    ids=["gqa", "fp8", "nvfp4", "minimax_m3"],
)
def test_a_head_that_no_paired_rank_holds_is_refused(declared: Declaration) -> None:
    assert refusal_of(between(declared, "tp4", "tp2")).code == "unservable_index"


# ---- 8: sections


def delta(value_heads: int) -> Declaration:
    return gdn.declare(HYBRID, 2, 1, 16, delta_net(on_layers(HYBRID, STATE), 12, 1, value_heads, 1, 3))


SECTIONED = {
    "mamba2": mamba2.declare(HYBRID, 2, 1, 16, 12, 2, 12, 1, 3),
    "gdn": delta(24),
    "kda": kda.declare(HYBRID, 3, 16, 12, 1, 3),
}
GRIDS = (("tp2", "tp4"), ("tp4", "tp2"), ("tp1", "tp3"), ("tp4", "tp2 cp3"), ("tp2 pp1+3", "tp2 cp2 pp3+1"))


@pytest.mark.parametrize("kind", SECTIONED)
@pytest.mark.parametrize("grids", GRIDS, ids=" → ".join)
def test_each_section_is_cut_on_its_own_between_unequal_grids(kind: str, grids: tuple[str, str]) -> None:
    found = [run for run in served(between(SECTIONED[kind], *grids)) if run.role == "conv_state"]
    pairs = {(run.source, run.destination, run.layer) for run in found}
    assert pairs and len(found) >= 3 * len(pairs)


def test_swapped_sections_of_one_size_are_reported() -> None:
    for context, generation in (("tp2", "tp4"), ("tp2", "tp2"), ("tp1", "tp1")):
        case = between(SECTIONED["kda"], context, generation)

        def swap(run: Run, case: Case = case) -> Iterable[Run]:
            if run.role != "conv_state":
                return [run]
            section = entry_of(tables_of(case)[0][run.source], run.group, run.layer, run.role).nbytes // 3
            other = {0: 1, 1: 0, 2: 2}
            pieces = []
            for start in range(0, run.nbytes, 2):
                number, inside = divmod(run.source_offset + start, section)
                moved = run.destination_offset + start
                at = other[number] * section + inside
                pieces.append(replace(run, source_offset=at, destination_offset=moved, nbytes=2))
            return pieces

        verdict = judged(case, planted(case, swap))
        whole = sum(run.nbytes for run in runs_of(case, right_plan(case)) if run.role == "conv_state")
        assert verdict.counts == {Kind.WRONG_ELEMENT: whole * 2 // 3}


@pytest.mark.parametrize("kind", SECTIONED)
def test_sections_taken_for_one_axis_are_reported_where_the_grids_differ(kind: str) -> None:
    def merged(case: Case) -> Case:
        groups = []
        for group in case.model.groups:
            buffers = []
            for buffer in group.buffers:
                if buffer.role == "conv_state":
                    channels, steps = buffer.parts[0].axes
                    whole = Axis("C", sum(section.size for section in channels.sections), Split.EVEN, Grid.TPCP)
                    buffer = replace(buffer, parts=(Part((whole, steps), buffer.parts[0].bits),))
                buffers.append(buffer)
            groups.append(replace(group, buffers=tuple(buffers)))
        return replace(case, model=replace(case.model, groups=tuple(groups)))

    for context, generation, kinds in (("tp2", "tp4", {Kind.WRONG_ELEMENT}), ("tp2", "tp2", set())):
        case = between(SECTIONED[kind], context, generation)
        plan = Mapping().plan(merged(case), gather_facts(case))
        assert isinstance(plan, Writes) and reported(case, plan) == kinds


# ---- 9: heads below a byte an element, and the unit of their scales


@pytest.mark.parametrize("layout", ["HND", "NHD"])
@pytest.mark.parametrize("splits", [("tp1", "tp2"), ("tp2", "tp4"), ("tp4", "tp1"), ("tp4 dp", "tp2 cp2")])
def test_scales_are_cut_by_their_own_unit(layout: str, splits: tuple[str, str]) -> None:
    case = between(nvfp4.declare(2, 2, 16, 32), *splits, layout=layout)
    moved: dict[str, int] = {}
    for run in served(case):
        moved[run.role] = moved.get(run.role, 0) + run.nbytes
    assert moved["key"] == 8 * moved["key_block_scale"]
    assert moved["value"] == 8 * moved["value_block_scale"] == 2 * moved["key"]


def test_scales_cut_by_the_unit_of_their_data_are_reported() -> None:
    def eight_times(run: Run) -> Run:
        return replace(run, source_offset=8 * run.source_offset) if run.role.endswith("_scale") else run

    case = between(nvfp4.declare(1, 4, 16), "tp1", "tp2")
    # Past the scales of the receiver's heads lie other scales, other slots, or no block at all.
    assert reported(case, planted(case, eight_times)) & {Kind.WRONG_ELEMENT, Kind.STALE_SOURCE, Kind.OUT_OF_BOUNDS}
    case = between(nvfp4.declare(1, 4, 16), "tp2", "tp2")
    assert not reported(case, planted(case, eight_times))


# ---- 15: layers of unlike heads in one group


UNLIKE = {
    "eagle": draft.declare(2, 1, draft.Width(4, 1), draft.Width(1, 2)),
    "gemma4": gemma4.declare(3, (0, 1), 5, (4, 1), (1, 2), 16),
}


@pytest.mark.parametrize("kind", UNLIKE)
@pytest.mark.parametrize("splits", [("tp1", "tp4"), ("tp4", "tp1"), ("tp4", "tp2"), ("tp4", "tp4 dp"), ("tp2", "tp4")])
def test_layers_of_unlike_heads_are_each_cut_by_their_own(kind: str, splits: tuple[str, str]) -> None:
    case = between(UNLIKE[kind], *splits)
    ranks = [side.topology.tp // (side.topology.data_parallel) for side in (case.context, case.generation)]
    senders = {}
    for layer, heads in ((0, 4), (2, 1)):
        found = [run for run in served(case) if (run.layer, run.role, run.destination) == (layer, "key", 0)]
        senders[heads] = len({run.source for run in found})
    assert senders == {4: max(1, ranks[0] // ranks[1]), 1: 1}


def test_heads_sent_by_as_many_ranks_as_another_layer_has_are_duplicates() -> None:
    case = between(UNLIKE["eagle"], "tp4", "tp1")

    def all_send(run: Run) -> Iterable[Run]:
        return [from_rank(case, run, rank) for rank in range(4)] if run.layer == 2 else [run]

    assert reported(case, planted(case, all_send)) == {Kind.DUPLICATE}


def test_the_legacy_sender_knows_the_first_head_count_alone() -> None:
    verdict = of_native(case := between(UNLIKE["eagle"], "tp4", "tp1"))
    assert verdict.outcome is Outcome.FAIL or verdict.refusals
    assert any(name.startswith("first-head-count") for name in accepted(case))
