"""What is wrong with a request info by itself, whatever the request and its two sides."""

from __future__ import annotations

import numpy as np

from differential.managers.wire.info import AnchorInfo, RequestInfo, SuffixInfo, TableInfo, field_names
from differential.managers.wire.trouble import WrongType, WrongValue

_ABOVE = 1 << 63
_ARRAYS = "block_ids_per_layer_groups"
_REQUIRED = ("sender_req_id", "instance_rank", "unique_rid")


def check_alone(info: RequestInfo) -> None:
    """Raise unless ``info`` could be some receiver's: types, numbers, and W2, W6, W8 and W10 as far as it shows them.

    Raises ``WrongType`` and ``WrongValue``. The rest takes knowledge of the request: :func:`check`.
    """
    if type(info) not in (TableInfo, AnchorInfo, SuffixInfo):
        raise WrongType("info", info, "expected the record of an encoding")
    _check_name(info.instance_name)
    _check_arrays(info)
    if isinstance(info, AnchorInfo):
        _check_anchors(info)
    for name in field_names(type(info)):
        if name in ("instance_name", _ARRAYS, "first_ordinals"):
            continue
        value = getattr(info, name)
        if value is not None or name in _REQUIRED:
            _check_whole(name, value, "W10" if name == "dst_start_token" else None, optional=name not in _REQUIRED)


def _check_whole(name: str, value: object, rule: str | None, *, optional: bool = False) -> None:
    if type(value) is not int:
        raise WrongType(name, value, f"expected a whole number{' or None' if optional else ''}")
    if value < 0:
        raise WrongValue(name, value, "expected a whole number of at least 0", rule=rule)
    if value >= _ABOVE:
        raise WrongValue(name, value, "expected a whole number below 2**63")


def _check_name(name: object) -> None:
    if type(name) is not str:
        raise WrongType("instance_name", name, "expected text")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise WrongValue("instance_name", name, "expected text that UTF-8 has, without lone surrogates") from None


def _check_arrays(info: RequestInfo) -> None:
    arrays = info.block_ids_per_layer_groups
    if type(arrays) is not tuple:
        raise WrongType(_ARRAYS, arrays, "expected a tuple of int64 arrays")
    least = -1 if isinstance(info, TableInfo) else 0
    for group, slots in enumerate(arrays):
        name = f"{_ARRAYS}[{group}]"
        if not isinstance(slots, np.ndarray) or slots.dtype != np.int64 or slots.ndim != 1:
            raise WrongType(name, slots, "expected an int64 array with one axis")
        if len(slots) and slots.min() < least:
            index = int(np.argmax(slots < least))
            accepted = "expected a slot, or -1 for a block not asked for" if least else "expected a slot, at least 0"
            raise WrongValue(f"{name}[{index}]", int(slots[index]), accepted, rule="W8")


def _check_anchors(info: AnchorInfo) -> None:
    anchors, arrays = info.first_ordinals, info.block_ids_per_layer_groups
    if type(anchors) is not tuple:
        raise WrongType("first_ordinals", anchors, "expected a tuple of whole numbers")
    for group, anchor in enumerate(anchors):
        _check_whole(f"first_ordinals[{group}]", anchor, "W6")
    if len(anchors) != len(arrays):
        accepted = f"expected one for each of {len(arrays)} layer groups"
        raise WrongValue("first_ordinals", anchors, accepted, rule="W2")
    for group, (anchor, slots) in enumerate(zip(anchors, arrays, strict=True)):
        if anchor and not len(slots):
            raise WrongValue(f"first_ordinals[{group}]", anchor, "expected 0 for a group without slots", rule="W6")
