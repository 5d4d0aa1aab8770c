"""Each stress holds on the smallest case that shows it, and not on one that lacks the one thing it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from oracle.model.buffers import GroupKind, LayerGroup, Model
from oracle.model.case import SIDES, Case, Request
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet
from oracle.model.notation import parse_buffer
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.kinds import find_kind
from strategies.stresses import STRESSES, find_stress, stresses_of
from strategies.stresses.places import Placed, coalesced, placed
from strategies.stresses.reach import reach_of, some_cases


def paged(*buffers: str, name: str = "kv", **options: object) -> LayerGroup:
    return LayerGroup(name, GroupKind.PAGED, tuple(map(parse_buffer, buffers)), **options)  # type: ignore[arg-type]


def state(*buffers: str) -> LayerGroup:
    return LayerGroup("state", GroupKind.STATE, tuple(map(parse_buffer, buffers)))


def model(*groups: LayerGroup, layers: int = 2, draft: str = "") -> Model:
    return Model(layers, groups, LayerSet.parse(draft))


@dataclass(frozen=True)
class Side:
    """One side of a case in short; ``stages`` empty: all layers on one."""

    tp: int = 1
    cp: int = 1
    dp: bool = False
    stages: tuple[int, ...] = ()
    tokens: int = 2
    options: tuple[tuple[str, object], ...] = ()


def side(**given: object) -> Side:
    names = ("tp", "cp", "dp", "stages", "tokens")
    rest = tuple((name, value) for name, value in given.items() if name not in names)
    return Side(**{name: given[name] for name in names if name in given}, options=rest)  # type: ignore[arg-type]


def case_of(what: Model, context: Side, generation: Side, prompt: int, **lengths: int) -> Case:
    sides = [
        Instance(Topology(s.tp, s.stages or (what.layers,), s.cp, s.dp), s.tokens, **dict(s.options))
        for s in (context, generation)
    ]
    return Case(what, *sides, (Request(0, prompt, lengths=tuple(lengths.items())),))


ONE = side()
HEADS = model(paged("key @ 0..1 : H(2).heads T D(2) ; 8"))
LATENT = model(paged("key @ 0..1 : T D(2) ; 8"))
SIDE_KEY = "index_key @ 0..1 : T D(2) ; 8"
BESIDE = model(paged("key @ 0..1 : H(2).heads T D(1) ; 8", SIDE_KEY))
STATE = model(state("conv @ 0..1 : C[x:8.even, B:4.even]@TPCP W(1) ; 8"))
EQUAL = model(state("conv @ 0..1 : C[x:4.even, B:4.even]@TPCP W(1) ; 8"))
WHOLE_B = model(state("conv @ 0..1 : C[x:4.even, B:4.all]@TPCP W(1) ; 8"))
EMBEDDED = model(state("ssm @ 0..1 : H(4).even@TPCP P(1) ; 8", "ple @ 0 : C(2) ; 8"))
WINDOW = model(paged("key @ 0..1 : T D(2) ; 8", window=3))
SINKS = model(paged("key @ 0..1 : T D(2) ; 8", window=3, sinks=2))
ROWS = model(paged("key @ 0..1 : T(2) D(2) ; 8"))
FOOTER = model(paged("key @ 0..1 : T ; foot(*,2,1)"))
RECORD = model(paged("key @ 0..1 : T ; rec(3)"))
RING = model(paged("key @ 0..1 : R(3) D(2) ; 8"))
PAGES = model(paged("key @ 0..1 : T D(2) ; 8 ; sub(2)"))
ENCODER = model(paged("key @ 0..1 : T D(2) ; 8", length="encoder"))
LOCAL_AND_FULL = model(
    paged("key @ 0 : H(2).heads T D(2) ; 8", name="local", window=3),
    paged("key @ 1 : H(2).heads T D(2) ; 8", name="full"),
)
UNLIKE_GROUPS = model(
    paged("key @ 0 : H(2).heads T D(2) ; 8", name="local", window=3),
    paged("key @ 1 : H(2).heads T D(3) ; 8", name="full"),
)
SCALES = model(paged("key @ 0..1 : T D(8) ; 4", "scale @ 0..1 : T D(1) ; 8"))
THREE_SIZES = model(paged("key @ 0..1 : T D(3) ; 8", "value @ 0..1 : T D(2) ; 8", "index @ 0..1 : T D(1) ; 8"))
PADDED = model(paged("key @ 0..1 : T D(2) ; 8 ; align(16)"))
FUSED = model(paged("key @ 0..1 : T D(2) ; 8 ; fused(kv)", "value @ 0..1 : T D(2) ; 8 ; fused(kv)"))
RETAINED_TWICE = model(
    paged("key @ 0..1 : T D(2) ; 8"), paged("swa @ 0..1 : T D(2) ; 8", name="local", window=3), layers=2
)
VIRTUAL = model(paged("key @ 0..1 : T D(2) ; 8 ; ids 2m+1"))
DRAFT = model(paged("key @ 0 : T D(2) ; 8"), paged("draft @ 1 : T D(2) ; 8", name="draft", domain="draft"), draft="1")
SUBSET = model(paged("key @ 0..1 : T D(2) ; 8", "index @ 1 : T D(1) ; 8"))
POSITION = model(paged("key @ 0..1 : T D(2) ; 8", "position @ 0..1 : T D(1) ; 8 ; request ; first_local"))
ALIAS = model(paged("key @ 0 : T D(2) ; 8 ; alias 1"))
DERIVED = model(paged("key @ 0..1 : T D(2) ; 8", "scale @ 0..1 : T D(1) ; 8 ; derived(key)"))
OPTIONAL = model(paged("key @ 0..1 : T D(2) ; 8", "extra @ 0..1 : T D(1) ; 8 ; optional(context)"))
WIDER = model(paged("key @ 0 : H(2).heads T D(2) ; 8", "key @ 1 : H(4).heads T D(2) ; 8"))
NO_STATE = model(state("ssm @ 0 : P(2) ; 8"), paged("key @ 1 : T D(2) ; 8"))
WITHOUT_EXTRA = (Without(("extra",), LayerSet((0, 1))),)

SHOWN: dict[str, tuple[Case, Case, Model]] = {
    # stress: a case that reaches it, one of a model that declares it which does not, a model that does not declare it
    "duplicated heads": (case_of(HEADS, ONE, side(tp=4), 1), case_of(HEADS, ONE, side(tp=2), 1), LATENT),
    "overlapping, uneven head shares": (
        case_of(HEADS, ONE, side(tp=3), 1),
        case_of(HEADS, ONE, side(tp=4), 1),
        model(paged("key @ 0..1 : H(1).heads T D(2) ; 8")),
    ),
    "NHD: a run per token": (
        case_of(HEADS, side(layout="NHD"), side(layout="NHD", tp=2), 1),
        case_of(HEADS, side(layout="HND"), side(layout="HND", tp=2), 1),
        LATENT,
    ),
    "sub-byte elements, two units": (
        case_of(SCALES, ONE, ONE, 1),
        case_of(SCALES, side(element_bits=(("key", 8),)), side(element_bits=(("key", 8),)), 1),
        model(paged("key @ 0..1 : T D(8) ; 4")),
    ),
    "replicated beside sharded": (case_of(BESIDE, ONE, side(tp=2), 1), case_of(BESIDE, ONE, ONE, 1), HEADS),
    "election among replicas": (
        case_of(LATENT, side(tp=2), ONE, 1),
        case_of(LATENT, ONE, side(tp=2), 1),
        model(state("ssm @ 0..1 : H(4).even P(1) ; 8")),
    ),
    "sectioned axis, cut by two grids": (case_of(EQUAL, ONE, side(tp=2), 1), case_of(EQUAL, ONE, ONE, 1), HEADS),
    "sections of unequal width": (case_of(STATE, ONE, side(tp=2), 1), case_of(STATE, ONE, ONE, 1), EQUAL),
    "whole sections beside cut ones": (case_of(WHOLE_B, ONE, side(tp=2), 1), case_of(WHOLE_B, ONE, ONE, 1), STATE),
    "state over the TP×CP grid": (
        case_of(EQUAL, ONE, side(tp=2, cp=2), 1),
        case_of(EQUAL, ONE, side(tp=4), 1),
        model(state("ssm @ 0..1 : H(4).even P(1) ; 8")),
    ),
    "replicated state under Helix": (
        case_of(EMBEDDED, ONE, side(cp=2), 1),
        case_of(EMBEDDED, ONE, side(tp=2), 1),
        EQUAL,
    ),
    "Helix: block-cyclic tokens": (case_of(LATENT, ONE, side(cp=2), 4), case_of(LATENT, ONE, side(tp=2), 4), EQUAL),
    "Helix: a rank without a block": (case_of(LATENT, ONE, side(cp=2), 2), case_of(LATENT, ONE, side(cp=2), 3), EQUAL),
    "Helix: an unfinished round": (case_of(LATENT, ONE, side(cp=2), 5), case_of(LATENT, ONE, side(cp=2), 4), EQUAL),
    "windows, dropped blocks": (case_of(WINDOW, ONE, ONE, 4), case_of(WINDOW, ONE, ONE, 3), LATENT),
    "sink blocks kept": (case_of(SINKS, ONE, ONE, 6), case_of(SINKS, ONE, ONE, 5), WINDOW),
    "compression, a row not full": (case_of(ROWS, ONE, ONE, 3), case_of(ROWS, ONE, ONE, 4), LATENT),
    "compression, one row a block": (
        case_of(ROWS, ONE, ONE, 2),
        case_of(ROWS, side(tokens=4), side(tokens=4), 2),
        LATENT,
    ),
    "page footers": (case_of(FOOTER, ONE, ONE, 3), case_of(FOOTER, ONE, ONE, 4), RECORD),
    "records": (case_of(RECORD, ONE, ONE, 1), case_of(FOOTER, ONE, ONE, 1), FOOTER),
    "ring rows": (case_of(RING, ONE, ONE, 1), case_of(LATENT, ONE, ONE, 1), LATENT),
    "several sub-pages in a block": (
        case_of(PAGES, side(tokens=4), side(tokens=4), 1),
        case_of(PAGES, ONE, ONE, 1),
        LATENT,
    ),
    "a length of its own": (
        case_of(ENCODER, ONE, ONE, 1, encoder=3),
        case_of(ENCODER, ONE, ONE, 1, encoder=2),
        LATENT,
    ),
    "several groups in one pool group": (
        case_of(LOCAL_AND_FULL, ONE, ONE, 1),
        case_of(LOCAL_AND_FULL, side(packing=(("full", "separate"),)), side(packing=(("local", "separate"),)), 1),
        UNLIKE_GROUPS,
    ),
    "coalesced by accident": (case_of(BESIDE, ONE, ONE, 1), case_of(BESIDE, side(tp=2), side(tp=2), 1), THREE_SIZES),
    "coalesced on one side only": (
        case_of(BESIDE, side(tp=2), ONE, 1),
        case_of(BESIDE, ONE, ONE, 1),
        model(paged("key @ 0..1 : T(2) D(4) ; 8", "value @ 0..1 : T D(2) ; 8")),
    ),
    "two size classes in a group": (case_of(BESIDE, side(tp=2), ONE, 1), case_of(BESIDE, ONE, ONE, 1), HEADS),
    "many size classes in a group": (
        case_of(THREE_SIZES, ONE, ONE, 1),
        case_of(THREE_SIZES, side(packing=(("kv", "separate"),)), side(packing=(("kv", "interleaved"),)), 1),
        BESIDE,
    ),
    "page padding, alignment": (
        case_of(PADDED, ONE, ONE, 1),
        case_of(PADDED, side(tokens=8), side(tokens=8), 1),
        FUSED,
    ),
    "fused regions": (case_of(FUSED, ONE, ONE, 1), case_of(PADDED, ONE, ONE, 1), PADDED),
    "several retention classes": (
        case_of(RETAINED_TWICE, ONE, ONE, 1),
        case_of(LOCAL_AND_FULL, ONE, ONE, 1),
        LOCAL_AND_FULL,
    ),
    "virtual or declared layer ids": (case_of(VIRTUAL, ONE, ONE, 1), case_of(LATENT, ONE, ONE, 1), LATENT),
    "layer subsets, masks": (case_of(SUBSET, ONE, ONE, 1), case_of(BESIDE, ONE, ONE, 1), BESIDE),
    "a stage without a role": (
        case_of(SUBSET, side(stages=(1, 1)), ONE, 1),
        case_of(SUBSET, side(stages=(0, 2)), ONE, 1),
        BESIDE,
    ),
    "a stage without a group": (
        case_of(NO_STATE, ONE, side(stages=(1, 1)), 1),
        case_of(NO_STATE, ONE, side(stages=(2, 0)), 1),
        SUBSET,
    ),
    "owner depends on the stage": (
        case_of(POSITION, ONE, side(stages=(1, 1)), 1),
        case_of(POSITION, side(stages=(1, 1)), side(stages=(1, 1)), 1),
        LATENT,
    ),
    "alias layers": (case_of(ALIAS, ONE, ONE, 1), case_of(LATENT, ONE, ONE, 1), LATENT),
    "derived, rebuilt or never sent": (case_of(DERIVED, ONE, ONE, 1), case_of(OPTIONAL, ONE, ONE, 1), OPTIONAL),
    "one-sided buffers": (
        case_of(OPTIONAL, side(without=WITHOUT_EXTRA), ONE, 1),
        case_of(OPTIONAL, ONE, ONE, 1),
        DERIVED,
    ),
    "heads or dims by layer": (case_of(WIDER, ONE, ONE, 1), case_of(HEADS, ONE, ONE, 1), HEADS),
    "uneven stages": (
        case_of(LATENT, ONE, side(stages=(2, 0)), 1),
        case_of(LATENT, ONE, side(stages=(1, 1)), 1),
        LATENT,  # any model of one layer or more can be cut unevenly
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_case_reaches_it_and_its_neighbour_does_not(name: str) -> None:
    reaching, neighbour, _ = SHOWN[name]
    stress = find_stress(name)
    assert stress.reached(reaching)
    assert stress.declared(reaching.model)
    assert not stress.reached(neighbour)


@pytest.mark.parametrize("name", sorted(set(SHOWN) - {"uneven stages"}))
def test_a_model_without_it_does_not_declare_it(name: str) -> None:
    assert not find_stress(name).declared(SHOWN[name][2])


def test_each_stress_is_shown() -> None:
    assert set(SHOWN) == {stress.name for stress in STRESSES}
    assert len(STRESSES) == len(SHOWN)


def test_a_stress_is_one_sentence_in_words() -> None:
    for stress in STRESSES:
        assert stress.sentence[0].islower() or stress.sentence.startswith("NHD")
        assert not stress.sentence.endswith(".")
        assert len(stress.name) <= 32


def test_the_names_of_what_a_case_reaches() -> None:
    assert stresses_of(case_of(LATENT, ONE, ONE, 1)) == set()
    assert stresses_of(case_of(HEADS, ONE, side(tp=4), 1)) == {"duplicated heads"}


def test_an_unknown_stress_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidCase, match="stress = 'heads' is not possible: expected one of duplicated heads, "):
        find_stress("heads")


# ---- finer points


def test_a_head_that_is_cut_into_floors_repeats_but_does_not_overlap() -> None:
    floors = model(paged("key @ 0..1 : H(2).floor T D(2) ; 8"))
    assert "duplicated heads" in stresses_of(case_of(floors, ONE, side(tp=4), 1))
    assert "election among replicas" in stresses_of(case_of(floors, side(tp=4), ONE, 1))
    assert "election among replicas" not in stresses_of(case_of(floors, side(tp=2), ONE, 1))


@pytest.mark.parametrize(("tp", "elects"), [(2, False), (3, True), (4, True)])
def test_heads_are_elected_where_several_senders_hold_one(tp: int, elects: bool) -> None:
    assert ("election among replicas" in stresses_of(case_of(HEADS, side(tp=tp), ONE, 1))) is elects


def test_attention_dp_leaves_one_share() -> None:
    assert "duplicated heads" not in stresses_of(case_of(HEADS, ONE, side(tp=4, dp=True), 1))
    assert "election among replicas" in stresses_of(case_of(LATENT, side(tp=2), side(tp=2, dp=True), 1))
    assert "election among replicas" not in stresses_of(case_of(LATENT, side(tp=2, dp=True), ONE, 1))


def test_what_does_not_move_is_not_elected() -> None:
    never = model(paged("key @ 0..1 : H(2).heads T D(2) ; 8", "value @ 0..1 : T D(2) ; 8 ; never"))
    assert "election among replicas" not in stresses_of(case_of(never, side(tp=2), ONE, 1))
    assert not find_stress("replicated beside sharded").declared(never)


def test_whole_sections_are_elected() -> None:
    assert "election among replicas" in stresses_of(case_of(WHOLE_B, side(tp=2), ONE, 1))
    assert "election among replicas" not in stresses_of(case_of(STATE, side(tp=2), ONE, 1))


def test_rows_of_heads_are_cut_where_the_orders_differ() -> None:
    name = "NHD: a run per token"
    assert name in stresses_of(case_of(HEADS, side(layout="NHD"), side(layout="HND"), 1))
    assert name not in stresses_of(case_of(HEADS, side(layout="NHD"), side(layout="NHD"), 1))
    assert name not in stresses_of(case_of(HEADS, side(layout="NHD", tp=2), side(layout="HND", tp=2), 1))


def test_a_reserve_keeps_a_block_on_the_side_that_has_it() -> None:
    kept = side(reserve=(("kv", 1),))
    assert "windows, dropped blocks" in stresses_of(case_of(WINDOW, ONE, kept, 4))
    assert "windows, dropped blocks" not in stresses_of(case_of(WINDOW, kept, kept, 4))


def test_a_buffer_that_is_placed_lies_where_it_is_put_and_not_by_accident() -> None:
    assert not coalesced(case_of(FUSED, ONE, ONE, 1), "context")
    aligned = model(paged("key @ 0..1 : T D(3) ; 8 ; align(8)", "value @ 0..1 : T D(4) ; 8 ; align(8)"))
    assert not coalesced(case_of(aligned, ONE, ONE, 1), "context")


def test_two_buffers_of_one_shape_are_meant_to_share_a_pool() -> None:
    alike = model(paged("key @ 0..1 : T D(2) ; 8", "value @ 0..1 : T D(2) ; 8"))
    assert not coalesced(case_of(alike, ONE, ONE, 1), "context")
    assert coalesced(case_of(BESIDE, ONE, ONE, 1), "context") == {(0, "index_key", "key")}


@pytest.mark.parametrize("kind", ["gqa", "mla", "vswa", "minimax_m3", "qwen4_exp", "deepseek_v4"])
def test_the_pools_of_a_case_are_those_of_its_page_tables(kind: str) -> None:
    for case in some_cases(find_kind(kind), 40):
        for name in SIDES:
            tables = tuple(enumerate(lay_out(case, name).tables))
            explicit = replace(case, **{name: replace(case.side(name), page_tables=tables)})
            assert _places(placed(case, name)) == _places(placed(explicit, name))


def _places(ranks: tuple[tuple[Placed, ...], ...]) -> set[object]:
    """What lies in each pool of each rank, and the groups of each pool group."""
    return {
        (
            frozenset((pool.group, pool.slot_bytes, frozenset(pool.members)) for pool in pools),
            _shared(pools),
        )
        for pools in ranks
    }


def _shared(pools: tuple[Placed, ...]) -> frozenset[frozenset[int]]:
    """The groups of each pool group."""
    owners: dict[object, set[int]] = {}
    for pool in pools:
        owners.setdefault(pool.pool_group, set()).add(pool.group)
    return frozenset(map(frozenset, owners.values()))


# ---- kinds


def test_a_kind_without_stages_has_none_that_are_uneven() -> None:
    gqa = find_kind("gqa")
    flat = replace(gqa, name="flat", stages=False, helix=False)
    models = [(HEADS, ())]
    assert find_stress("uneven stages").declared_by(gqa, models)
    assert not find_stress("uneven stages").declared_by(flat, models)
    assert not find_stress("Helix: block-cyclic tokens").declared_by(flat, models)


def test_rows_that_no_block_length_equals_are_never_alone_in_a_block() -> None:
    gqa = find_kind("gqa")
    stress = find_stress("compression, one row a block")
    assert stress.declared_by(gqa, [(ROWS, (1, 2))])
    assert stress.declared_by(gqa, [(ROWS, ())])
    assert not stress.declared_by(gqa, [(ROWS, (4, 8))])


def test_the_cases_of_a_kind_are_the_same_every_time() -> None:
    gqa = find_kind("gqa")
    assert some_cases(gqa, 20) == some_cases(gqa, 20)
    assert some_cases(gqa, 20) == some_cases(gqa, 30)[:20]


def test_reach_counts_the_cases_and_says_what_is_missed() -> None:
    never = replace(
        find_kind("gqa"), name="one_rank", decode=lambda numbers, around: find_kind("gqa").decode((0,) * 4, around)
    )
    reached = reach_of(never, 1)
    (case,) = some_cases(never, 1)
    assert {name for name, reach in reached.items() if reach.cases} == stresses_of(case)
    assert reached["records"].is_blank and not reached["records"].is_missed
    assert reached["duplicated heads"].declared
