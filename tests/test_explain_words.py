"""Elements, shares and differences in words."""

from __future__ import annotations

import re

import pytest

from oracle.model.buffers import LayerGroup, Model
from oracle.model.case import Case, Content, Request, SideState
from oracle.model.writes import Pair, Writes
from oracle.truth.explain import explain, explain_verdict
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind
from tests.reference import plan_of, read, right_rows
from tests.small_cases import case_of, group

DESTINATION, READ, WRITTEN = 4, 7, 8
GQA = "key @ 0 : H(2).heads T D(1) ; 8"
MLA = "key @ 0 : T D(1) ; 8"


def said(case: Case, rows: list[list[int]]) -> str:
    """The argument of the first violation of a plan of ``rows``."""
    return explain(case, judge(case, plan_of(rows, read(case))).violations[0])


def right(case: Case) -> list[list[int]]:
    return right_rows(case, read(case))


@pytest.mark.parametrize(
    ("layer_group", "options", "expected"),
    [
        (group("key @ 0 : T D(2) ; 16"), {}, "key of layer 0, block 0, token 0, element 0, byte 0 of 2 (content 0)"),
        (group("key @ 0 : T D(4) ; 4"), {}, "key of layer 0, block 0, token 0, elements 0-1 (content 0)"),
        (group("key @ 0 : T(2) D(1) ; 8"), {}, "key of layer 0, block 0, tokens 0-1, element 0 (content 0)"),
        (group("hp @ 0 : R(2) D(1) ; 8"), {}, "hp of layer 0, block 0, ring row 0, element 0 (content 0)"),
        (group("rec @ 0 : T ; rec(3)"), {}, "rec of layer 0, block 0, token 0, byte 0 (content 0)"),
        (
            group("conv @ 0 : C[x:2.even, B:1.all] W(1) ; 8", state=True),
            {},
            "conv of layer 0, channel 0 of section x, W 0 (state of request 0)",
        ),
        (
            group("position @ 0 : T D(1) ; 8 ; request"),
            {},
            "position of the request, block 0, token 0, element 0 (content 0)",
        ),
        (
            group(MLA, length="encoder"),
            {"requests": (Request(0, 1, lengths=(("encoder", 2),)),)},
            "key of layer 0, block 0, token 0, element 0 (request 0)",
        ),
    ],
)
def test_an_element_in_words(layer_group: LayerGroup, options: dict[str, object], expected: str) -> None:
    case = case_of(layer_group, **options)  # type: ignore[arg-type]
    assert f"due      {expected}\n" in said(case, right(case)[1:])


def test_rows_past_the_prompt_and_optional_blocks_are_called_so() -> None:
    case = case_of(
        group(MLA, window=1),
        prompts=3,
        generation_side={"reserve": (("kv", 2),)},
        context_side={"reserve": (("kv", 2),)},
    )
    wrong = [[*row[:READ], row[READ] ^ 1, *row[8:]] for row in right(case)]
    text = explain_verdict(case, judge(case, plan_of(wrong, read(case))))
    due = "due      key of layer 0, block 0, token 0, element 0 (content 0)"
    assert f"{due}; it may arrive: the receiver keeps a reserve of 2 tokens beyond the window" in text
    assert "element 0 (past the prompt of request 0), from context rank 0" in text
    assert "differs  past the prompt of request 0 in place of content 0, row 1 in place of 0" in text


def test_everything_that_differs_is_named() -> None:
    model = Model(
        2,
        (
            group("key @ 0..1 : T D(1) ; 16", "value @ 0..1 : T D(1) ; 16"),
            group(MLA.replace("key", "state"), name="other", window=4),
        ),
    )
    case = case_of(model, prompts=[2, 2], contents=(Content(), Content()))
    rows = right(case)
    reference = read(case)

    def differences(**parts: object) -> str:
        names = ("content", "group", "layer", "role", "ordinal", "part", "indices", "byte")
        target = reference.wanted[rows[0][DESTINATION], rows[0][6], rows[0][WRITTEN]].identity
        asked = tuple(parts.get(name, value) for name, value in zip(names, target, strict=True))
        place = next(place for place, identity in reference.source.items() if identity == asked)
        text = said(case, [[*rows[0][:5], place[1], rows[0][6], place[2], *rows[0][8:]], *rows[1:]])
        return re.search(r"differs  (.*)", text)[1]  # type: ignore[index]

    assert differences(content=1) == "content 1 in place of 0"
    assert differences(layer=1) == "layer 1 in place of 0"
    assert differences(role="value") == "role value in place of key"
    assert differences(indices=(1, 0)) == "row 1 in place of 0"
    assert differences(byte=1) == "byte 1 of the element in place of 0"
    assert differences(group=1, role="state") == "group 1 in place of 0, role state in place of key"


def test_padding_and_other_cuts_that_come_are_called_so() -> None:
    case = case_of("key @ 0 : T D(1) ; 8 ; pad(3)")
    rows = right(case)
    rows[0][READ] += 2
    assert "came     padding, from context rank 0" in said(case, rows)
    case = case_of(MLA, generation_side={"element_bits": (("key", 16),)})
    plan = Writes.from_runs([(0, 0, 0, 0, 0, 0, 0, 2, 4, 2)], pairs=[Pair(0, 0, 0)])
    wrong = next(v for v in judge(case, plan).violations if v.kind is Kind.WRONG_ELEMENT)
    assert "came     no element: the sides cut elements or blocks differently" in explain(case, wrong)


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ("H(4).even", "holds heads 2-3 of 4: 4/2=2 from 1*2=2"),
        ("H(5).floor", "holds heads 2-4 of 5: from floor(1*5/2)=2"),
        ("H(5).cyc", "holds heads 1, 3 of 5: every 2nd from 1"),
        ("C[x:4.even, B:2.all]", "holds channels 2-3 of section x, 0-1 of section B"),
        ("H(1).heads", "holds head 0 of 1: ceil(1/2)=1 from floor(1*1/2)=0; the same on 0"),
    ],
)
def test_the_shares_of_every_split_in_words(axis: str, expected: str) -> None:
    case = case_of(f"key @ 0 : {axis} T D(1) ; 8", "tp1", "tp2", size=1, prompts=1)
    rows = [row for row in right(case) if row[DESTINATION] == 0]
    assert f"because  generation rank 1, 1 of tp=2, {expected}\n" in said(case, rows)


def test_attention_dp_splits_nothing() -> None:
    case = case_of(GQA, "tp1", "tp2 dp")
    text = said(case, right(case)[1:])
    assert "generation rank 0, 0 of tp=1, holds heads 0-1 of 2: attention DP splits nothing" in text


def test_the_states_that_an_argument_rests_on_are_told_by_side() -> None:
    states = {"context": SideState(2, 1, 3, 8), "generation": SideState(reached=6)}
    reserves = [{"reserve": (("kv", kept),)} for kept in (5, 6)]
    case = case_of(
        group(MLA, window=3), requests=(Request(0, 5, **states),), context_side=reserves[0], generation_side=reserves[1]
    )
    told = "request 0 prompt=5, context cached=2 extra=1 drafts=3 reached=8, generation reached=6, window=3"
    assert f"{told}, context reserve=5, generation reserve=6, key=0, tokens per block=2" in said(case, [])
    first = {"manager": "v1"}
    beams = Request(0, 3, beams=3, context=SideState(tails=2), generation=SideState(tails=1))
    case = case_of(MLA, requests=(beams,), context_side=first, generation_side=first)
    told = "request 0 prompt=3, beams=3, context tails=2, generation tails=1, key=0, tokens per block=2"
    assert told in said(case, [])
