"""A kind whose declaration cannot be is refused with its name, the role and the rule, one test a rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvwitness.conform.formed import check_builds
from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, Model, Move, MoveState, Part, Placement
from oracle.model.errors import InvalidCase
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from strategies.cases import cases_of, decode
from strategies.kinds.pieces import TOKENS, block_scales, by_heads, footer, paged, records, rows, state
from strategies.kinds.protocol import Declaration, PublishedModel, Surroundings
from strategies.numbers import simplest
from strategies.scope import small_scope
from tests.odd_kinds import keys, kind_of, sample_of

D = Axis("D", 2)
Build = Callable[[Surroundings], Declaration]


def every(around: Surroundings) -> LayerSet:
    return LayerSet(tuple(range(around.layers)))


def with_key(*more: Callable[[LayerSet], Buffer]) -> Build:
    """A declaration of a latent key, and other buffers of the same group."""
    return lambda around: Declaration(Model(around.layers, (keys(around, 2, *(m(every(around)) for m in more)),)), None)


def side(*axes: Axis, bits: int = 8, **options: object) -> Callable[[LayerSet], Buffer]:
    return lambda on: Buffer("side", on, (Part(axes, bits),), **options)  # type: ignore[arg-type]


def drawn(build: Build, **numbers: int) -> str:
    """What is said where the simplest case of such a kind, but for ``numbers``, is drawn."""
    kind = kind_of(lambda numbers, around: build(around), layers=(2, 4), tokens_per_block=(6,))
    with pytest.raises(InvalidCase) as caught:
        decode(simplest(**numbers), kinds=(kind,))
    return str(caught.value)


def test_a_buffer_that_is_declared_twice() -> None:
    said = drawn(with_key(lambda on: rows("key", on, 3, 8)))
    assert said == "kind odd: group kv.buffers = (0, 'key') is not possible: two buffers have one key"


def test_a_buffer_that_two_groups_declare() -> None:
    def build(around: Surroundings) -> Declaration:
        second = paged("window", (rows("key", every(around), 3, 8),), 4)
        return Declaration(Model(around.layers, (keys(around), second)), None)

    assert drawn(build) == "kind odd: group window = (0, 'key') is not possible: two buffers have one key"


def test_a_row_that_is_not_whole_bytes() -> None:
    assert drawn(with_key(side(TOKENS, Axis("D", 3), bits=4))) == (
        "kind odd: buffer side.parts = \"['T', 'D'] of 4 bits\" is not possible: "
        "the innermost stored row must be whole bytes"
    )


def test_a_section_that_is_not_whole_bytes() -> None:
    axis = Axis("C", sections=(Section("x", 3), Section("y", 1)))
    assert "kind odd: buffer side.parts" in drawn(with_key(side(TOKENS, axis, bits=4)))


def test_a_share_that_is_not_whole_bytes() -> None:
    assert drawn(with_key(side(TOKENS, Axis("H", 4, Split.HEADS), bits=4))) == (
        "kind odd: buffer side, axis H = 4 is not possible: "
        "share boundaries of elements below a byte must be whole bytes"
    )


@pytest.mark.parametrize(
    ("helper", "where"),
    [
        (lambda on: block_scales(on, 1, 2 // 16)[0], "buffer key_block_scale, axis D.size = 0"),
        (lambda on: block_scales(on, 1, 2, -1)[1], "buffer value_block_scale, axis D.size = -1"),
        (lambda on: by_heads("side", on, 0, 2, 8), "buffer side, axis H.size = 0"),
        (lambda on: rows("side", on, 0, 8), "buffer side, axis D.size = 0"),
        (lambda on: rows("side", on, 2, 8, tokens_per_row=0), "buffer side, axis T.tokens_per_row = 0"),
        (lambda on: records("side", on, 0), "buffer side, axis B.size = 0"),
        (lambda on: footer("side", on, 2, 0), "buffer side, axis B.size = 0"),
    ],
)
def test_a_size_of_nothing_names_its_role(helper: Callable[[LayerSet], Buffer], where: str) -> None:
    assert drawn(with_key(helper)) == f"kind odd: {where} is not possible: expected a whole number of at least 1"


def test_what_a_helper_says_of_a_whole_buffer_names_its_role_once() -> None:
    assert drawn(with_key(lambda on: rows("side", on, 1, 4))).startswith("kind odd: buffer side.parts = ")
    assert drawn(with_key(lambda on: rows("", on, 1, 8))).startswith("kind odd: buffer.role = ''")


def test_a_width_that_no_byte_is_made_of() -> None:
    assert drawn(with_key(side(TOKENS, Axis("D", 8), bits=3))) == (
        "kind odd: buffer side, element bits = 3 is not possible: "
        "expected whole bytes, or 1, 2 or 4 bits along a payload axis"
    )


def test_a_sub_page_that_does_not_divide_a_block() -> None:
    said = drawn(with_key(side(TOKENS, D, sub_rows=4)))
    assert said == "kind odd: buffer side = 4 is not possible: the sub-page does not divide 6 rows a block"


def test_an_expansion_that_does_not_divide_a_block() -> None:
    said = drawn(with_key(side(TOKENS, D, expansion=4)))
    assert said == "kind odd: buffer side = 4 is not possible: x(4) does not divide 6 rows a block"


def test_rows_of_tokens_that_do_not_divide_a_block() -> None:
    said = drawn(with_key(side(Axis("T", tokens_per_row=4), D)))
    assert said == "kind odd: buffer side = 4 is not possible: T(4) does not divide tokens_per_block = 6"


def test_what_is_derived_from_a_role_that_does_not_move() -> None:
    derived = side(TOKENS, D, moves=(Move(MoveState.DERIVED, inputs=("score",)),))
    still = lambda on: Buffer("score", on, (Part((TOKENS, D), 8),), moves=(Move(MoveState.NEVER),))  # noqa: E731
    rule = "derived from a role that its group does not move on that layer"
    assert drawn(with_key(still, derived)) == f"kind odd: buffer side.move = (0, 'score') is not possible: {rule}"


def test_what_is_derived_from_a_role_that_its_group_does_not_have_on_that_layer() -> None:
    def build(around: Surroundings) -> Declaration:
        derived = side(TOKENS, D, moves=(Move(MoveState.DERIVED, inputs=("key",)),))(every(around))
        return Declaration(Model(around.layers, (keys(around), paged("window", (derived,), 4))), None)

    rule = "derived from a role that its group does not move on that layer"
    assert drawn(build) == f"kind odd: buffer side.move = (0, 'key') is not possible: {rule}"


def test_what_is_derived_from_nothing() -> None:
    said = drawn(lambda around: with_key(side(TOKENS, D, moves=(Move(MoveState.DERIVED),)))(around))
    assert said.startswith("kind odd: move.inputs = () is not possible: derived(...) names the roles it comes from")


def test_the_first_local_layer_of_a_role_that_is_not_of_the_request() -> None:
    assert drawn(with_key(side(TOKENS, D, first_local=True))) == (
        "kind odd: buffer side.first_local = True is not possible: "
        "only a request-wide role may sit on the first local layer"
    )


def test_two_groups_that_retain_alike() -> None:
    def build(around: Surroundings, domain: str = "") -> Declaration:
        second = paged("twin", (rows("other", every(around), 3, 8),), domain=domain)
        return Declaration(Model(around.layers, (keys(around), second)), None)

    rule = "kind odd: group twin (other) = '' is not possible: it retains as group kv (key) does: name a domain"
    assert drawn(build) == rule
    kind = kind_of(lambda numbers, around: build(around, "draft"))
    assert len(decode(simplest(), kinds=(kind,)).model.groups) == 2


def test_an_alias_that_a_cut_takes_from_its_owner() -> None:
    def build(around: Surroundings) -> Declaration:
        key = Buffer("key", LayerSet((0,)), (Part((TOKENS, D), 8),), alias=LayerSet((1,)))
        return Declaration(Model(around.layers, (paged("kv", (key,)),)), None)

    said = drawn(build, context_stages=1)
    assert said == "kind odd: context.stages = (1, 1) is not possible: layer 1 aliases key of layer 0: one stage"


def test_an_alias_without_an_owner() -> None:
    def build(around: Surroundings) -> Declaration:
        key = Buffer("key", LayerSet((1,)), (Part((TOKENS, D), 8),), alias=LayerSet((0,)))
        return Declaration(Model(around.layers, (paged("kv", (key,)),)), None)

    rule = "kind odd: buffer key.alias = 0 is not possible: an alias layer has an owner below it and no bytes itself"
    assert drawn(build) == rule


@pytest.mark.parametrize(
    ("axis", "name"),
    [
        (Axis("H", 3, Split.EVEN), "H"),
        (Axis("C", sections=(Section("x", 4), Section("y", 3))), "C"),
    ],
)
def test_equal_shares_that_leave_a_remainder(axis: Axis, name: str) -> None:
    said = drawn(with_key(side(TOKENS, axis)), generation_tp=1, context_tp=1)
    assert said.startswith(f"kind odd: buffer side, axis {name} = 3 is not possible: an even split over ")


def test_equal_shares_of_state_over_both_kinds_of_ranks() -> None:
    def build(around: Surroundings) -> Declaration:
        ssm = Buffer("ssm", every(around), (Part((Axis("H", 3, Split.EVEN, Grid.TPCP),), 8),))
        return Declaration(Model(around.layers, (keys(around), state("state", (ssm,)))), None)

    said = drawn(build, helix=1)
    assert said.startswith("kind odd: buffer ssm, axis H = 3 is not possible: an even split over 2 ranks needs")


def test_a_window_of_a_state_group_and_tokens_in_it() -> None:
    def build(around: Surroundings) -> Declaration:
        return Declaration(Model(around.layers, (state("s", (rows("key", every(around), 2, 8),)),)), None)

    assert drawn(build) == "kind odd: group s.key = 'T' is not possible: a state buffer has no token axis"


def test_layers_that_the_model_does_not_have() -> None:
    def build(around: Surroundings) -> Declaration:
        return Declaration(Model(around.layers, (paged("kv", (rows("key", LayerSet((9,)), 2, 8),)),)), None)

    assert drawn(build) == "kind odd: buffer key.layers = 9 is not possible: the model has 2 layers"


def test_padding_that_does_not_hold_its_region() -> None:
    def build(around: Surroundings) -> Declaration:
        key = Buffer("key", every(around), (Part((TOKENS, D), 8),), placement=Placement(pad=4))
        return Declaration(Model(around.layers, (paged("kv", (key,)),)), None)

    result = check_builds(sample_of(kind_of(lambda numbers, around: build(around), tokens_per_block=(6,)), 3))
    assert result.said == "kind odd: pad of key = 4 is not possible: the region has 12 B already"


def test_a_side_that_lacks_what_is_sent() -> None:
    def build(around: Surroundings) -> Declaration:
        lacks = (Without(("key",), LayerSet((0,))),)
        return Declaration(Model(around.layers, (keys(around),)), None, 0, (lacks, ()))

    assert drawn(build) == (
        "kind odd: context.without = (0, 'key') is not possible: only optional buffers and draft layers may be lacking"
    )


# ---- wherever a kind is declared


def broken_from(layers: int) -> object:
    """A kind that cannot be from ``layers`` layers on."""

    def decode_(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        if around.layers >= layers:
            return with_key(side(TOKENS, Axis("D", 3), bits=4))(around)
        return with_key()(around)

    return kind_of(decode_)


def test_strategies_scopes_and_published_models_name_whose_declaration_it_is() -> None:
    kind = broken_from(2)
    with pytest.raises(InvalidCase, match=r"^kind odd: buffer side\.parts"):
        list(small_scope(kind))  # type: ignore[arg-type]
    with pytest.raises(InvalidCase, match=r"^kind odd: buffer side\.parts"):
        decode(simplest(layers=100), kinds=(kind,))  # type: ignore[arg-type]
    assert decode(simplest(), kinds=(kind,)).kind == "odd"  # type: ignore[arg-type]
    assert cases_of(kind) is not None  # type: ignore[arg-type]
    published = PublishedModel("odd-1b", "Odd", 2, lambda bits: kind.decode((0,), Surroundings(2)), "made up", "config")  # type: ignore[attr-defined]
    with pytest.raises(InvalidCase, match=r"^model odd-1b: buffer side\.parts = .* whole bytes$"):
        published.declare()


def test_the_kind_is_named_once_and_the_first_error_is_kept() -> None:
    with pytest.raises(InvalidCase) as caught:
        decode(simplest(layers=100), kinds=(broken_from(2),))  # type: ignore[arg-type]
    assert str(caught.value).count("kind odd") == 1
    assert caught.value.argument == "kind odd: buffer side.parts"
    cause = caught.value.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    assert isinstance(cause, InvalidCase) and cause.argument == "buffer side.parts"


def test_a_decode_that_would_leave_the_program_is_refused_as_any_other() -> None:
    def build(around: Surroundings) -> Declaration:
        raise SystemExit(0)

    assert "decode raised SystemExit: 0 at test_bad_declarations.py" in drawn(build)
