"""The pages of one instance are laid out from another's without a planner, and what does not fit together is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kvwitness.conform.images import Held, Image, Piece, Place, image_of
from kvwitness.conform.reshard import Uneven, assemble, check_case, check_reshards, check_served, check_whole, places_of
from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer, Part
from oracle.model.case import Case
from oracle.model.instance import Without
from oracle.model.layers import LayerSet
from oracle.truth.verdict import Outcome
from strategies.kinds import find_kind, kinds
from strategies.kinds.pieces import TOKENS, layers
from strategies.kinds.protocol import Declaration, Kind, Surroundings
from tests.odd_kinds import declared, keys, kind_of, sample_of
from tests.small_cases import case_of, group

# Buffers, context and generation: what each form of a declaration has to be resharded between.
FORMS = [
    (("key @ 0 : H(4).heads T D(2) ; 8",), "tp4", "tp2"),
    (("key @ 0 : H(2).heads T D(2) ; 16",), "tp4", "tp2 dp"),
    (("key @ 0 : H(6).heads T D(1) ; 8",), "tp4", "tp3"),
    (("key @ 0 : H(6).floor T D(1) ; 8",), "tp4", "tp3"),
    (("key @ 0 : H(5).cyc T D(1) ; 8",), "tp3", "tp2"),
    (("key @ 0 : H(4).heads T D(4) ; 4", "scale @ 0 : H(4).heads T D(1) ; 8"), "tp2", "tp1 cp2"),
    (("key @ 0 : T D(3) ; 8 ; pad(16)", "index @ 0 : T ; foot(2,2,1)"), "tp2", "tp1"),
    (("key @ 0 : T(2) D(2) ; 8", "hp @ 0 : R(3) D(1) ; 16"), "tp1 dp", "tp2"),
    (("key @ 0 : H(2).heads T D(1) ; 8 ; x(2)",), "tp1", "tp2"),
    (("key @ 0..2 : T D(1) ; 8", "position @ 0..2 : T D(1) ; 8 ; request ; first_local"), "tp1 pp1+2", "tp2 pp2+1"),
]


def first(image: Image, role: str = "key") -> Piece:
    return next(piece for piece in image.pieces if piece.place.role == role)


def images(text: str = "key @ 0 : H(4).heads T D(2) ; 8", *grids: str) -> tuple[Image, Image]:
    case = case_of(text, *(grids or ("tp2", "tp4")))
    return image_of(case, "context"), image_of(case, "generation")


@pytest.mark.parametrize(("buffers", "context", "generation"), FORMS)
def test_every_form_reshards_both_ways(buffers: tuple[str, ...], context: str, generation: str) -> None:
    model = group(*buffers)
    for layouts in (("HND", "NHD"), ("NHD", "NHD")):
        for grids in ((context, generation), (generation.replace(" cp2", ""), context)):
            sides = [{"layout": layout} for layout in layouts]
            check_case(case_of(model, *grids, prompts=5, context_side=sides[0], generation_side=sides[1]))


def test_state_reshards_over_the_grid_of_tensor_and_context_ranks() -> None:
    model = group(
        "ssm @ 0 : H(12).even@TPCP P(2) ; 8",
        "conv @ 0 : C[x:24.even, B:2.all, C:12.even]@TPCP W(1) ; 16",
        name="state",
        state=True,
    )
    check_case(case_of(model, "tp4", "tp3 cp2"))


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_shipped_kinds_reshard(kind: Kind) -> None:
    result = check_reshards(sample_of(kind))
    assert result.outcome is Outcome.PASS, result


def test_a_piece_is_a_slice_of_the_tensor_that_the_declaration_names() -> None:
    sender, receiver = images()
    piece = first(sender)
    assert piece.place == Place(0, 0, "key", 0, 0)
    assert (piece.declared, piece.unit, piece.shape) == (("H", "T", "D"), 1, (4, 2, 2, 1))
    assert [held.indices.tolist() for held in piece.stored] == [[0, 1], [0, 1], [0, 1]]
    assert (piece.read(piece.ids) == assemble(receiver)[piece.place][:2]).all()
    assert (piece.store(piece.read(piece.ids)) == piece.ids).all()


def without(image: Image, *ranks: int) -> Image:
    return replace(image, pieces=tuple(piece for piece in image.pieces if piece.rank not in ranks))


def with_ids(image: Image, rank: int, change: Callable[[np.ndarray], np.ndarray]) -> Image:
    pieces = tuple(replace(piece, ids=change(piece.ids)) if piece.rank == rank else piece for piece in image.pieces)
    return replace(image, pieces=pieces)


def test_an_element_that_no_rank_holds_is_noticed() -> None:
    sender, receiver = images()
    half = without(sender, 1)
    tensors = assemble(half)
    with pytest.raises(Uneven, match="no rank holds H 2, T 0, D 0 of key of layer 0, block 0"):
        check_whole(half, tensors, iter(()))
    with pytest.raises(Uneven, match="H 2, T 0, D 0 of key of layer 0, block 0 is due on rank 2, and no context rank"):
        check_served(receiver, tensors)


def test_a_buffer_that_no_rank_holds_is_noticed() -> None:
    case = case_of("key @ 0 : H(4).heads T D(2) ; 8", "tp2", "tp4", prompts=3)
    sender, receiver = image_of(case, "context"), image_of(case, "generation")
    one = replace(sender, pieces=tuple(piece for piece in sender.pieces if piece.place.block == 0))
    with pytest.raises(Uneven, match="no rank holds key of layer 0, block 1"):
        check_whole(one, assemble(one), places_of(case, "context"))
    with pytest.raises(Uneven, match="key of layer 0, block 1 is due on rank 0, and no context rank holds it"):
        check_served(receiver, assemble(one))


def test_what_does_not_move_is_not_due() -> None:
    sender, receiver = images("key @ 0 : T D(2) ; 8 ; never")
    check_served(receiver, assemble(without(sender, 0, 1)))


def test_replicas_that_differ_are_noticed() -> None:
    sender, _ = images("key @ 0 : T D(2) ; 8", "tp2", "tp1")
    with pytest.raises(Uneven, match="rank 1 holds other bytes of key of layer 0, block 0 than another rank does"):
        assemble(with_ids(sender, 1, np.flip))


def test_elements_in_each_others_place_are_noticed() -> None:
    sender, receiver = images("key @ 0 : T D(2) ; 8", "tp1", "tp1")
    turned = with_ids(sender, 0, np.flip)
    with pytest.raises(Uneven, match="T 0, D 0 of key of layer 0, block 0 is stored where another element belongs"):
        check_whole(turned, assemble(turned), iter(()))
    with pytest.raises(Uneven, match="rank 0 is due another element at byte 0 of key of layer 0, block 0"):
        check_served(receiver, assemble(turned))


def test_an_element_twice_on_a_rank_is_noticed() -> None:
    sender, _ = images("key @ 0 : T D(2) ; 8", "tp1", "tp1")
    (piece, *_) = sender.pieces
    with pytest.raises(Uneven, match="rank 0 holds elements of key of layer 0, block 0 twice"):
        assemble(replace(sender, pieces=(piece, piece)))
    twice = replace(piece, stored=(piece.stored[0], Held("D", np.array([1, 1]), 2)))
    with pytest.raises(Uneven, match="twice"):
        assemble(replace(sender, pieces=(twice,)))


def test_a_side_that_does_not_hold_all_of_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of("key @ 0 : T D(2) ; 8", "tp1", "tp1")
    monkeypatch.setattr(
        "kvwitness.conform.reshard.image_of",
        lambda case, side: without(image_of(case, side), 0) if side == "generation" else image_of(case, side),
    )
    with pytest.raises(Uneven, match="generation: no rank holds key of layer 0, block 0"):
        check_case(case)


def test_layers_that_a_side_is_declared_to_lack_are_not_due_and_those_of_the_other_side_are() -> None:
    buffers = ("key @ 0..1 : T D(2) ; 8", "draft @ 1 : T D(1) ; 8 ; optional(context)")
    lack = {"without": (Without(("draft",), LayerSet((1,))),)}
    check_case(case_of(group(*buffers), "tp2", "tp1", context_side=lack))


def test_a_split_that_leaves_a_remainder_breaks_the_law_with_its_smallest_example() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        axes = (Axis("H", 4, Split.EVEN if numbers[0] else Split.HEADS), TOKENS)
        return declared(around, keys(around, 2, Buffer("side", layers(range(around.layers)), (Part(axes, 8),))))

    result = check_reshards(sample_of(kind_of(decode, (4,), scope=((3,),))))
    assert result.outcome is Outcome.FAIL
    assert result.said == (
        "kind odd: buffer side, axis H = 4 is not possible: an even split over 3 ranks needs a multiple of 3"
    )
    assert result.example[0] == "numbers (1,)"
    assert "tp 3" in result.example[1]


def test_the_planner_has_no_part_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> Case:
        raise AssertionError("nothing may be planned here")

    for name in ("mapping.Mapping", "native.Native"):
        module, _, attribute = name.partition(".")
        target = __import__(f"differential.subjects.{module}", fromlist=[attribute])
        if hasattr(target, attribute):
            monkeypatch.setattr(getattr(target, attribute), "plan", refuse)
    assert check_reshards(sample_of(find_kind("mla"))).outcome is Outcome.PASS
