"""Every violation reads as an argument: its words, pinned on the smallest case of each kind."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import dedent

from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.model.case import Case, Request, SlotList
from oracle.model.writes import Pair, Refusal
from oracle.truth.explain import explain, explain_verdict
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind, Outcome, Place, Verdict
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, group, small_cases

SOURCE, DESTINATION, READ, WRITTEN, BYTES = 3, 4, 7, 8, 9
GQA = "key @ 0 : H(2).heads T D(1) ; 8"
MLA = "key @ 0 : T D(1) ; 8"
"""One byte a token."""


def said(case: Case, rows: list[list[int]], kind: Kind | None = None, **options: object) -> str:
    """The argument of the first violation of ``kind`` in a plan of ``rows``."""
    verdict = judge(case, plan_of(rows, read(case)), **options)
    return explain(case, next(v for v in verdict.violations if kind in (None, v.kind)))


def lines(text: str) -> str:
    """``text`` without its margin; a line that ends in a backslash goes on in the next one."""
    return re.sub(r"\\\n *", "", dedent(text).strip("\n"))


def right(case: Case) -> list[list[int]]:
    return right_rows(case, read(case))


def read_from(case: Case, rows: list[list[int]], rank: int) -> list[list[int]]:
    """``rows`` with the same elements read from another rank."""
    reference = read(case)
    places = {identity: place[2] for place, identity in reference.source.items() if place[0] == rank}
    return [
        [
            *row[:SOURCE],
            rank,
            *row[4:READ],
            places[reference.wanted[row[DESTINATION], row[6], row[WRITTEN]].identity],
            *row[8:],
        ]
        for row in rows
    ]


def test_a_wrong_head_says_which_was_due_which_came_and_who_holds_them() -> None:
    # Head = rank mod heads: rank 1 of 4 gets head 1 in place of head 0.
    case = case_of(GQA, "tp1", "tp4", prompts=8, size=4)
    rows = [[*row[:READ], row[READ] + 4 * (row[DESTINATION] == 1), *row[8:]] for row in right(case)]
    assert said(case, rows) == lines(
        r"""
        wrong element: 4 bytes, the first at pool 0 slot 5 +0 (byte 0 of key) of generation rank 1 (tp 1 of 4)
          due      key of layer 0, block 0, head 0, token 0, element 0 (content 0)
          came     key of layer 0, block 0, head 1, token 0, element 0 (content 0), from context rank 0, \
            pool 0 slot 1 +4
          differs  head 1 in place of 0
          because  generation rank 1, 1 of tp=4, holds head 0 of 2: ceil(2/4)=1 from floor(1*2/4)=0; the same on 0
          because  context rank 0, 0 of tp=1, holds heads 0-1 of 2: ceil(2/1)=2 from floor(0*2/1)=0
          paired   context rank 0; of these [0] holds the due element; elected 0 = [0][key 0 mod 1]
          with     context tp=1, generation tp=4, heads=2, request 0 prompt=8, key=0, tokens per block=4
        """
    )


def test_a_missing_byte_says_who_had_to_send_it() -> None:
    case = case_of(GQA, "tp4", "tp1")
    rows = right(case)
    assert said(case, rows[:3]) == lines(
        """
        missing: 1 byte at pool 0 slot 1 +3 (byte 3 of key) of generation rank 0, written by nobody
          due      key of layer 0, block 0, head 1, token 1, element 0 (content 0)
          because  generation rank 0, 0 of tp=1, holds heads 0-1 of 2: ceil(2/1)=2 from floor(0*2/1)=0
          paired   context ranks 0, 1, 2, 3; of these [2, 3] hold the due element; elected 2 = [2, 3][key 0 mod 2]
          with     context tp=4, generation tp=1, heads=2, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_a_missing_block_that_the_source_lost_says_so() -> None:
    tables = (SlotList("context", 0, "kv", 0, (-1, 1)),)
    case = case_of(group(MLA, window=4), prompts=4, tables=tables)
    assert said(case, right(case)) == lines(
        """
        missing: 2 bytes, the first at pool 0 slot 1 +0 (byte 0 of key) of generation rank 0, written by nobody
          due      key of layer 0, block 0, token 0, element 0 (content 0)
          paired   context rank 0; none of them holds the due element
          note     the source no longer holds this block
          with     context tp=1, generation tp=1, request 0 prompt=4, window=4, key=0, tokens per block=2
        """
    )


def test_a_missing_pair_says_how_the_shares_of_both_overlap() -> None:
    case = case_of("key @ 0..1 : T D(1) ; 8", "tp2 pp1+1", "tp1 cp2")
    plan = plan_of(right(case), read(case))
    (violation,) = judge(case, replace(plan, pairs=plan.pairs[:-1])).violations
    assert explain(case, violation) == lines(
        r"""
        missing: the pair of request 0, context rank 3 (pp 1 of 2, tp 1 of 2) to generation rank 1 (cp 1 of 2)
          because  context rank 3 has layers 1..1, tp [1/2, 2/2); \
            generation rank 1 has layers 0..1, tp [0/1, 1/1), cp [1/2, 2/2)
          paired   context ranks 0, 1, 2, 3
          note     the plan leaves out this pair
          with     context tp=2 pp=2, generation tp=1 cp=2, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_an_index_that_no_paired_rank_holds_says_so_though_no_block_shows_it() -> None:
    # One block: ranks 1 and 2 own none of it, and of longer prompts each owns one that its sender does not.
    case = case_of(GQA, "tp1 cp2", "tp1 cp4")
    (violation,) = judge(case, plan_of(right(case), read(case))).violations
    rank, sender = violation.destination, violation.paired[0]
    assert (rank, sender) in ((1, 0), (2, 1))
    assert explain(case, violation) == lines(
        f"""
        missing: key of layer 0, head 0, row 0 of a block, element 0, on generation rank {rank} (cp {rank} of 4)
          because  generation rank {rank}, 0 of tp=1, holds heads 0-1 of 2: ceil(2/1)=2 from floor(0*2/1)=0
          because  of cp=2 context ranks, each owns every 2nd block
          because  of cp=4 generation ranks, each owns every 4th block
          paired   context rank {sender}
          note     served, though no paired rank holds this index; a longer prompt would show it
          with     context tp=1 cp=2, generation tp=1 cp=4, heads=2, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_a_duplicate_says_that_it_was_written_again() -> None:
    case = case_of(MLA)
    rows = right(case)
    assert said(case, [*rows, *rows]) == lines(
        """
        duplicate: 2 bytes, the first at pool 0 slot 1 +0 (byte 0 of key) of generation rank 0, written again
          due      key of layer 0, block 0, token 0, element 0 (content 0)
          came     key of layer 0, block 0, token 0, element 0 (content 0), from context rank 0, pool 0 slot 1 +0
          paired   context rank 0; of these [0] holds the due element; elected 0 = [0][key 0 mod 1]
          with     context tp=1, generation tp=1, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_an_unelected_sender_is_shown_the_election() -> None:
    case = case_of(MLA, "tp4", "tp2 dp", requests=(Request(0, 2, generation_dp=1),))
    assert said(case, read_from(case, right(case), 0)) == lines(
        r"""
        not elected: 2 bytes, the first at pool 0 slot 0 +0 (byte 0 of key) of generation rank 1 \
            (attention DP 1 of 2), right, but not from the elected rank
          due      key of layer 0, block 0, token 0, element 0 (content 0)
          came     key of layer 0, block 0, token 0, element 0 (content 0), from context rank 0 (tp 0 of 4), \
            pool 0 slot 1 +0
          paired   context ranks 0, 1, 2, 3; of these [0, 1, 2, 3] hold the due element; \
            elected 1 = [0, 1, 2, 3][key 1 mod 4]
          with     context tp=4, generation tp=2 attention DP, request 0 prompt=2, key=1, tokens per block=2
        """
    )


def test_an_unpaired_sender_is_shown_the_shares() -> None:
    case = case_of(MLA, "tp4", "tp2")
    rows = right(case)
    others = [row for row in rows if row[DESTINATION] == 1]
    moved = read_from(case, [row for row in rows if row[DESTINATION] == 0], 3)
    assert said(case, others + moved, Kind.UNPAIRED_SENDER) == lines(
        """
        unpaired sender: 2 bytes of request 0, context rank 3 (tp 3 of 4) to generation rank 0 (tp 0 of 2)
          because  context rank 3 has layers 0..0, tp [3/4, 4/4); generation rank 0 has layers 0..0, tp [0/2, 1/2)
          paired   context ranks 0, 1
          with     context tp=4, generation tp=2, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_a_pair_that_is_none_says_why() -> None:
    case = case_of(MLA, "tp2", "tp2")
    plan = plan_of(right(case), read(case))
    (violation,) = judge(case, replace(plan, pairs=(*plan.pairs, Pair(0, 5, 1)))).violations
    assert explain(case, violation) == lines(
        """
        unpaired sender: the pair of request 0, context rank 5 (no such rank) to generation rank 1 (tp 1 of 2)
          because  the context instance has the ranks 0..1; generation rank 1 has layers 0..0, tp [1/2, 2/2)
          paired   context rank 1
          note     the plan names a pair whose shares do not overlap
          with     context tp=2, generation tp=2, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_out_of_bounds_says_where_the_run_is() -> None:
    case = case_of(MLA)
    rows = right(case)
    assert said(case, [rows[0], [*rows[1][:BYTES], 3]]) == lines(
        """
        out of bounds: 2 bytes of a run at pool 0 slot 1 +1 of generation rank 0
          came     bytes, from context rank 0
          note     the run leaves its slot
          with     context tp=1, generation tp=1, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_a_stale_source_says_what_lay_there() -> None:
    case = case_of(MLA)
    rows = [[*row[:READ], row[READ] + 2, *row[8:]] for row in right(case)]
    assert said(case, rows) == lines(
        r"""
        stale source: 2 bytes, the first at pool 0 slot 1 +0 (byte 0 of key) of generation rank 0, \
            read from a slot that holds no block to send
          due      key of layer 0, block 0, token 0, element 0 (content 0)
          came     a slot that holds no block of this transfer, from context rank 0, pool 0 slot 2 +0
          paired   context rank 0; of these [0] holds the due element; elected 0 = [0][key 0 mod 1]
          with     context tp=1, generation tp=1, request 0 prompt=2, key=0, tokens per block=2
        """
    )


def test_a_false_refusal_says_that_every_byte_has_a_holder() -> None:
    case = case_of(GQA, "tp4", "tp1")
    (violation,) = judge(case, Refusal("uneven", "4 ranks and 2 heads")).violations
    assert explain(case, violation) == lines(
        """
        false refusal: the two instances refused with code 'uneven', though it can be served
          said     4 ranks and 2 heads
          because  every due byte has a paired holder
          with     context tp=4, generation tp=1, tokens per block=2
        """
    )
    (violation,) = judge(case, Refusal("lost", "", 0)).violations
    assert explain(case, violation).startswith("false refusal: request 0 refused with code 'lost'")


# ---- verdicts


def test_a_verdict_that_passes_says_what_was_judged() -> None:
    case = case_of(MLA)
    assert explain(case, judge(case, plan_of(right(case), read(case)))) == (
        "pass: 2 bytes in 2 runs over 1 pair, each in its place"
    )


def test_a_right_refusal_is_told_with_its_reason() -> None:
    case = case_of(MLA, "tp2", "tp3")
    assert explain(case, judge(case, Refusal("fan", "3 is no multiple of 2"))) == (
        "pass: rightly refused, the instances: fan (3 is no multiple of 2)"
    )


def test_a_right_refusal_of_one_request_leaves_the_rest_to_be_told() -> None:
    tables = (SlotList("context", 0, "kv", 0, (-1,)), SlotList("context", 0, "kv", 1, (1,)))
    case = case_of(MLA, prompts=[2, 2], tables=tables)
    plan = plan_of(right(case), read(case))
    plan = replace(plan, pairs=plan.pairs[1:], refusals=(Refusal("lost", "block 0", 0),))
    assert explain_verdict(case, judge(case, plan)) == (
        "pass: rightly refused, request 0: lost (block 0); "
        "for the rest 2 bytes in 2 runs over 1 pair, each in its place"
    )


def test_what_could_not_run_says_why() -> None:
    assert explain_verdict(case_of(MLA), Verdict(Outcome.NOT_RUN, reason="no device")) == "not run (no device)"


def test_a_failure_without_a_plan_gives_its_reason() -> None:
    verdict = Verdict(Outcome.FAIL, reason="crash: IndexError: 3 at runs.py:7")
    assert explain_verdict(case_of(MLA), verdict) == "fail: crash: IndexError: 3 at runs.py:7"


def test_a_verdict_counts_bytes_and_shows_the_first_arguments() -> None:
    case = case_of(MLA, prompts=8)
    rows = right(case)
    verdict = judge(case, plan_of(rows[1::2], read(case)))
    text = explain_verdict(case, verdict, limit=2)
    assert text.splitlines()[0] == "fail: missing 4 bytes; 4 bytes in 4 runs over 1 pair"
    assert text.count("missing: ") == 2
    assert text.endswith("\n\n... and 2 more")
    assert "more" not in explain_verdict(case, verdict, limit=4)


def test_a_refusal_and_a_pair_have_no_bytes_to_count() -> None:
    case = case_of(MLA)
    assert explain_verdict(case, judge(case, Refusal("no", ""))).startswith("fail: false refusal 1 refusal; 0 bytes")
    plan = plan_of(right(case), read(case))
    assert explain_verdict(case, judge(case, replace(plan, pairs=()))).startswith("fail: missing; 2 bytes in 2 runs")


@settings(max_examples=100, deadline=None)
@given(small_cases(), st.data())
def test_any_violation_can_be_told(case: Case, data: st.DataObject) -> None:
    reference = read(case)
    rows = right_rows(case, reference)
    for _ in range(data.draw(st.integers(0, 5)) if rows else 0):
        row = [*rows[data.draw(st.integers(0, len(rows) - 1))]]
        row[data.draw(st.sampled_from([SOURCE, DESTINATION, READ, WRITTEN, BYTES]))] += data.draw(st.integers(-2, 9))
        row[BYTES] = max(row[BYTES], 0)
        rows[data.draw(st.integers(0, len(rows) - 1))] = row
    verdict = judge(case, plan_of(rows, reference))
    for violation in verdict.violations:
        text = explain(case, violation)
        assert text.startswith(f"{violation.kind.value}: ")
        assert "None" not in text
        assert "\n  with     context tp=" in text
    assert explain_verdict(case, verdict).startswith(verdict.outcome.value)


def test_where_the_sender_read_is_told_where_it_is_known() -> None:
    case = case_of(MLA)
    rows = right(case)
    violation = judge(case, plan_of([*rows, *rows], read(case))).violations[0]
    text = explain(case, replace(violation, read=Place(0, 0, 3, 16)))
    assert "(content 0), from context rank 0, pool 0 slot 3 +16\n" in text


def test_a_torn_byte_is_told_as_any_other() -> None:
    case = case_of(MLA)
    (missing,) = judge(case, plan_of(right(case)[1:], read(case))).violations
    torn = replace(missing, kind=Kind.TORN)
    assert (
        explain(case, torn).splitlines()[0] == "torn: 1 byte at pool 0 slot 1 +0 (byte 0 of key) of generation rank 0"
    )


def test_sides_that_store_heads_and_tokens_in_another_order_are_named() -> None:
    case = case_of(GQA, "tp1", "tp1", size=2)
    case = replace(case, generation=replace(case.generation, layout="NHD"))
    rows = [[*row[:READ], row[READ] ^ 1, *row[8:]] for row in right(case)[:1]]
    assert "key is HND on context and NHD on generation" in said(case, rows, Kind.WRONG_ELEMENT)
    assert "HND" not in said(case_of(GQA, "tp1", "tp4"), [])
