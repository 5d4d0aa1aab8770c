"""A case file says its case exactly and in one way, and its id is of what it says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from oracle.model.buffers import Buffer
from oracle.model.case import Case, Request, SlotList, Slots
from oracle.model.codec import case_id, decode, decode_file, encode, encode_file, from_plain, to_plain
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.notation import format_buffer, parse_buffer
from tests.drawn_cases import KINDS, cases, changed, plain_case

DATA = Path(__file__).parent / "data"

RECORDED = {
    "case_v1_auxiliary.json": "bca87b148ad5",
    "case_v1_dense.json": "de78574d7c0a",
    "case_v1_every_field.json": "1a30c1f7e785",
    "case_v1_first_manager.json": "bfb19c0a36fa",
    "case_v1_second_manager.json": "4aa2b3a91bf7",
    "case_v1_witness.json": "671eb1926193",
}
"""Recorded files, and the content id that each had when it was written."""


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


@settings(deadline=None)
@given(cases())
def test_every_case_survives_its_file(case: Case) -> None:
    text = encode(case)
    assert decode(text) == case
    assert encode(decode(text)) == text
    assert from_plain(to_plain(case)) == case
    assert text.encode()  # no lone surrogate


@settings(deadline=None)
@given(cases())
def test_the_id_is_of_the_content_without_the_labels(case: Case) -> None:
    assert case_id(changed(case, kind=case.kind + "x", notes=case.notes + "x")) == case_id(case)
    assert case_id(decode(encode(case))) == case_id(case)
    assert case_id(changed(case, slots=Slots(case.slots.mul + 1, case.slots.add, case.slots.counts))) != case_id(case)


@pytest.mark.parametrize("kind", KINDS)
def test_every_published_kind_is_a_case_and_survives_its_file(kind: str) -> None:
    plain = plain_case(kind, kind=kind)
    case = from_plain(plain)
    assert to_plain(case) == plain
    assert list(to_plain(case)) == list(plain)
    assert decode(encode(case)) == case


def test_published_kinds_have_ids_of_their_own() -> None:
    assert len({case_id(from_plain(plain_case(kind))) for kind in KINDS}) == len(KINDS)


def test_a_minimal_dense_case_is_small() -> None:
    text = recorded("case_v1_dense.json")
    assert encode(decode(text)) == text
    assert len(text) <= 450


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_file_is_written_again_byte_for_byte_under_its_id(name: str) -> None:
    text = recorded(name)
    case, extras = decode_file(text)
    assert encode_file(case, extras) == text
    assert case_id(case) == RECORDED[name]


def records_in(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for inner in value:
            yield from records_in(inner)
    elif dataclasses.is_dataclass(value) and not isinstance(value, Buffer):
        yield value
        for field in dataclasses.fields(value):
            yield from records_in(getattr(value, field.name))


def test_every_field_that_a_file_can_hold_is_recorded() -> None:
    """A field added to a record without the codec, or without a recorded file, is noticed here."""
    found = [record for name in RECORDED for record in records_in(decode(recorded(name)))]
    assert {type(record).__name__ for record in found} >= {"Case", "SideState", "Without", "Entry", "Native", "Content"}
    for record in found:
        for field in dataclasses.fields(record):
            same = [getattr(other, field.name) for other in found if type(other) is type(record)]
            assert any(value != field.default for value in same), f"{type(record).__name__}.{field.name}"


def test_the_order_of_slot_lists_says_nothing() -> None:
    case = decode(recorded("case_v1_every_field.json"))
    turned = changed(case, tables=case.tables[::-1], presented=case.presented[::-1])
    assert turned == case
    assert encode(turned) == encode(case)
    assert case.tables[0] == SlotList("context", 0, "full", 0, (4, -1, 2))


def test_the_order_of_fields_and_spelled_out_defaults_say_nothing() -> None:
    plain = json.loads(recorded("case_v1_dense.json"))
    plain["context"].update(cp=1, attention_dp=False, layout="", layouts={}, manager="v2", without=[])
    plain["requests"][0].update(cuts=[], context={}, generation={"cached": 0}, context_dp=0)
    plain["model"]["groups"][0].update(kind="paged", sinks=0, domain="", length="prompt")
    plain["model"]["draft"] = "none"
    plain.update(contents=[{}], slots={}, tables={"context": {"0": {"full": [None]}}}, presented={}, notes="")
    turned = {name: plain[name] for name in reversed(list(plain))}
    assert encode(from_plain(turned)) == recorded("case_v1_dense.json")


def test_long_rows_fill_lines_and_entries_have_one_each() -> None:
    case = decode(recorded("case_v1_dense.json"))
    long = changed(
        case,
        requests=(Request(0, 300), Request(0, 5)),
        contents=(),
        tables=(SlotList("generation", 0, "full", 0, tuple(range(300))),),
    )
    lines = encode(long).splitlines()
    assert '    {"content": 0, "prompt": 300},' in lines
    assert '    {"content": 0, "prompt": 5}' in lines
    assert max(map(len, lines)) <= 120
    assert len(lines) < 45
    assert decode(encode(long)) == long


def test_a_witness_stands_beside_the_case() -> None:
    case, extras = decode_file(recorded("case_v1_witness.json"))
    assert extras == {
        "witness": {"verdict": "missing", "at": {"side": "generation", "rank": 0, "byte": 12}, "rate": 0.5}
    }
    assert decode(recorded("case_v1_witness.json")) == case
    assert decode_file(encode(case)) == (case, {})
    with pytest.raises(InvalidCase, match="extras = 'pins' is not possible: expected witness"):
        encode_file(case, {"pins": {}})
    with pytest.raises(MalformedFile, match="witness = 7 is not possible: expected an object"):
        decode(encode_file(case, {"witness": 7}))


def test_the_reference_shows_files_and_buffers_as_they_are_written() -> None:
    reference = (Path(__file__).parents[1] / "docs" / "case-file.md").read_text(encoding="utf-8")
    example = reference.split("```json\n")[1].split("```")[0]
    assert example == recorded("case_v1_dense.json")
    lines = reference.split("## Notation")[1].split("```\n")[1].splitlines()
    assert len(lines) >= 5
    for line in lines:
        assert format_buffer(parse_buffer(line)) == line
    case = decode(recorded("case_v1_every_field.json"))
    for name in [*to_plain(case), *to_plain(case)["context"], *to_plain(case)["generation"]]:
        assert f"`{name}`" in reference, name
