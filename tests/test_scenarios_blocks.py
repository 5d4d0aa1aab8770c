"""Scenarios of reported faults of block alignment with their numbers, through every encoding and the wrong steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from differential.faults import find_fault
from differential.faults.block_alignment.ends_paired import EndsPaired
from differential.faults.block_alignment.fronts_paired import FrontsPaired
from differential.faults.fault import Planted
from differential.managers import anchors
from differential.managers.extents import Extent
from differential.managers.holdings import holdings_of
from differential.managers.v1 import BlockList
from differential.subjects.mapping import Mapping
from differential.subjects.registry import find_subject
from oracle.model.case import Case, Native, SideState
from oracle.model.errors import InvalidCase
from oracle.truth.blocks import DUE, block_classes
from oracle.truth.verdict import Kind, Outcome
from tests.block_moves import ENCODED, codes_of, moves, plan_of, verdict_of
from tests.small_cases import case_of
from tests.test_states_worked import same, state_case

MANAGERS = ("v1", "v2")


def planted(name: str) -> Planted:
    fault = find_fault(name)
    return fault.wrap(find_subject(fault.base))


# ---- S4: a window, and a scratch block on either side


def speculating(source: int, destination: int, managers: tuple[str, str] = ("v2", "v2")) -> Case:
    """12 tokens in blocks of 4, a window of 8; each side has so many draft tokens, and reserves for those added.

    The reserve is of less than a block, so that the window still begins in block 1.
    """
    return state_case(
        12,
        4,
        8,
        context=SideState(drafts=source),
        generation=SideState(drafts=destination),
        managers=managers,
        reserve=(2 * (managers[0] == "v1"), 2 * (managers[1] == "v1")),
    )


DRAFTS = ((3, 0), (0, 3), (3, 3), (0, 0))


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("drafts", DRAFTS)
@pytest.mark.parametrize("managers", [(first, second) for first in MANAGERS for second in MANAGERS])
def test_s4_drafts_on_either_side_move_nothing_else(
    drafts: tuple[int, int], managers: tuple[str, str], name: str
) -> None:
    case = speculating(*drafts, managers)
    # 12 + 1 - 8 tokens are out of reach: block 0.
    assert [ordinal for ordinal, kind in enumerate(block_classes(case, 0, 0)) if kind == DUE] == [1, 2]
    sent = [pair for pair in moves(case, name) if pair[0] in (1, 2)]
    assert sent == same(1, 2)
    assert verdict_of(case, name)


def test_s4_the_speculating_side_lists_one_block_more() -> None:
    for side, drafts in (("context", (3, 0)), ("generation", (0, 3))):
        held = holdings_of(speculating(*drafts)).listed(side, 0, 0, 0)
        assert [ordinal for ordinal, slot in enumerate(held.slots.tolist()) if slot >= 0] == [1, 2, 3]


PAST = ("past", 0)


@pytest.mark.parametrize(
    ("drafts", "wrong", "kinds"),
    [
        ((3, 0), [(2, 1), (PAST, 2)], {Kind.STALE_SOURCE, Kind.WRONG_ELEMENT}),
        ((0, 3), [(1, 2), (2, PAST)], {Kind.STRAY, Kind.WRONG_ELEMENT, Kind.MISSING}),
        # Both sides make the same mistake, and only what is missing tells.
        ((3, 3), [(2, 2), (PAST, PAST)], {Kind.STRAY, Kind.STALE_SOURCE, Kind.MISSING}),
        ((0, 0), same(1, 2), set()),
    ],
)
@pytest.mark.parametrize("fault", ["cap-by-length", "strip-by-extra", "cap-full-only"])
def test_s4_keeping_the_last_two_keeps_scratch_and_gives_up_a_block(
    fault: str, drafts: tuple[int, int], wrong: list[tuple[object, object]], kinds: set[Kind]
) -> None:
    case = speculating(*drafts)
    assert moves(case, planted(fault)) == wrong
    assert verdict_of(case, planted(fault)).kinds == kinds


# ---- S5: counts against positions, under prefix reuse


def overhanging(prompt: int = 16, size: int = 4, cached: int = 12) -> Case:
    """The receiver has some blocks, and one token more than the prompt."""
    return state_case(prompt, size, generation=SideState(cached=cached, drafts=1))


@pytest.mark.parametrize("name", ENCODED)
def test_s5_one_block_moves_and_the_overhang_is_the_receivers_own(name: str) -> None:
    case = overhanging()
    listed = holdings_of(case).listed("generation", 0, 0, 0)
    assert len(listed.slots) == 5
    assert moves(case, name) == same(3)
    assert verdict_of(case, name)


def test_s5_pairing_the_ends_shifts_every_block_by_one() -> None:
    case = overhanging()
    assert moves(case, planted("ends-paired")) == [(2, 3), (3, PAST)]
    assert verdict_of(case, planted("ends-paired")).kinds == {Kind.WRONG_ELEMENT, Kind.STRAY}


def test_s5_pairing_the_fronts_sends_the_prefix() -> None:
    case = overhanging()
    assert moves(case, planted("fronts-paired")) == [(0, 3)]
    assert verdict_of(case, planted("fronts-paired")).kinds == {Kind.WRONG_ELEMENT}


class FrontsOfWholeLists(FrontsPaired, EndsPaired):
    """The reported writer: the receiver's overhang is in its list, and the longer list loses its end."""


def test_s5_the_front_trim_of_the_report_also_writes_the_overhang() -> None:
    wrong = Mapping("suffix", lists=FrontsOfWholeLists())
    assert moves(overhanging(), wrong) == [(0, 3), (1, PAST)]


@pytest.mark.parametrize("name", ENCODED)
def test_s5_the_original_numbers(name: str) -> None:
    # 2048 tokens in blocks of 64, 31 of which the receiver has; a token is appended to the prompt.
    case = overhanging(2048, 64, 31 * 64)
    assert moves(case, name) == same(31)
    assert moves(case, planted("ends-paired")) == [(30, 31), (31, PAST)]


@pytest.mark.parametrize("name", ENCODED)
def test_s5_what_comes_from_elsewhere_is_a_prefix_of_the_slots(name: str) -> None:
    # Slots for ordinals 0, 1, 2; two blocks come from elsewhere and one is for a ninth token.
    case = state_case(8, 4, generation=SideState(drafts=1))
    assert moves(case, name) == same(0, 1)
    assert verdict_of(case, name)
    assert moves(case, planted("ends-paired")) == [(0, 1), (1, PAST)]


# ---- S7: who owns which block, ranks that own none, and reuse


def halved(prompt: int, cached: int = 0, managers: tuple[str, str] = ("v2", "v2")) -> Case:
    return state_case(prompt, 4, cp=2, generation=SideState(cached=cached), managers=managers)


def shares(case: Case, name: str) -> list[list[tuple[object, object]]]:
    return [moves(case, name, rank=rank) for rank in range(2)]


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("managers", [("v1", "v1"), ("v2", "v2")])
def test_s7_blocks_go_round_the_ranks(name: str, managers: tuple[str, str]) -> None:
    case = halved(20, managers=managers)
    assert shares(case, name) == [same(0, 2, 4), same(1, 3)]
    assert verdict_of(case, name)


@pytest.mark.parametrize("name", ENCODED)
def test_s7_a_rank_without_a_block_completes_with_no_byte(name: str) -> None:
    case = halved(4)
    assert shares(case, name) == [same(0), []]
    plan = plan_of(case, name)
    # It takes part: it is paired, and nothing is refused.
    assert {pair.destination for pair in plan.pairs} == {0, 1} and not plan.refusals
    assert verdict_of(case, name).outcome is Outcome.PASS
    assert codes_of(case, planted("empty-rank-refused")) == ["fewer_blocks_than_context_parallel"]
    assert verdict_of(case, planted("empty-rank-refused")).kinds == {Kind.FALSE_REFUSAL}


@pytest.mark.parametrize("name", ENCODED)
def test_s7_blocks_that_fill_the_prompt_are_not_padded(name: str) -> None:
    case = halved(8)
    assert [len(holdings_of(case).listed("generation", rank, 0, 0).slots) for rank in range(2)] == [1, 1]
    assert shares(case, name) == [same(0), same(1)]
    assert verdict_of(case, name)


@pytest.mark.parametrize("name", ENCODED)
def test_s7_reuse_leaves_each_rank_its_own_blocks_behind_it(name: str) -> None:
    case = halved(20, cached=8)
    assert shares(case, name) == [same(2, 4), same(3)]
    assert verdict_of(case, name)


def test_s7_two_blocks_dropped_from_a_list_of_two_leave_nothing() -> None:
    case = halved(20, cached=8)
    wrong = planted("helix-reuse-by-global-count")
    assert [moves(case, wrong, rank=rank) for rank in range(2)] == [same(4), []]
    assert verdict_of(case, wrong).counts == {Kind.MISSING: 8}
    # Refusing is right as well; the legacy sender does.
    legacy = replace(case, native=Native((("all", "indexed"),)))
    assert codes_of(legacy, "native") == ["helix_prefix_reuse"]


def test_s7_neighbouring_blocks_are_the_wrong_set() -> None:
    wrong = planted("helix-contiguous")
    assert [moves(halved(20), wrong, rank=rank) for rank in range(2)] == [
        [(0, 0), (1, 2), (2, 4)],
        [(3, 1), (4, 3)],
    ]


def test_s7_tails_are_split_off_before_a_list_is_strided() -> None:
    # No request has both, so only the steps can be asked: five blocks, then the tail of a second beam.
    listed = BlockList((10, 11, 12, 13, 14, 90), 5)
    span = anchors.build(listed, Extent(5, beams=2), np.array)
    mine = [anchors.RIGHT.take_stride(span, rank, 2) for rank in range(2)]
    assert [each.slots.tolist() for each in mine] == [[10, 12, 14], [11, 13]]
    assert [each.tails.tolist() for each in mine] == [[90], [90]]
    # Strided as it is packed, the list gives one rank the tail for a block, and the other none.
    assert [listed.ids[rank::2] for rank in range(2)] == [(10, 12, 14), (11, 13, 90)]
    with pytest.raises(InvalidCase, match="context parallelism one beam"):
        state_case(19, 4, cp=2, beams=2, managers=("v1", "v1"), generation=SideState(tails=1))


def test_s7_ranks_of_one_tensor_rank_are_neighbours() -> None:
    # TP 2 and CP 2: ranks 0 and 1 share the heads of tensor rank 0, ranks 2 and 3 those of tensor rank 1.
    case = case_of("key @ 0 : H(2).heads T D(1) ; 8", "tp2", "tp2 cp2", prompts=20, size=4)
    found = {rank: [pair[0] for pair in moves(case, "mapping", rank=rank)] for rank in range(4)}
    assert found == {0: [0, 2, 4], 1: [1, 3], 2: [0, 2, 4], 3: [1, 3]}
    senders = {segment.destination_rank: segment.source_rank for segment in plan_of(case, "mapping").segments}
    assert senders == {0: 0, 1: 0, 2: 1, 3: 1}
