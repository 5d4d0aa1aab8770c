"""KDA hybrids: three equal sections beside latents, sharded now and replicated in an older declaration."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.runner import Kind
from differential.subjects.mapping import Mapping
from differential.subjects.registry import find_subject
from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from oracle.model.writes import Refusal, Writes
from oracle.truth.judge import judge
from strategies.deployments import deployment
from strategies.kinds import find_kind, kda
from strategies.kinds.protocol import Surroundings
from tests.kind_cases import build_samples, bytes_by_rank, deployed, drawn, pools_of
from tests.recurrent_cases import REACHED, buffer_of, one_rank, section_bytes, shapes, sizes

LINEAR, K3 = "kimi-linear-48b", "kimi-k3"
KINDS = ("kda", "kda_replicated")

# ---- at the published sizes (spec: kinds, KDA and published shapes)


@pytest.mark.parametrize(
    ("model", "recurrent", "latents", "state", "convolution"),
    [(LINEAR, 20, 7, 2 * 2**20, 73_728), (K3, 69, 24, 6_291_456, 221_184)],
)
def test_layers_and_state_bytes_are_the_published_ones(
    model: str, recurrent: int, latents: int, state: int, convolution: int
) -> None:
    table = one_rank(model)
    assert pools_of(table, 0) == [(recurrent * state, recurrent), (recurrent * convolution, recurrent)]
    assert pools_of(table, 1) == [(latents * 32 * 1_152, latents)]
    assert {role: size for role, size in sizes(table).items() if role != "key"} == {
        "ssm_state": {state},
        "conv_state": {convolution},
    }


def test_kimi_k3_keeps_449_mb_of_state_for_a_request() -> None:
    total = sum(entry.nbytes for entry in one_rank(K3).entries if entry.group == 0)
    assert total == 69 * (96 * 128 * 128 * 4 + 3 * 96 * 128 * 3 * 2) == 449_372_160


@pytest.mark.parametrize("model", [LINEAR, K3])
def test_every_fourth_layer_and_the_last_one_have_a_latent(model: str) -> None:
    case = deployment(model, {}, {}, prompt=1)
    state, kv = case.model.groups
    last = case.model.layers - 1
    assert kv.layers == (*range(3, last, 4), last)
    assert sorted((*state.layers, *kv.layers)) == list(range(last + 1))


@pytest.mark.parametrize("tp", [1, 8])
def test_the_three_sections_are_equal(tp: int) -> None:
    case = deployment(K3, {"tp": tp}, {}, prompt=1)
    assert section_bytes(case, "conv_state", tp) == (73_728 // tp,) * 3
    assert sizes(deployed(K3, tp=tp)[0])["key"] == {32 * 1_152}


def test_two_sections_that_change_places_are_seen_though_all_are_of_one_size() -> None:
    model = kda.declare("SA", 1, 16, 2, 2, 1).model
    sides = [Instance(Topology(tp, (2,)), 1) for tp in (2, 1)]
    case = Case(model, *sides, (Request(0, 1),))
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes)
    table = gather_facts(case).context[0].table
    pool = next(entry.pool for entry in table.entries if entry.role == "conv_state")
    segments = []
    for segment in plan.segments:
        if segment.group == 0 and segment.source_pool == pool:
            runs = segment.runs.copy()
            runs[[0, 1], 0] = runs[[1, 0], 0]
            segment = replace(segment, runs=runs)
        segments.append(segment)
    verdict = judge(case, replace(plan, segments=tuple(segments)))
    assert {violation.kind for violation in verdict.violations} == {Kind.WRONG_ELEMENT}
    assert judge(case, plan)


# ---- the older declaration (spec: kinds, KDA, history)


def replicated(tp: int, own_tp: int, cp: int = 1) -> Case:
    declared = kda.declare("SA", 2, 16, 4, 2, 3, replicated=True)
    sides = Instance(Topology(tp, (2,)), 2), Instance(Topology(own_tp, (2,), cp), 2)
    return Case(declared.model, *sides, (Request(0, 9),), native=declared.native, kind="kda_replicated")


@pytest.mark.parametrize(("tp", "own_tp"), [(1, 2), (2, 1), (4, 2)])
def test_unequal_grids_are_refused_by_the_legacy_sender_and_served_by_the_mapping(tp: int, own_tp: int) -> None:
    case = replicated(tp, own_tp)
    refusal = find_subject("native").plan(case, gather_facts(case))
    assert isinstance(refusal, Refusal) and refusal.code == "state_sizes_differ"
    checked = check_case(case, [find_subject(name) for name in ("mapping", "native")])
    assert checked.result.verdicts["mapping"] and checked.passed
    assert list(checked.settled[0].accepted) == ["whole-state-declared-as-shares"]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_equal_tensor_sizes_are_served_alike(tp: int) -> None:
    checked = check_case(replicated(tp, tp), [find_subject(name) for name in ("mapping", "native")])
    assert checked.passed and checked.settled[0].identical


def test_under_helix_the_grid_partner_sends_what_the_elected_rank_would() -> None:
    checked = check_case(replicated(2, 1, 2), [find_subject(name) for name in ("mapping", "native")])
    assert checked.passed and list(checked.settled[0].accepted) == ["whole-state-from-the-grid-partner"]
    found = checked.settled[0].accepted["whole-state-from-the-grid-partner"]
    assert {(each.destination, each.first_senders, each.second_senders) for each in found} == {(1, (0,), (1,))}
    assert {each.role for each in found} == {"ssm_state", "conv_state"}


def test_every_rank_holds_the_whole_state() -> None:
    for tp in (1, 2, 4):
        around = Surroundings(2, (tp, tp), (tp, tp))
        axes = find_kind("kda_replicated").decode((0,) * 6, around).model.groups[0].buffers[0].parts[0].axes
        assert not any(axis.is_split for axis in axes)


# ---- what is drawn


@pytest.mark.parametrize("kind", KINDS)
def test_every_combination_of_numbers_is_a_model(kind: str) -> None:
    build_samples(kind, 3_000)


@pytest.mark.parametrize("kind", KINDS)
def test_the_simplest_model_is_a_recurrent_layer_and_a_latent(kind: str) -> None:
    state, kv = find_kind(kind).decode((0,) * 6, Surroundings(2)).model.groups
    assert (state.layers, kv.layers) == ((0,), (1,))
    assert [buffer.role for buffer in (*state.buffers, *kv.buffers)] == ["ssm_state", "conv_state", "key"]
    assert [section.size for section in state.buffers[1].parts[0].axes[0].sections] == [1, 1, 1]


SHAPES = REACHED | {
    "latents on several ranks": lambda case: max(shape.tensor for shape in shapes(case)) > 1,
    "FP8 latents": lambda case: buffer_of(case, "key").parts[0].bits == 8,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_shape_is_drawn_several_times_in_300_cases(kind: str, shape: str) -> None:
    assert sum(map(SHAPES[shape], drawn(kind))) >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_models_are_small_but_not_trivial(kind: str) -> None:
    cases = drawn(kind)
    assert median(case.model.layers for case in cases) >= 2
    assert median(map(bytes_by_rank, cases)) < 512 and max(map(bytes_by_rank, cases)) < 16_384
