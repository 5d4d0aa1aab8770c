"""A legacy declaration that names what is not there, or leaves a role unsaid, breaks a law."""

from __future__ import annotations

import pytest

from kvwitness.conform.declares import check_declares
from oracle.model.case import Native
from oracle.truth.verdict import Outcome
from strategies.kinds import kinds
from strategies.kinds.pieces import layers, rows
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings
from tests.odd_kinds import declared, keys, kind_of, sample_of


def kind_with(native: Native | None, **options: object) -> Kind:
    """A kind of two roles, key and latent_scale; the second is there where the number is 1."""

    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        more = (rows("latent_scale", layers(range(around.layers)), 1, 8),) if numbers[0] else ()
        return declared(around, keys(around, 2, *more), native=native)

    return kind_of(decode, **options)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_shipped_kinds_declare_what_they_have(kind: Kind) -> None:
    sample = sample_of(kind, 20)
    has_rule = any(case.native for case in sample.cases)
    assert check_declares(sample).outcome is (Outcome.PASS if has_rule else Outcome.NOT_RUN)


def test_most_shipped_kinds_have_a_legacy_declaration() -> None:
    assert sum(any(case.native for case in sample_of(kind, 5).cases) for kind in kinds()) > len(kinds()) // 2


@pytest.mark.parametrize(
    "native",
    [
        Native((("all", "indexed"),)),
        Native((("key", "indexed"), ("latent_scale", "replicated"))),
        Native((("key", "indexed"),), ignored=("latent_scale",)),
    ],
)
def test_a_role_that_only_some_models_have_may_be_named(native: Native) -> None:
    assert check_declares(sample_of(kind_with(native))).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("native", "said"),
    [
        (
            Native((("all", "indexed"), ("latent_scal", "replicated"))),
            "native.mappers names latent_scal, which no buffer has: did you mean latent_scale?",
        ),
        (
            Native((("all", "indexed"),), ignored=("latent_scal",)),
            "native.ignored names latent_scal, which no buffer has: did you mean latent_scale?",
        ),
        (
            Native((("all", "indexed"), ("xyz", "replicated"))),
            "native.mappers names xyz, which no buffer has: expected one of key, latent_scale",
        ),
        (
            Native((("key", "indexed"),)),
            "native.mappers names neither latent_scale nor all: such a role goes by indexed, unsaid",
        ),
    ],
)
def test_a_role_that_is_wrong_or_unsaid_is_told(native: Native, said: str) -> None:
    result = check_declares(sample_of(kind_with(native)))
    assert (result.outcome, result.said) == (Outcome.FAIL, said)
    assert result.example[0].startswith("numbers ")


def test_a_mistyped_role_without_fallback_is_told_with_the_role_it_leaves_out() -> None:
    result = check_declares(sample_of(kind_with(Native((("key", "indexed"), ("latent_scal", "replicated"))))))
    assert result.said == "native.mappers names latent_scal, which no buffer has: did you mean latent_scale?"
    assert result.example[1:] == ("latent_scale has no mapper",)


def test_published_models_are_held_against_the_same_roles() -> None:
    good, bad = Native((("all", "indexed"),)), Native((("all", "indexed"), ("kye", "nhd")))

    def build(bits: int) -> Declaration:
        around = Surroundings(layers=2)
        return declared(around, keys(around), native=bad)

    model = PublishedModel("real", "Real", 2, build, "made for a test", "general knowledge", element_bits=(16,))
    result = check_declares(sample_of(kind_with(good, published=(model,))))
    assert result.said == "native.mappers names kye, which no buffer has: did you mean key?"
    assert result.example == ("real, 16 bits",)


def test_without_a_legacy_rule_it_does_not_run() -> None:
    result = check_declares(sample_of(kind_with(None)))
    assert result.outcome is Outcome.NOT_RUN and result.said.startswith("no legacy rule: ")


def test_where_no_model_can_be_built_that_is_the_reason() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        twin = rows("key", layers(range(around.layers)), 3, 8)
        return declared(around, keys(around, 2, twin), native=Native((("all", "indexed"),)))

    result = check_declares(sample_of(kind_of(decode)))
    assert (result.outcome, result.said) == (Outcome.NOT_RUN, "no model could be built")
