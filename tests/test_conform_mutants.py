"""Small mistakes in a declaration are caught, by whom is told, and those that mean the same are told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kvwitness.conform import Sample
from kvwitness.conform import equal as reasons
from kvwitness.conform.equal import why_equal
from kvwitness.conform.mutants import (
    BUILDING,
    COMPARISON,
    EQUIVALENT,
    JUDGE,
    MUTANTS,
    PAGES,
    SELDOM,
    SURVIVES,
    Standing,
    check_mutants,
    judge_mutants,
    summary_of,
)
from kvwitness.conform.mutate import Mutant, mutants_of
from oracle.model.axes import Axis, Section, Split
from oracle.model.buffers import Buffer, Model, Move, MoveState, Part, Placement
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.layers import LayerSet
from oracle.model.notation import format_buffer
from oracle.truth.verdict import Outcome
from strategies.kinds import find_kind
from strategies.kinds.fitting import divisible, draw_heads
from strategies.kinds.pieces import TOKENS, by_heads, layers, paged, rows, state
from strategies.kinds.protocol import Declaration, Surroundings
from tests.odd_kinds import declared, heads_and_dims, keys, kind_of, sample_of
from tests.small_cases import group, model_of

GQA, MLA = find_kind("gqa"), find_kind("mla")


def mutants(*buffers: str, **options: object) -> dict[str, str]:
    """What each small mistake makes of the first buffer, in the notation; of a group, its window."""
    model = model_of(group(*buffers, **options))
    found = {}
    for mutant in mutants_of(model):
        try:
            changed = mutant.apply(model)
        except InvalidCase as error:
            found[mutant.name] = str(error)
            continue
        assert changed is not None and changed != model, mutant.name
        role = mutant.place[0]
        if mutant.group is not None:
            found[mutant.name] = str(changed.groups[0].window)
        else:
            buffer = next(each for each in changed.groups[0].buffers if each.role == role)
            found[mutant.name] = format_buffer(buffer).partition(" : ")[2]
    return found


# ---- the mistakes


def test_mistakes_in_axes_splits_widths_and_moves() -> None:
    assert mutants("key @ 0 : H(4).heads T D(2) ; 16") == {
        "key: axes H and T exchanged": "T H(4).heads D(2) ; 16",
        "key: axes T and D exchanged": "H(4).heads D(2) T ; 16",
        "key: H .heads → .all": "H(4) T D(2) ; 16",
        "key: H .heads → .floor": "H(4).floor T D(2) ; 16",
        "key: H .heads → .even": "H(4).even T D(2) ; 16",
        "key: H .heads → .cyc": "H(4).cyc T D(2) ; 16",
        "key: H @TP → @TPCP": "H(4).heads@TPCP T D(2) ; 16",
        "key: tokens of a row of T doubled": "H(4).heads T(2) D(2) ; 16",
        "key: D .all → .heads": "H(4).heads T D(2).heads ; 16",
        "key: elements half as wide": "H(4).heads T D(2) ; 8",
        "key: elements twice as wide": "H(4).heads T D(2) ; 32",
        "key: send → never": "H(4).heads T D(2) ; 16 ; never",
    }


def test_mistakes_in_sections() -> None:
    found = mutants("conv @ 0 : C[x:8.even, B:2.all, C:4.even]@TPCP ; 8", state=True, name="s")
    assert found["conv: sections x and B of C exchanged"].startswith("C[B:2.all, x:8.even, C:4.even]@TPCP")
    assert found["conv: sections B and C of C exchanged"].startswith("C[x:8.even, C:4.even, B:2.all]@TPCP")
    assert found["conv: sections of C merged"].startswith("C(14).even@TPCP")
    assert found["conv: section B of C .all → .even"].startswith("C[x:8.even, B:2.even, C:4.even]@TPCP")
    assert found["conv: C @TPCP → @TP"].startswith("C[x:8.even, B:2.all, C:4.even] ;")


def test_mistakes_in_parts_pages_placement_ids_and_scope() -> None:
    found = mutants("index @ 0 : T(2) ; foot(4,2,1) ; pad(64) ; ids 7m+5")
    assert found["index: parts in the other order"].startswith("T(2) ; foot(4,1,2)")
    assert found["index: sub-pages dropped"].startswith("T(2) ; foot(*,2,1)")
    assert found["index: placement dropped"] == "T(2) ; foot(4,2,1) ; ids 7m+5"
    assert found["index: ids dropped"] == "T(2) ; foot(4,2,1) ; pad(64)"
    assert found["index: a token a row of T of part 1"].startswith("buffer index.parts = [1, 2]")
    scoped = mutants("key @ 0 : T ; 8", "at @ 0 : T ; 8 ; request ; first_local")
    assert scoped["at: on every layer of a stage"] == "T ; 8 ; request"
    assert mutants("at @ 0 : T ; 8 ; request")["at: of a layer, not of the request"] == "T ; 8"
    assert mutants("key @ 0 : T ; 8 ; x(2)")["key: expansion dropped"] == "T ; 8"


def test_mistakes_in_moves_and_windows() -> None:
    found = mutants("key @ 0 : T ; 8", "v @ 0 : T ; 8 ; derived(key)", window=3)
    assert found["v: derived → send"] == "T ; 8"
    assert "v: derived → never" not in found
    assert found["key: send → never"].endswith("derived from a role that its group does not move on that layer")
    assert found["group kv: window dropped"] == "None"
    assert found["group kv: window a token longer"] == "4"
    optional = mutants("key @ 0 : T ; 8 ; optional(context)")
    assert {name for name in optional if "optional" in name} == {"key: optional → never", "key: optional → send"}


def test_the_second_buffer_of_a_role_has_mistakes_of_its_own() -> None:
    model = model_of(group("key @ 0 : T D(1) ; 8", "key @ 1 : T D(2) ; 8"), layers=2)
    by_name = {mutant.name: mutant for mutant in mutants_of(model)}
    changed = by_name["key (2): send → never"].apply(model)
    assert changed is not None
    assert [buffer.moves[0].state for buffer in changed.groups[0].buffers] == [MoveState.SEND, MoveState.NEVER]
    assert by_name["key (2): send → never"].apply(model_of(group("key @ 0 : T D(1) ; 8"))) is None


# ---- who catches them


@pytest.fixture(scope="module")
def standings() -> dict[str, dict[str, Standing]]:
    found = {}
    for kind in (GQA, MLA):
        found[kind.name] = {each.mutant.name: each for each in judge_mutants(sample_of(kind, 80))}
    return found


def test_no_mistake_in_the_dense_kinds_survives(standings: dict[str, dict[str, Standing]]) -> None:
    for name in ("gqa", "mla"):
        assert [each.mutant.name for each in standings[name].values() if each.by == SURVIVES] == []


@pytest.mark.parametrize(
    ("kind", "mutant"),
    [
        ("gqa", "key: axes T and D exchanged"),
        ("gqa", "key: H .heads → .floor"),
        ("gqa", "value: H .heads → .even"),
        ("gqa", "key: H @TP → @TPCP"),
        ("gqa", "value: send → never"),
        ("mla", "key: elements half as wide"),
        ("mla", "key: elements twice as wide"),
        ("mla", "key: D .all → .heads"),
        ("mla", "key: tokens of a row of T doubled"),
    ],
)
def test_what_matters_is_caught(standings: dict[str, dict[str, Standing]], kind: str, mutant: str) -> None:
    """By whichever law meets it first: a few drawn cases may show a mistake in the comparison alone."""
    found = standings[kind][mutant]
    assert found.by in (JUDGE, PAGES, BUILDING, COMPARISON) and found.how


@pytest.mark.parametrize(
    ("kind", "mutant", "why"),
    [
        ("gqa", "key: axes H and T exchanged", reasons.BY_LAYOUT),
        ("mla", "key: axes T and D exchanged", reasons.ONE_RUN),
    ],
)
def test_what_means_the_same_is_told_why(
    standings: dict[str, dict[str, Standing]], kind: str, mutant: str, why: str
) -> None:
    found = standings[kind][mutant]
    assert (found.by, found.how, found.differ) == (EQUIVALENT, why, 0)
    assert found.same >= 10


def test_the_judge_says_what_a_mistake_makes_wrong(standings: dict[str, dict[str, Standing]]) -> None:
    missing = standings["mla"]["key: send → never"]
    assert (missing.by, missing.how) == (JUDGE, "missing")
    wrong = standings["gqa"]["key: axes T and D exchanged"]
    assert (wrong.by, "wrong element" in wrong.how) == (JUDGE, True)


def test_pages_catch_what_plans_do_not() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        key = rows("key", layers(range(around.layers)), 3, 8)
        return declared(around, paged("kv", (replace(key, placement=Placement(pad=64 + numbers[0])),)))

    (found,) = [
        each
        for each in judge_mutants(sample_of(kind_of(decode, tokens_per_block=(2,))))
        if each.mutant.family == "placement"
    ]
    assert found.by == PAGES
    assert re.fullmatch(r"slots of \d+ B instead of \d+ B on context rank 0", found.how)


def test_the_comparison_catches_ids() -> None:
    found = {each.mutant.name: each for each in judge_mutants(sample_of(find_kind("fp4_mla"), 60))}
    ids = [each for each in found.values() if each.mutant.family == "ids"]
    assert ids and {each.by for each in ids} <= {BUILDING, COMPARISON, EQUIVALENT}
    assert COMPARISON in {each.by for each in ids}


def windowed(window: int) -> Sample:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        return declared(around, keys(around, 1 + numbers[0], window=window))

    return sample_of(kind_of(decode, tokens_per_block=(2,)), 30)


def test_draws_that_are_too_narrow_let_a_mistake_survive() -> None:
    result = check_mutants(windowed(10_000))
    assert result.outcome is Outcome.FAIL
    assert result.said.startswith("8 mutants: 2 SURVIVE; caught ")
    told = [line.partition(" in ")[0] for line in result.example]
    assert told == [
        f"SURVIVES group kv: window {what}: nothing tells it apart" for what in ("dropped", "a token longer")
    ]
    assert all(line.endswith("the drawn cases are too narrow") for line in result.example)


def test_a_window_that_blocks_leave_catches_both() -> None:
    found = {each.mutant.name: each for each in judge_mutants(windowed(2))}
    assert {found[f"group kv: window {what}"].by for what in ("dropped", "a token longer")} == {JUDGE}


def survivors(sample: Sample) -> list[str]:
    return [each.mutant.name for each in judge_mutants(sample) if each.by == SURVIVES]


def test_heads_that_always_divide_let_a_split_survive() -> None:
    def narrow(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        return declared(around, paged("kv", (by_heads("key", layers(range(around.layers)), 24, 1 + numbers[0], 8),)))

    def wide(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        every = layers(range(around.layers))
        return declared(around, paged("kv", (by_heads("key", every, draw_heads(numbers[0], around, 32), 2, 8),)))

    assert survivors(sample_of(kind_of(narrow), 30)) == ["key: H .heads → .floor", "key: H .heads → .even"]
    assert survivors(sample_of(kind_of(wide, (32,)), 60)) == []


def test_more_cases_are_drawn_while_something_is_open_and_none_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    more_cases = Sample.more_cases

    def counted(sample: Sample) -> Iterator[Case]:
        for case in more_cases(sample):
            drawn.append(case)
            yield case

    monkeypatch.setattr(Sample, "more_cases", counted)
    judge_mutants(sample_of(MLA, 60))
    assert len(drawn) <= 1
    judge_mutants(windowed(10_000))
    assert len(drawn) > 200


def test_what_could_matter_in_a_few_cases_only_is_not_said_to_survive() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        rare = numbers[0] == 7 and around.layers == 3
        move = Move(MoveState.SEND if rare else MoveState.NEVER)
        key = replace(rows("key", layers(range(around.layers)), 2, 8), moves=(move,))
        return declared(around, paged("kv", (key,), 100_000))

    found = [each for each in judge_mutants(sample_of(kind_of(decode, (256,)), 40)) if each.mutant.family == "window"]
    assert {each.by for each in found} <= {SELDOM, EQUIVALENT}
    assert all(each.how.startswith("it could matter in ") for each in found if each.by == SELDOM)


def test_without_a_case_nothing_runs() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        raise ZeroDivisionError("no")

    assert check_mutants(sample_of(kind_of(decode), 3)).outcome is Outcome.NOT_RUN


def test_where_some_cases_cannot_be_narrow_draws_are_no_news() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        if around.layers == 3:
            raise ZeroDivisionError("three")
        return declared(around, keys(around))

    # With the other laws it does not run, for the kind does not build; alone it speaks of the cases that there are.
    assert MUTANTS.whole
    result = check_mutants(sample_of(kind_of(decode), 40))
    assert result.outcome is Outcome.PASS and "SURVIVES" not in result.said


def test_the_summary_counts_everyone() -> None:
    mutant = next(mutants_of(model_of(group("key @ 0 : T ; 8"))))
    whom = (JUDGE, JUDGE, PAGES, BUILDING, COMPARISON, EQUIVALENT, SELDOM, SURVIVES)
    every = [Standing(mutant, by) for by in whom]
    assert summary_of(every) == (
        "8 mutants: 1 SURVIVES; caught 2 by the judge, 1 by the page tables, 1 by building, 1 by the comparison; "
        "1 equivalent; 1 too seldom to tell"
    )


# ---- what means the same


def reason(before: Buffer, after: Buffer, family: str, *, draft: bool = False, kind: object = GQA) -> str:
    is_paged = any(part.token_axis for part in before.parts)
    make = (lambda buffer: paged("g", (buffer,))) if is_paged else (lambda buffer: state("g", (buffer,)))
    models = [Model(1, (make(buffer),), LayerSet((0,)) if draft else LayerSet()) for buffer in (before, after)]
    mutant = Mutant(family, before.role, "", (before.role, 0), buffer=lambda buffer: after)
    return why_equal(kind, mutant, *models, has_native=True)  # type: ignore[arg-type]


def one(*axes: Axis, bits: int = 8, **options: object) -> Buffer:
    return Buffer("key", LayerSet((0,)), (Part(axes, bits),), **options)  # type: ignore[arg-type]


H, D, P = Axis("H", 4, Split.HEADS), Axis("D", 2), Axis("P", 3)
EVEN, FLOOR = Axis("H", 4, Split.EVEN), Axis("H", 4, Split.FLOOR)
NEVER = (Move(MoveState.NEVER),)
SINGLE = Axis("H", 1, Split.HEADS)


def sections(*sizes: tuple[int, Split]) -> Axis:
    return Axis("C", sections=tuple(Section(f"s{n}", size, split) for n, (size, split) in enumerate(sizes)))


@pytest.mark.parametrize(
    ("before", "after", "family", "why"),
    [
        (one(H, TOKENS, D), one(TOKENS, H, D), "axes", reasons.BY_LAYOUT),
        (one(H, TOKENS, D), one(H, D, TOKENS), "axes", ""),
        (one(TOKENS, D), one(D, TOKENS), "axes", reasons.ONE_RUN),
        (one(H, P, D), one(H, D, P), "axes", reasons.ONE_RUN),
        (one(H, D), one(D, H), "axes", ""),
        (one(SINGLE, TOKENS, D), one(SINGLE, D, TOKENS), "axes", reasons.ONE_RUN),
        (one(EVEN, D), one(FLOOR, D), "split", reasons.EQUAL_SHARES),
        (one(EVEN, D), one(H, D), "split", reasons.EQUAL_SHARES),
        (one(H, D), one(EVEN, D), "split", ""),
        (one(H, D), one(FLOOR, D), "split", ""),
        (one(SINGLE, D), one(Axis("H", 1), D), "split", reasons.ONE_INDEX),
        (one(SINGLE, D), one(Axis("H", 1, Split.CYCLIC), D), "split", ""),
        (
            one(sections((4, Split.EVEN), (4, Split.EVEN))),
            one(Axis("C", sections=sections((4, Split.EVEN), (4, Split.EVEN)).sections[::-1])),
            "sections",
            reasons.ALIKE,
        ),
        (
            one(sections((4, Split.EVEN), (8, Split.EVEN))),
            one(sections((8, Split.EVEN), (4, Split.EVEN))),
            "sections",
            "",
        ),
        (one(sections((4, Split.EVEN), (8, Split.EVEN))), one(Axis("C", 12, Split.EVEN)), "sections", ""),
        (one(sections((4, Split.ALL), (8, Split.ALL))), one(Axis("C", 12)), "sections", reasons.ALIKE),
        (one(TOKENS, D, sub_rows=2), one(TOKENS, D), "sub-pages", reasons.ONE_PART),
        (one(H, TOKENS, D, sub_rows=2), one(H, TOKENS, D), "sub-pages", ""),
        (one(TOKENS, D, ids=(3, 1)), one(TOKENS, D), "ids", reasons.ONE_NAME),
        (one(TOKENS, D), one(TOKENS, D, moves=(Move(MoveState.NEVER),)), "moves", ""),
        (one(H, D, moves=NEVER), one(D, H, moves=NEVER), "axes", reasons.NOT_SENT),
        (one(H, D, moves=NEVER), one(EVEN, D, moves=NEVER), "split", ""),
        (one(TOKENS, D), one(TOKENS, D, bits=16), "width", ""),
        (one(TOKENS, D, placement=Placement(own=True)), one(TOKENS, D), "placement", ""),
    ],
)
def test_reasons_hold_whatever_the_case(before: Buffer, after: Buffer, family: str, why: str) -> None:
    assert reason(before, after, family) == why


def test_reasons_of_moves_and_grids() -> None:
    optional = one(TOKENS, D, moves=(Move(MoveState.OPTIONAL, side="either"),))
    assert reason(optional, one(TOKENS, D), "moves", draft=True) == reasons.DRAFT
    assert reason(optional, one(TOKENS, D), "moves") == ""
    rules = (Move(MoveState.NEVER, LayerSet((0,))), Move())
    unused = one(TOKENS, D, moves=rules)
    assert reason(unused, replace(unused, moves=(rules[0], Move(MoveState.NEVER))), "moves") == reasons.NO_LAYER
    wider = replace(H, grid=type(H.grid).TPCP)
    assert reason(one(H, D), one(wider, D), "grid") == ""
    assert reason(one(H, D), one(wider, D), "grid", kind=replace(GQA, helix=False)) == reasons.ONE_GRID


def test_what_is_equal_by_a_reason_never_changes_a_plan() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        every = layers(range(around.layers))
        size = divisible(1 + numbers[0], around.whole)
        conv = Buffer("conv", every, (Part((sections((size, Split.EVEN), (size, Split.EVEN)), D), 8),))
        return declared(around, keys(around), state("state", (conv,)), native=None)

    for each in judge_mutants(sample_of(kind_of(decode), 60)):
        if each.reason:
            assert each.by == EQUIVALENT and not each.differ, each


def test_dense_declarations_have_as_many_mistakes_as_the_summary_says() -> None:
    result = check_mutants(sample_of(kind_of(heads_and_dims, (64, 3)), 60))
    assert result.outcome is Outcome.PASS
    assert result.said.startswith("24 mutants: caught ") and result.said.endswith("; 2 equivalent")
