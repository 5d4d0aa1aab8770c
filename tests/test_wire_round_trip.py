"""A request info arrives as it was sent, in bytes that do not change by accident."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from differential.managers.wire import (
    KINDS,
    AnchorInfo,
    RequestInfo,
    SuffixInfo,
    TableInfo,
    check,
    decode,
    encode,
)
from tests.encoding_laws import law_G1
from tests.wire_infos import ARRAYS, FIELDS, SENT, Sent, array, unpack_map

COMMON = {
    "sender_req_id": 300,
    "instance_name": "gen",
    "instance_rank": 2,
    "block_ids_per_layer_groups": (array(5, 258), array()),
    "unique_rid": 300,
    "slice_id": 0,
}

# Written out by hand: a changed format must be seen here, and nowhere else first.
PINNED_COMMON = (
    b"\x89"
    b"\xadsender_req_id\xcd\x01\x2c"
    b"\xadinstance_name\xa3gen"
    b"\xadinstance_rank\x02"
    b"\xbablock_ids_per_layer_groups\x92"
    b"\xc4\x10\x05\x00\x00\x00\x00\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00"
    b"\xc4\x00"
    b"\xaaunique_rid\xcd\x01\x2c"
    b"\xa8aux_slot\xc0"
    b"\xa8slice_id\x00"
    b"\xafbounce_dst_base\xc0"
)
PINNED = [
    ("tables", TableInfo(**COMMON, dst_start_token=None), PINNED_COMMON + b"\xafdst_start_token\xc0"),
    ("suffix", SuffixInfo(**COMMON, dst_start_token=64), PINNED_COMMON + b"\xafdst_start_token\x40"),
    ("anchors", AnchorInfo(**COMMON, first_ordinals=(3, 0)), PINNED_COMMON + b"\xaefirst_ordinals\x92\x03\x00"),
]


@settings(deadline=None)
@given(SENT)
def test_what_was_sent_arrives(sent: Sent) -> None:
    """Property G1."""
    law_G1(sent.info, sent.encoding)
    arrived = decode(sent.record, sent.encoding)
    assert arrived == sent.info
    assert type(arrived) is KINDS[sent.encoding]
    assert encode(arrived) == sent.record


@settings(deadline=None)
@given(SENT)
def test_a_right_info_passes_on_both_sides(sent: Sent) -> None:
    check(sent.info, sent.expected)
    check(decode(sent.record, sent.encoding), sent.expected)


@settings(deadline=None)
@given(SENT)
def test_any_reader_of_msgpack_finds_the_fields_of_the_encoding(sent: Sent) -> None:
    fields = unpack_map(sent.record)
    assert set(fields) == set(FIELDS[sent.encoding])
    for name in FIELDS[sent.encoding]:
        value = getattr(sent.info, name)
        if name == ARRAYS:
            value = [b"".join(slot.to_bytes(8, "little", signed=True) for slot in slots.tolist()) for slots in value]
        assert fields[name] == (list(value) if name == "first_ordinals" else value)


@settings(deadline=None)
@given(SENT)
def test_arrived_arrays_are_writable_and_nobody_elses(sent: Sent) -> None:
    record = sent.record
    before = bytes(bytearray(record))
    arrived = decode(record, sent.encoding)
    for slots in arrived.block_ids_per_layer_groups:
        assert slots.dtype == np.int64 and slots.flags.writeable and slots.flags.owndata
        slots += 1
    assert record == before
    assert decode(record, sent.encoding) == sent.info


@pytest.mark.parametrize(("encoding", "info", "record"), PINNED, ids=[name for name, *_ in PINNED])
def test_the_bytes_of_a_record_are_pinned(encoding: str, info: RequestInfo, record: bytes) -> None:
    assert encode(info) == record
    assert decode(record, encoding) == info


@pytest.mark.parametrize("length", [31, 32, 8191, 8192])
@pytest.mark.parametrize("groups", [1, 16])
def test_long_arrays_and_many_groups_arrive(length: int, groups: int) -> None:
    """Arrays on both sides of 256 and 65,536 bytes, and a list of more than 15, have other headers."""
    arrays = tuple(np.arange(group, group + length)[::-1] for group in range(groups))
    info = TableInfo(**COMMON | {ARRAYS: arrays})
    assert decode(encode(info), "tables") == info


def test_the_order_of_fields_carries_nothing() -> None:
    _, info, record = PINNED[0]
    moved = b"\x89\xafdst_start_token\xc0" + PINNED_COMMON[1:]
    assert moved != record and decode(moved, "tables") == info


def test_longer_spellings_of_the_same_map_are_read() -> None:
    _, info, record = PINNED[0]
    for header in (b"\xde\x00\x09", b"\xdf\x00\x00\x00\x09"):
        assert decode(header + record[1:], "tables") == info


def test_a_receiver_that_numbers_no_slices_has_one_task() -> None:
    assert TableInfo(**COMMON | {"slice_id": None}).task == 0
    assert TableInfo(**COMMON | {"slice_id": 3}).task == 3


def test_infos_are_equal_by_content_and_kind() -> None:
    one = TableInfo(**COMMON)
    assert one == TableInfo(**COMMON | {ARRAYS: (array(5, 258), array())})
    assert one != TableInfo(**COMMON | {ARRAYS: (array(5, 259), array())})
    assert one != TableInfo(**COMMON | {ARRAYS: (array(5, 258),)})
    assert one != TableInfo(**COMMON, dst_start_token=0)
    assert one != SuffixInfo(**COMMON)
    assert TableInfo(**COMMON | {"aux_slot": 1}) != TableInfo(**COMMON | {"aux_slot": True})
