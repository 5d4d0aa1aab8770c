"""Bytes that are not exactly one record of the encoding are refused, whatever they are."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.managers.wire import (
    KINDS,
    TableInfo,
    UnreadableRecord,
    WireTrouble,
    WrongFields,
    WrongType,
    WrongValue,
    decode,
    encode,
)
from tests.encoding_laws import law_G2, law_G3
from tests.wire_infos import ARRAYS, FIELDS, SENT, SENT_BY, Sent, array, pack_map, unpack_map

ENCODINGS = st.sampled_from(sorted(FIELDS))
SMALL = {
    "sender_req_id": 1,
    "instance_name": "gen",
    "instance_rank": 0,
    ARRAYS: [bytes(8), b""],
    "unique_rid": 1,
    "aux_slot": None,
    "slice_id": None,
    "bounce_dst_base": None,
    "dst_start_token": 0,
    "first_ordinals": [0, 0],
}


def small(encoding: str, **changed: object) -> list[tuple[object, object]]:
    """The fields of a right record of that encoding, but for those ``changed``."""
    return [(name, changed.get(name, SMALL[name])) for name in FIELDS[encoding]]


@pytest.mark.parametrize("encoding", FIELDS)
def test_the_small_record_is_right(encoding: str) -> None:
    """Else each refusal below could have another reason."""
    assert unpack_map(encode(decode(pack_map(small(encoding)), encoding))) == dict(small(encoding))


# ---- too few bytes, too many


@settings(deadline=None, max_examples=50)
@given(SENT)
def test_a_record_cut_off_anywhere_is_refused(sent: Sent) -> None:
    """Property G3."""
    law_G3(sent.info, sent.encoding)
    for length in range(len(sent.record)):
        with pytest.raises(UnreadableRecord):
            decode(sent.record[:length], sent.encoding)


@settings(deadline=None, max_examples=50)
@given(SENT)
def test_a_record_with_a_field_too_few_or_too_many_is_refused(sent: Sent) -> None:
    """Property G2, for fields; for their values see the drawn mistakes."""
    law_G2(sent.info, sent.encoding)


@pytest.mark.parametrize("header", [b"\xde\x00\x09", b"\xdf\x00\x00\x00\x09"])
def test_a_record_with_a_long_header_cut_off_anywhere_is_refused(header: bytes) -> None:
    record = header + pack_map(small("tables"))[1:]
    decode(record, "tables")
    for length in range(len(record)):
        with pytest.raises(UnreadableRecord, match=r"^record = b'.*expected (a|one) whole map, but"):
            decode(record[:length], "tables")


@settings(deadline=None)
@given(SENT, st.binary(min_size=1, max_size=12))
def test_a_record_with_anything_behind_it_is_refused(sent: Sent, rest: bytes) -> None:
    with pytest.raises(UnreadableRecord, match="trailing"):
        decode(sent.record + rest, sent.encoding)


@settings(deadline=None)
@given(SENT)
def test_two_records_are_not_one(sent: Sent) -> None:
    with pytest.raises(UnreadableRecord, match="trailing"):
        decode(sent.record * 2, sent.encoding)


@pytest.mark.parametrize(
    "record", [b"\x80" + b"\x00", b"\x8f", b"\xdf\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff\x01\x02"]
)
def test_a_map_that_counts_more_than_it_has_is_refused(record: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode(record, "tables")


def test_a_list_that_counts_more_than_the_record_has_is_refused() -> None:
    record = pack_map(small("tables")).replace(b"\x92\xc4\x08", b"\xdd\xff\xff\xff\xff\xc4\x08")
    with pytest.raises(UnreadableRecord):
        decode(record, "tables")


# ---- fields


@pytest.mark.parametrize("encoding", FIELDS)
@pytest.mark.parametrize("same", [True, False], ids=["same value", "other value"])
def test_a_field_that_stands_twice_is_refused_wherever(encoding: str, same: bool) -> None:
    pairs = small(encoding)
    for name, value in pairs:
        for place in range(len(pairs) + 1):
            twice = pairs[:place] + [(name, value if same else 5)] + pairs[place:]
            with pytest.raises(UnreadableRecord, match="expected every field once") as caught:
                decode(pack_map(twice), encoding)
            assert caught.value.field == name


def test_a_field_that_stands_twice_in_two_spellings_is_refused() -> None:
    record = pack_map(small("tables"))
    twice = b"\x8a" + record[1:] + b"\xd9\x08aux_slot\x07"
    with pytest.raises(UnreadableRecord, match="aux_slot = 7 is not possible: expected every field once"):
        decode(twice, "tables")


def test_an_unknown_field_that_stands_twice_is_refused() -> None:
    with pytest.raises(WireTrouble):
        decode(pack_map([*small("tables"), ("more", 1), ("more", 1)]), "tables")


@pytest.mark.parametrize(("encoding", "name"), [(encoding, name) for encoding in FIELDS for name in FIELDS[encoding]])
def test_a_missing_field_is_refused(encoding: str, name: str) -> None:
    pairs = [pair for pair in small(encoding) if pair[0] != name]
    with pytest.raises(WrongFields, match=f"^{name} = 'missing' is not possible: expected the fields .*{name}"):
        decode(pack_map(pairs), encoding)


@pytest.mark.parametrize("encoding", FIELDS)
@pytest.mark.parametrize("name", ["", "aux slot", "Aux_slot", "version", "dst_start_token", "first_ordinals"])
def test_an_unknown_field_is_refused(encoding: str, name: str) -> None:
    if name in FIELDS[encoding]:
        # Known here; the case proper is that of the other encodings.
        decode(pack_map(small(encoding)), encoding)
        return
    with pytest.raises(WrongFields) as caught:
        decode(pack_map([*small(encoding), (name, None)]), encoding)
    assert caught.value.field == name


@pytest.mark.parametrize("name", [None, 3, b"aux_slot", [1], True])
def test_a_field_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(WrongType, match=r"name of field 9 = .*expected text"):
        decode(pack_map([*small("tables"), (name, 1)]), "tables")


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(WrongValue, match="encoding = 'table' is not possible: expected one of tables, anchors, suffix"):
        decode(pack_map(small("tables")), "table")  # type: ignore[call-overload]


# ---- types

NO_WHOLE: list[Any] = [
    True,
    False,
    0.0,
    1.0,
    1.5,
    float("nan"),
    "1",
    b"\x01",
    [1],
    {"one": 1},
    msgspec.msgpack.Ext(5, b"1"),
]
WRONG_TYPES: dict[str, list[Any]] = {
    **{name: [*NO_WHOLE, None] for name in ("sender_req_id", "instance_rank", "unique_rid")},
    **dict.fromkeys(("aux_slot", "slice_id", "bounce_dst_base", "dst_start_token"), NO_WHOLE),
    "instance_name": [None, True, 1, 1.0, b"gen", ["gen"]],
    ARRAYS: [None, True, 1, b"", bytes(16), "", {"0": b""}, [b"", 1], [[], b""], [[0], b""], ["", b""], [None, b""]],
    "first_ordinals": [None, 0, b"\x00\x00", "00", {"0": 0}, [0, None], [True, 0], [0.0, 0], ["0", 0], [[0], 0]],
}


@pytest.mark.parametrize(
    ("encoding", "name", "value"),
    [(encoding, name, value) for encoding in FIELDS for name in FIELDS[encoding] for value in WRONG_TYPES[name]],
)
def test_a_value_of_another_type_is_refused(encoding: str, name: str, value: object) -> None:
    with pytest.raises(WrongType, match="expected") as caught:
        decode(pack_map(small(encoding, **{name: value})), encoding)
    assert caught.value.field.partition("[")[0] == name
    assert caught.value.rule is None
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("name", [name for name in WRONG_TYPES if name not in (ARRAYS, "instance_name")])
@pytest.mark.parametrize("value", [-1, -(1 << 63), 1 << 63, (1 << 64) - 1])
def test_a_number_below_0_or_beyond_63_bits_is_refused(name: str, value: int) -> None:
    encoding = "anchors" if name == "first_ordinals" else "tables"
    with pytest.raises(WrongValue, match=f"= {value} is not possible: expected a whole number") as caught:
        decode(pack_map(small(encoding, **{name: [0, value] if name == "first_ordinals" else value})), encoding)
    assert caught.value.field.partition("[")[0] == name


@pytest.mark.parametrize("value", [b"\xd6\xff\x00\x00\x00\x01", b"\xd7\xff" + b"\xff" * 8, b"\xd4\x05\x01"])
def test_what_msgpack_extends_itself_by_is_no_number(value: bytes) -> None:
    record = pack_map(small("tables")).replace(b"\xa8aux_slot\xc0", b"\xa8aux_slot" + value)
    with pytest.raises(WrongType, match=r"^aux_slot = "):
        decode(record, "tables")


@pytest.mark.parametrize("wrap", [b"", b"\x91", b"\x81\x00"])
def test_an_extension_is_quoted_by_what_it_holds(wrap: bytes) -> None:
    record = pack_map(small("tables")).replace(b"\xa8aux_slot\xc0", b"\xa8aux_slot" + wrap + b"\xd4\x05\x01")
    with pytest.raises(WrongType, match=r"Extension\(code=5, data=b'\\x01'\)") as caught:
        decode(record, "tables")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("value", [b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80"])
def test_text_that_is_not_utf8_is_refused(value: bytes) -> None:
    record = pack_map(small("tables")).replace(b"\xa3gen", value)
    with pytest.raises(UnreadableRecord, match=r"^instance_name = "):
        decode(record, "tables")


@pytest.mark.parametrize("depth", [100, 100_000])
def test_lists_in_lists_are_refused_at_any_depth(depth: int) -> None:
    record = pack_map(small("tables")).replace(b"\xa8aux_slot\xc0", b"\xa8aux_slot" + b"\x91" * depth + b"\xc0")
    with pytest.raises(WireTrouble):
        decode(record, "tables")


@pytest.mark.parametrize("record", [None, 3, "", "\x80", bytearray(b"\x80"), [b"\x80"], memoryview(b"\x80")])
def test_a_record_is_bytes(record: object) -> None:
    with pytest.raises(WrongType, match=r"^record = .*expected bytes"):
        decode(record, "tables")  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [None, 3, "text", b"bytes", [], [("sender_req_id", 1)], 1.5, True])
def test_a_record_is_a_map(value: object) -> None:
    with pytest.raises(WrongType, match="expected one msgpack map"):
        decode(msgspec.msgpack.encode(value), "tables")


# ---- anything at all


def same_or_refused(record: bytes, encoding: str) -> bool:
    """Whether ``record`` was read; if so, what was read says all that the record says, and nothing else."""
    try:
        info = decode(record, encoding)
    except WireTrouble as trouble:
        assert isinstance(trouble, TypeError | ValueError)
        assert str(trouble).startswith(f"{trouble.field} = ") and "expected" in trouble.accepted
        assert str(pickle.loads(pickle.dumps(trouble))) == str(trouble)
        return False
    again = encode(info)
    # By their spelling, for True and 1.0 are equal to 1.
    assert sorted(map(repr, unpack_map(again).items())) == sorted(map(repr, unpack_map(record).items()))
    assert decode(again, encoding) == info
    assert type(info) is KINDS[encoding]
    return True


@settings(deadline=None)
@given(st.binary(max_size=80), ENCODINGS)
def test_random_bytes_are_no_record(record: bytes, encoding: str) -> None:
    assert not same_or_refused(record, encoding)


@settings(deadline=None, max_examples=300)
@given(
    SENT, st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255), st.integers(0, 2)), min_size=1, max_size=3)
)
def test_a_spoilt_record_is_refused_or_read_as_it_stands(sent: Sent, changes: list[tuple[int, int, int]]) -> None:
    spoilt = bytearray(sent.record)
    for place, byte, way in changes:
        place %= len(spoilt)
        spoilt[place : place + (way != 1)] = b"" if way == 2 else bytes([byte])
    same_or_refused(bytes(spoilt), sent.encoding)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.binary(max_size=16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None)
@given(ENCODINGS, st.data())
def test_any_value_in_any_field_is_refused_or_read_as_it_stands(encoding: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FIELDS[encoding]))
    same_or_refused(pack_map(small(encoding, **{name: data.draw(VALUES)})), encoding)


@settings(deadline=None)
@given(SENT_BY["tables"])
def test_a_refused_record_leaves_nothing_behind(sent: Sent) -> None:
    for spoilt in (sent.record[:-1], sent.record + b"\xc0", b"\x81" + sent.record[1:]):
        with pytest.raises(WireTrouble):
            decode(spoilt, "tables")
    assert decode(sent.record, "tables") == sent.info


# ---- what is not written either


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sender_req_id", None),
        ("sender_req_id", True),
        ("unique_rid", 1.0),
        ("instance_rank", "0"),
        ("instance_name", b"gen"),
        ("dst_start_token", False),
        (ARRAYS, [array(1)]),
        (ARRAYS, ([1, 2],)),
        (ARRAYS, (array(1).astype("int32"),)),
        (ARRAYS, (array(1).astype(float),)),
        (ARRAYS, (array(1).reshape(1, 1),)),
        (ARRAYS, (array(1).astype(">i8"),)),
    ],
)
def test_what_would_not_be_read_is_not_written(name: str, value: object) -> None:
    right = decode(pack_map(small("tables")), "tables")
    fields = {field: getattr(right, field) for field in FIELDS["tables"]}
    with pytest.raises(WrongType) as caught:
        encode(TableInfo(**fields | {name: value}))
    assert caught.value.field.partition("[")[0] == name


@pytest.mark.parametrize(("name", "value"), [("unique_rid", 1 << 63), ("aux_slot", -1), ("instance_name", "\ud800")])
def test_a_value_that_no_receiver_means_is_not_written(name: str, value: object) -> None:
    right = decode(pack_map(small("tables")), "tables")
    fields = {field: getattr(right, field) for field in FIELDS["tables"]}
    with pytest.raises(WrongValue, match="expected") as caught:
        encode(TableInfo(**fields | {name: value}))
    assert caught.value.field == name and caught.value.value == value


def test_only_a_request_info_is_written() -> None:
    with pytest.raises(WrongType, match=r"^info = "):
        encode(dict(small("tables")))  # type: ignore[arg-type]


def test_a_long_value_is_quoted_in_part() -> None:
    with pytest.raises(UnreadableRecord) as caught:
        decode(b"\x81\xa1a" + b"\xc5\x40\x00" + bytes(10_000), "tables")
    assert len(str(caught.value)) < 1000 and "length 10006" in str(caught.value)
    assert len(caught.value.value) == 10_006  # type: ignore[arg-type]
