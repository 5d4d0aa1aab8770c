"""A case fits together: model, instances, requests, contents and lists, or it is refused when it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.model.axes import Split
from oracle.model.buffers import Model, Move, MoveState
from oracle.model.case import Case, Content, Native, Request, SideState, SlotList, Slots
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from tests.declared import (
    assert_impossible,
    buffer,
    case_with,
    channels,
    heads,
    instance_of,
    paged,
    payload,
    small_case,
    state,
    tokens,
    with_both,
)

WHOLE = "expected a whole number of at least"
CUTS = "expected ascending token positions in 1..8"
LENGTHS = "expected distinct names, none of them prompt"
SMALL = small_case()
IMPOSSIBLE_REQUESTS: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: Request(-1, 1), "request.content", -1, f"{WHOLE} 0"),
    (lambda: Request(0, 0), "request.prompt", 0, f"{WHOLE} 1"),
    (lambda: Request(0, -3), "request.prompt", -3, f"{WHOLE} 1"),
    (lambda: Request(0, 1, context_dp=-1), "request.context_dp", -1, f"{WHOLE} 0"),
    (lambda: Request(0, 1, generation_dp=-1), "request.generation_dp", -1, f"{WHOLE} 0"),
    (lambda: Request(0, 1, lengths=(("encoder", -1),)), "request.lengths of encoder", -1, f"{WHOLE} 0"),
    (lambda: Request(0, 1, lengths=(("prompt", 4),)), "request.lengths", ["prompt"], LENGTHS),
    (lambda: Request(0, 1, lengths=(("a", 4), ("a", 5))), "request.lengths", ["a", "a"], LENGTHS),
    (lambda: Request(0, 9, cuts=(0,)), "request.cuts", (0,), CUTS),
    (lambda: Request(0, 9, cuts=(9,)), "request.cuts", (9,), CUTS),
    (lambda: Request(0, 9, cuts=(4, 2)), "request.cuts", (4, 2), CUTS),
    (lambda: Request(0, 9, cuts=(4, 4)), "request.cuts", (4, 4), CUTS),
    (lambda: SideState(-1), "cached", -1, f"{WHOLE} 0"),
    (lambda: Request(0, 4, context=SideState(5)), "request.context.cached", 5, "expected at most prompt = 4"),
    (lambda: Request(0, 4, generation=SideState(5)), "request.generation.cached", 5, "expected at most prompt = 4"),
]
IMPOSSIBLE_LISTS: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: Slots(mul=0), "slots.mul", 0, f"{WHOLE} 1"),
    (lambda: Slots(add=-1), "slots.add", -1, f"{WHOLE} 0"),
    (lambda: Slots(counts=(("full", 0),)), "slots.counts of full", 0, f"{WHOLE} 1"),
    (lambda: SlotList("gen", 0, "a", 0, ()), "slots.side", "gen", "expected context or generation"),
    (lambda: SlotList("context", 0, "a", 0, (-2,)), "slots", (-2,), "expected slot numbers, or -1 for none"),
    (
        lambda: Native((("key", "flat"),)),
        "native mapper of key",
        "flat",
        "expected one of indexed, nhd, replicated, sectioned",
    ),
    (
        lambda: small_case(tables=(SlotList("context", 1, "attention", 0, ()),)),
        "tables.context.1.attention",
        1,
        "ranks 0..0 exist",
    ),
    (
        lambda: small_case(presented=(SlotList("generation", -1, "attention", 0, ()),)),
        "presented.generation.-1.attention",
        -1,
        "ranks 0..0 exist",
    ),
    (
        lambda: small_case(tables=(SlotList("context", 0, "attention", 1, ()),)),
        "tables.context.0.attention",
        1,
        "requests 0..0 exist",
    ),
    (
        lambda: small_case(tables=(SlotList("context", 0, "attention", 0, (1,)),) * 2),
        "tables.context.0.attention",
        0,
        "expected each list once",
    ),
    (
        lambda: small_case(tables=(SlotList("context", 0, "state", 0, ()),)),
        "tables.context.0.state",
        "state",
        "expected one of ['attention']",
    ),
    (lambda: small_case(slots=Slots(counts=(("state", 2),))), "slots.counts", "state", "expected one of ['attention']"),
]
IMPOSSIBLE_CASES: list[tuple[Callable[[], object], str, object, str]] = [
    (lambda: replace(SMALL, requests=()), "requests", (), "expected at least one request"),
    (lambda: small_case(requests=(Request(1, 3),)), "requests[0].content", 1, "1 contents exist"),
    (lambda: small_case(contents=(Content(0),)), "contents[0].parent", 0, "expected an earlier content, or -1"),
    (lambda: small_case(contents=(Content(-2),)), "contents[0].parent", -2, "expected an earlier content, or -1"),
    (lambda: small_case(contents=(Content(-1, 2),)), "contents[0].length", 2, "a root shares no tokens"),
    (
        lambda: small_case(contents=(Content(), Content(0, -2))),
        "contents[1].length",
        -2,
        f"{WHOLE} 0",
    ),
    (lambda: small_case(requests=(Request(0, 3, context_dp=1),)), "requests[0].context_dp", 1, "expected below 1"),
    (
        lambda: case_with(Model(1, (paged("a", buffer("key", [0], tokens()), length="encoder"),)), instance_of()),
        "request.lengths",
        "encoder",
        "the request does not give this length",
    ),
]


def with_instance(**changes: object) -> Case:
    return with_both(SMALL, **changes)


IMPOSSIBLE_INSTANCES: list[tuple[Callable[[], object], str, object, str]] = [
    (
        lambda: with_instance(topology=instance_of(stages=(2,)).topology),
        "context.stages",
        (2,),
        "expected 1 layers in all",
    ),
    (
        lambda: with_instance(topology=instance_of(stages=(0,)).topology),
        "context.stages",
        (0,),
        "expected 1 layers in all",
    ),
    (
        lambda: replace(SMALL, generation=instance_of(stages=(1, 1), tokens_per_block=2)),
        "generation.stages",
        (1, 1),
        "expected 1 layers in all",
    ),
    (
        lambda: with_instance(layouts=(("scale", "NHD"),)),
        "context.layouts",
        "scale",
        "the model has the roles key, value",
    ),
    (
        lambda: with_instance(element_bits=(("scale", 8),)),
        "context.element_bits",
        "scale",
        "the model has the roles key, value",
    ),
    (
        lambda: with_instance(packing=(("state", "separate"),)),
        "context.packing",
        "state",
        "expected one of ['attention']",
    ),
    (lambda: with_instance(reserve=(("state", 2),)), "context.reserve", "state", "expected one of ['attention']"),
    (lambda: with_instance(layer_order=(1, 0)), "context.layer_order", 1, "the model has 1 layers"),
    (lambda: with_instance(layer_order=(-1,)), "context.layer_order", -1, "the model has 1 layers"),
    (
        lambda: with_instance(without=(Without(("key",), LayerSet((0,))),)),
        "context.without",
        (0, "key"),
        "only optional buffers and draft layers may be lacking",
    ),
]


@pytest.mark.parametrize(
    ("build", "argument", "value", "accepted"),
    IMPOSSIBLE_REQUESTS + IMPOSSIBLE_LISTS + IMPOSSIBLE_CASES + IMPOSSIBLE_INSTANCES,
)
def test_an_impossible_case_says_why(build: Callable[[], object], argument: str, value: object, accepted: str) -> None:
    assert_impossible(build, argument, value, accepted)


def test_a_request_is_of_an_attention_data_parallel_rank_that_exists() -> None:
    def on(rank: int) -> Case:
        return replace(
            SMALL,
            generation=instance_of(tp=2, attention_dp=True, tokens_per_block=2),
            requests=(Request(0, 3, generation_dp=rank),),
        )

    assert on(1).requests[0].dp_rank("generation") == 1
    assert_impossible(lambda: on(2), "requests[0].generation_dp", 2, "expected below 2")


# ---- what no rank can hold


def model_with(*axes: object, **options: object) -> Model:
    return Model(1, (paged("a", buffer("key", [0], *axes, **options)),))


@pytest.mark.parametrize(
    ("model", "options", "argument", "value", "accepted"),
    [
        (
            Model(1, (state("s", buffer("ssm", [0], heads(6, Split.EVEN))),)),
            {"tp": 4},
            "buffer ssm, axis H",
            6,
            "an even split over 4 ranks needs a multiple of 4",
        ),
        (
            Model(
                1,
                (
                    state(
                        "s",
                        buffer("conv", [0], channels(8, 6)),
                    ),
                ),
            ),
            {"tp": 2, "cp": 2},
            "buffer conv, axis C",
            6,
            "an even split over 4 ranks needs a multiple of 4",
        ),
        (
            model_with(tokens(4), payload(2)),
            {"tokens_per_block": 6},
            "buffer key",
            4,
            "T(4) does not divide tokens_per_block = 6",
        ),
        (
            model_with(tokens(), payload(2), sub_rows=4),
            {"tokens_per_block": 6},
            "buffer key",
            4,
            "the sub-page does not divide 6 rows a block",
        ),
        (
            model_with(tokens(), payload(2), expansion=4),
            {"tokens_per_block": 6},
            "buffer key",
            4,
            "x(4) does not divide 6 rows a block",
        ),
        (
            model_with(tokens(), payload(3)),
            {"element_bits": (("key", 4),)},
            "buffer key, axis D",
            4,
            "the innermost stored row must be whole bytes",
        ),
        (
            model_with(tokens(), payload(8)),
            {"element_bits": (("key", 6),)},
            "buffer key, element bits",
            6,
            "expected whole bytes, or 1, 2 or 4 bits along a payload axis",
        ),
        (
            model_with(tokens(), heads(8), bits=4),
            {},
            "buffer key, axis H",
            4,
            "share boundaries of elements below a byte must be whole bytes",
        ),
    ],
)
def test_a_layout_that_does_not_exist_is_refused_when_the_case_is_built(
    model: Model, options: dict[str, object], argument: str, value: object, accepted: str
) -> None:
    assert_impossible(lambda: case_with(model, instance_of(**options)), argument, value, accepted)


def test_an_even_split_is_whole_under_attention_data_parallelism() -> None:
    model = Model(1, (state("s", buffer("ssm", [0], heads(6, Split.EVEN))),))
    assert case_with(model, instance_of(tp=4, attention_dp=True)).context.topology.tp == 4


def test_an_alias_layer_is_on_the_stage_of_its_owner() -> None:
    shared = buffer("key", [0, 2], tokens(), payload(4), alias=LayerSet((1, 3)))
    model = Model(4, (paged("a", shared),))
    assert case_with(model, instance_of(stages=(2, 2))).context.topology.pp == 2
    assert_impossible(
        lambda: case_with(model, instance_of(stages=(1, 3))),
        "context.stages",
        (1, 3),
        "layer 1 aliases key of layer 0: one stage",
    )
    assert_impossible(
        lambda: case_with(model, instance_of(stages=(4,)), instance_of(stages=(3, 1))),
        "generation.stages",
        (3, 1),
        "layer 3 aliases key of layer 2: one stage",
    )


# ---- what an instance may lack


def optional_model(move: Move, draft: LayerSet | None = None) -> Model:
    key = buffer("key", "0..1", tokens(), payload(4))
    swa = buffer("swa", "0..1", tokens(), payload(2), moves=(move,))
    return Model(2, (paged("a", key, swa),), draft or LayerSet())


def lacking(move: Move, side: str) -> Case:
    whole = instance_of(stages=(2,))
    lack = instance_of(stages=(2,), without=(Without(("swa",), LayerSet((1,))),))
    sides = (lack, whole) if side == "context" else (whole, lack)
    return case_with(optional_model(move), *sides)


@pytest.mark.parametrize(
    ("move", "sides"),
    [
        (Move(MoveState.OPTIONAL, side="context"), {"context"}),
        (Move(MoveState.OPTIONAL, side="generation"), {"generation"}),
        (Move(MoveState.OPTIONAL, side="either"), {"context", "generation"}),
        (Move(MoveState.REBUILT), {"context", "generation"}),
        (Move(MoveState.NEVER), set()),
        (Move(), set()),
    ],
)
def test_only_the_declared_side_may_lack_a_buffer(move: Move, sides: set[str]) -> None:
    for side in ("context", "generation"):
        if side in sides:
            assert lacking(move, side).side(side).lacks(1, "swa")
        else:
            accepted = "only optional buffers and draft layers may be lacking"
            assert_impossible(lambda side=side: lacking(move, side), f"{side}.without", (1, "swa"), accepted)


def test_draft_layers_may_be_lacking_as_a_whole_stage_tail() -> None:
    model = optional_model(Move(), LayerSet((1,)))
    both = Without(("key", "swa"), LayerSet((1,)))
    short = case_with(model, instance_of(stages=(1,), without=(both,)), instance_of(stages=(2,)))
    assert short.context.topology.stages == (1,)
    accepted = "expected 2 layers in all"
    assert_impossible(lambda: case_with(model, instance_of(stages=(1,))), "context.stages", (1,), accepted)


# ---- plain data


def test_every_request_has_a_content_of_its_own_unless_contents_are_given() -> None:
    assert small_case(requests=(Request(0, 3), Request(1, 2))).contents == (Content(), Content())


def test_a_native_declaration_falls_back_to_all_and_then_to_indexed() -> None:
    assert Native((("index", "replicated"),)).mapper_of("key") == "indexed"
    declared = Native((("tail", "replicated"), ("all", "nhd")))
    assert [declared.mapper_of(role) for role in ("key", "tail")] == ["nhd", "replicated"]


def test_equal_cases_have_one_hash_however_they_were_built() -> None:
    one = small_case(slots=Slots(counts=(("attention", 7),)), requests=[Request(0, 3, cuts=[1])])
    other = small_case(slots=Slots(counts=[["attention", 7]]), requests=(Request(0, 3, cuts=(1,)),))
    assert one == other
    assert hash(one) == hash(other)
    assert one != small_case()


def test_a_number_of_slots_and_a_mapper_are_given_once() -> None:
    twice = [("attention", 3), ("attention", 5)]
    assert_impossible(lambda: Slots(counts=tuple(twice)), "slots.counts", ["attention"] * 2, "expected each key once")
    named = (("key", "indexed"), ("key", "nhd"))
    assert_impossible(lambda: Native(named), "native.mappers", ["key", "key"], "expected each key once")
