"""Right request infos with what both sides know of them, in every encoding; and records with fields at will."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from differential.managers.wire import AnchorInfo, Expected, ExpectedGroup, RequestInfo, SuffixInfo, TableInfo, encode

ARRAYS = "block_ids_per_layer_groups"
COMMON = (
    "sender_req_id",
    "instance_name",
    "instance_rank",
    ARRAYS,
    "unique_rid",
    "aux_slot",
    "slice_id",
    "bounce_dst_base",
)
FIELDS = {
    "tables": (*COMMON, "dst_start_token"),
    "anchors": (*COMMON, "first_ordinals"),
    "suffix": (*COMMON, "dst_start_token"),
}
"""the fields of a record, as the description of the wire lists them"""

# Where an int changes its length in msgpack, and the largest that an id may be.
EDGES = (0, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class Sent:
    """A right info, the name of its encoding, and what the two sides know."""

    info: RequestInfo
    encoding: str
    expected: Expected

    @property
    def record(self) -> bytes:
        return encode(self.info)


def array(*slots: int) -> np.ndarray:
    return np.array(slots, dtype=np.int64)


def pack_map(pairs: list[tuple[object, object]]) -> bytes:
    """A msgpack map of ``pairs`` in that order, equal names and all; fewer than 16."""
    assert len(pairs) < 16
    return bytes([0x80 | len(pairs)]) + b"".join(msgspec.msgpack.encode(part) for pair in pairs for part in pair)


def unpack_map(record: bytes) -> dict[str, Any]:
    """``record`` as a reader that knows nothing of the wire sees it."""
    return msgspec.msgpack.decode(record)


WHOLE = st.sampled_from(EDGES) | st.integers(0, (1 << 63) - 1)
OPTIONAL = st.none() | WHOLE


@st.composite
def _sent(draw: Callable[..., Any], encodings: tuple[str, ...]) -> Sent:
    encoding = draw(st.sampled_from(encodings))
    tokens_per_block = draw(st.integers(1, 4))
    blocks = draw(st.integers(1, 6))
    # One feature at most, as beams meet neither Helix nor slices: none, Helix, Helix with anchors, slices, beams.
    feature = draw(st.integers(0, 6))
    helix, own_blocks, chunked, beams = feature in (1, 2), feature == 2, feature == 3, max(1, feature - 2)
    cp = draw(st.integers(2, 3)) if helix else 1
    rank = draw(st.integers(0, cp - 1))
    owned = len(range(rank, blocks, cp))
    pool_count = draw(st.integers(1, 2))
    used = [0] * pool_count
    # Slots of a pool group: an injection that is neither the identity nor a run.
    step, shift, size = draw(st.sampled_from((2, 3, 5, 7))), draw(st.integers(0, 50)), 211

    def take(pool_group: int, count: int) -> list[int]:
        numbers = range(used[pool_group], used[pool_group] + count)
        used[pool_group] += count
        return [(step * number + shift) % size for number in numbers]

    groups: list[ExpectedGroup] = []
    arrays: list[np.ndarray] = []
    anchors: list[int] = []
    for _ in range(draw(st.integers(0, 3))):
        is_state = draw(st.integers(0, 3)) == 3
        count = 1 if is_state else owned
        pool_group = draw(st.integers(0, pool_count - 1))
        skipped = draw(st.integers(0, count))
        asked = count - skipped
        tails = draw(st.integers(0, beams - 1)) if encoding != "tables" and not is_state and asked else 0
        windowed = draw(st.booleans()) and not is_state
        offered = draw(st.none() | st.integers(0 if windowed or encoding == "anchors" else asked, count))
        if encoding == "tables":
            holes = draw(st.integers(0, (1 << count) - 1))
            slots = [-1 if holes >> i & 1 or i < skipped else slot for i, slot in enumerate(take(pool_group, count))]
            offered = None if offered is None else count
        elif encoding == "anchors":
            # A Helix rank whose anchors are refused asks from its first block on, and may end early.
            anchors.append(skipped if asked and (not helix or own_blocks) else 0)
            slots = take(pool_group, asked + tails)
        else:
            slots = take(pool_group, asked + tails)
        known = None if offered is None else tails if asked else draw(st.integers(0, beams - 1))
        arrays.append(array(*slots))
        groups.append(ExpectedGroup(count, pool_group, windowed, offered, known))
    start = draw(st.none() | st.integers(0, blocks))
    common = {
        "sender_req_id": draw(WHOLE),
        "instance_name": draw(st.text(max_size=40)),
        "instance_rank": draw(WHOLE),
        "block_ids_per_layer_groups": tuple(arrays),
        "unique_rid": draw(WHOLE),
        "aux_slot": draw(OPTIONAL),
        "slice_id": draw(OPTIONAL),
        "bounce_dst_base": draw(OPTIONAL),
    }
    info: RequestInfo
    if encoding == "anchors":
        info = AnchorInfo(**common, first_ordinals=tuple(anchors))
    else:
        kind = TableInfo if encoding == "tables" else SuffixInfo
        info = kind(**common, dst_start_token=None if start is None else start * tokens_per_block)
    expected = Expected(
        groups=tuple(groups),
        pools=(size,) * pool_count,
        tokens_per_block=tokens_per_block,
        peer_tokens_per_block=draw(st.sampled_from((None, tokens_per_block))),
        beams=beams,
        helix=helix,
        counts_own_blocks=own_blocks,
        token_range=(0, draw(st.integers(0, blocks)) * tokens_per_block) if chunked else None,
    )
    return Sent(info, encoding, expected)


SENT = _sent(("tables", "anchors", "suffix"))
SENT_BY = {encoding: _sent((encoding,)) for encoding in FIELDS}
