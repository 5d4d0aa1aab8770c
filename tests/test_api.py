"""The public API: what a test of a serving framework calls."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path

import pytest

import kvwitness
import kvwitness.api
from differential.subjects.registry import find_subject
from kvwitness import Case, InvalidCase, Kind, Outcome, Refusal, Writes
from kvwitness.witness import save
from oracle.model.buffers import GroupKind, LayerGroup, Model
from oracle.model.notation import parse_buffer
from oracle.model.writes import Pair


def small() -> Case:
    return kvwitness.deployment("qwen3-235b-a22b", "tp=1", "tp=2", prompt=5, tokens_per_block=4)


def planned(case: Case) -> Writes:
    return find_subject("mapping").plan(case, kvwitness.gather_facts(case))


def without_first_run(writes: Writes) -> Writes:
    first, *rest = writes.segments
    return replace(writes, segments=(replace(first, runs=first.runs[1:]), *rest))


def test_every_exported_name_exists() -> None:
    assert sorted(kvwitness.__all__) == kvwitness.__all__
    for name in kvwitness.__all__:
        assert getattr(kvwitness, name) is not None


def test_a_right_plan_is_true_and_a_wrong_one_false() -> None:
    case = small()
    right = kvwitness.check(case, planned(case))
    assert right
    assert right.outcome is Outcome.PASS
    wrong = kvwitness.check(case, without_first_run(planned(case)))
    assert not wrong
    assert wrong.kinds == {Kind.MISSING}
    assert kvwitness.explain(case, wrong).startswith("fail: missing ")


def test_recorded_runs_make_the_same_plan_as_segments() -> None:
    case = small()
    plan = planned(case)
    rows = [tuple(row) for row in zip(*(column.tolist() for column in plan.columns().values()), strict=True)]
    again = kvwitness.check(case, Writes.from_runs(rows, pairs=plan.pairs))
    assert again
    assert again.nbytes == kvwitness.check(case, plan).nbytes


def test_own_election_judges_bytes_and_not_pairs() -> None:
    case = small()
    plan = planned(case)
    unnamed = replace(plan, pairs=())
    assert kvwitness.check(case, unnamed).kinds == {Kind.MISSING}
    assert kvwitness.check(case, unnamed, election="own")
    named_too_often = replace(plan, pairs=(*plan.pairs, Pair(0, 0, 99)))
    assert kvwitness.check(case, named_too_often).kinds == {Kind.UNPAIRED_SENDER}


def test_padding_due_wants_the_rows_past_the_prompt() -> None:
    """A key of one byte a token, a prompt of five in blocks of four: nobody needs the last three rows."""
    case = one_byte_a_token(prompt=5)
    rows = [
        (0, 0, 0, 0, 0, 0, 0, *block)
        for block in ((slot_of(case, 0), slot_of(case, 0), 4), (slot_of(case, 1), slot_of(case, 1), 1))
    ]
    plan = Writes.from_runs(rows, pairs=(Pair(0, 0, 0),))
    assert kvwitness.check(case, plan)
    due = kvwitness.check(case, plan, padding="due")
    assert due.counts == {Kind.MISSING: 3}


def one_byte_a_token(prompt: int) -> Case:
    model = Model(1, (LayerGroup("kv", GroupKind.PAGED, (parse_buffer("key @ 0 : T D(1) ; 8"),)),))
    return kvwitness.deployment(model, "", "", prompt=prompt, tokens_per_block=4)


def slot_of(case: Case, ordinal: int) -> int:
    """Where a block starts in the pool, on both sides."""
    facts = kvwitness.gather_facts(case)
    starts = {
        int(side[0].blocks[0, 0].slots[ordinal]) * side[0].table.pools[0].slot_stride
        for side in (facts.context, facts.generation)
    }
    (start,) = starts
    return start


def test_a_false_refusal_is_wrong_and_a_right_one_is_not() -> None:
    case = small()
    assert kvwitness.check(case, Refusal("no", "no reason")).kinds == {Kind.FALSE_REFUSAL}
    unlike = kvwitness.deployment("qwen3-235b-a22b", "tp=2", "tp=3", prompt=5, tokens_per_block=4)
    assert kvwitness.check(unlike, Refusal("fan", "neither divides the other"))


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(InvalidCase, match=r"writes = \[\] is not possible: expected Writes"):
        kvwitness.check(small(), [])  # type: ignore[arg-type]
    with pytest.raises(InvalidCase, match="padding"):
        kvwitness.check(small(), planned(small()), padding="maybe")  # type: ignore[arg-type]


def test_splits_are_texts_or_mappings() -> None:
    text = kvwitness.deployment("llama-3-70b", "tp=4,pp=2,dp=on", "cp=2", prompt=1)
    mapping = kvwitness.deployment("llama-3-70b", {"tp": 4, "pp": 2, "dp": True}, {"cp": 2}, prompt=1)
    assert text == mapping
    with pytest.raises(InvalidCase, match="context = 'tp4' is not possible: expected name=value pairs"):
        kvwitness.deployment("llama-3-70b", "tp4", "", prompt=1)


def test_a_case_comes_back_from_its_file(tmp_path: Path) -> None:
    path = save(small(), tmp_path, subject="mapping", property=("missing",))
    assert kvwitness.load_case(path) == small()
    (tmp_path / "plain.json").write_text(kvwitness.encode(small()))
    assert kvwitness.load_case(tmp_path / "plain.json") == small()


def test_the_examples_in_the_docstrings_run() -> None:
    done = doctest.testmod(kvwitness.api)
    assert done.attempted >= 3
    assert done.failed == 0
