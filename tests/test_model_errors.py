"""Errors name the argument, quote the value, say what is accepted, and survive a process boundary."""

from __future__ import annotations

import pickle

import pytest

from oracle.model.errors import InvalidCase, MalformedFile, NewerSchema, require_whole
from tests.declared import assert_impossible


@pytest.mark.parametrize("kind", [InvalidCase, MalformedFile, NewerSchema])
def test_an_error_keeps_its_kind_and_fields_through_pickle(kind: type[InvalidCase]) -> None:
    again = pickle.loads(pickle.dumps(kind("tp", 0, "expected a whole number of at least 1")))
    assert type(again) is kind
    assert (again.argument, again.value, again.accepted) == ("tp", 0, "expected a whole number of at least 1")
    assert str(again) == "tp = 0 is not possible: expected a whole number of at least 1"


@pytest.mark.parametrize("kind", [MalformedFile, NewerSchema])
def test_a_file_that_cannot_be_read_is_an_invalid_case(kind: type[InvalidCase]) -> None:
    assert issubclass(kind, InvalidCase)
    assert issubclass(kind, ValueError)


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", None])
def test_a_whole_number_is_an_int_and_never_a_bool(value: object) -> None:
    assert_impossible(lambda: require_whole("size", value), "size", value, "expected a whole number of at least 0")


def test_the_least_whole_number_is_accepted() -> None:
    require_whole("size", 0)
    require_whole("size", 3, least=3)
