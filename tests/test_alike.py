"""Plans that are the same but for cutting, plans of large memory, and who is asked at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from differential import runner
from differential.compare import compare
from differential.compare.alike import are_alike
from differential.compare.sibling import is_large
from differential.faults import find_fault
from differential.ledger import asked_of, check_case, compare_plans
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from differential.subjects.registry import find_subject
from kvwitness import bench
from oracle.model.case import Case
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from oracle.model.writes import Pair, Segment, Writes
from oracle.truth.decide import method_for
from strategies.deployments import deployment
from strategies.kinds import gqa
from strategies.scope import small_scope

# ---- judged once


def test_a_plan_that_is_a_right_one_but_for_cutting_is_judged_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[object] = []
    usual = runner.judge_any
    monkeypatch.setattr(
        "differential.runner.judge_any", lambda case, plan, **how: judged.append(plan) or usual(case, plan, **how)
    )
    case = deployment("llama-3-70b", {"tp": 2}, {"tp": 4}, prompt=3, tokens_per_block=2)
    result = run_case(case, [Mapping(), make()])
    assert result.alike == {"native": "mapping"}
    assert len(judged) == 1 and all(result.verdicts.values())
    assert result.verdicts["native"].runs == result.plans["native"].run_count
    judged.clear()
    wrong = run_case(case, [find_fault("drop-last-run").wrap(Mapping()), find_fault("drop-last-run").wrap(make())])
    assert len(judged) == 2 and not any(wrong.verdicts.values())


def test_a_plan_is_judged_for_its_election_even_if_a_subject_with_its_own_made_the_same() -> None:
    """Nobody asked the first one whom it elects, so its verdict says nothing of the second one's choice."""
    fault = find_fault("elect-first")

    class Own:
        name, election = "own", "own"

        def plan(self, case: Case, facts: object) -> object:
            return fault.wrap(Mapping()).plan(case, facts)

    case = next(c for c in small_scope("mla") if not run_case(c, [fault.wrap(Mapping())]).passed)
    result = run_case(case, [Own(), fault.wrap(Mapping())])
    assert result.alike == {"mapping": "own"}
    assert result.verdicts["own"] and not result.verdicts["mapping"]


@pytest.mark.parametrize("number", range(4))
def test_plans_that_are_told_to_be_alike_are_judged_and_compared_alike(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "CASES", 40)
    cases: list[Case] = []
    bench._draw(bench.DENSE, number, cases.append)
    alike = 0
    for case in cases:
        facts = gather_facts(case)
        plans = Mapping().plan(case, facts), make().plan(case, facts)
        if not are_alike(facts, *plans):
            continue
        alike += 1
        assert compare(case, *plans).identical
        verdicts = [run_case(case, [each]).verdicts[each.name] for each in (Mapping(), make())]
        assert all(verdicts) and verdicts[0].nbytes == verdicts[1].nbytes
    assert alike > 10


def segments(*rows: tuple[int, int, int], base: int = 0, stride: int = 8) -> Writes:
    """One segment between rank 0 and rank 0, of two slots."""
    bases = np.array([base, base + stride])
    return Writes((Pair(0, 0, 0),), (Segment(0, 0, 0, 0, 0, 0, 0, bases, bases, np.array(rows)),))


def tiny() -> Case:
    """One rank a side, slots of 8 bytes: key and value of one head, two tokens of two bytes."""
    return deployment(gqa.declare(1, 1, 2, 8).model, {}, {}, prompt=4, tokens_per_block=2)


def test_plans_are_alike_but_for_order_and_cutting_alone() -> None:
    facts = gather_facts(tiny())
    whole = segments((0, 0, 8))
    assert are_alike(facts, whole, segments((4, 4, 4), (0, 0, 4)))
    assert are_alike(facts, whole, segments((0, 0, 3), (3, 3, 0), (3, 3, 5)))
    assert not are_alike(facts, whole, segments((0, 0, 7)))
    assert not are_alike(facts, whole, segments((0, 0, 8), (0, 0, 8)))
    assert not are_alike(facts, whole, segments((0, 0, 4), (5, 4, 4)))
    assert not are_alike(facts, whole, replace(whole, pairs=()))
    assert not are_alike(facts, whole, replace(whole, pairs=(Pair(0, 0, 0, "sender"),)))
    reversed_slots = replace(
        whole.segments[0],
        **{side: getattr(whole.segments[0], side)[::-1] for side in ("source_bases", "destination_bases")},
    )
    assert are_alike(facts, whole, replace(whole, segments=(reversed_slots,)))
    crossed = replace(whole.segments[0], source_bases=whole.segments[0].source_bases[::-1])
    assert not are_alike(facts, whole, replace(whole, segments=(crossed,)))


def test_a_run_that_crosses_the_end_of_a_slot_is_not_like_two_that_touch_there() -> None:
    """A judge finds the one out of bounds and takes the two for what they are."""
    facts = gather_facts(tiny())
    assert not are_alike(facts, segments((0, 0, 12)), segments((0, 0, 8), (8, 8, 4)))
    assert not are_alike(facts, segments((0, 0, 8), base=4), segments((0, 0, 4), (4, 4, 4), base=4))
    assert not are_alike(facts, segments((-4, 0, 8)), segments((-4, 0, 4), (0, 4, 4)))


# ---- large memory


def uneven(layers: int, dim: int, prompt: int) -> Case:
    """Six heads on four ranks, received on two: known to be written twice by the legacy sender."""
    declared = gqa.declare(layers, 6, dim, 16)
    return deployment(declared.model, {"tp": 4}, {"tp": 2}, prompt=prompt, native=declared.native)


def test_a_difference_in_large_memory_is_told_on_a_small_case_and_known_as_there() -> None:
    case = uneven(40, 128, 16384)
    assert is_large(case) and method_for(case) == "intervals"
    checked = check_case(case, [Mapping(), make()])
    (settled,) = checked.settled
    assert checked.passed and settled.verdict == "accepted"
    assert set(settled.accepted) == {"uneven-heads"}
    assert settled.told_of is not None and not is_large(settled.told_of)
    assert settled.told_of.context.topology == case.context.topology


def test_an_unknown_difference_in_large_memory_is_found() -> None:
    case = deployment("deepseek-v3", {"tp": 2}, {"tp": 4, "dp": True}, prompt=[40000] * 4)
    assert is_large(case)
    (settled,) = check_case(case, [Mapping(), find_fault("elect-first").wrap(make())]).settled
    assert settled.verdict == "different" and settled.open.bytes
    assert {each.right for each in settled.open.bytes} == {"first"}
    assert {each.destination for each in settled.open.bytes} == {1, 3}
    assert check_case(case, [Mapping(), make()]).settled[0].identical


def test_what_cannot_be_told_on_a_small_case_is_told_by_receiver() -> None:
    """The second subject is wrong on long prompts only."""

    class LosesTheEnd:
        name, election = "native", "own"

        def plan(self, case: Case, facts: object) -> object:
            plan = Mapping().plan(case, facts)
            if case.requests[0].prompt < 1000:
                return plan
            return replace(plan, segments=plan.segments[:-1])

    case = deployment("llama-3-70b", {"tp": 2}, {"tp": 2}, prompt=4096)
    (settled,) = check_case(case, [Mapping(), LosesTheEnd()]).settled
    assert settled.verdict == "different" and settled.told_of is None
    (line,) = settled.open.lines()
    assert line.startswith("rank 1, request 0") and line.endswith("which is right was not asked")
    assert "from rank 1 in mapping, from nobody in native" in line


# ---- nothing declared


def test_a_legacy_subject_is_not_asked_where_a_case_declares_nothing_for_it() -> None:
    case = replace(tiny(), native=None)
    both = [find_subject(name) for name in ("mapping", "native")]
    asked, left_out = asked_of(case, both)
    assert asked == both[:1] and left_out == ("native",)
    checked = check_case(case, both)
    assert checked.passed and checked.left_out == ("native",) and checked.settled == ()
    assert asked_of(case, both[1:]) == (both[1:], ())
    assert not check_case(case, both[1:]).passed  # nobody else is there: its refusal is a false one


def test_three_plans_are_compared_two_by_two() -> None:
    case = replace(tiny(), context=Instance(Topology(1, (1,)), 2, "NHD"), native=gqa.NATIVE)
    subjects = [make(), Mapping(), make("suffix")]
    settled = compare_plans(run_case(case, subjects), subjects)
    assert [(each.open.first, each.open.second) for each in settled] == [
        ("native", "mapping"),
        ("native", "native:suffix"),
        ("mapping", "native:suffix"),
    ]
    assert [each.verdict for each in settled] == ["accepted", "identical", "accepted"]
