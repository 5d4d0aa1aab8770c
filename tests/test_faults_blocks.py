"""Faults of block alignment: the worked numbers of each, its least case, and that it hides where it changes nothing."""

from __future__ import annotations

from itertools import islice

import pytest

from differential import faults
from differential.faults import Size, find_fault, names, size_of
from differential.faults.block_alignment.tails_by_beam_width import TailsByBeamWidth
from differential.faults.fault import Fault, Planted
from differential.managers.extents import Extent
from differential.managers.suffix import RIGHT
from differential.managers.tables import gather_facts
from differential.managers.v1 import BlockList
from differential.runner import run_case
from differential.subjects.registry import find_subject
from oracle.model.case import Case, SideState
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes
from oracle.truth.verdict import Kind
from tests.block_moves import moves, verdict_of
from tests.small_cases import case_of
from tests.small_states import small_states
from tests.test_block_encodings import pairs, same
from tests.test_states_worked import KEY, state_case

BLOCKS = [name for name in names() if ".block_alignment." in faults._modules()[name]]
PAST = ("past", 0)
OLD = ("v1", "v1")


def planted(name: str) -> Planted:
    fault = find_fault(name)
    return fault.wrap(find_subject(fault.base))


# ---- the numbers of what was reported

I1 = state_case(32, 8, 16, context=SideState(extra=2, drafts=2))
I2 = state_case(32, 8, 16, context=SideState(reached=33), managers=OLD)
I3 = state_case(31, 8, 16, context=SideState(extra=1, drafts=2))
I3_RECEIVER = state_case(31, 8, 16, generation=SideState(extra=1, drafts=2))
I4 = state_case(8, 4, 4, managers=("v1", "v2"))
I5 = state_case(156_800, 128, 128, reserve=(0, 3))
X4 = state_case(20, 4, 4, reserve=(0, 4))
I6 = state_case(10, 4, 5, context=SideState(reached=13), managers=("v1", "v2"))
I8 = state_case(32, 4, 13, generation=SideState(cached=8), managers=OLD, cp=2)
I9 = state_case(32, 4, generation=SideState(cached=8), cp=2)
I10 = state_case(32, 4, cuts=(16,), more=({"look_ahead": 2}, {}))
I11 = state_case(32, 8, 16, sinks=8)
WHOLE = state_case(32, 4, 8, managers=OLD)


@pytest.mark.parametrize(
    ("name", "case", "rank", "wrong"),
    [
        ("cap-by-length", I1, 0, [(3, 2), (PAST, 3)]),
        ("cap-full-only", I2, 0, [(3, 2), (PAST, 3)]),
        ("strip-by-extra", I3, 0, [(3, 2), (PAST, 3)]),
        ("strip-by-extra", I3_RECEIVER, 0, [(2, 3), (3, PAST)]),
        ("no-window-trim", I4, 0, [(0, 1)]),
        ("clamp-only", I5, 0, [(1224, 1223)]),
        ("clamp-only", X4, 0, [(4, 3)]),
        ("tail-trim", I5, 0, [(1224, 1223)]),
        ("tail-trim", X4, 0, [(4, 3)]),
        ("detached-front-sent", I6, 0, [(1, 1), (2, 2)]),
        ("window-alone", I6, 0, [(1, 1), (2, 2)]),
        ("helix-by-global-count", I8, 1, [(1, 3), (3, 5), (5, 7)]),
        ("helix-reuse-by-global-count", I9, 1, [(5, 5), (7, 7)]),
        ("chunk-keeps-last", I10, 0, [(2, 0), (3, 1), (4, 2), (5, 3), *((o, o) for o in range(4, 8))]),
        ("sinks-lost", I11, 0, [(2, 2), (3, 3)]),
        ("sinks-before-the-anchor", I11, 0, [(2, 2), (3, 3)]),
        ("whole-prompt-kept", WHOLE, 0, [(o, o) for o in range(8)]),
        ("due-blocks-unchecked", I6, 0, [(2, 2)]),
    ],
)
def test_a_wrong_step_gives_the_wrong_pairs_of_the_report(
    name: str, case: Case, rank: int, wrong: list[tuple[object, object]]
) -> None:
    base = find_subject(find_fault(name).base)
    assert moves(case, planted(name), rank=rank) == wrong
    assert moves(case, base, rank=rank) != wrong and verdict_of(case, base)
    assert find_fault(name).caught_by(verdict_of(case, planted(name)))
    assert find_fault(name).shows(case, base)


def test_i7_tails_guessed_from_the_beam_width_pair_a_block_with_a_tail() -> None:
    # Three beams of which one differs; the receiver has the first of two blocks.
    wrong = TailsByBeamWidth()
    source = wrong.build(BlockList((100, 101, 190), 2), Extent(2, beams=3), same)
    destination = wrong.build(BlockList((200, 201, 290), 2), Extent(2, cached=1, beams=3, receives=True), same)
    assert (source.slots.tolist(), destination.slots.tolist()) == ([100, 101, 190], [201, 290])
    assert pairs(wrong.align(source, destination, 0)) == [(100, 290)]
    # The receiver's list is one that no length can tell apart, and the right encoding says so.
    with pytest.raises(ValueError, match="tails_not_told_apart"):
        RIGHT.build(BlockList((200, 201, 290), 2), Extent(2, cached=1, beams=3, receives=True), same)


def test_a_lost_due_block_is_told_with_the_note_that_the_sender_no_longer_has_it() -> None:
    (violation,) = verdict_of(I6, planted("due-blocks-unchecked")).violations
    assert violation.kind is Kind.MISSING and "holds" in violation.note


# ---- the least case

LEAST: dict[str, Case] = {
    "block-sizes-unchecked": case_of(KEY, prompts=1, size=1, generation_side={"tokens_per_block": 2}),
    "cap-by-length": state_case(1, 1, 2, context=SideState(drafts=2, reached=2)),
    "cap-full-only": state_case(2, 1, 2, context=SideState(drafts=1)),
    "chunk-keeps-last": state_case(2, 1, cuts=(1,), more=({"look_ahead": 1}, {})),
    "clamp-only": state_case(2, 1, 2, reserve=(0, 1)),
    "detached-front-sent": state_case(1, 1, 2, context=SideState(drafts=2), managers=("v1", "v2")),
    "due-blocks-unchecked": state_case(1, 1, 2, context=SideState(drafts=2), managers=("v1", "v2")),
    "empty-rank-refused": state_case(1, 1, cp=2),
    "ends-paired": state_case(2, 1, generation=SideState(drafts=1)),
    "first-chunk-only": state_case(2, 1, cuts=(1,)),
    "fronts-paired": state_case(2, 1, generation=SideState(cached=1)),
    "helix-by-global-count": state_case(1, 1, 1, context=SideState(reached=2), managers=OLD, cp=2, reserve=(0, 1)),
    "helix-contiguous": state_case(3, 1, cp=2),
    "helix-reuse-by-global-count": state_case(2, 1, generation=SideState(cached=1), cp=2),
    "longer-list-refused": state_case(1, 1, 1, reserve=(0, 1)),
    "no-window-trim": state_case(2, 1, 2, managers=("v1", "v2")),
    "null-blocks-moved": state_case(1, 1, 1),
    "one-context-parallel-sender": case_of(KEY, "tp1 cp2", prompts=2, size=1),
    "partial-block-dropped": state_case(1, 2),
    "partial-block-twice": state_case(2, 2, cuts=(1,)),
    "sender-not-cut": state_case(1, 1, context=SideState(drafts=1)),
    "sinks-before-the-anchor": state_case(1, 1, 1, sinks=1),
    "sinks-lost": state_case(1, 1, 1, sinks=1),
    "strip-by-extra": state_case(1, 1, context=SideState(drafts=1)),
    "tail-trim": state_case(2, 1, 2, reserve=(0, 1)),
    "tails-by-beam-width": state_case(
        2, 3, context=SideState(tails=2), generation=SideState(tails=1), managers=OLD, beams=3
    ),
    "whole-prompt-kept": state_case(1, 1, 1, managers=OLD),
    "window-alone": state_case(1, 1, 2, context=SideState(drafts=2), managers=("v1", "v2")),
}
SMALL = sorted(islice(small_states(0), 600), key=size_of)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_fault_shows_at_its_minimum_and_in_no_smaller_case(name: str) -> None:
    fault = find_fault(name)
    base = find_subject(fault.base)
    assert size_of(LEAST[name]) == fault.minimum
    assert fault.shows(LEAST[name], base)
    smaller = [case for case in SMALL if size_of(case) < fault.minimum and fault.applies(case)]
    assert not any(fault.shows(case, base) for case in smaller)
    # Nothing is less than two ranks, a layer and a block; fewer than three ranks have no context parallelism.
    assert smaller or fault.minimum == Size(2, 1, 1) or not any(fault.applies(c) for c in SMALL if size_of(c)[0] == 2)


def test_the_small_cases_reach_below_every_minimum() -> None:
    assert {size_of(case)[:2] for case in SMALL} == {(2, 1), (3, 1)}
    assert {size_of(case).blocks for case in SMALL} == {1, 2, 3, 4}


# ---- faults and their subjects


def told(plan: Writes | Refusal) -> object:
    if isinstance(plan, Refusal):
        return plan
    return plan.pairs, plan.refusals, {name: values.tolist() for name, values in plan.columns().items()}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_fault_has_one_subject_and_leaves_it_as_it_is(name: str) -> None:
    fault, case = find_fault(name), LEAST[name]
    base = find_subject(fault.base)
    facts = gather_facts(case)
    before = told(base.plan(case, facts))
    assert told(planted(name).plan(case, facts)) != before
    assert told(base.plan(case, facts)) == told(find_subject(fault.base).plan(case, facts)) == before
    other = find_subject("native" if fault.base == "mapping" else "mapping")
    with pytest.raises(InvalidCase) as no:
        fault.wrap(other)
    assert str(no.value) == (
        f"fault = '{name}' is not possible: it is a wrong step of {base.name}: expected that subject, not {other.name}"
    )


def differs(fault: Fault, case: Case) -> bool:
    """Whether the wrong step makes another plan, asked of it without its condition."""
    base, facts = find_subject(fault.base), gather_facts(case)
    try:
        return told(fault.plant(base, case, facts)) != told(base.plan(case, facts))
    except (ValueError, RuntimeError, IndexError):
        return True


@pytest.mark.parametrize("name", BLOCKS)
def test_a_fault_changes_nothing_where_it_does_not_apply(name: str) -> None:
    fault = find_fault(name)
    spared = [case for case in SMALL[::3] if not fault.applies(case)]
    assert spared or name in ("due-blocks-unchecked", "fronts-paired")
    assert not any(differs(fault, case) for case in spared)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_wrong_step_never_stops_the_planner(name: str) -> None:
    # What is raised would be seen by anyone; a fault is to be seen in what is sent.
    subject = planted(name)
    for case in SMALL[::4]:
        assert not run_case(case, [subject]).verdicts[subject.name].reason.startswith("crash")


def test_every_fault_of_this_class_is_looked_at() -> None:
    assert list(LEAST) == BLOCKS
    assert {find_fault(name).base for name in BLOCKS} == {"mapping", "mapping:anchors", "mapping:suffix"}
