"""Each rule of the wire is kept: what breaks it raises the kind of error that is due, and names what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from differential.managers.wire import (
    KINDS,
    RULES,
    DoesNotFit,
    Expected,
    ExpectedGroup,
    RequestInfo,
    WrongFields,
    WrongValue,
    check,
    decode,
    encode,
)
from oracle.model.errors import InvalidCase
from tests.wire_infos import ARRAYS, array, pack_map, unpack_map

# Two groups of 4 blocks of 4 tokens, in pools of 24 and 20 slots; the second is windowed.
EXPECTED = Expected(
    groups=(ExpectedGroup(4, 0), ExpectedGroup(4, 1, windowed=True)),
    pools=(24, 20),
    tokens_per_block=4,
)
BEAMS = replace(EXPECTED, groups=(ExpectedGroup(4, 0, offered=4, offered_tails=2), ExpectedGroup(4, 1)), beams=3)
HELIX = replace(EXPECTED, helix=True)
ONE_POOL = replace(EXPECTED, groups=(ExpectedGroup(4, 0), ExpectedGroup(4, 0)))
ARRAY_0, ARRAY_1 = f"{ARRAYS}[0]", f"{ARRAYS}[1]"
ENTRIES = {
    "tables": (array(-1, 7, 3, 9), array(-1, -1, 3, 19)),
    "anchors": (array(7, 3, 9), array(3, 19)),
    "suffix": (array(7, 3, 9), array(3, 19)),
}


def info_of(encoding: str, **changed: Any) -> RequestInfo:
    """A right info for ``EXPECTED``, but for the fields ``changed``."""
    fields: dict[str, Any] = {
        "sender_req_id": 1,
        "instance_name": "gen",
        "instance_rank": 0,
        ARRAYS: ENTRIES[encoding],
        "unique_rid": 1,
    }
    if encoding == "anchors":
        fields["first_ordinals"] = (1, 2)
    return KINDS[encoding](**fields | changed)


def arrays_of(*groups: tuple[int, ...]) -> dict[str, Any]:
    return {ARRAYS: tuple(array(*slots) for slots in groups)}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A change that breaks one rule, and the error that says so; ``alone``: nothing need be known to see it."""

    rule: str
    encoding: str
    field: str
    value: object
    accepted: str
    changed: dict[str, Any]
    expected: Expected = EXPECTED
    alone: bool = False


MISTAKES = [
    Mistake(
        "W2", "anchors", "first_ordinals", (1,), "one for each of 2 layer groups", {"first_ordinals": (1,)}, alone=True
    ),
    Mistake(
        "W2", "anchors", "first_ordinals", (1, 2, 0), "one for each of 2", {"first_ordinals": (1, 2, 0)}, alone=True
    ),
    Mistake("W3", "tables", ARRAYS, None, "one array for each of 2 layer groups, not 1", arrays_of((-1, 7, 3, 9))),
    Mistake("W3", "suffix", ARRAYS, None, "one array for each of 2 layer groups, not 3", arrays_of((7,), (3,), ())),
    Mistake("W3", "anchors", ARRAYS, None, "not 0", arrays_of() | {"first_ordinals": ()}),
    Mistake("W5", "tables", ARRAY_1, None, "4 entries, one for each block", arrays_of((-1, 7, 3, 9), (-1, 3, 19))),
    Mistake("W5", "tables", ARRAY_0, None, "4 entries", arrays_of((-1, 7, 3, 9, -1), (-1, -1, 3, 19))),
    Mistake("W5", "tables", ARRAY_0, None, "4 entries", arrays_of((), (-1, -1, 3, 19))),
    Mistake(
        "W5",
        "tables",
        "groups[1].offered",
        3,
        "4 entries, one for each block",
        {},
        replace(EXPECTED, groups=(ExpectedGroup(4, 0, offered=4), ExpectedGroup(4, 1, windowed=True, offered=3))),
    ),
    Mistake("W6", "anchors", "first_ordinals[1]", -1, "at least 0", {"first_ordinals": (1, -1)}, alone=True),
    Mistake(
        "W6", "anchors", "first_ordinals[0]", 2, "3 entries from it to lie in 4 blocks", {"first_ordinals": (2, 2)}
    ),
    Mistake("W6", "anchors", "first_ordinals[1]", 4, "2 entries from it", {"first_ordinals": (1, 4)}),
    Mistake(
        "W6", "anchors", "first_ordinals[1]", 2, "0 for a group without slots", arrays_of((7, 3, 9), ()), alone=True
    ),
    Mistake(
        "W6",
        "anchors",
        "first_ordinals[0]",
        1,
        "4 blocks of the prompt and at most 2 tails",
        arrays_of((7, 3, 9, 1, 2, 4), ()) | {"first_ordinals": (1, 0)},
        BEAMS,
    ),
    Mistake(
        "W6",
        "anchors",
        "first_ordinals[1]",
        4,
        "2 entries from it to lie in 4 blocks",
        arrays_of((7, 3, 9, 1, 2), (3, 19)) | {"first_ordinals": (1, 4)},
        BEAMS,
    ),
    Mistake("W7", "anchors", "first_ordinals[0]", 1, "0 from a Helix rank", {}, HELIX),
    Mistake(
        "W7",
        "anchors",
        "token_range",
        (0, 8),
        "no slices for a Helix rank",
        {"first_ordinals": (0, 0)},
        replace(HELIX, token_range=(0, 8)),
    ),
    Mistake(
        "W7", "tables", "token_range", (0, 16), "no slices for a Helix rank", {}, replace(HELIX, token_range=(0, 16))
    ),
    Mistake("W8", "tables", f"{ARRAYS}[0][1]", -2, "a slot, or -1", arrays_of((-1, -2, 3, 9), (-1,) * 4), alone=True),
    Mistake("W8", "anchors", f"{ARRAYS}[0][2]", -1, "a slot, at least 0", arrays_of((7, 3, -1), (3, 19)), alone=True),
    Mistake("W8", "suffix", f"{ARRAYS}[1][0]", -1, "a slot, at least 0", arrays_of((7, 3), (-1, 19)), alone=True),
    Mistake(
        "W8",
        "tables",
        f"{ARRAYS}[1][3]",
        20,
        "below 20, the number of slots of pool group 1",
        arrays_of((-1, 7, 3, 9), (-1, -1, 3, 20)),
    ),
    Mistake("W8", "anchors", f"{ARRAYS}[0][0]", 1 << 62, "below 24", arrays_of((1 << 62, 3, 9), (3, 19))),
    Mistake(
        "W9",
        "suffix",
        f"{ARRAYS}[0][2]",
        7,
        rf"pool group 0 once, but {ARRAYS}\[0\]\[0\] names it too",
        arrays_of((7, 3, 7), (3, 19)),
    ),
    Mistake("W9", "tables", f"{ARRAYS}[1][2]", 3, rf"pool group 0 once, but {ARRAYS}\[0\]\[2\] names it", {}, ONE_POOL),
    Mistake("W9", "anchors", f"{ARRAYS}[1][0]", 3, "pool group 0 once", {}, ONE_POOL),
    Mistake(
        "W10", "tables", "dst_start_token", 6, "the first token of a block, a multiple of 4", {"dst_start_token": 6}
    ),
    Mistake("W10", "suffix", "dst_start_token", 1, "a multiple of 4", {"dst_start_token": 1}),
    Mistake("W10", "suffix", "dst_start_token", -4, "at least 0", {"dst_start_token": -4}, alone=True),
    Mistake(
        "W11", "anchors", ARRAY_0, None, "2 beam tails behind 3 blocks, not 1", arrays_of((7, 3, 9, 1), (3, 19)), BEAMS
    ),
    Mistake("W11", "anchors", ARRAY_0, None, "2 beam tails behind 3 blocks, not 0", {}, BEAMS),
    Mistake(
        "W12",
        "tables",
        "token_range",
        (-1, 4),
        "a first token of at least 0",
        {},
        replace(EXPECTED, token_range=(-1, 4)),
    ),
    Mistake("W12", "suffix", "token_range", (8, 4), "an end not before it", {}, replace(EXPECTED, token_range=(8, 4))),
    Mistake(
        "W13",
        "suffix",
        ARRAY_0,
        None,
        "at most 2 entries, as many as the sender can have, not 3",
        {},
        replace(EXPECTED, groups=(ExpectedGroup(4, 0, offered=2), ExpectedGroup(4, 1))),
    ),
    Mistake("W13", "suffix", ARRAY_1, None, "at most 4 entries", arrays_of((), (3, 19, 4, 5, 6))),
    Mistake(
        "W14", "tables", "tokens_per_block", 8, "4, as on this side", {}, replace(EXPECTED, peer_tokens_per_block=8)
    ),
]


@pytest.mark.parametrize("encoding", KINDS)
@pytest.mark.parametrize(
    "expected",
    [
        EXPECTED,
        replace(EXPECTED, token_range=(0, 8)),
        replace(EXPECTED, token_range=(8, 8)),
        replace(EXPECTED, peer_tokens_per_block=4),
        replace(HELIX, counts_own_blocks=True),
        replace(BEAMS, groups=EXPECTED.groups),
    ],
)
def test_what_the_mistakes_start_from_is_right(encoding: str, expected: Expected) -> None:
    """Else a mistake could be refused for another reason."""
    check(info_of(encoding), expected)
    assert decode(encode(info_of(encoding)), encoding) == info_of(encoding)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.rule} {mistake.encoding} {mistake.field}")
def test_a_mistake_is_refused_by_its_rule(mistake: Mistake) -> None:
    info = info_of(mistake.encoding, **mistake.changed)
    kinds = (WrongValue,) if mistake.alone or mistake.rule == "W12" else (DoesNotFit,)
    with pytest.raises(kinds, match=f"is not possible: expected .*{mistake.accepted}") as caught:
        check(info, mistake.expected)
    trouble = caught.value
    assert trouble.rule == mistake.rule and trouble.field == mistake.field
    assert isinstance(trouble, ValueError)
    if mistake.value is not None:
        assert trouble.value == mistake.value
        assert str(trouble).startswith(f"{mistake.field} = {mistake.value!r} is not possible")
    else:
        assert trouble.value is not None and str(trouble).startswith(f"{mistake.field} = ")


@pytest.mark.parametrize(
    "mistake",
    [mistake for mistake in MISTAKES if mistake.alone],
    ids=lambda mistake: f"{mistake.rule} {mistake.encoding} {mistake.field}",
)
def test_what_is_wrong_by_itself_is_neither_written_nor_read(mistake: Mistake) -> None:
    with pytest.raises(WrongValue) as caught:
        encode(info_of(mistake.encoding, **mistake.changed))
    assert caught.value.rule == mistake.rule
    pairs = unpack_map(encode(info_of(mistake.encoding)))
    for name, value in mistake.changed.items():
        pairs[name] = [slots.tobytes() for slots in value] if name == ARRAYS else value
    with pytest.raises(WrongValue) as caught:
        decode(pack_map(list(pairs.items())), mistake.encoding)
    assert caught.value.rule == mistake.rule and caught.value.field == mistake.field


@pytest.mark.parametrize("start", [None, 0, 4])
def test_anchors_have_no_substitute(start: int | None) -> None:
    """W1: a start for all groups says nothing of where one group's run starts."""
    record = encode(info_of("suffix", dst_start_token=start))
    with pytest.raises(
        WrongFields, match=r"^first_ordinals = 'missing' is .*expected the fields .*first_ord"
    ) as caught:
        decode(record, "anchors")
    assert caught.value.rule == "W1" and isinstance(caught.value, TypeError)


@pytest.mark.parametrize("length", [1, 7, 9, 15])
def test_an_array_is_whole_numbers_of_8_bytes(length: int) -> None:
    """W4."""
    pairs = unpack_map(encode(info_of("tables")))
    pairs[ARRAYS] = [b"", bytes(length)]
    accepted = f"is not possible: expected whole numbers of 8 bytes, not {length} bytes"
    with pytest.raises(WrongValue, match=accepted) as caught:
        decode(pack_map(list(pairs.items())), "tables")
    assert caught.value.rule == "W4" and caught.value.field == f"{ARRAYS}[1]"


# ---- what must not be refused


def test_an_empty_request_needs_no_tails() -> None:
    """A receiver that has the whole prompt asks for nothing; it is served with nothing."""
    check(info_of("anchors", **arrays_of((), ()), first_ordinals=(0, 0)), BEAMS)


def test_a_receiver_with_a_wider_window_may_list_more_than_the_sender() -> None:
    groups = (ExpectedGroup(4, 0, offered=3), ExpectedGroup(4, 1, windowed=True, offered=1))
    check(info_of("suffix"), replace(EXPECTED, groups=groups))


def test_one_slot_of_two_pool_groups_is_two_places() -> None:
    check(info_of("tables"), EXPECTED)
    assert 3 in info_of("tables").block_ids_per_layer_groups[0] and 3 in info_of("tables").block_ids_per_layer_groups[1]


def test_a_table_may_have_any_number_of_holes() -> None:
    check(info_of("tables", **arrays_of((-1,) * 4, (-1,) * 4)), ONE_POOL)


def test_as_many_tails_as_the_sender_has_are_right() -> None:
    check(info_of("anchors", **arrays_of((7, 3, 9, 1, 2), ()), first_ordinals=(1, 0)), BEAMS)


# ---- what a side knows


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"tokens_per_block": 0}, "tokens_per_block"),
        ({"peer_tokens_per_block": 0}, "peer_tokens_per_block"),
        ({"beams": 0}, "beams"),
        ({"beams": 2, "helix": True}, "beams"),
        ({"beams": 2, "token_range": (0, 4)}, "beams"),
        ({"pools": (20, -1)}, "pools[1]"),
        ({"pools": (20,)}, "groups[1].pool_group"),
        ({"token_range": (0, 1.0)}, "token_range"),
        ({"token_range": (0, 1, 2)}, "token_range"),
    ],
)
def test_knowledge_that_cannot_be_is_no_rule_of_the_wire(changed: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidCase, match="expected") as caught:
        replace(EXPECTED, **changed)
    assert caught.value.argument == argument


@pytest.mark.parametrize("name", ["blocks", "pool_group", "offered", "offered_tails"])
@pytest.mark.parametrize("value", [-1, True, 1.0])
def test_a_group_counts_in_whole_numbers(name: str, value: object) -> None:
    with pytest.raises(InvalidCase, match="expected a whole number") as caught:
        replace(ExpectedGroup(4, 0), **{name: value})
    assert caught.value.argument == name


def test_every_rule_is_broken_above() -> None:
    assert {mistake.rule for mistake in MISTAKES} | {"W1", "W4"} == set(RULES)
