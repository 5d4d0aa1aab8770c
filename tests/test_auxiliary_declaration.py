"""Which groups may be native only, what a case file says of them, and what does not ask for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from differential.subjects.compatibility.configuration import configuration_of
from differential.subjects.mapping import Pages, check_compatible
from oracle.model.buffers import Model
from oracle.model.codec import case_id, decode, encode, to_plain
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.sides import lay_out
from tests.small_cases import group
from tests.test_native_auxiliary import items, served


def test_the_case_file_says_so_and_says_nothing_otherwise() -> None:
    case = served("tp2", "tp4")
    assert decode(encode(case)) == case
    groups = to_plain(case)["model"]["groups"]  # type: ignore[index]
    assert [each.get("native_only") for each in groups] == [None, True]
    plain = replace(case, model=Model(2, (case.model.groups[0], replace(case.model.groups[1], native_only=False))))
    assert "native_only" not in encode(plain)
    assert case_id(plain) != case_id(case)
    with pytest.raises(MalformedFile, match=r"model.groups\[1\].native_only"):
        decode(encode(case).replace('"native_only": true', '"native_only": 1'))


def test_one_group_of_state_and_one_that_is_native_only_need_no_domain() -> None:
    state = group("ple @ 0..1 : D(2) ; 8", name="ple", state=True)
    assert len(Model(2, (state, items(2))).groups) == 2


def test_only_whole_buffers_of_the_request_on_all_layers_may_be_native_only() -> None:
    whole = "tokens @ 0..1 : D(4) ; 8 ; request ; first_local"
    for text, argument in (
        ("tokens @ 0..1 : D(4) ; 8", "not request-wide"),
        ("tokens @ 0 : D(4) ; 8 ; request", "not request-wide"),
        ("tokens @ 0..1 : H(4).heads ; 8 ; request ; first_local", "split"),
        ("tokens @ 0..1 : D(4) ; 8 ; request ; first_local ; never", "move"),
    ):
        with pytest.raises(InvalidCase, match=argument):
            group(text, name="aux", state=True, native_only=True)
    with pytest.raises(InvalidCase, match="only a state group"):
        group(whole, name="aux", native_only=True)
    with pytest.raises(InvalidCase, match="on all of 3 layers"):
        Model(3, (group(whole, name="aux", state=True, native_only=True),))
    with pytest.raises(InvalidCase, match="alike on both sides"):
        served("tp1", "tp1", generation_side={"element_bits": (("tokens", 16),)})


def test_a_handshake_passes_over_them() -> None:
    case = served("tp2", "tp4")
    moving = configuration_of(case, "context").moving(case.generation)
    assert {role for _, role in moving} == {"key", "value"}


def test_the_mapping_does_not_ask_whether_the_other_side_declares_them() -> None:
    case, plain = served("tp2", "tp4"), served("tp2", "tp4", auxiliary_too=False)
    sides = [
        Pages(each.model, getattr(each, side), lay_out(each, side).tables)
        for each, side in ((case, "context"), (plain, "generation"), (plain, "context"), (case, "generation"))
    ]
    assert check_compatible(sides[0], sides[1]) is None
    assert check_compatible(sides[2], sides[3]) is None
