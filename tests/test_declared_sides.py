"""What a declaration says besides its model reaches the case: extra layers, what a side lacks, further lengths."""

from __future__ import annotations

import pytest

from oracle.model.buffers import Model
from oracle.model.errors import InvalidCase
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from strategies.cases import decode
from strategies.deployments import deployment
from strategies.kinds import find_model
from strategies.kinds.pieces import key_value, layers, paged
from strategies.kinds.protocol import Declaration, Kind, PublishedModel
from strategies.numbers import simplest
from strategies.scope import small_scope
from strategies.topologies import Grid, Shape

DRAFT_ROLES = ("draft_key", "draft_value")


def _declare(lacking: int) -> Declaration:
    """Four layers, an encoder, and two draft layers that no side lacks, or the context (1), or the generation (2)."""
    target = key_value(layers(range(4)), 2, 2, 8)
    key, value = key_value(layers((4, 5)), 1, 2, 8)
    draft = tuple(
        type(buffer)(role, buffer.layers, buffer.parts) for buffer, role in zip((key, value), DRAFT_ROLES, strict=True)
    )
    model = Model(
        6,
        (
            paged("kv", target),
            paged("draft", draft, domain="draft"),
            paged("cross", (type(key)("cross_key", layers(range(4)), key.parts),), length="encoder"),
        ),
        LayerSet((4, 5)),
    )
    lack = (Without(DRAFT_ROLES, LayerSet((4, 5))),)
    without = (lack if lacking == 1 else (), lack if lacking == 2 else ())
    return Declaration(model, None, 2, without)


KIND = Kind(
    "appended",
    "layers appended to the last stage",
    99,
    (3,),
    lambda numbers, around: _declare(numbers[0]),
    ((0,), (1,), (2,)),
    layers=(4, 4),
)
STAGES = Grid(Shape(pp=2), Shape(pp=4))


@pytest.mark.parametrize(
    ("lacking", "context", "generation"),
    [(0, (2, 4), (1, 1, 1, 3)), (1, (2, 2), (1, 1, 1, 3)), (2, (2, 4), (1, 1, 1, 1))],
)
def test_extra_layers_stand_on_the_last_stage_of_the_sides_that_hold_them(
    lacking: int, context: tuple[int, ...], generation: tuple[int, ...]
) -> None:
    case = decode(simplest(kind_number_0=lacking), kinds=[KIND], grid=STAGES)
    assert case.context.topology.stages == context
    assert case.generation.topology.stages == generation
    assert bool(case.context.without) == (lacking == 1)
    assert bool(case.generation.without) == (lacking == 2)


def test_a_side_that_lacks_only_some_of_its_extra_layers_keeps_their_places() -> None:
    whole = _declare(0)
    some = (Without(DRAFT_ROLES, LayerSet((5,))),)
    declaration = Declaration(whole.model, None, 2, (some, ()))
    assert declaration.extra_of("context") == declaration.extra_of("generation") == 2


def test_every_request_gives_the_lengths_that_the_groups_name() -> None:
    numbers = simplest(requests=255 // 2, length_blocks_0=60, length_rows_0=255 // 3, tokens_per_block=100)
    case = decode(numbers, kinds=[KIND])
    assert case.generation.tokens_per_block > 1
    for request in case.requests:
        assert request.tokens("encoder") >= 1
    assert any(request.tokens("encoder") != request.prompt for request in case.requests)


def test_the_small_scope_holds_extra_layers_and_lengths() -> None:
    found = list(small_scope(KIND))
    assert {sum(case.context.topology.stages) for case in found} == {6}
    assert all(request.tokens("encoder") for case in found for request in case.requests)


def test_a_deployment_says_how_long_an_encoder_is() -> None:
    model = _declare(0).model
    case = deployment(model, {}, {}, prompt=(10, 20), lengths={"encoder": 7})
    assert [request.tokens("encoder") for request in case.requests] == [7, 7]
    case = deployment(model, {}, {}, prompt=(10, 20))
    assert [request.tokens("encoder") for request in case.requests] == [10, 20]
    with pytest.raises(InvalidCase, match=r"lengths = 'decoder' is not possible: expected encoder"):
        deployment(model, {}, {}, prompt=1, lengths={"decoder": 7})
    with pytest.raises(InvalidCase, match=r"lengths = 'encoder' is not possible: expected none"):
        deployment("llama-3-70b", {}, {}, prompt=1, lengths={"encoder": 7})


def test_mtp_layers_are_cut_with_the_last_stage() -> None:
    case = deployment("deepseek-v3", {"pp": 2}, {"pp": "30+31"}, prompt=1)
    assert case.context.topology.stages == (31, 31)
    assert case.generation.topology.stages == (30, 32)


def test_a_published_model_has_its_own_block_lengths_and_widths() -> None:
    model = PublishedModel(
        "x", "X", 4, lambda bits: Declaration(_declare(0).model, None, 2), "y", "source", (4,), (128, 256)
    )
    assert model.block_length() == 128
    assert model.block_length(256) == 256
    with pytest.raises(InvalidCase, match="tokens_per_block = 32 is not possible: x has 128 or 256"):
        model.block_length(32)
    assert model.declare().extra == 2
    with pytest.raises(InvalidCase, match="element bits of x = 16 is not possible: expected one of 4"):
        model.declare(16)
    _, llama = find_model("llama-3-70b")
    assert llama.block_length() == 32
    assert llama.block_length(7) == 7
