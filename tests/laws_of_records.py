"""Laws F5 and G1 to G3: windows of a translation, and records (spec: blocks, 6.1); see ``tests.encoding_laws``."""

from __future__ import annotations

from collections.abc import Sequence

from differential.managers.v1 import Translation, WindowNotNamed
from differential.managers.wire import RequestInfo, WireTrouble, decode, encode
from tests.wire_infos import pack_map, unpack_map


def law_F5(windows: Sequence[int]) -> None:
    """A window named many times is one window, and need not be said; of several none is taken without being named.

    ``windows``: those of the layers, at least one.
    """
    known = Translation(windows, {window: {1: 100 + place} for place, window in enumerate(sorted(set(windows)))})
    for place, window in enumerate(sorted(set(windows))):
        assert known.translate([1], window).tolist() == [100 + place]
    try:
        found = known.translate([1]).tolist()
    except WindowNotNamed:
        assert len(set(windows)) > 1
    else:
        assert len(set(windows)) == 1 and found == [100]


def is_refused(record: bytes, encoding: str) -> bool:
    try:
        decode(record, encoding)  # type: ignore[call-overload]
    except WireTrouble:
        return True
    return False


def law_G1(info: RequestInfo, encoding: str) -> None:
    """What was sent arrives."""
    record = encode(info)
    arrived = decode(record, encoding)  # type: ignore[call-overload]
    assert arrived == info and encode(arrived) == record


def law_G2(info: RequestInfo, encoding: str) -> None:
    """A record that lacks any field, or has one twice or one more, is refused: nothing stands in for it.

    What else is refused takes knowledge of the request: see ``tests/test_wire_drawn_mistakes.py``.
    """
    fields = list(unpack_map(encode(info)).items())
    for number, field in enumerate(fields):
        assert is_refused(pack_map(fields[:number] + fields[number + 1 :]), encoding)
        assert is_refused(pack_map([*fields, field]), encoding)
    assert is_refused(pack_map([*fields, ("first_block", 0)]), encoding)


def law_G3(info: RequestInfo, encoding: str) -> None:
    """No record that is cut off is read."""
    record = encode(info)
    assert all(is_refused(record[:length], encoding) for length in range(len(record)))
