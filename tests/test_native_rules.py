"""The legacy sender's rules: its worked examples byte for byte, what its elections guarantee, and where it is wrong."""

from __future__ import annotations

from itertools import product

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.native import election, make, mappers, topology
from differential.subjects.native.rank_info import Attention, RankInfo
from differential.subjects.native.topology import Shape
from differential.subjects.native.views import Table
from oracle.model.buffers import Model
from oracle.model.case import Case, Native, Request, SlotList, Slots
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.model.topology import Rank
from oracle.model.writes import Pair, Refusal, Writes
from tests.native_data import moved_bytes
from tests.small_cases import case_of, group, model_of

INDEXED = Native((("all", "indexed"),))
STATE = Native((("all", "indexed"), ("conv", "sectioned"), ("ple", "replicated"), ("index_key", "replicated")))
Row = tuple[int, int, int, str, int, int, int]
"""Source rank, destination rank, layer, role, offsets from the start of both pools, bytes."""


def planned(case: Case, options: str = "") -> Writes:
    plan = make(options).plan(case, gather_facts(case))
    assert isinstance(plan, Writes), plan
    assert not plan.refusals
    return plan


def refused(case: Case, options: str = "") -> str:
    plan = make(options).plan(case, gather_facts(case))
    assert isinstance(plan, Refusal)
    return plan.code


def rows_of(case: Case, plan: Writes) -> list[Row]:
    """The plan's bytes joined to rows inside one destination buffer, in order."""
    tables = lay_out(case, "generation").tables
    rows: list[Row] = []
    for source, destination, _, pool, offset, place in moved_bytes(plan).tolist():
        table = tables[destination]
        stride = table.pools[pool].slot_stride
        inside = (e for e in table.entries if e.pool == pool and (place - e.offset) % stride < e.nbytes)
        entry = next(inside)
        label = source, destination, entry.layer, entry.role
        if rows and rows[-1][:4] == label and (rows[-1][4] + rows[-1][6], rows[-1][5] + rows[-1][6]) == (offset, place):
            rows[-1] = (*rows[-1][:6], rows[-1][6] + 1)
        else:
            rows.append((*label, offset, place, 1))
    return sorted(rows)


def slots(case_side: str, ranks: int, name: str, *entries: int) -> list[SlotList]:
    return [SlotList(case_side, rank, name, 0, entries) for rank in range(ranks)]


def test_a_head_mismatch_over_uneven_stages_is_written_as_worked_out() -> None:
    kv = group("key @ 0..2 : H(4).heads T D(2) ; 16", "value @ 0..2 : H(4).heads T D(2) ; 16")
    case = case_of(
        model_of(kv, layers=3),
        "tp2",
        "tp4 pp2+1",
        native=INDEXED,
        slots=Slots(counts=(("kv", 8),)),
        tables=tuple(slots("context", 2, "kv", 3) + slots("generation", 8, "kv", 5)),
    )
    of_context_0 = [
        (0, 0, 0, "key", 288, 160, 8),
        (0, 0, 0, "value", 304, 168, 8),
        (0, 0, 1, "key", 320, 176, 8),
        (0, 0, 1, "value", 336, 184, 8),
        (0, 1, 0, "key", 296, 160, 8),
        (0, 1, 0, "value", 312, 168, 8),
        (0, 1, 1, "key", 328, 176, 8),
        (0, 1, 1, "value", 344, 184, 8),
        (0, 4, 2, "key", 352, 80, 8),
        (0, 4, 2, "value", 368, 88, 8),
        (0, 5, 2, "key", 360, 80, 8),
        (0, 5, 2, "value", 376, 88, 8),
    ]
    of_context_1 = [(1, destination + 2, *rest) for _, destination, *rest in of_context_0]
    plan = planned(case)
    assert rows_of(case, plan) == sorted(of_context_0 + of_context_1)
    assert plan.nbytes == 192


def test_token_major_heads_are_cut_once_a_token() -> None:
    kv = group("key @ 0..2 : H(4).heads T D(2) ; 16", "value @ 0..2 : H(4).heads T D(2) ; 16")
    case = case_of(
        model_of(kv, layers=3),
        "tp2",
        "tp4 pp2+1",
        native=INDEXED,
        sides={"layout": "NHD"},
        slots=Slots(counts=(("kv", 8),)),
        tables=tuple(slots("context", 2, "kv", 3) + slots("generation", 8, "kv", 5)),
    )
    rows = rows_of(case, planned(case))
    assert len(rows) == 48
    assert [row for row in rows if row[:4] == (0, 1, 0, "key")] == [
        (0, 1, 0, "key", 292, 160, 4),
        (0, 1, 0, "key", 300, 164, 4),
    ]


@pytest.mark.parametrize(("destination", "senders"), [(1, (1, 3)), (0, (0, 2))])
def test_duplicated_heads_to_attention_dp_are_written_as_worked_out(destination: int, senders: tuple[int, int]) -> None:
    kv = group("key @ 0 : H(2).heads T D(2) ; 16", "value @ 0 : H(2).heads T D(2) ; 16", "index_key @ 0 : T D(6) ; 8")
    rows_at = [*slots("context", 4, "kv", 2), SlotList("generation", destination, "kv", 0, (4,))]
    case = case_of(
        kv,
        "tp4",
        "tp2 dp",
        requests=(Request(0, 2, generation_dp=destination),),
        native=STATE,
        slots=Slots(counts=(("kv", 8),)),
        tables=tuple(rows_at),
    )
    first, second = senders
    plan = planned(case)
    assert rows_of(case, plan) == [
        (first, destination, 0, "index_key", 24, 48, 12),
        (first, destination, 0, "key", 32, 128, 8),
        (first, destination, 0, "value", 40, 144, 8),
        (second, destination, 0, "key", 32, 136, 8),
        (second, destination, 0, "value", 40, 152, 8),
    ]
    assert [pair.source for pair in plan.pairs] == [0, 1, 2, 3]


LATENT_AND_STATE = model_of(
    group("key @ 0 : T D(16) ; 8"),
    group(
        "conv @ 1 : C[x:16.even, B:8.even, C:8.even]@TPCP ; 8",
        "ssm @ 1 : H(4).even@TPCP P(8) ; 8",
        "ple @ 1 : D(6) ; 8",
        name="state",
        state=True,
    ),
    layers=2,
)


def test_helix_receivers_of_a_latent_and_state_are_written_as_worked_out() -> None:
    latent_slots = {0: (0, -1, -1, -1, 1), 1: (-1, 0, -1, -1, -1, 1), 2: (-1, -1, 0), 3: (-1, -1, -1, 0)}
    case = case_of(
        LATENT_AND_STATE,
        "tp2",
        "tp1 cp4",
        prompts=12,
        native=STATE,
        sides={"packing": (("state", "separate"),)},
        slots=Slots(counts=(("kv", 16), ("state", 7))),
        tables=(
            *slots("context", 2, "kv", *range(10, 16)),
            *slots("context", 2, "state", 6),
            *(SlotList("generation", rank, "kv", 0, entries) for rank, entries in latent_slots.items()),
            *slots("generation", 4, "state", 1),
        ),
    )
    assert rows_of(case, planned(case)) == sorted(
        [
            (0, 0, 0, "key", 320, 0, 32),
            (0, 0, 0, "key", 448, 32, 32),
            (0, 1, 0, "key", 352, 0, 32),
            (0, 1, 0, "key", 480, 32, 32),
            (0, 2, 0, "key", 384, 0, 32),
            (0, 3, 0, "key", 416, 0, 32),
            (0, 0, 1, "conv", 96, 8, 4),
            (0, 0, 1, "conv", 104, 12, 2),
            (0, 0, 1, "conv", 108, 14, 2),
            (0, 0, 1, "ssm", 96, 8, 8),
            (0, 0, 1, "ple", 36, 6, 6),
            (0, 1, 1, "conv", 100, 8, 4),
            (0, 1, 1, "conv", 106, 12, 2),
            (0, 1, 1, "conv", 110, 14, 2),
            (0, 1, 1, "ssm", 104, 8, 8),
            (0, 1, 1, "ple", 36, 6, 6),
            (1, 2, 1, "conv", 96, 8, 4),
            (1, 2, 1, "conv", 104, 12, 2),
            (1, 2, 1, "conv", 108, 14, 2),
            (1, 2, 1, "ssm", 96, 8, 8),
            (1, 3, 1, "conv", 100, 8, 4),
            (1, 3, 1, "conv", 106, 12, 2),
            (1, 3, 1, "conv", 110, 14, 2),
            (1, 3, 1, "ssm", 104, 8, 8),
        ]
    )


@pytest.mark.parametrize(
    ("context", "generation", "missed"),
    [
        ("tp2", "tp1 cp2", {1}),
        ("tp2", "tp1 cp4", {2, 3}),
        ("tp1", "tp1 cp4", set()),
        ("tp4", "tp1 cp2", {1}),
        ("tp2", "tp2 cp2", set()),
        ("tp4", "tp2 cp2", {1, 3}),
    ],
)
def test_replicated_state_misses_helix_receivers_paired_with_unelected_senders(
    context: str, generation: str, missed: set[int]
) -> None:
    case = case_of(LATENT_AND_STATE, context, generation, prompts=12, native=STATE)
    rows = rows_of(case, planned(case))
    ranks = set(range(case.generation.topology.size))
    for role, without in (("conv", set()), ("ssm", set()), ("key", set()), ("ple", missed)):
        assert ranks - {row[1] for row in rows if row[3] == role} == without


def test_replicated_paged_views_reach_every_helix_receiver() -> None:
    kv = group("key @ 0 : T D(2) ; 8", "index_key @ 0 : T D(3) ; 8")
    case = case_of(kv, "tp4", "tp1 cp2", prompts=4, native=STATE)
    assert {row[:2] for row in rows_of(case, planned(case))} == {(0, 0), (0, 1)}


def test_one_sender_serves_every_helix_receiver_of_a_latent() -> None:
    case = case_of("key @ 0 : T D(2) ; 8", "tp4", "tp1 cp4", prompts=8, native=INDEXED)
    plan = planned(case)
    assert {segment.source_rank for segment in plan.segments} == {0}
    assert len(plan.pairs) == 16


def info(tensor: int, rank: int, heads: int, dp: int = 0, cp: int = 1, cp_rank: int = 0) -> RankInfo:
    """A rank of one stage that reports ``heads``; ``rank`` counts inside the attention-DP group ``dp``."""
    shape = Shape((1,), tensor, cp, tensor, False)
    place = Rank(0, 0, dp * tensor + rank, cp_rank)
    grid = (tensor * cp, rank * cp + cp_rank) if cp > 1 else (tensor, rank)
    return RankInfo(place, shape, dp, Attention(heads, 1, 1, 8, False), grid, Table(()))


def arrivals(heads: int, context: int, generation: int, dp: int = 0) -> dict[int, list[tuple[int, int]]]:
    """(position, global head) that arrive at each receiver, heads placed from floor(rank * heads / tp)."""
    own, peer = -(-heads // context), -(-heads // generation)
    found: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(generation)}
    for rank in range(context):
        for target in topology.fan(context, generation, rank, dp):
            sender, receiver = info(context, rank, own), info(generation, target - dp * generation, peer, dp)
            if target - dp * generation not in found or not election.sends_heads(sender, receiver):
                continue
            match = election.heads_match(sender.attention, receiver.attention)
            source, place = (0, 0) if match else mappers.head_offsets(sender, receiver)
            first = rank * heads // context
            found[target - dp * generation] += [(place + n, first + source + n) for n in range(min(own, peer))]
    return found


def splits_evenly(heads: int, ranks: int) -> bool:
    return heads % ranks == 0 or ranks % heads == 0


@pytest.mark.parametrize("dp", range(4))
@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12])
def test_every_head_arrives_once_in_its_place_where_sizes_divide(heads: int, dp: int) -> None:
    sizes = [size for size in (1, 2, 3, 4, 6, 8, 12, 16) if splits_evenly(heads, size)]
    for context, generation in product(sizes, sizes):
        if max(context, generation) % min(context, generation):
            continue
        for rank, arrived in arrivals(heads, context, generation, dp).items():
            first = rank * heads // generation
            due = [(place, first + place) for place in range(-(-heads // generation))]
            assert sorted(arrived) == due, (context, generation, rank)


def test_six_heads_of_four_ranks_arrive_twice_in_the_middle() -> None:
    assert arrivals(6, 4, 2)[0] == [(0, 0), (1, 1), (1, 1), (2, 2)]


def test_three_heads_of_two_ranks_arrive_as_others() -> None:
    assert arrivals(3, 2, 4) == {0: [(0, 0)], 1: [(0, 1)], 2: [(0, 1)], 3: [(0, 2)]}
    assert [rank * 3 // 4 for rank in range(4)] == [0, 0, 1, 2]


def test_two_heads_of_six_ranks_arrive_as_others_for_the_second_group() -> None:
    assert arrivals(2, 6, 3, dp=1)[1] == [(0, 1)]
    assert 1 * 2 // 3 == 0


def test_heads_that_overlap_are_planned_with_duplicates() -> None:
    kv = group("key @ 0 : H(6).heads T D(1) ; 8", "value @ 0 : H(6).heads T D(1) ; 8")
    moved = moved_bytes(planned(case_of(kv, "tp4", "tp2", native=INDEXED)))
    places = [tuple(row) for row in moved[:, [1, 3, 5]].tolist()]
    assert len(places) - len(set(places)) == 8


def test_every_sender_paired_for_state_lies_in_the_overlap() -> None:
    powers = (1, 2, 4, 8, 16)
    for context, generation, cp in product(powers, powers[:4], (2, 4, 8)):
        for rank, target, target_cp in product(range(context), range(generation), range(cp)):
            own, peer = info(context, rank, 1), info(generation, target, 1, cp=cp, cp_rank=target_cp)
            if election.state_paired(own, peer):
                assert target in topology.fan(context, generation, rank)


@pytest.mark.parametrize(
    ("context", "generation", "alone", "empty"),
    [
        ("tp3", "tp2", [Pair(0, 2, 2, "sender")], set()),
        ("tp2", "tp3", [Pair(0, 2, 2, "receiver")], {2}),
        ("tp4", "tp6", [Pair(0, 4, 4, "receiver"), Pair(0, 5, 5, "receiver")], {4, 5}),
    ],
)
def test_sizes_that_do_not_divide_are_served_and_name_ranks_that_do_not_exist(
    context: str, generation: str, alone: list[Pair], empty: set[int]
) -> None:
    case = case_of("key @ 0 : T D(2) ; 8", context, generation, native=INDEXED)
    plan = planned(case)
    assert [pair for pair in plan.pairs if pair.seen_by != "both"] == alone
    served = {segment.destination_rank for segment in plan.segments}
    assert set(range(case.generation.topology.size)) - served == empty


def hybrid(attention: str, state: str) -> Model:
    return model_of(
        group(*(f"{role} @ {attention} : H(4).heads T D(1) ; 8" for role in ("key", "value"))),
        group(f"ssm @ {state} : H(4).even@TPCP P(1) ; 8", name="state", state=True),
        layers=2,
    )


@pytest.mark.parametrize(("context", "generation"), [("tp1", "tp1 pp1+1"), ("tp1 pp1+1", "tp1")])
def test_a_stage_without_attention_crashes_the_newest_sender_alone(context: str, generation: str) -> None:
    case = case_of(hybrid("1", "0"), context, generation, native=STATE)
    assert refused(case) == "crash: division by zero"
    assert planned(case, "suffix").nbytes > 0


def test_a_stage_without_a_latent_is_refused_at_registration() -> None:
    case = case_of(LATENT_AND_STATE, "tp1", "tp1 pp1+1", native=STATE)
    assert refused(case) == "latent_heads_not_one"


def two_head_counts(first: int, second: int) -> Model:
    roles = [(role, layer, heads) for layer, heads in enumerate((first, second)) for role in ("key", "value")]
    return model_of(
        group(*(f"{role} @ {layer} : H({heads}).heads T D(1) ; 8" for role, layer, heads in roles)), layers=2
    )


def test_head_counts_that_grow_along_the_layers_are_refused_where_heads_repeat() -> None:
    # Two heads are one a rank on both sides, so whole regions go; the four heads of layer 1 do not fit that.
    model = two_head_counts(2, 4)
    assert refused(case_of(model, "tp4", "tp2", native=INDEXED)) == "region_sizes_differ"
    assert planned(case_of(model, "tp2", "tp1", native=INDEXED)).nbytes == 2 * 2 * (2 + 4)


def test_layers_that_share_a_view_on_the_sender_alone_are_not_all_sent() -> None:
    # On four ranks each layer has one head; on two, layer 0 has two, so that each layer has a pool and view of its own.
    model = two_head_counts(4, 2)
    case = case_of(model, "tp4", "tp2", native=INDEXED)
    assert {row[2] for row in rows_of(case, planned(case))} == {0}


SSM_WITH_A_GAP = model_of(
    group("ssm @ 1,3,5 : H(2).even@TPCP P(1) ; 8 ; optional(generation)", name="state", state=True), layers=6
)
WITHOUT_LAYER_3 = {"without": (Without(("ssm",), LayerSet((3,))),)}


def test_state_of_layers_that_are_not_consecutive_is_sent_to_other_layers() -> None:
    case = case_of(SSM_WITH_A_GAP, native=STATE, generation_side=WITHOUT_LAYER_3)
    source = {entry.offset: entry.layer for entry in lay_out(case, "context").tables[0].entries}
    start = lay_out(case, "context").slots[0][0][0][0] * 6
    rows = rows_of(case, planned(case))
    assert [(source[row[4] - start], row[2]) for row in rows] == [(1, 1), (3, 5)]


def test_state_layers_in_another_order_crash_the_sender() -> None:
    case = case_of(SSM_WITH_A_GAP, native=STATE, generation_side={"layer_order": (5, 4, 3, 2, 1, 0)})
    assert refused(case) == "crash: state pointers of unequal length"


@pytest.mark.parametrize(("stages", "paired"), [("1+0+1", True), ("0+2", False), ("2+0", False)])
def test_an_empty_stage_counts_only_inside_the_peers_interval(stages: str, paired: bool) -> None:
    model = model_of(group("key @ 0..1 : T D(2) ; 8"), layers=2)
    case = case_of(model, f"tp1 pp{stages}", "tp1", native=INDEXED)
    empty = case.context.topology.stages.index(0)
    plan = make("suffix").plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    assert (Pair(0, empty, 0) in plan.pairs) is paired
    assert empty not in {segment.source_rank for segment in plan.segments}
