"""Draft layers: after the target's, of its kind or another, in a manager apart, and on one side only."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from differential.ledger import check_case, settle
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from oracle.model.case import Case, Request
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from strategies.kinds.draft import LACKING, Width, declare
from strategies.kinds.protocol import Declaration
from strategies.topologies import even_cut, with_extra
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of, roles_of
from tests.ledger_cases import compared, subjects

LATENT = Width(0, 576)
LLAMA, EAGLE = Width(8, 128), Width(4, 128)
"""Llama-3 70B with a draft layer of fewer heads, as EAGLE-3 appends it."""


def case_of(
    declared: Declaration, context: tuple[int, int] = (1, 1), generation: tuple[int, int] = (1, 1), prompt: int = 5
) -> Case:
    """Both sides given as (tp, stages), extra layers on the last one; blocks of 2 tokens."""
    sides = []
    for side, (tp, pp), without in zip(("context", "generation"), (context, generation), declared.without, strict=True):
        stages = with_extra(even_cut(declared.model.layers - declared.extra, pp), declared.extra_of(side))
        sides.append(Instance(Topology(tp, stages), 2, "HND", without=without))
    return Case(declared.model, *sides, (Request(0, prompt),), native=declared.native)


def nbytes_by_layer(case: Case, side: str) -> dict[int, int]:
    """Bytes of a block by layer, over all ranks of tensor coordinate 0."""
    found: dict[int, int] = {}
    for rank in case.side(side).topology.ranks():
        for entry in lay_out(case, side).tables[rank.number].entries if rank.tp == 0 else ():
            found[entry.layer] = found.get(entry.layer, 0) + entry.nbytes
    return found


# ---- where they stand (spec: kinds, stages and draft layers)


def test_mtp_of_deepseek_v3_is_on_the_last_stage_of_31_and_30_layers() -> None:
    first, second = deployed("deepseek-v3", pp=2)
    assert pools_of(first) == [(31 * 32 * 1152, 31)]
    assert pools_of(second) == [(31 * 32 * 1152, 31)]
    assert [entry.layer for entry in second.entries][-1] == 61


@pytest.mark.parametrize(("pp", "stages"), [(1, (81,)), (2, (40, 41)), (3, (27, 27, 27)), (8, (10,) * 7 + (11,))])
def test_a_layer_that_is_appended_stands_on_the_last_stage_whatever_the_cut(pp: int, stages: tuple[int, ...]) -> None:
    case = case_of(declare(80, 1, LLAMA, EAGLE), (1, pp))
    assert case.context.topology.stages == stages
    assert [80 in {e.layer for e in table.entries} for table in lay_out(case, "context").tables] == [False] * (
        pp - 1
    ) + [True]


@pytest.mark.parametrize(
    ("tp", "pools"),
    [(1, [(160 * 4096, 160), (2 * 2048, 2)]), (4, [(160 * 1024, 160), (2 * 512, 2)]), (8, [(162 * 512, 162)])],
)
def test_its_own_head_count_gives_it_a_pool_until_one_head_is_left_to_each_rank(
    tp: int, pools: list[tuple[int, int]]
) -> None:
    table = lay_out(case_of(declare(80, 1, LLAMA, EAGLE), (tp, 1)), "context").tables[0]
    assert pools_of(table) == pools and roles_of(table) == [{"key", "value"}] * len(pools)


def test_a_manager_apart_has_a_domain_roles_of_its_own_and_a_pool_group_of_its_own() -> None:
    declared = declare(80, 1, LLAMA, LATENT, apart=True)
    target, draft = declared.model.groups
    assert (target.domain, draft.domain) == ("", "draft")
    assert [buffer.role for buffer in draft.buffers] == ["draft"] and draft.layers == (80,)
    assert declared.native is not None and declared.native.mapper_of("draft") == "replicated"
    (table,) = lay_out(case_of(declared), "context").tables
    assert pools_of(table, 1) == [(2 * 1152, 1)] and [pool.pool_group for pool in table.pools] == [0, 1]


def test_a_target_may_keep_windows_and_its_draft_everything() -> None:
    local, full = declare(3, 1, LLAMA, EAGLE, window=9).model.groups
    assert (local.layers, local.window) == ((0, 2), 9)
    assert (full.layers, full.window) == ((1, 3), None)


# ---- on one side only


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("pp", [1, 2])
def test_the_side_without_draft_layers_has_stages_of_the_target_alone(apart: bool, pp: int) -> None:
    declared = declare(4, 2, Width(4, 2), Width(2, 1), apart=apart, lacking=("context",))
    case = case_of(declared, (2, pp), (1, 2))
    assert case.context.topology.stages == even_cut(4, pp) and case.generation.topology.stages == (2, 4)
    assert set(nbytes_by_layer(case, "context")) == set(range(4))
    assert set(nbytes_by_layer(case, "generation")) == set(range(6))
    checked = check_case(case, subjects("native", "native:suffix"))
    assert checked.passed
    verdict = checked.result.verdicts["mapping"]
    assert verdict and verdict.nbytes == 3 * sum(nbytes_by_layer(case, "generation")[layer] for layer in range(4))


@pytest.mark.parametrize("side", ["context", "generation"])
def test_of_two_draft_layers_a_side_may_lack_the_last(side: str) -> None:
    declared = declare(2, 2, Width(2, 2), Width(2, 2), lacking=(side, "last"))
    case = case_of(declared, (2, 1), (1, 2))
    assert sum(case.side(side).topology.stages) == 4
    assert set(nbytes_by_layer(case, side)) == {0, 1, 2}
    checked = check_case(case, subjects("native"))
    assert checked.passed and checked.settled[0].identical
    # Three blocks of three layers: a key and a value of two heads of two elements for each of two tokens.
    assert checked.result.verdicts["mapping"].nbytes == 3 * 3 * 2 * (2 * 2 * 2) * 2


def test_a_stage_of_draft_layers_that_the_sender_lacks_hears_from_nobody() -> None:
    declared = declare(1, 1, Width(1, 1), Width(1, 1), lacking=("context",))
    sides = Instance(Topology(1, (1,)), without=declared.without[0]), Instance(Topology(1, (1, 1)))
    case = Case(declared.model, *sides, (Request(0, 1),), native=declared.native)
    checked = check_case(case, subjects("native", "native:suffix"))
    assert checked.passed and checked.result.verdicts["mapping"].pairs == 1


def test_layers_of_the_target_may_not_be_lacking() -> None:
    declared = declare(2, 1, Width(2, 1), Width(1, 1), lacking=("generation", "last"))
    model = replace(declared.model, draft=LayerSet())
    side = Instance(Topology(1, (3,)))
    with pytest.raises(InvalidCase, match="only optional buffers and draft layers may be lacking"):
        Case(model, side, replace(side, without=declared.without[1]), (Request(0, 1),))


# ---- what the legacy sender makes of them


def test_reported_heads_are_those_of_a_layer_that_the_rank_holds() -> None:
    """Layers stand in reverse, so a draft would come first; the generation side lacks it, and reports the target's."""
    declared = declare(1, 1, Width(4, 1), Width(1, 1), lacking=("generation", "last"))
    sides = (
        Instance(Topology(1, (2,)), 1, "HND"),
        Instance(Topology(1, (2,)), 1, "HND", layer_order=(1, 0), without=declared.without[1]),
    )
    case = Case(declared.model, *sides, (Request(0, 1),), native=declared.native)
    assert compared(case).identical


def test_unequal_layers_of_one_view_are_refused_as_such_before_their_heads_are_cut() -> None:
    """One pool a role: target and draft are one view, of layers of two sizes (spec: legacy sender, 2)."""
    declared = declare(2, 1, Width(4, 2), Width(1, 4))
    case = case_of(declared, (2, 1))
    sides = (replace(side, packing=(("full", "separate"),)) for side in (case.context, case.generation))
    case = Case(case.model, *sides, case.requests, native=case.native)
    comparison = compared(case)
    assert [each.code for each in comparison.refusals] == ["layer_regions_differ"]
    assert settle(case, comparison).open.identical


def test_drafts_that_coalesce_with_the_target_on_the_sender_alone_are_not_sent() -> None:
    """Two heads of one element are as large as one of two; on two ranks they are not, and have a view of their own."""
    case = case_of(declare(2, 1, Width(2, 1), Width(1, 2)), (1, 1), (2, 1))
    settled = settle(case, compared(case))
    assert list(settled.accepted) == ["view-split-on-the-receiver"] and settled.open.identical
    assert {each.layer for each in settled.accepted["view-split-on-the-receiver"]} == {2}
    assert run_case(case, [Mapping()]).verdicts["mapping"]


def test_a_stage_with_a_draft_apart_alone_reports_no_heads() -> None:
    """A latent draft is replicated and has a manager of its own; the target's has no layer there."""
    declared = declare(2, 1, Width(0, 1), Width(0, 1), apart=True)
    sides = Instance(Topology(1, (2, 1))), Instance(Topology(1, (1, 2)))
    case = Case(declared.model, *sides, (Request(0, 1),), native=declared.native)
    settled = settle(case, compared(case))
    assert list(settled.accepted) == ["stage-without-attention"] and settled.open.identical


# ---- what is drawn


def test_every_number_builds_and_cases_stay_small() -> None:
    build_samples("draft", 3_000)
    cases = drawn("draft")
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512


def test_drawn_cases_have_each_arrangement_of_targets_and_drafts() -> None:
    found: dict[str, int] = {}
    for case in drawn("draft"):
        group = case.model.groups[-1]
        drafts = {(b.role, b.parts[0].axes) for b in group.buffers if set(b.layers) & set(case.model.draft)}
        targets = {(b.role, b.parts[0].axes) for g in case.model.groups for b in g.buffers if 0 in b.layers}
        names = "apart" if group.domain else "inside" if drafts <= targets else "appended"
        latents = f"{'latent' if len(targets) == 1 else 'heads'} and {'latent' if len(drafts) == 1 else 'heads'}"
        found[f"{names}: {latents}"] = found.get(f"{names}: {latents}", 0) + 1
    assert found.keys() == {
        "inside: heads and heads",
        "inside: latent and latent",
        "appended: heads and heads",
        "apart: heads and heads",
        "apart: latent and latent",
        "apart: heads and latent",
    }
    assert min(found.values()) >= 10


def test_drawn_sides_lack_all_drafts_the_last_of_two_or_none() -> None:
    found = set()
    for case in drawn("draft"):
        drafts = set(case.model.draft)
        for name in ("context", "generation"):
            gone = {layer for lack in case.side(name).without for layer in lack.layers}
            found.add((name, "all" if gone == drafts else "some" if gone else "none"))
    assert found == {(side, how) for side in ("context", "generation") for how in ("all", "some", "none")}
    assert len(LACKING) == 8


def test_drawn_drafts_are_on_the_last_stage_with_others_or_alone() -> None:
    alone = beside = 0
    for case in drawn("draft"):
        topology = case.generation.topology
        held = set(topology.stage_layers(topology.pp - 1))
        if topology.pp > 1 and held & set(case.model.draft):
            alone += held <= set(case.model.draft)
            beside += not held <= set(case.model.draft)
    assert alone >= 3 and beside >= 20
