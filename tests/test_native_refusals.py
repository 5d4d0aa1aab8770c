"""The legacy sender refuses under documented codes, each for its own reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.native import compatibility, make, mappers
from differential.subjects.native.link import Link
from differential.subjects.native.pairing import Mapped
from differential.subjects.native.rank_info import RankInfo
from differential.subjects.native.refusals import CODES, Refused
from differential.subjects.native.settings import Settings
from differential.subjects.native.views import Group, Table, View
from oracle.model.case import Case, Native, Request, SideState, SlotList
from oracle.model.errors import InvalidCase
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from oracle.model.writes import Refusal, Writes
from tests.small_cases import case_of, group, model_of

INDEXED = Native((("all", "indexed"),))
STATE = Native((("all", "indexed"), ("conv", "sectioned"), ("ple", "replicated")))
KV = group("key @ 0 : H(4).heads T D(2) ; 8", "value @ 0 : H(4).heads T D(2) ; 8")
LATENT = group("key @ 0 : T D(2) ; 8")


def state(*buffers: str, layers: int = 2) -> object:
    return model_of(LATENT, group(*buffers, name="state", state=True), layers=layers)


def chunked(**options: object) -> Case:
    return case_of(requests=(Request(0, 8, cuts=(4,)),), native=STATE, **options)  # type: ignore[arg-type]


CASES: dict[str, tuple[str, Case]] = {
    "context_parallel_unsupported": ("", case_of(LATENT, "tp1 cp2", "tp1 cp2", prompts=8, native=INDEXED)),
    "element_size_differs": ("", case_of(KV, generation_side={"element_bits": (("key", 16),)}, native=INDEXED)),
    "shard_counts_not_divisible": ("", case_of(state("ssm @ 1 : H(6).even@TPCP P(1) ; 8"), "tp2", "tp3", native=STATE)),
    "no_legacy_rule": ("", case_of(KV)),
    "helix_tokens_per_block_differ": (
        "",
        case_of(LATENT, "tp1", "tp1 cp2", prompts=8, generation_side={"tokens_per_block": 4}, native=INDEXED),
    ),
    "tokens_per_block_differ": (
        "",
        case_of(KV, sides={"layout": "NHD"}, generation_side={"tokens_per_block": 4}, native=INDEXED),
    ),
    "latent_heads_not_one": ("", case_of("key @ 0 : H(4).heads T D(2) ; 8", native=INDEXED)),
    "state_head_bytes_differ": (
        "",
        case_of(
            state("ssm @ 1 : H(4).even@TPCP P(1) ; 8"), generation_side={"element_bits": (("ssm", 16),)}, native=STATE
        ),
    ),
    "state_sizes_differ": ("", case_of(state("ssm @ 1 : H(4) P(1) ; 8"), "tp1", "tp2", native=STATE)),
    "replicated_state_differs": (
        "",
        case_of(
            state("ssm @ 1 : H(4).even@TPCP P(1) ; 8", "ple @ 1 : D(3) ; 8 ; optional(either)"),
            generation_side={"without": (Without(("ple",), LayerSet((1,))),)},
            native=STATE,
        ),
    ),
    "mapper_kinds_differ": (
        "",
        case_of(KV, context_side={"layout": "HND"}, generation_side={"layout": "NHD"}, native=INDEXED),
    ),
    "mapper_kind_not_allowed": (
        "",
        case_of(state("ssm @ 1 : H(4).even@TPCP P(1) ; 8"), native=Native((("all", "nhd"),))),
    ),
    "view_geometry_differs": (
        "",
        case_of(
            state("ssm @ 1 : H(4).even@TPCP P(1) ; 8", "other @ 1 : H(2).even@TPCP P(2) ; 8"),
            native=STATE,
        ),
    ),
    "view_geometry_wrong": ("", case_of(state("conv @ 1 : H(4).even@TPCP P(1) ; 8"), native=STATE)),
    "layer_regions_differ": (
        "",
        case_of(model_of(group("key @ 0..1 : T D(2) ; 8", "extra @ 1 : T D(2) ; 8"), layers=2), native=INDEXED),
    ),
    "layer_region_not_contiguous": (
        "",
        case_of(
            group("key @ 0 : H(4).heads T D(2) ; 8 ; pad(32)", "value @ 0 : H(4).heads T D(2) ; 8 ; pad(32)"),
            native=INDEXED,
        ),
    ),
    "region_sizes_differ": ("", case_of(KV, generation_side={"tokens_per_block": 4}, native=INDEXED)),
    "head_bytes_differ": (
        "",
        case_of(
            group("key @ 0 : H(6).floor T D(2) ; 8", "value @ 0 : H(6).floor T D(2) ; 8"), "tp4", "tp2", native=INDEXED
        ),
    ),
    "list_lengths_differ": ("", case_of(LATENT, "tp1 cp2", "tp1", prompts=4, native=INDEXED)),
    "destination_lists_more_blocks_than_source": (
        "suffix",
        case_of(
            LATENT,
            prompts=4,
            native=INDEXED,
            tables=(SlotList("context", 0, "kv", 0, (-1, 1)), SlotList("generation", 0, "kv", 0, (1, 0))),
        ),
    ),
    "helix_prefix_reuse": (
        "",
        case_of(LATENT, "tp1", "tp1 cp2", requests=(Request(0, 8, generation=SideState(cached=2)),), native=INDEXED),
    ),
    "helix_window": (
        "",
        case_of(group("key @ 0 : T D(2) ; 8", window=5), "tp1", "tp1 cp2", prompts=8, native=INDEXED),
    ),
    "fewer_blocks_than_context_parallel": ("", case_of(LATENT, "tp1", "tp1 cp2", prompts=2, native=INDEXED)),
    "chunks_with_state": ("", chunked(model=state("ssm @ 1 : H(4).even@TPCP P(1) ; 8"))),
    "chunks_with_pipeline": (
        "",
        chunked(model=model_of(group("key @ 0..1 : T D(2) ; 8"), layers=2), context="tp1 pp1+1"),
    ),
}
OF_REQUESTS = {
    "list_lengths_differ",
    "destination_lists_more_blocks_than_source",
    "helix_prefix_reuse",
    "helix_window",
    "fewer_blocks_than_context_parallel",
    "chunks_with_state",
    "chunks_with_pipeline",
}
BY_HAND = {
    "latent_differs",
    "head_dims_differ",
    "head_bytes_not_whole",
    "section_counts_differ",
    "section_sizes_differ",
    "buffer_counts_differ",
}
"""Codes that no two instances of one model reach: their rules are asked directly, below."""


@pytest.mark.parametrize("code", CASES)
def test_a_case_is_refused_under_its_code(code: str) -> None:
    options, case = CASES[code]
    plan = make(options).plan(case, gather_facts(case))
    if code in OF_REQUESTS:
        assert isinstance(plan, Writes)
        assert [(refusal.code, refusal.request) for refusal in plan.refusals] == [(code, 0)]
        assert not plan.segments
        assert not plan.pairs
    else:
        assert isinstance(plan, Refusal)
        assert (plan.code, plan.request) == (code, None)


def test_every_code_has_an_example() -> None:
    assert set(CASES) | BY_HAND == set(CODES)
    assert not OF_REQUESTS - set(CASES)


def peers(case: Case) -> tuple[RankInfo, RankInfo]:
    link = Link(case, gather_facts(case), Settings())
    return link.context[0], link.generation[0]


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("latent_differs", {"latent": True}),
        ("element_size_differs", {"element_bits": 4}),
        ("head_dims_differ", {"dims": 3}),
    ],
)
def test_a_field_of_the_attention_record_that_differs_is_refused(code: str, changes: dict[str, object]) -> None:
    own, peer = peers(case_of(KV, native=INDEXED))
    compatibility.check_peers(own, peer, Settings())
    with pytest.raises(Refused) as refusal:
        compatibility.check_peers(own, replace(peer, attention=replace(peer.attention, **changes)), Settings())
    assert refusal.value.code == code


def test_heads_of_half_bytes_are_refused_where_they_are_cut() -> None:
    own, peer = peers(case_of(KV, "tp1", "tp2", native=INDEXED))
    odd = {"tokens_per_block": 1, "dims": 3, "element_bits": 4}
    own, peer = (replace(each, attention=replace(each.attention, **odd)) for each in (own, peer))
    with pytest.raises(Refused, match="a head of one block has 12 bits"):
        compatibility.check_peers(own, peer, Settings())
    compatibility.check_peers(own, own, Settings())


def with_sections(info: RankInfo, sizes: tuple[int, ...]) -> RankInfo:
    (view,) = info.table.state_views()
    group = next(group for group in info.table.groups if not group.paged)
    changed = replace(view, geometry=("sections", sizes))
    return replace(info, table=Table((Group(group.index, False, group.layers, (changed,)),)))


@pytest.mark.parametrize(("code", "sizes"), [("section_counts_differ", (8, 8)), ("section_sizes_differ", (6, 6, 4))])
def test_sections_that_differ_in_number_or_size_are_refused(code: str, sizes: tuple[int, ...]) -> None:
    own, peer = peers(case_of(state("conv @ 1 : C[x:8.even, B:4.even, C:4.even]@TPCP ; 8"), native=STATE))
    compatibility.check_peers(own, peer, Settings())
    with pytest.raises(Refused) as refusal:
        compatibility.check_peers(own, with_sections(peer, sizes), Settings())
    assert refusal.value.code == code


def test_views_with_unequal_buffers_a_layer_are_refused_where_heads_are_cut() -> None:
    own, peer = peers(case_of(KV, "tp1", "tp2", native=INDEXED))
    roles = frozenset(("key", "value"))
    two = View(0, 0, "indexed", True, roles, ((0, 0, 8, "key"), (8, 0, 8, "value")), ("none", ()))
    one = View(0, 0, "indexed", True, roles, ((0, 0, 8, "key"),), ("none", ()))
    with pytest.raises(Refused) as refusal:
        mappers.uncut_runs(Mapped(two, one, (0,)), own, peer)
    assert refusal.value.code == "buffer_counts_differ"


def test_buffers_of_unequal_size_in_one_view_are_refused_where_heads_are_cut() -> None:
    kv = group("key @ 0 : H(4).heads T D(2) ; 8", "value @ 0 : H(4).heads T D(3) ; 8")
    packing = {"packing": (("kv", "interleaved"),)}
    cut, whole = (case_of(kv, "tp1", generation, sides=packing, native=INDEXED) for generation in ("tp2", "tp1"))
    plan = make().plan(cut, gather_facts(cut))
    assert isinstance(plan, Refusal)
    assert plan.code == "view_geometry_differs"
    assert isinstance(make().plan(whole, gather_facts(whole)), Writes)


def test_helix_is_refused_where_it_is_not_known() -> None:
    case = case_of(LATENT, "tp1", "tp1 cp2", prompts=8, native=INDEXED)
    for options, served in (("", True), ("suffix", True), ("no-helix", False), ("suffix,no-helix", False)):
        plan = make(options).plan(case, gather_facts(case))
        assert isinstance(plan, Writes) is served
        assert served or plan.code == "context_parallel_unsupported"


def test_another_request_is_still_served_where_one_is_refused() -> None:
    case = case_of(LATENT, "tp1", "tp1 cp2", prompts=(2, 8), native=INDEXED)
    plan = make().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    assert [refusal.request for refusal in plan.refusals] == [0]
    assert {segment.request for segment in plan.segments} == {1}
    assert {pair.request for pair in plan.pairs} == {1}


def test_a_role_that_is_ignored_is_not_sent() -> None:
    kv = group("key @ 0 : T D(2) ; 8", "index_value @ 0 : T D(3) ; 8")
    sent = {}
    for ignored in ((), ("index_value",)):
        case = case_of(kv, native=Native((("all", "replicated"),), ignored))
        plan = make().plan(case, gather_facts(case))
        assert isinstance(plan, Writes)
        sent[ignored] = plan.nbytes
    assert sent == {(): 10, ("index_value",): 4}


def test_views_without_a_partner_are_skipped_without_a_word() -> None:
    case = case_of(
        KV,
        context_side={"packing": (("kv", "separate"),)},
        generation_side={"packing": (("kv", "key+value"),)},
        native=INDEXED,
    )
    plan = make().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    assert not plan.segments
    assert len(plan.pairs) == 1


def test_a_request_wide_buffer_goes_only_to_the_rank_that_has_it_on_the_same_layer() -> None:
    kv = group("key @ 0..1 : T D(2) ; 8", "position @ 0..1 : T D(3) ; 8 ; request ; first_local")
    native = Native((("all", "indexed"), ("position", "replicated")))
    case = case_of(model_of(kv, layers=2), "tp1", "tp1 pp1+1", native=native)
    plan = make().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    assert sorted((segment.destination_rank, segment.nbytes) for segment in plan.segments) == [(0, 4), (0, 6), (1, 4)]


@pytest.mark.parametrize("options", ["helix", "suffix,suffix", " suffix", "suffix,"])
def test_unknown_options_are_an_invalid_case(options: str) -> None:
    with pytest.raises(InvalidCase, match="expected nothing or each of suffix, no-helix once"):
        make(options)


@pytest.mark.parametrize("options", ["", "suffix", "suffix,no-helix", "no-helix"])
def test_the_subject_is_named_by_its_options(options: str) -> None:
    assert make(options).name == ("native:" + options if options else "native")
    assert make(options).election == "own"


def test_a_code_that_is_not_documented_cannot_be_refused_under() -> None:
    with pytest.raises(LookupError, match="not documented"):
        Refused("because", "no reason")
