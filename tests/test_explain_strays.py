"""Why nothing may come to a place of the destination, in words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from oracle.model.buffers import Model
from oracle.model.case import Case, Request, SideState, SlotList
from oracle.model.writes import Refusal
from oracle.truth.elements import truth_of
from oracle.truth.explain import explain
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, group

SOURCE, SOURCE_POOL, READ, WRITTEN = 3, 5, 7, 8
MLA = "key @ 0 : T D(1) ; 8"


def right(case: Case) -> list[list[int]]:
    return right_rows(case, read(case))


def stray(case: Case, slot: int, byte: int = 0, pool: int = 0, rank: int = 0, request: int = 0) -> str:
    """The reason why nothing may come to a byte of a slot."""
    rows = right(case)
    stride = truth_of(case).generation.side.tables[rank].pools[pool].slot_stride
    extra = [request, 0, 0, rows[0][SOURCE], rank, rows[0][SOURCE_POOL], pool, rows[0][READ], slot * stride + byte, 1]
    verdict = judge(case, plan_of([*rows, extra], read(case)))
    text = explain(case, next(v for v in verdict.violations if v.kind is Kind.STRAY))
    assert text.startswith(f"stray: 1 byte at pool {pool} slot {slot} +{byte}")
    return re.search(r"because  (.*)", text)[1]  # type: ignore[index]


def slot_of(case: Case, ordinal: int, rank: int = 0, layer_group: int = 0, request: int = 0) -> int:
    return int(truth_of(case).generation.side.slots[rank][layer_group][request][ordinal])


def test_a_stray_byte_in_a_free_slot() -> None:
    assert stray(case_of(MLA), 0) == "no block that this transfer brings lies in this slot"


def test_a_stray_byte_in_a_reused_block() -> None:
    case = case_of(MLA, requests=(Request(0, 4, generation=SideState(3)),))
    expected = "this is block 0 of request 0, which the receiver has already (cached=3, 2 tokens a block)"
    assert stray(case, slot_of(case, 0)) == expected


def test_a_stray_byte_in_a_block_that_left_the_window() -> None:
    case = case_of(group(MLA, window=2), prompts=4)
    assert stray(case, slot_of(case, 0)) == "this is block 0 of request 0, which has left the window of 2 tokens"


def test_a_stray_byte_in_a_block_of_the_group_whose_slot_it_is() -> None:
    # Two groups draw different slots of one pool: the slot says whose block it is.
    case = case_of(Model(1, (group(MLA), group(MLA.replace("key", "local"), name="local", window=1))), size=1)
    expected = "this is block 0 of request 0 in group local, which has left the window of 1 tokens"
    assert stray(case, slot_of(case, 0, layer_group=1)) == expected


def test_a_stray_byte_in_padding() -> None:
    case = case_of("key @ 0 : T D(1) ; 8 ; pad(3)")
    assert stray(case, slot_of(case, 0), 2) == (
        "this is padding in the slot of block 0 of request 0: no buffer lies there"
    )


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        ("derived(key)", "the receiver derives other from key"),
        ("rebuilt", "the receiver rebuilds other of layer 0"),
        ("never", "other is never sent"),
    ],
)
def test_a_stray_byte_in_a_buffer_that_does_not_move(move: str, expected: str) -> None:
    case = case_of(group(MLA, f"other @ 0 : T D(1) ; 8 ; {move}"))
    assert stray(case, slot_of(case, 0), 2) == f"this is block 0 of request 0: {expected}"


def test_a_stray_byte_in_a_block_of_another_context_parallel_rank() -> None:
    case = case_of(MLA, "tp1", "tp1 cp2", prompts=4)
    assert stray(case, slot_of(case, 1)) == "no block that this transfer brings lies in this slot"


def test_a_stray_byte_in_the_state_of_a_refused_request() -> None:
    state = group("ssm @ 0 : H(2) ; 8", state=True, name="state")
    tables = (SlotList("context", 0, "state", 0, (-1,)), SlotList("context", 0, "state", 1, (1,)))
    case = case_of(Model(1, (state,)), prompts=[1, 1], tables=tables)
    rows = right(case)
    plan = plan_of([*rows, [*rows[0][:WRITTEN], slot_of(case, 0) * 2, 1]], read(case))
    pairs = tuple(pair for pair in plan.pairs if pair.request)
    verdict = judge(case, replace(plan, pairs=pairs, refusals=(Refusal("lost", "", 0),)))
    text = explain(case, verdict.violations[0])
    assert "because  this is the state of request 0: the request was refused" in text
