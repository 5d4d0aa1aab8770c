"""What must be refused is, what can be served must be: by the declaration, by the mapping, and as the judge sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping, Pages, check_compatible
from differential.subjects.mapping import refusals as codes
from oracle.model.buffers import GroupKind, LayerGroup, Model
from oracle.model.case import Case, Request, SlotList
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance, Without
from oracle.model.layers import LayerSet
from oracle.model.notation import parse_buffer
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind
from tests.small_cases import case_of, group, topology

STATE = {"state": True, "name": "state"}


def answer(case: Case) -> Writes | Refusal:
    """The plan of the mapping, which the judge must find right, whatever it is."""
    plan = Mapping().plan(case, gather_facts(case))
    verdict = judge(case, plan)
    assert verdict, (plan, verdict)
    return plan


def code_of(case: Case) -> str:
    """The code of a right refusal, "" where the case is served."""
    plan = answer(case)
    if isinstance(plan, Refusal):
        return plan.code
    return plan.refusals[0].code if plan.refusals else ""


# ---- no such layout exists: the declaration is refused


REMAINDER = "an even split over 4 ranks needs a multiple of 4"


@pytest.mark.parametrize(
    ("buffers", "context", "generation", "rule"),
    [
        (("key @ 0 : H(6).even T ; 8",), "tp4", "tp2", REMAINDER),
        (("key @ 0 : T C[8,6].sect ; 8",), "tp1", "tp4", REMAINDER),
        (("key @ 0 : T C[8,6].sect@TPCP ; 8",), "tp1", "tp2 cp2", REMAINDER),
        (("key @ 0 : T D(2) ; 8", "key @ 0 : T D(3) ; 8"), "tp1", "tp1", "two buffers have one key"),
        (("key @ 0 : T D(3) ; 4",), "tp1", "tp1", "the innermost stored row must be whole bytes"),
        (("key @ 0 : T H(8).heads ; 4",), "tp2", "tp1", "elements below a byte must be whole bytes"),
        (("key @ 0 : T D(2) ; 8 ; first_local",), "tp1", "tp1", "only a request-wide role may sit on the first local"),
        (("key @ 0 : T D(2) ; 8 ; x(4)",), "tp1", "tp1", "x(4) does not divide 6 rows a block"),
        (("key @ 0 : T D(2) ; 8 ; sub(4)",), "tp1", "tp1", "the sub-page does not divide 6 rows a block"),
        (("key @ 0 : T(4) D(2) ; 8",), "tp1", "tp1", "T(4) does not divide tokens_per_block = 6"),
        (
            ("v @ 0 : T D(2) ; 8 ; derived(key)",),
            "tp1",
            "tp1",
            "derived from a role that its group does not move on that layer",
        ),
        (("key @ 0 : T ; 8 ; alias 1", "other @ 1 : T ; 8"), "tp1 pp1+1", "tp1 pp2", "layer 1 aliases key of layer 0"),
    ],
)
def test_what_no_layout_is_cannot_be_declared(
    buffers: tuple[str, ...], context: str, generation: str, rule: str
) -> None:
    with pytest.raises(InvalidCase) as caught:
        case_of(group(*buffers), context, generation, size=6)
    assert rule in str(caught.value)


def test_a_buffer_that_is_sent_cannot_be_lacking_on_all_holders() -> None:
    lacks = {"without": (Without(("key",), LayerSet((0,))),)}
    with pytest.raises(InvalidCase, match="only optional buffers and draft layers may be lacking"):
        case_of("key @ 0 : T D(2) ; 8", context_side=lacks)


def test_two_groups_that_retain_alike_need_a_domain() -> None:
    groups = (group("key @ 0 : T ; 8"), group("other @ 0 : T ; 8", name="twin"))
    with pytest.raises(InvalidCase, match=r"it retains as group kv \(key\) does: name a domain"):
        Model(1, groups)
    assert Model(1, (groups[0], replace(groups[1], domain="draft")))


# ---- two instances that do not fit: refused, with a code, and rightly


REFUSED = [
    ("key @ 0 : H(3).heads T D(1) ; 8", "tp4", "tp2", {}, codes.UNSERVABLE_INDEX),
    ("key @ 0 : H(2).heads T D(1) ; 8", "tp3", "tp6", {}, codes.UNSERVABLE_INDEX),
    ("key @ 0 : T D(1) ; 8", "tp2", "tp3", {}, codes.FAN_UNDEFINED),
    ("key @ 0 : T D(1) ; 8", "tp1 cp2", "tp1 cp3", {}, codes.FAN_UNDEFINED),
    ("key @ 0 : T D(1) ; 8", "tp1 cp2", "tp1 cp4", {}, codes.UNSERVABLE_INDEX),
    ("key @ 0 : T D(1) ; 8", "tp1", "tp2 cp2 dp", {}, codes.CONTEXT_PARALLEL_WITH_ATTENTION_DP),
    ("key @ 0 : T D(1) ; 8", "tp1", "tp1", {"tokens_per_block": 4}, codes.TOKENS_PER_BLOCK_DIFFER),
    ("key @ 0 : T D(1) ; 8", "tp1", "tp1", {"element_bits": (("key", 16),)}, codes.ELEMENT_WIDTH_DIFFERS),
]


@pytest.mark.parametrize(("buffer", "context", "generation", "side", "code"), REFUSED)
def test_what_cannot_be_served_is_refused_with_its_code(
    buffer: str, context: str, generation: str, side: dict[str, object], code: str
) -> None:
    assert code_of(case_of(buffer, context, generation, prompts=5, generation_side=side)) == code


@pytest.mark.parametrize(("buffer", "context", "generation", "side", "code"), REFUSED)
def test_a_plan_of_what_cannot_be_served_is_wrong(
    buffer: str, context: str, generation: str, side: dict[str, object], code: str
) -> None:
    case = case_of(buffer, context, generation, prompts=5, generation_side=side)
    assert Kind.MISSING in judge(case, Writes()).kinds


def test_whether_two_instances_fit_does_not_depend_on_the_prompt() -> None:
    for prompt in (1, 2, 3, 9):
        assert code_of(case_of("key @ 0 : T D(1) ; 8", "tp1 cp2", "tp1 cp4", prompts=prompt)) == codes.UNSERVABLE_INDEX


# ---- two declarations that do not agree, of which a case cannot tell: refused before anything is planned


def pages(*buffers: str, state: bool = False) -> Pages:
    kind = GroupKind.STATE if state else GroupKind.PAGED
    model = Model(1, (LayerGroup("kv", kind, tuple(map(parse_buffer, buffers))),))
    instance = Instance(topology("tp1"), 4)
    case = Case(model, instance, instance, (Request(0, 1),))
    return Pages(model, instance, lay_out(case, "context").tables)


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        ("key @ 0 : R(16) D(2) ; 8", "key @ 0 : R(18) D(2) ; 8", codes.RING_LENGTH_DIFFERS),
        ("key @ 0 : T D(2) ; 8", "key @ 0 : T D(3) ; 8", codes.AXES_DIFFER),
        ("key @ 0 : T D(2) ; 8", "key @ 0 : T D(2) ; 16", codes.ELEMENT_WIDTH_DIFFERS),
        ("key @ 0 : T D(2) ; 8", "key @ 0 : T D(2) ; 8 ; x(2)", codes.SUB_PAGES_DIFFER),
        ("key @ 0 : T ; foot(4,2,1)", "key @ 0 : T ; foot(2,2,1)", codes.SUB_PAGES_DIFFER),
        ("key @ 0 : T C[x:2.all, y:2.all] ; 8", "key @ 0 : T C[x:1.all, y:3.all] ; 8", codes.SECTIONS_DIFFER),
    ],
)
def test_what_is_addressed_inside_a_block_must_agree(one: str, other: str, code: str) -> None:
    for there, here in ((pages(one), pages(other)), (pages(other), pages(one))):
        refusal = check_compatible(there, here)
        assert refusal is not None and refusal.code == code
    assert check_compatible(pages(one), pages(one)) is None


def test_a_buffer_that_one_side_alone_declares_must_say_so() -> None:
    key, side = "key @ 0 : T D(2) ; 8", "side @ 0 : T D(1) ; 8"
    refusal = check_compatible(pages(key), pages(key, side))
    assert refusal is not None and refusal.code == codes.BUFFER_MISSING and "side of layer 0" in refusal.reason
    for move in ("optional(either)", "never", "rebuilt", "derived(key)"):
        assert check_compatible(pages(key), pages(key, f"{side} ; {move}")) is None


def test_a_buffer_is_kept_by_block_or_by_request_on_both_sides() -> None:
    refusal = check_compatible(pages("x @ 0 : R(2) D(2) ; 8"), pages("x @ 0 : R(2) D(2) ; 8", state=True))
    assert refusal is not None and refusal.code == codes.GROUP_KIND_DIFFERS


# ---- a request that cannot be served beside one that can


def test_a_request_that_lost_a_block_is_refused_alone() -> None:
    def lists(lost: bool) -> tuple[SlotList, ...]:
        return (
            SlotList("context", 0, "kv", 0, (-1 if lost else 5, 4)),
            SlotList("context", 0, "kv", 1, (1, 2)),
        )

    case = case_of("key @ 0 : T D(1) ; 8", prompts=(4, 4), tables=lists(True))
    plan = answer(case)
    assert isinstance(plan, Writes)
    assert [(refusal.code, refusal.request) for refusal in plan.refusals] == [(codes.BLOCK_LOST, 0)]
    assert {segment.request for segment in plan.segments} == {1}
    assert code_of(case_of("key @ 0 : T D(1) ; 8", prompts=(4, 4), tables=lists(False))) == ""


# ---- what can be served must not be refused


SERVED = [
    # overlapping shares, of which every due index has a paired holder
    ("key @ 0 : H(6).heads T D(1) ; 8", "tp4", "tp2", {}),
    ("key @ 0 : H(6).floor T D(1) ; 8", "tp4", "tp2", {}),
    ("key @ 0 : H(2).heads T D(1) ; 8", "tp2", "tp8", {}),
    ("key @ 0 : H(3).heads T D(1) ; 8", "tp3", "tp1", {}),
    ("key @ 0 : H(4).heads T D(2) ; 4", "tp4", "tp2", {}),
    # context parallelism, also on both sides where the blocks of a receiver have a holder
    ("key @ 0 : H(4).heads T D(1) ; 8", "tp2 cp2", "tp4 cp2", {}),
    ("key @ 0 : T D(1) ; 8", "tp1 cp2", "tp1", {}),
    ("key @ 0 : T D(1) ; 8", "tp1", "tp1 cp3", {}),
    # attention data parallelism, where tensor sizes need not divide
    ("key @ 0 : H(4).heads T D(1) ; 8", "tp2 dp", "tp4", {}),
    ("key @ 0 : T D(1) ; 8", "tp3", "tp2 dp", {}),
    # what is stored otherwise
    ("key @ 0 : H(4).heads T D(1) ; 8", "tp2", "tp4", {"layout": "NHD"}),
    ("key @ 0 : T D(1) ; 8 ; pad(16)", "tp1", "tp2", {"packing": (("kv", "separate"),)}),
    ("key @ 0..1 : T D(1) ; 8", "tp1 pp2+0", "tp1 pp1+1", {"layer_order": (1, 0)}),
]


@pytest.mark.parametrize(("buffer", "context", "generation", "side"), SERVED)
def test_what_can_be_served_is_and_a_refusal_of_it_is_false(
    buffer: str, context: str, generation: str, side: dict[str, object]
) -> None:
    case = case_of(buffer, context, generation, prompts=5, generation_side=side)
    plan = answer(case)
    assert isinstance(plan, Writes) and not plan.refusals and plan.nbytes
    assert judge(case, Refusal("unservable_index", "it is said")).kinds == {Kind.FALSE_REFUSAL}


def test_state_is_served_over_grids_that_do_not_divide_where_tensor_sizes_do() -> None:
    model = group("ssm @ 0 : H(24).even@TPCP P(1) ; 8", **STATE)
    assert code_of(case_of(model, "tp4", "tp2 cp3")) == ""


@pytest.mark.parametrize(
    "buffers",
    [
        ("key @ 0 : T D(1) ; 8 ; never",),
        ("key @ 0 : T D(1) ; 8 ; rebuilt",),
    ],
)
def test_what_does_not_move_may_differ(buffers: tuple[str, ...]) -> None:
    for side in ({"element_bits": (("key", 16),)}, {"tokens_per_block": 4}):
        case = case_of(group(*buffers), generation_side=side)
        assert code_of(case) == ""


def test_state_alone_does_not_ask_for_equal_blocks() -> None:
    model = group("ssm @ 0 : H(4).even P(2) ; 8", **STATE)
    assert code_of(case_of(model, "tp2", "tp4", generation_side={"tokens_per_block": 8})) == ""


def test_an_optional_buffer_that_a_side_lacks_is_neither_sent_nor_missed() -> None:
    buffers = ("key @ 0 : T D(2) ; 8", "draft @ 0 : T D(1) ; 8 ; optional(either)")
    lacks = {"without": (Without(("draft",), LayerSet((0,))),)}
    whole = case_of(group(*buffers), prompts=4)
    for sides in ({"context_side": lacks}, {"generation_side": lacks}):
        plan = answer(case_of(group(*buffers), prompts=4, **sides))  # type: ignore[arg-type]
        assert isinstance(plan, Writes) and not plan.refusals
        assert plan.nbytes == 4 * 2
    assert answer(whole).nbytes == 4 * 3  # type: ignore[union-attr]


def test_equal_shares_without_a_remainder_are_served() -> None:
    assert code_of(case_of("key @ 0 : H(8).even T D(1) ; 8", "tp4", "tp8")) == ""
