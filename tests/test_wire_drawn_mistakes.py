"""Whatever is changed in a right request info against a rule, that rule refuses it, before sending and on receipt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from differential.managers.wire import (
    RULES,
    DoesNotFit,
    Expected,
    RequestInfo,
    WireTrouble,
    WrongFields,
    WrongValue,
    check,
    decode,
    encode,
)
from tests.wire_infos import ARRAYS, SENT, SENT_BY, Sent, array, pack_map, unpack_map

Draw = Callable[[st.SearchStrategy[Any]], Any]


def with_entry(info: RequestInfo, group: int, index: int, slot: int) -> RequestInfo:
    arrays = [slots.copy() for slots in info.block_ids_per_layer_groups]
    arrays[group][index] = slot
    return replace(info, block_ids_per_layer_groups=tuple(arrays))


def some_group(draw: Draw, sent: Sent, *, filled: bool = False) -> int:
    arrays = sent.info.block_ids_per_layer_groups
    numbers = [number for number, slots in enumerate(arrays) if len(slots) or not filled]
    assume(numbers)
    return draw(st.sampled_from(numbers))


def with_group(expected: Expected, number: int, **changed: Any) -> Expected:
    groups = list(expected.groups)
    groups[number] = replace(groups[number], **changed)
    return replace(expected, groups=tuple(groups))


def other_count(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    arrays, anchors = sent.info.block_ids_per_layer_groups, getattr(sent.info, "first_ordinals", ())
    count = draw(st.integers(0, 4).filter(lambda count: count != len(arrays)))
    changed: dict[str, Any] = {ARRAYS: (arrays + (array(),) * 4)[:count]}
    if anchors or sent.encoding == "anchors":
        changed["first_ordinals"] = (anchors + (0,) * 4)[:count]
    return replace(sent.info, **changed), sent.expected


def other_anchor_count(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    anchors = sent.info.first_ordinals  # type: ignore[attr-defined]
    count = draw(st.integers(0, 4).filter(lambda count: count != len(anchors)))
    return replace(sent.info, first_ordinals=(anchors + (0,) * 4)[:count]), sent.expected  # type: ignore[call-arg]


def other_table_length(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    number = some_group(draw, sent)
    blocks = sent.expected.groups[number].blocks
    wrong = draw(st.integers(0, blocks + 3).filter(lambda length: length != blocks))
    if draw(st.booleans()):
        return sent.info, with_group(sent.expected, number, offered=wrong)
    arrays = list(sent.info.block_ids_per_layer_groups)
    arrays[number] = array(*(arrays[number].tolist() + [-1] * 3)[:wrong])
    return replace(sent.info, block_ids_per_layer_groups=tuple(arrays)), sent.expected


def anchor_outside(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    number = some_group(draw, sent)
    length, blocks = len(sent.info.block_ids_per_layer_groups[number]), sent.expected.groups[number].blocks
    least = blocks + sent.expected.beams - length if length else 1
    # From there on its last entry is no block of the prompt and no tail; the largest number is far beyond.
    anchor = draw(st.integers(max(1, least), blocks + 9) | st.integers(-3, -1) | st.just((1 << 63) - 1))
    anchors = list(sent.info.first_ordinals)  # type: ignore[attr-defined]
    anchors[number] = anchor
    expected = replace(sent.expected, helix=False)
    return replace(sent.info, first_ordinals=tuple(anchors)), expected  # type: ignore[call-arg]


def helix_peer(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    expected = replace(sent.expected, beams=1, helix=True, counts_own_blocks=False, token_range=None)
    if draw(st.booleans()):
        start = draw(st.integers(0, 9))
        return sent.info, replace(expected, token_range=(start, start + draw(st.integers(0, 9))))
    assume(sent.encoding == "anchors" and sent.expected.beams == 1)
    number = some_group(draw, sent, filled=True)
    anchors = list(sent.info.first_ordinals)  # type: ignore[attr-defined]
    anchors[number] = draw(st.integers(1, 9))
    return replace(sent.info, first_ordinals=tuple(anchors)), expected  # type: ignore[call-arg]


def slot_outside(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    number = some_group(draw, sent, filled=True)
    index = draw(st.integers(0, len(sent.info.block_ids_per_layer_groups[number]) - 1))
    least = -1 if sent.encoding == "tables" else 0
    pool = sent.expected.pools[sent.expected.groups[number].pool_group]
    wrong = st.integers(-(1 << 63), least - 1) | st.integers(pool, (1 << 63) - 1) | st.sampled_from((least - 1, pool))
    return with_entry(sent.info, number, index, draw(wrong)), sent.expected


def slot_twice(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    places = [
        (sent.expected.groups[number].pool_group, number, index)
        for number, slots in enumerate(sent.info.block_ids_per_layer_groups)
        for index in range(len(slots))
    ]
    arrays = sent.info.block_ids_per_layer_groups
    pairs = [
        (one, two)
        for one in places
        for two in places
        if one != two and one[0] == two[0] and arrays[one[1]][one[2]] >= 0
    ]
    assume(pairs)
    (_, group, index), (_, to_group, to_index) = draw(st.sampled_from(pairs))
    return with_entry(sent.info, to_group, to_index, int(arrays[group][index])), sent.expected


def start_inside(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    length = sent.expected.tokens_per_block
    wrong = st.integers(-9, -1) | st.integers(0, 99).filter(lambda start: start % length) if length > 1 else st.just(-1)
    return replace(sent.info, dst_start_token=draw(wrong)), sent.expected  # type: ignore[call-arg]


def other_tails(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    number = some_group(draw, sent, filled=True)
    anchor = sent.info.first_ordinals[number]  # type: ignore[attr-defined]
    last = anchor + len(sent.info.block_ids_per_layer_groups[number])
    tails = max(0, last - sent.expected.groups[number].blocks)
    wrong = draw(st.integers(0, 4).filter(lambda count: count != tails))
    return sent.info, with_group(sent.expected, number, offered_tails=wrong)


def backward_range(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    start, end = draw(
        st.tuples(st.integers(-9, 9), st.integers(-9, 9)).filter(lambda pair: pair[0] < 0 or pair[0] > pair[1])
    )
    return sent.info, replace(sent.expected, beams=1, token_range=(start, end))


def shorter_sender(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    number = some_group(draw, sent, filled=True)
    length = len(sent.info.block_ids_per_layer_groups[number])
    tails = draw(st.integers(0, length - 1))
    offered = draw(st.integers(0, length - 1 - tails))
    changed = with_group(sent.expected, number, windowed=False, offered=offered, offered_tails=tails)
    return sent.info, changed


def other_length(draw: Draw, sent: Sent) -> tuple[RequestInfo, Expected]:
    own = sent.expected.tokens_per_block
    peer = draw(st.integers(1, 64).filter(lambda length: length != own))
    return sent.info, replace(sent.expected, peer_tokens_per_block=peer)


TABLES, ANCHORS, SUFFIX = (SENT_BY[encoding] for encoding in ("tables", "anchors", "suffix"))
DRAWN: dict[str, tuple[st.SearchStrategy[Sent], Callable[[Draw, Sent], tuple[RequestInfo, Expected]]]] = {
    "W2": (ANCHORS, other_anchor_count),
    "W3": (SENT, other_count),
    "W5": (TABLES, other_table_length),
    "W6": (ANCHORS, anchor_outside),
    "W7": (SENT, helix_peer),
    "W8": (SENT, slot_outside),
    "W9": (SENT, slot_twice),
    "W10": (TABLES | SUFFIX, start_inside),
    "W11": (ANCHORS, other_tails),
    "W12": (SENT, backward_range),
    "W13": (SUFFIX, shorter_sender),
    "W14": (SENT, other_length),
}


@pytest.mark.parametrize("rule", DRAWN)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_drawn_mistake_is_refused_by_its_rule_and_changes_nothing(rule: str, data: st.DataObject) -> None:
    """Property G2."""
    sents, spoil = DRAWN[rule]
    sent = data.draw(sents)
    info, expected = spoil(data.draw, sent)
    before = replace(info, block_ids_per_layer_groups=tuple(a.copy() for a in info.block_ids_per_layer_groups))
    with pytest.raises(WireTrouble) as caught:
        check(info, expected)
    assert caught.value.rule == rule and isinstance(caught.value, ValueError)
    assert info == before
    check(sent.info, sent.expected)
    try:
        record = encode(info)
    except WireTrouble as trouble:
        assert isinstance(trouble, WrongValue) and trouble.rule == rule
    else:
        # What cannot be seen from the record alone arrives, and is refused there.
        with pytest.raises(DoesNotFit if rule != "W12" else WrongValue) as caught:
            check(decode(record, sent.encoding), expected)
        assert caught.value.rule == rule


@settings(deadline=None, max_examples=60)
@given(ANCHORS, st.booleans(), st.none() | st.integers(0, 9))
def test_a_drawn_record_without_anchors_is_refused(sent: Sent, has_start: bool, start: int | None) -> None:
    """W1."""
    fields = unpack_map(sent.record)
    del fields["first_ordinals"]
    with pytest.raises(WrongFields) as caught:
        decode(pack_map(list((fields | {"dst_start_token": start} if has_start else fields).items())), "anchors")
    assert caught.value.rule == "W1" and caught.value.field == "first_ordinals"


@settings(deadline=None, max_examples=60)
@given(SENT, st.integers(0, 2), st.integers(-7, 7).filter(bool))
def test_a_drawn_array_with_part_of_a_number_is_refused(sent: Sent, group: int, more: int) -> None:
    """W4."""
    fields = unpack_map(sent.record)
    assume(group < len(fields[ARRAYS]) and (more > 0 or fields[ARRAYS][group]))
    raw = fields[ARRAYS][group]
    fields[ARRAYS][group] = raw[:more] if more < 0 else raw + bytes(more)
    with pytest.raises(WrongValue) as caught:
        decode(pack_map(list(fields.items())), sent.encoding)
    assert caught.value.rule == "W4" and caught.value.field == f"{ARRAYS}[{group}]"


def test_every_rule_is_broken_above() -> None:
    assert set(DRAWN) | {"W1", "W4"} == set(RULES)
