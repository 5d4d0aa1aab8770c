"""What one encoding of block lists cannot say is no difference: it is counted with its code, and only if it is so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from differential.compare import FIRST, SECOND, RefusalDifference, Unsaid, compare
from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.subjects.registry import find_subject
from kvwitness.difference import describe_comparison
from kvwitness.settings import Judged
from kvwitness.tally import Compared
from kvwitness.trial import Trial
from oracle.model.case import Case, Native, Request, SideState
from oracle.model.codec import encode_file
from oracle.model.encodings import BEAM_TAILS, SINKS_BEFORE_A_GAP, WINDOW_WITH_CONTEXT_PARALLELISM
from oracle.model.writes import Refusal, Writes
from tests.face import Shell
from tests.small_cases import case_of, group

KEY = "key @ 0 : T D(1) ; 8"
MAPPING, ANCHORS, SUFFIX = (find_subject(f"mapping:{name}") for name in ("tables", "anchors", "suffix"))
V1 = {"manager": "v1"}


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def sinks_before_a_gap() -> Case:
    """Blocks 0 | 1 | 2 of two tokens, of which the middle one left the window and the first is a sink."""
    return case_of(group(KEY, window=2, sinks=1), prompts=5)


def with_tails(context: int = 1, generation: int = 1) -> Case:
    """Three beams of a prompt whose last block is not full."""
    request = Request(0, 3, context=SideState(tails=context), generation=SideState(tails=generation), beams=3)
    return case_of(KEY, requests=(request,), context_side=V1, generation_side=V1)


def compared(case: Case, *subjects: object):  # type: ignore[no-untyped-def]
    checked = check_case(case, subjects)  # type: ignore[arg-type]
    assert checked.passed
    return checked.settled


def test_a_refusal_that_the_encoding_needs_is_counted_and_no_difference() -> None:
    (settled,) = compared(sinks_before_a_gap(), MAPPING, ANCHORS)
    assert settled.verdict == "cannot say" and not settled.identical
    assert settled.open.identical and settled.open.differences == ()
    assert settled.open.unsaid == (Unsaid(SECOND, SINKS_BEFORE_A_GAP, 0),)
    (settled,) = compared(sinks_before_a_gap(), ANCHORS, MAPPING)
    assert settled.open.unsaid == (Unsaid(FIRST, SINKS_BEFORE_A_GAP, 0),)


def test_two_encodings_that_refuse_alike_are_identical() -> None:
    (settled,) = compared(sinks_before_a_gap(), ANCHORS, SUFFIX)
    assert settled.verdict == "identical"


def test_of_several_requests_only_the_one_that_cannot_be_said_is_passed_over() -> None:
    case = case_of(group(KEY, window=2, sinks=1), prompts=(1, 5))
    (settled,) = compared(case, MAPPING, ANCHORS)
    assert settled.open.unsaid == (Unsaid(SECOND, SINKS_BEFORE_A_GAP, 1),)


def test_a_refusal_is_a_difference_where_the_state_can_be_said() -> None:
    case = case_of(group(KEY, window=2), prompts=5)
    refusal = Refusal(SINKS_BEFORE_A_GAP, "there are none", 0)
    plan = MAPPING.plan(case, gather_facts(case))
    found = compare(case, plan, Writes(refusals=(refusal,)), encodings=("tables", "anchors"))
    assert found.refusals == (RefusalDifference(SECOND, refusal.code, refusal.reason, 0),) and not found.unsaid


def test_a_refusal_is_a_difference_where_the_subject_reads_tables() -> None:
    case = sinks_before_a_gap()
    facts = gather_facts(case)
    plans = MAPPING.plan(case, facts), ANCHORS.plan(case, facts)
    assert len(compare(case, *plans).refusals) == 1
    assert len(compare(case, *plans, encodings=("anchors", "tables")).refusals) == 1


def test_other_differences_stay_beside_what_cannot_be_said() -> None:
    case = case_of(group(KEY, window=2, sinks=1), prompts=(1, 5))
    facts = gather_facts(case)
    plans = replace(MAPPING.plan(case, facts), pairs=(), segments=()), ANCHORS.plan(case, facts)
    found = compare(case, *plans, encodings=("tables", "anchors"))
    assert not found.identical and {each.request for each in found.bytes} == {0}
    assert found.unsaid == (Unsaid(SECOND, SINKS_BEFORE_A_GAP, 1),)


def test_tails_that_tables_do_not_carry_are_no_difference() -> None:
    settled = compared(with_tails(2, 2), MAPPING, ANCHORS, SUFFIX)
    assert [each.verdict for each in settled] == ["cannot say", "cannot say", "identical"]
    assert settled[0].open.unsaid == (Unsaid(FIRST, BEAM_TAILS, 0),)


def test_wrong_tails_are_a_difference() -> None:
    case = with_tails(2, 2)
    facts = gather_facts(case)
    plans = [subject.plan(case, facts) for subject in (MAPPING, ANCHORS)]
    last = plans[1].segments[-1]
    exchanged = replace(last, source_bases=last.source_bases[[0, 1, 3, 2]])
    wrong = replace(plans[1], segments=(*plans[1].segments[:-1], exchanged))
    assert compare(case, plans[0], plans[1], encodings=("tables", "anchors")).identical
    found = compare(case, plans[0], wrong, encodings=("tables", "anchors"))
    # The tokens of the prompt are the same in both tails; those behind it are each beam's own.
    assert {(each.ordinal, each.tokens, each.right) for each in found.bytes} == {(1, (3, 3), FIRST)}


def test_what_native_does_differently_stays_known_where_an_encoding_is_short_of_words() -> None:
    """Request 1 is refused by anchors, and request 0 by the legacy sender."""
    case = case_of(group(KEY, window=5), "tp1", "tp1 cp2", requests=(Request(0, 2), Request(1, 7)), contents=())
    case = replace(case, native=Native((("all", "indexed"),)))
    checked = check_case(case, [MAPPING, ANCHORS, find_subject("native")])
    assert checked.passed
    by_pair = {(each.open.first, each.open.second): each for each in checked.settled}
    assert by_pair["mapping", "mapping:anchors"].open.unsaid == (Unsaid(SECOND, WINDOW_WITH_CONTEXT_PARALLELISM, 1),)
    assert by_pair["mapping", "native"].verdict == "accepted"
    assert by_pair["mapping:anchors", "native"].verdict == "accepted"


def test_tallies_count_codes() -> None:
    counted = Compared()
    for case in (sinks_before_a_gap(), with_tails(2, 2), case_of(KEY)):
        for settled in compared(case, MAPPING, ANCHORS):
            counted.add(settled)
    assert (counted.identical, counted.cannot_say, counted.different) == (1, 2, 0)
    assert counted.codes == {SINKS_BEFORE_A_GAP: 1, BEAM_TAILS: 1}
    twice = Compared()
    twice.merge(counted)
    twice.merge(counted)
    assert twice.cannot_say == 4 and twice.codes[BEAM_TAILS] == 2


def test_it_is_told_in_words_and_fails_nothing(shell: Shell, tmp_path: Path) -> None:
    judgement = Trial(Judged(("mapping", "mapping:anchors")))(sinks_before_a_gap())
    assert judgement.failure is None
    said = describe_comparison(judgement.settled[0])
    assert said == "mapping and mapping:anchors: mapping:anchors cannot say request 0: sinks_before_a_gap"
    path = tmp_path / "case.json"
    path.write_text(encode_file(sinks_before_a_gap(), {}), encoding="utf-8")
    told = shell("diff", path, "--subjects", "mapping,mapping:anchors")
    assert told.status == 0 and "cannot say" in told.out
    found = json.loads(shell("diff", path, "--subjects", "mapping,mapping:anchors", "--json").out)
    assert found["verdict"] == "cannot say" and found["differences"] == []
    assert found["cannot_say"] == [{"subject": "mapping:anchors", "request": 0, "code": SINKS_BEFORE_A_GAP}]


@pytest.mark.parametrize("columns", [40, 120])
def test_a_run_tells_how_often_and_why(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    arguments = ("verify", "--scope", "none", "--jobs", 1, "--kinds", "vswa", "--examples", 120, "--out", tmp_path)
    names = ("--subjects", "mapping,mapping:anchors")
    found = shell(*arguments, *names, "--json").json["subjects"]["mapping/mapping:anchors"]
    assert found["cannot_say"] > 0 and found["different"] == 0
    assert sum(found["codes"].values()) >= found["cannot_say"]
    told = shell(*arguments, *names)
    assert told.status == 0
    assert max(map(len, told.out.splitlines())) <= columns
    assert all(code in told.out for code in found["codes"]) and "cannot" in told.out
