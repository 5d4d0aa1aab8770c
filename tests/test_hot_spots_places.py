"""Hot spots of places and layers: shared pools, owners by stage, what a side lacks, empty stages, uneven layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from differential.grid import FURTHER, UPSTREAM
from differential.subjects.mapping import Pages, check_compatible
from oracle.model.buffers import Model, MoveState
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Segment, Writes
from strategies.kinds import csa2, draft, fp4_mla, mamba2, minimax_m3, qwen4_exp, vswa
from strategies.kinds.pieces import layers
from strategies.kinds.protocol import Declaration
from strategies.kinds.recurrent import STATE, delta_net, on_layers
from tests.hot_spots import (
    TOKENS,
    Kind,
    Run,
    accepted,
    between,
    entry_of,
    judged,
    of_native,
    plan_of,
    planted,
    reported,
    right_plan,
    runs_of,
    served,
    slot_of,
    tables_of,
)
from tests.kind_cases import share_a_pool

WINDOW = TOKENS + 1

# ---- 2: the same bytes of a slot are of other layers


def shared_pool(prompt: int = 9) -> Case:
    return between(vswa.declare(4, [(WINDOW, (0, 2))], 1, 2, 8), "tp1", "tp2", prompt=prompt)


def test_two_groups_of_one_pool_group_are_served_from_slots_of_their_own() -> None:
    case = shared_pool()
    for side in ("context", "generation"):
        table, slots = lay_out(case, side).tables[0], lay_out(case, side).slots[0]
        assert [entry.pool for entry in table.entries] == [0] * 8
        assert {entry.offset for entry in table.entries if entry.group == 0} == {
            entry.offset for entry in table.entries if entry.group == 1
        }
        assert set(slots[0][0].tolist()).isdisjoint(slots[1][0].tolist())
    assert {(run.group, run.layer % 2) for run in served(case)} == {(0, 0), (1, 1)}


def exchanged(plan: Writes, end: str) -> Writes:
    """``plan`` with the slots at one end of each group's segments taken from the other group's, as far as they go."""
    other = {
        (1 - each.group, each.source_rank, each.destination_rank): getattr(each, f"{end}_bases")
        for each in plan.segments
    }

    def change(segment: Segment) -> Segment:
        there = other[segment.group, segment.source_rank, segment.destination_rank]
        own = getattr(segment, f"{end}_bases")
        many = min(len(own), len(there))
        bases = np.concatenate([there[-many:], own[: len(own) - many]])
        return replace(segment, **{f"{end}_bases": bases})

    return replace(plan, segments=tuple(map(change, plan.segments)))


def test_a_slot_of_one_group_in_the_list_of_the_other_is_reported() -> None:
    case = shared_pool()
    plan = right_plan(case)
    assert {segment.group for segment in plan.segments} == {0, 1}
    assert reported(case, exchanged(plan, "source")) == {Kind.WRONG_ELEMENT}
    assert Kind.WRONG_ELEMENT in reported(case, exchanged(plan, "destination"))


# ---- 3 and 10: who holds what depends on the stage


def qwen(mask: str = "SASA", ple: int = 0) -> Declaration:
    recurrent = delta_net(on_layers(mask, STATE), 2, 2, 4, 1, 1)
    embedding = qwen4_exp.embedding(layers((ple,)), 2, 1, 1, context_first=False)
    return qwen4_exp.declare(mask, 2, 2, 16, 2, 16, (*recurrent, *embedding))


POSITIONS = "qsa_index_position"


def test_positions_are_served_from_the_first_local_layer_by_their_role_alone() -> None:
    case = between(qwen(), "tp1", "tp1 pp2+2")
    moved = {(run.source_layer, run.layer, run.destination) for run in served(case) if run.role == POSITIONS}
    assert moved == {(1, 1, 0), (1, 3, 1)}
    back = between(qwen(), "tp1 pp2+2", "tp1")
    assert {(run.source, run.layer) for run in served(back) if run.role == POSITIONS} == {(0, 1)}


def test_positions_taken_for_a_buffer_of_a_layer_are_missing_on_the_second_stage() -> None:
    case = between(qwen(), "tp1", "tp1 pp2+2")
    plan = planted(case, lambda run: run if run.source_layer == run.layer else None)
    verdict = judged(case, plan)
    assert {(each.kind, each.role, each.destination) for each in verdict.violations} == {(Kind.MISSING, POSITIONS, 1)}
    # Which is what the legacy sender does: without a counterpart of the layer, nothing is sent and nobody refuses.
    own = of_native(case)
    assert own.counts == verdict.counts and not own.refusals
    assert accepted(case) == {"request-wide-buffer-by-layer"}


MASKED = {
    "no attention": mamba2.declare("SSAS", 2, 1, 16, 2, 1, 1, 2, 1),
    "no state": mamba2.declare("SAAA", 2, 1, 16, 2, 1, 1, 2, 1),
    "neither": mamba2.declare("SA--", 2, 1, 16, 2, 1, 1, 2, 1),
    "no index key": minimax_m3.declare(4, 2, 2, 16, (2, 3), 2, 16),
    "no window": vswa.declare(4, [(WINDOW, (0, 1))], 2, 1, 16),
    "no positions": qwen("SSSA"),
    "no fallback": fp4_mla.declare(4, (3,), stored=4, latent=2, values=2, tile=2, ring=WINDOW, tokens_per_block=TOKENS),
}
STAGES = (("tp1 pp2+2", "tp2"), ("tp2", "tp1 pp2+2"), ("tp2 pp1+3", "tp1 pp2+2"), ("tp1 pp0+4", "tp1 pp2+0+2"))


@pytest.mark.parametrize("what", MASKED)
@pytest.mark.parametrize("stages", STAGES, ids=" → ".join)
def test_stages_without_buffers_of_a_group_or_role_are_served(what: str, stages: tuple[str, str]) -> None:
    case = between(MASKED[what], *stages)
    held = [{(entry.group, entry.role) for entry in table.entries} for tables in tables_of(case) for table in tables]
    assert len(set(map(frozenset, held))) > 1  # some rank has less than another
    due = set.union(*held) - {(group, role) for group, role in set.union(*held) if role.startswith("mla_v_")}
    assert {(run.group, run.role) for run in served(case)} == due


def test_a_sender_that_leaves_out_stages_without_attention_is_reported() -> None:
    case = between(MASKED["no attention"], "tp1 pp2+2", "tp1")
    stage = {entry.group for entry in tables_of(case)[0][0].entries}
    assert len(stage) == 1
    verdict = judged(case, planted(case, lambda run: None if run.source == 0 else run))
    assert {each.kind for each in verdict.violations} == {Kind.MISSING}
    assert {each.layer for each in verdict.violations} == {0, 1}
    assert accepted(case) == {"stage-without-attention"}


# ---- 4: absence is declared, or refused


def replayed(lacks: bool) -> Case:
    return between(csa2.declare((0, 2, 1, 1), (1, 2), WINDOW, csa2.SIZES[0], replay=9, lacks=lacks))


def test_windows_that_the_receiver_rebuilds_do_not_move_whether_the_sender_has_them_or_not() -> None:
    for lacks in (False, True):
        case = replayed(lacks)
        holders = [{entry.layer for entry in table.entries if entry.role == "csa2_swa"} for (table,) in tables_of(case)]
        assert holders == [{0, 1} if lacks else {0, 1, 2, 3}, {0, 1, 2, 3}]
        assert {run.layer for run in served(case) if run.role == "csa2_swa"} == {0, 1}


def also(case: Case, run: Run) -> Writes:
    """The right plan and one more run."""
    plan = right_plan(case)
    return plan_of(case, [*runs_of(case, plan), run], plan)


def whole(case: Case, group: int, layer: int, role: str, ordinal: int) -> Run:
    """The run that copies one buffer of one block between first ranks."""
    nbytes = entry_of(tables_of(case)[1][0], group, layer, role).nbytes
    slots = [slot_of(case, side, 0, group, ordinal) for side in ("context", "generation")]
    return Run(group, layer, role, 0, 0, *slots, 0, 0, nbytes, layer)


def test_a_write_to_what_the_receiver_rebuilds_or_derives_is_reported() -> None:
    case = replayed(False)
    (group,) = {entry.group for entry in tables_of(case)[1][0].entries if (entry.layer, entry.role) == (3, "csa2_swa")}
    assert reported(case, also(case, whole(case, group, 3, "csa2_swa", 2))) == {Kind.STRAY}
    case = between(MASKED["no fallback"])
    assert {run.role for run in served(case)} == {"key", "key_block_scale", "mla_hp_tail"}
    for role in ("mla_v_scale", "mla_v_packed"):
        assert reported(case, also(case, whole(case, 0, 0, role, 0))) == {Kind.STRAY}


@pytest.mark.parametrize("side", ["context", "generation"])
def test_draft_layers_of_one_side_alone_are_served_without(side: str) -> None:
    declared = draft.declare(2, 1, draft.Width(2, 1), draft.Width(0, 2), apart=True, lacking=(side,))
    case = between(declared, "tp2", "tp1")
    holders = [any(entry.role == "draft" for entry in tables[0].entries) for tables in tables_of(case)]
    assert holders == [side != "context", side != "generation"]
    assert {run.role for run in served(case)} == {"key", "value"}


DECLARED = {manager.name: manager.declare() for manager in (*UPSTREAM, *FURTHER) if manager.declare}
BLOCK = 8
"""Tokens that all of them can have in a block."""


def roles_of(model: Model, *states: MoveState) -> set[str]:
    """Roles of which some layer has one of these move states."""
    return {
        buffer.role
        for group in model.groups
        for buffer in group.buffers
        if any(buffer.move_on(layer).state in states for layer in buffer.layers)
    }


@pytest.mark.parametrize("manager", DECLARED)
def test_a_side_cannot_lack_what_is_neither_optional_nor_a_draft_layer_nor_rebuilt(manager: str) -> None:
    declared = replace(DECLARED[manager], without=((), ()))
    buffers = [buffer for group in declared.model.groups for buffer in group.buffers]
    for buffer, layer in ((each, each.layers.ids[0]) for each in buffers):
        if buffer.move_on(layer).state is not MoveState.SEND or layer in declared.model.draft:
            continue
        lack = {"without": (Without((buffer.role,), LayerSet((layer,))),)}
        for side in ("context_side", "generation_side"):
            with pytest.raises(InvalidCase, match=buffer.role):
                between(declared, tokens=BLOCK, **{side: lack})


def without_role(model: Model, role: str) -> Model:
    """``model`` without any buffer of ``role``, and without what is derived from it."""
    groups = []
    for group in model.groups:
        kept = tuple(
            buffer
            for buffer in group.buffers
            if buffer.role != role and not any(role in move.inputs for move in buffer.moves)
        )
        groups += [replace(group, buffers=kept)] if kept else []
    # A model has some buffer: of another role where it had this one alone.
    left = groups or [replace(model.groups[0], buffers=(replace(model.groups[0].buffers[0], role="other"),))]
    return replace(model, groups=tuple(left))


def pages(declared: Declaration, model: Model, side: str) -> Pages:
    case = between(replace(declared, model=model, without=((), ())), tokens=BLOCK)
    return Pages(model, case.side(side), lay_out(case, side).tables)


@pytest.mark.parametrize("manager", DECLARED)
def test_a_buffer_that_one_side_alone_declares_is_refused_unless_it_is_optional(manager: str) -> None:
    declared = DECLARED[manager]
    for role in roles_of(declared.model, MoveState.SEND, MoveState.OPTIONAL):
        less = without_role(declared.model, role)
        for models in ((declared.model, less), (less, declared.model)):
            refusal = check_compatible(*map(pages, (declared, declared), models, ("context", "generation")))
            if role in roles_of(declared.model, MoveState.SEND):
                assert isinstance(refusal, Refusal) and refusal.code == "buffer_missing"
                assert role in refusal.reason or (manager, "other" in refusal.reason) == ("MLA", True)
            else:
                assert refusal is None


# ---- 11: layers of unlike buffers, and where their masks begin


def m3(sparse: Iterable[int]) -> Declaration:
    return minimax_m3.declare(4, 2, 2, 16, sparse, 2, 16)


@pytest.mark.parametrize("sparse", [(1, 2, 3), (3,), (1,), (0, 2)], ids=str)
@pytest.mark.parametrize("splits", [("tp2", "tp2"), ("tp2", "tp1"), ("tp2 pp1+3", "tp2 pp3+1"), ("tp1 pp2+2", "tp4")])
def test_index_keys_between_the_keys_of_some_layers_are_served(
    sparse: tuple[int, ...], splits: tuple[str, str]
) -> None:
    case = between(m3(sparse), *splits)
    assert {run.layer for run in served(case) if run.role == "index_key"} == set(sparse)
    reverse = between(m3(sparse), *splits, generation_side={"layer_order": (3, 2, 1, 0)})
    assert {run.layer for run in served(reverse) if run.role == "index_key"} == set(sparse)


@pytest.mark.parametrize("units", [2, 3])
def test_layers_read_at_one_stride_are_reported(units: int) -> None:
    case = between(m3((1, 2, 3)), "tp2", "tp2")
    table = tables_of(case)[0][0]
    assert share_a_pool(table, "key", "index_key")
    unit = table.entries[0].nbytes
    starts = {0: 0, 1: 2, 2: 5, 3: 8}
    assert {entry.layer: entry.offset // unit for entry in table.entries if entry.role == "key"} == starts

    def at_one_stride(run: Run) -> Run:
        return replace(run, source_offset=run.source_offset + (run.layer * units - starts[run.layer]) * unit)

    assert reported(case, planted(case, at_one_stride)) & {Kind.WRONG_ELEMENT, Kind.STALE_SOURCE}


@pytest.mark.parametrize("ple", [0, 2, 4])
@pytest.mark.parametrize("splits", [("tp2", "tp1 pp3+3"), ("tp1 pp2+4", "tp2 pp4+2"), ("tp2", "tp2 cp2")])
def test_one_layer_with_more_state_than_others_is_served_wherever_it_stands(ple: int, splits: tuple[str, str]) -> None:
    case = between(qwen("SASASA", ple), *splits)
    found = [run for run in served(case) if run.role.startswith("ple_")]
    assert {run.layer for run in found} == {ple}
    assert {run.destination for run in found} == {
        rank.number
        for rank in case.generation.topology.ranks()
        if ple in case.generation.topology.stage_layers(rank.pp)
    }


def test_the_embedding_of_another_layer_is_reported() -> None:
    # State is packed layer by layer: a list of state layers taken by position finds another layer's bytes.
    case = between(qwen("SASASA", 2), "tp1", "tp1")

    def of_the_next(run: Run) -> Run:
        return replace(run, source_layer={0: 2, 2: 4, 4: 0}[run.layer]) if run.role == "conv_state" else run

    assert reported(case, planted(case, of_the_next)) == {Kind.WRONG_ELEMENT}
