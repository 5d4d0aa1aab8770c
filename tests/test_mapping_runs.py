"""The runs in a slot, worked out by hand."""

from __future__ import annotations

import pytest

from differential.subjects.mapping import map_buffers
from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, LayerGroup, Model, Move, MoveState, Part
from oracle.model.case import Request
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from oracle.model.topology import Topology
from tests.mapping_cases import (
    TOKENS,
    buffer,
    case_of,
    heads,
    keys_only,
    paged,
    payload,
    plan_of,
    ranks_of_case,
    runs_by_pair,
    sections,
    state,
)


def heads_by_pair(size: int, source: int, destination: int) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """Runs of one-byte heads of one token: offsets are places of heads."""
    return runs_by_pair(case_of(keys_only(size), Topology(source), Topology(destination), tokens=1))


# B21: head picked by rank modulo heads.
def test_duplicated_heads_go_to_consecutive_ranks() -> None:
    assert heads_by_pair(2, 1, 4) == {
        (0, 0): [(0, 0, 1)],
        (0, 1): [(0, 0, 1)],
        (0, 2): [(1, 0, 1)],
        (0, 3): [(1, 0, 1)],
    }


# B22, B25: every head from one of its twins, at its own place.
def test_heads_replicated_on_the_source_arrive_once() -> None:
    assert heads_by_pair(4, 8, 1) == {
        (0, 0): [(0, 0, 1)],
        (2, 0): [(0, 1, 1)],
        (4, 0): [(0, 2, 1)],
        (6, 0): [(0, 3, 1)],
    }
    assert heads_by_pair(2, 4, 1) == {(0, 0): [(0, 0, 1)], (2, 0): [(0, 1, 1)]}


def test_overlapping_shares_send_each_head_once() -> None:
    # Sources hold heads 01, 12, 34, 45: they send 2, 1, 2 and 1 of them.
    runs = heads_by_pair(6, 4, 2)
    assert runs == {(0, 0): [(0, 0, 2)], (1, 0): [(1, 2, 1)], (2, 1): [(0, 0, 2)], (3, 1): [(1, 2, 1)]}


def test_overlapping_shares_stay_one_run_a_token_where_tokens_are_outside() -> None:
    # Sources 0 and 2 send two heads by two elections; next to each other in every token, they are one run.
    runs = runs_by_pair(case_of(keys_only(6, order="NHD"), Topology(4), Topology(2)))
    assert runs[0, 0] == runs[2, 1] == [(0, 0, 2), (2, 3, 2)]
    assert runs[1, 0] == runs[3, 1] == [(1, 2, 1), (3, 5, 1)]


def test_overlapping_shares_elect_head_by_head() -> None:
    # Heads 1 and 4 have two holders, and only they follow the key.
    case = case_of(keys_only(6), Topology(4), Topology(2, attention_dp=True), Request(0, 1, 0, 1), tokens=1)
    assert runs_by_pair(case) == {
        (0, 1): [(0, 0, 1)],
        (1, 1): [(0, 1, 2)],
        (2, 1): [(0, 3, 1)],
        (3, 1): [(0, 4, 2)],
    }


def test_floor_shares_are_told_from_ceil_shares() -> None:
    axis = heads(6, Split.FLOOR)
    model = Model(1, (paged(buffer("key", "0", axis, TOKENS, payload(1))),))
    assert runs_by_pair(case_of(model, Topology(4), Topology(2), tokens=1)) == {
        (0, 0): [(0, 0, 1)],
        (1, 0): [(0, 1, 2)],
        (2, 1): [(0, 0, 1)],
        (3, 1): [(0, 1, 2)],
    }


def test_cyclic_shares_go_index_by_index() -> None:
    model = Model(1, (paged(buffer("key", "0", heads(8, Split.CYCLIC), TOKENS, payload(1))),))
    # Rank 1 of 4 holds 1 and 5, which are places 0 and 2 of rank 1 of 2, who holds 1, 3, 5, 7; rank 2 is not its peer.
    case = case_of(model, Topology(1), Topology(2), tokens=1)
    assert runs_by_pair(case) == {
        (0, 0): [(0, 0, 1), (2, 1, 1), (4, 2, 1), (6, 3, 1)],
        (0, 1): [(1, 0, 1), (3, 1, 1), (5, 2, 1), (7, 3, 1)],
    }
    equal = case_of(model, Topology(2), Topology(2), tokens=1)
    assert runs_by_pair(equal) == {(0, 0): [(0, 0, 4)], (1, 1): [(0, 0, 4)]}


# B29: interleaved heads and tokens, only where tp differs.
def test_token_major_heads_take_one_run_per_token() -> None:
    case = case_of(keys_only(4, order="NHD"), Topology(1), Topology(2))
    assert runs_by_pair(case) == {(0, 0): [(0, 0, 2), (4, 2, 2)], (0, 1): [(2, 0, 2), (6, 2, 2)]}


def test_head_major_heads_take_one_run() -> None:
    case = case_of(keys_only(4), Topology(1), Topology(2))
    assert runs_by_pair(case) == {(0, 0): [(0, 0, 4)], (0, 1): [(4, 0, 4)]}


def test_token_major_heads_are_gathered_by_token() -> None:
    case = case_of(keys_only(4, order="NHD"), Topology(2), Topology(1))
    assert runs_by_pair(case) == {(0, 0): [(0, 0, 2), (2, 4, 2)], (1, 0): [(0, 2, 2), (2, 6, 2)]}


def test_the_two_sides_may_order_heads_and_tokens_differently() -> None:
    # Token-major source t0h0 t0h1 t0h2 t0h3 t1h0 ..., head-major destination h0t0 h0t1 h1t0 h1t1.
    case = case_of(keys_only(4, order="NHD"), Topology(1), Topology(2), generation={"layout": "HND"})
    assert runs_by_pair(case) == {
        (0, 0): [(0, 0, 1), (4, 1, 1), (1, 2, 1), (5, 3, 1)],
        (0, 1): [(2, 0, 1), (6, 1, 1), (3, 2, 1), (7, 3, 1)],
    }


def test_one_head_a_rank_makes_the_two_orders_coincide() -> None:
    case = case_of(keys_only(2), Topology(2), Topology(2), context={"layout": "NHD"}, generation={"layout": "HND"})
    assert runs_by_pair(case) == {(0, 0): [(0, 0, 2)], (1, 1): [(0, 0, 2)]}


# B57: x, B and C of different width.
def test_sections_of_unequal_width_are_halved_one_by_one() -> None:
    even = [("x", 8, Split.EVEN), ("B", 4, Split.EVEN), ("C", 4, Split.EVEN)]
    model = Model(1, (state(buffer("conv", "0", sections(*even))),))
    assert runs_by_pair(case_of(model, Topology(1), Topology(2))) == {
        (0, 0): [(0, 0, 4), (8, 4, 2), (12, 6, 2)],
        (0, 1): [(4, 0, 4), (10, 4, 2), (14, 6, 2)],
    }


# B56: one group, so B and C are replicated.
def test_replicated_sections_stay_whole_and_have_one_writer() -> None:
    mixed = [("x", 8, Split.EVEN), ("B", 2, Split.ALL), ("C", 2, Split.ALL)]
    model = Model(1, (state(buffer("conv", "0", sections(*mixed))),))
    assert runs_by_pair(case_of(model, Topology(1), Topology(2))) == {
        (0, 0): [(0, 0, 4), (8, 4, 4)],
        (0, 1): [(4, 0, 8)],
    }
    assert runs_by_pair(case_of(model, Topology(2), Topology(1))) == {
        (0, 0): [(0, 0, 4), (4, 8, 4)],
        (1, 0): [(0, 4, 4)],
    }


def test_state_is_served_where_grids_do_not_divide_but_tensor_sizes_do() -> None:
    # 24 heads: 6 a source, 4 a receiver of tp 2 x cp 3; receiver part 1 holds 4..7 from sources 0 and 1.
    model = Model(1, (state(buffer("ssm", "0", heads(24, Split.EVEN, Grid.TPCP))),))
    assert runs_by_pair(case_of(model, Topology(4), Topology(2, (1,), 3))) == {
        (0, 0): [(0, 0, 4)],
        (0, 1): [(4, 0, 2)],
        (1, 1): [(0, 2, 2)],
        (1, 2): [(2, 0, 4)],
        (2, 3): [(0, 0, 4)],
        (2, 4): [(4, 0, 2)],
        (3, 4): [(0, 2, 2)],
        (3, 5): [(2, 0, 4)],
    }


# B47: replicated state under Helix comes from a rank that the receiver is paired with.
def test_replicated_state_comes_from_the_first_paired_rank() -> None:
    model = Model(1, (state(buffer("ssm", "0", heads(4, Split.EVEN, Grid.TPCP)), buffer("ple", "0", payload(5))),))
    case = case_of(model, Topology(4), Topology(2, (1,), 2), context={"packing": (("state", "separate"),)})
    sent = {(s.source_rank, s.destination_rank) for s in plan_of(case).segments if s.source_pool == 1}
    assert sent == {(0, 0), (0, 1), (2, 2), (2, 3)}


@pytest.mark.parametrize("key", [0, 1, 2, 3])
def test_the_key_rotates_who_sends_replicated_bytes(key: int) -> None:
    model = Model(1, (paged(buffer("key", "0", TOKENS, payload(3))),))
    case = case_of(model, Topology(2), Topology(4, attention_dp=True), Request(0, 2, 0, key))
    assert runs_by_pair(case) == {(key % 2, key): [(0, 0, 6)]}


def test_the_key_counts_the_candidates_of_each_buffer_apart() -> None:
    # Keys are on two of four sources each, the index on all four: key 3 elects number 1 of 2 and number 3 of 4.
    model = Model(1, (paged(buffer("key", "0", heads(2), TOKENS), buffer("index", "0", TOKENS, payload(3))),))
    case = case_of(model, Topology(4), Topology(4, attention_dp=True), Request(0, 2, 0, 3))
    sources = {(s.source_rank, s.nbytes) for s in plan_of(case).segments}
    assert sources == {(1, 2), (3, 2), (3, 6)}


# Kinds, hot spots: the owner of a request-wide role depends on the stage.
def test_a_request_wide_role_on_the_first_local_layer_reaches_the_second_stage() -> None:
    position = buffer("position", "1,3", TOKENS, payload(3), request_scope=True, first_local=True)
    model = Model(4, (paged(position),))
    assert runs_by_pair(case_of(model, Topology(1, (4,)), Topology(1, (2, 2)))) == {
        (0, 0): [(0, 0, 6)],
        (0, 1): [(0, 0, 6)],
    }


def test_a_request_wide_role_has_candidates_on_several_stages() -> None:
    position = buffer("position", "1,3", TOKENS, payload(3), request_scope=True, first_local=True)
    model = Model(4, (paged(position),))
    for key, sender in ((0, 0), (1, 2)):
        case = case_of(model, Topology(1, (2, 1, 1)), Topology(2, (4,), attention_dp=True), Request(0, 2, 0, key))
        assert runs_by_pair(case) == {(sender, key): [(0, 0, 6)]}


def test_runs_follow_the_layer_and_not_the_place_in_the_pool() -> None:
    case = case_of(
        keys_only(1, layers=3), Topology(1, (3,)), Topology(1, (2, 1)), generation={"layer_order": (1, 0, 2)}
    )
    assert runs_by_pair(case) == {(0, 0): [(2, 0, 2), (0, 2, 2)], (0, 1): [(4, 0, 2)]}


def test_buffers_coalesced_on_one_side_may_be_separate_on_the_other() -> None:
    model = Model(1, (paged(buffer("key", "0", TOKENS), buffer("value", "0", TOKENS)),))
    case = case_of(model, Topology(1), Topology(1), generation={"packing": (("full", "separate"),)})
    segments = {(s.source_pool, s.destination_pool): s.runs.tolist() for s in plan_of(case).segments}
    assert segments == {(0, 0): [[0, 0, 2]], (0, 1): [[2, 0, 2]]}


def test_sub_pages_and_parts_repeat_inside_a_block() -> None:
    # Two sub-pages of two rows: rows of 3 bytes, then a byte a row; whole on both sides it is one run.
    footer = Buffer(
        "footer", LayerSet((0,)), (Part((TOKENS, heads(2), payload(3)), 8), Part((TOKENS, heads(2)), 8)), sub_rows=2
    )
    case = case_of(Model(1, (paged(footer),)), Topology(1), Topology(2), tokens=4)
    # A sub-page holds 16 bytes whole and 8 on a half.
    assert runs_by_pair(case)[0, 1] == [
        (3, 0, 3),
        (9, 3, 3),
        (13, 6, 1),
        (15, 7, 1),
        (19, 8, 3),
        (25, 11, 3),
        (29, 14, 1),
        (31, 15, 1),
    ]
    assert runs_by_pair(case_of(Model(1, (paged(footer),)), Topology(2), Topology(2), tokens=4))[1, 1] == [(0, 0, 16)]


def test_elements_below_a_byte_are_cut_at_whole_bytes() -> None:
    model = Model(1, (paged(buffer("key", "0", heads(2), TOKENS, payload(4), bits=4)),))
    assert runs_by_pair(case_of(model, Topology(1), Topology(2))) == {(0, 0): [(0, 0, 4)], (0, 1): [(4, 0, 4)]}


def test_a_width_that_both_sides_changed_counts() -> None:
    wide = {"element_bits": (("key", 16),)}
    assert runs_by_pair(case_of(keys_only(2), Topology(1), Topology(2), context=wide, generation=wide)) == {
        (0, 0): [(0, 0, 4)],
        (0, 1): [(4, 0, 4)],
    }


def test_what_does_not_move_is_never_sent() -> None:
    def moved(role: str, state: MoveState, inputs: tuple[str, ...] = ()) -> Buffer:
        return buffer(role, "0", TOKENS, payload(3), moves=(Move(state, None, inputs),))

    others = (
        moved("derived", MoveState.DERIVED, ("key",)),
        moved("rebuilt", MoveState.REBUILT),
        moved("never", MoveState.NEVER),
    )
    model = Model(1, (paged(buffer("key", "0", TOKENS, payload(3)), *others),))
    assert runs_by_pair(case_of(model, Topology(1), Topology(1))) == {(0, 0): [(0, 0, 6)]}


@pytest.mark.parametrize("side", ["context", "generation", "both", "neither"])
def test_an_optional_buffer_moves_iff_both_sides_hold_it(side: str) -> None:
    optional = buffer("window", "0", TOKENS, moves=(Move(MoveState.OPTIONAL, None, (), "either"),))
    model = Model(1, (paged(buffer("key", "0", TOKENS, payload(3)), optional),))
    without = {"without": (Without(("window",), LayerSet((0,))),)}
    lacking = {name: without for name in ("context", "generation") if side in (name, "both")}
    sent = plan_of(case_of(model, Topology(1), Topology(1), **lacking)).nbytes
    assert sent == (8 if side == "neither" else 6)


def test_an_optional_request_wide_role_may_be_lacking_on_the_source() -> None:
    moves = (Move(MoveState.OPTIONAL, None, (), "either"),)
    position = buffer("position", "0..1", TOKENS, request_scope=True, first_local=True, moves=moves)
    model = Model(2, (paged(buffer("key", "0..1", TOKENS, payload(3)), position),))
    sides = (Topology(1, (1, 1)), Topology(1, (2,)))
    lack = {"without": (Without(("position",), LayerSet((0, 1))),)}
    assert plan_of(case_of(model, *sides)).nbytes == 14
    assert plan_of(case_of(model, *sides, context=lack)).nbytes == 12
    # Its layer 0 is on stage 0 alone: stage 1 still has it, and the role is the key.
    partly = {"without": (Without(("position",), LayerSet((0,))),)}
    assert plan_of(case_of(model, *sides, context=partly)).nbytes == 14


def test_a_draft_layer_of_one_side_has_no_counterpart() -> None:
    def model() -> Model:
        return Model(2, (paged(buffer("key", "0..1", TOKENS)),), LayerSet((1,)))

    lack = {"without": (Without(("key",), LayerSet((1,))),)}
    assert plan_of(case_of(model(), Topology(1, (1,)), Topology(1, (2,)), context=lack)).nbytes == 2
    assert plan_of(case_of(model(), Topology(1, (2,)), Topology(1, (1, 0)), generation=lack)).nbytes == 2
    assert plan_of(case_of(model(), Topology(1, (2,)), Topology(1, (1, 1)))).nbytes == 4


def test_ranks_that_are_not_paired_map_to_nothing() -> None:
    context, generation = ranks_of_case(case_of(keys_only(1), Topology(2), Topology(2)))
    assert [[part.runs.tolist() for part in map_buffers(s, d, key=0)] for s in context for d in generation] == [
        [[[0, 0, 2]]],
        [],
        [],
        [[[0, 0, 2]]],
    ]


def test_map_buffers_takes_the_key_of_the_destination() -> None:
    context, generation = ranks_of_case(case_of(keys_only(1), Topology(2), Topology(1)))
    assert [len(map_buffers(source, generation[0], key=1)) for source in context] == [0, 1]


def test_equal_context_parallel_sizes_keep_blocks_on_their_ranks() -> None:
    # Four blocks of one byte: ranks 0 and 1 of either side hold the even and the odd ones.
    case = case_of(keys_only(1), Topology(1, (1,), 2), Topology(2, (1,), 2), Request(0, 4), tokens=1)
    found = {(s.source_rank, s.destination_rank): len(s.source_bases) for s in plan_of(case).segments}
    assert found == {(0, 0): 2, (1, 1): 2, (0, 2): 2, (1, 3): 2}


def test_two_groups_in_one_pool_group_keep_to_their_own_slots() -> None:
    model = Model(2, (paged(buffer("key", "0", TOKENS)), paged(buffer("key", "1", TOKENS), name="window", window=64)))
    columns = plan_of(case_of(model, Topology(1, (2,)), Topology(1, (2,)), Request(0, 4))).columns()
    assert sorted(columns["group"].tolist()) == [0, 0, 1, 1]
    assert len(set(columns["dst_offset"].tolist())) == 4 and set(columns["dst_pool"].tolist()) == {0}


def test_two_split_axes_meet_index_by_index() -> None:
    axes = (heads(2, Split.EVEN), Axis("C", 2, Split.EVEN, Grid.TP))
    model = Model(1, (LayerGroup("state", state(buffer("x", "0", *axes)).kind, (buffer("x", "0", *axes),)),))
    assert runs_by_pair(case_of(model, Topology(1), Topology(2))) == {(0, 0): [(0, 0, 1)], (0, 1): [(3, 0, 1)]}
