"""A buffer is an axis product for a set of layers; what has no bytes, rows or owner is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oracle.model.axes import Split
from oracle.model.buffers import Buffer, Move, MoveState, Part, Placement
from oracle.model.layers import LayerSet
from tests.declared import assert_impossible, buffer, channels, heads, payload, tokens

WHOLE = "expected a whole number of at least"
ROW = "the innermost stored row must be whole bytes"
NEEDS_TOKENS = "sub-pages and several parts need a token axis in each part"
SIDES = "expected optional(context), (generation) or (either)"
INPUTS = "derived(...) names the roles it comes from, others name none"
ROWS = (Part((tokens(), payload(4)), 8), Part((tokens(2), payload(4)), 8))
LAYER = LayerSet((0,))

IMPOSSIBLE: list[tuple[Callable[[], object], str, object, str]] = [
    # parts
    (lambda: Part((payload(4),), 0), "part.bits", 0, f"{WHOLE} 1"),
    (lambda: Part((payload(4),), -8), "part.bits", -8, f"{WHOLE} 1"),
    (lambda: Part((payload(4), payload(2)), 8), "part.axes", ["D", "D"], "expected distinct axis names"),
    # moves
    (lambda: Move(MoveState.DERIVED), "move.inputs", (), INPUTS),
    (lambda: Move(MoveState.SEND, inputs=("key",)), "move.inputs", ("key",), INPUTS),
    (lambda: Move(MoveState.OPTIONAL), "move.side", "", SIDES),
    (lambda: Move(MoveState.OPTIONAL, side="both"), "move.side", "both", SIDES),
    (lambda: Move(MoveState.NEVER, side="context"), "move.side", "context", "never takes no side"),
    # placement
    (lambda: Placement(pad=-1), "place.pad", -1, f"{WHOLE} 0"),
    (lambda: Placement(align=-1), "place.align", -1, f"{WHOLE} 0"),
    (lambda: Placement(pad=64, align=8), "place", "pad(64) align(8)", "expected one of the two"),
    # buffers
    (lambda: buffer("", [0], payload(1)), "buffer.role", "", "expected an identifier"),
    (lambda: buffer("index key", [0], payload(1)), "buffer.role", "index key", "expected an identifier"),
    (lambda: buffer("key", [], payload(1)), "buffer key.layers", "", "expected at least one layer"),
    (lambda: buffer("key", [0], heads(2), payload(3), bits=4), "buffer key.parts", "['H', 'D'] of 4 bits", ROW),
    (lambda: buffer("key", [0], payload(4), tokens(), bits=4), "buffer key.parts", "['D', 'T'] of 4 bits", ROW),
    (lambda: buffer("key", [0], channels(3, 1), bits=4), "buffer key.parts", "['C'] of 4 bits", ROW),
    (lambda: buffer("key", [0], bits=12), "buffer key.parts", "[] of 12 bits", ROW),
    (lambda: Buffer("key", LAYER, ()), "buffer key.parts", (), "expected at least one part"),
    (lambda: buffer("key", [0], tokens(), sub_rows=-1), "buffer key.sub_rows", -1, f"{WHOLE} 0"),
    (lambda: buffer("key", [0], tokens(), expansion=0), "buffer key.expansion", 0, f"{WHOLE} 1"),
    (
        lambda: buffer("key", [0], tokens(), sub_rows=2, expansion=2),
        "buffer key.expansion",
        2,
        "expected sub-page rows or x(k), not both",
    ),
    (
        lambda: Buffer("key", LAYER, ROWS),
        "buffer key.parts",
        [1, 2],
        "all parts of a buffer have the same tokens per row",
    ),
    (lambda: buffer("key", [0], payload(4), sub_rows=2), "buffer key.parts", "key", NEEDS_TOKENS),
    (lambda: buffer("key", [0], payload(4), expansion=2), "buffer key.parts", "key", NEEDS_TOKENS),
    (lambda: Buffer("key", LAYER, (ROWS[0], Part((payload(4),), 8))), "buffer key.parts", "key", NEEDS_TOKENS),
    (
        lambda: buffer("position", [0], payload(3), first_local=True),
        "buffer position.first_local",
        True,
        "only a request-wide role may sit on the first local layer",
    ),
    (lambda: buffer("key", [0], payload(1), ids=(0, 1)), "buffer key.ids", (0, 1), "expected (mul >= 1, add >= 0)"),
    (lambda: buffer("key", [0], payload(1), ids=(2, -1)), "buffer key.ids", (2, -1), "expected (mul >= 1, add >= 0)"),
    (lambda: buffer("key", [0], payload(1), ids=(2,)), "buffer key.ids", (2,), "expected (mul >= 1, add >= 0)"),
    (
        lambda: buffer("key", [0, 2], payload(1), alias=LayerSet((1, 2))),
        "buffer key.alias",
        2,
        "an alias layer has an owner below it and no bytes itself",
    ),
    (
        lambda: buffer("key", [1], payload(1), alias=LayerSet((0,))),
        "buffer key.alias",
        0,
        "an alias layer has an owner below it and no bytes itself",
    ),
]


@pytest.mark.parametrize(("build", "argument", "value", "accepted"), IMPOSSIBLE)
def test_an_impossible_buffer_says_why(
    build: Callable[[], object], argument: str, value: object, accepted: str
) -> None:
    assert_impossible(build, argument, value, accepted)


def test_a_part_below_a_byte_is_accepted_where_its_rows_are_whole_bytes() -> None:
    assert Part((heads(3), tokens(), payload(4)), 4).bits == 4
    assert Part((channels(4, 2),), 4).bits == 4


def test_a_buffer_has_the_token_rows_of_its_parts() -> None:
    assert buffer("key", [0], heads(2), tokens(4), payload(2)).tokens_per_row == 4
    assert buffer("state", [0], payload(2)).tokens_per_row == 0


def test_an_alias_layer_reads_the_nearest_owner_below_it() -> None:
    shared = buffer("key", [2, 8, 14], payload(1), alias=LayerSet.parse("3..7,9,15"))
    assert [shared.owner_of(layer) for layer in (3, 7, 9, 15)] == [2, 2, 8, 14]


def test_the_first_move_rule_that_names_a_layer_decides() -> None:
    moves = (Move(MoveState.REBUILT, LayerSet((1, 2))), Move(MoveState.NEVER, LayerSet((2, 3))), Move())
    window = buffer("key", "0..3", payload(1), moves=moves)
    states = [window.move_on(layer).state for layer in range(4)]
    assert states == [MoveState.SEND, MoveState.REBUILT, MoveState.REBUILT, MoveState.NEVER]


def test_a_layer_that_no_move_rule_names_is_sent() -> None:
    window = buffer("key", "0..1", payload(1), moves=(Move(MoveState.REBUILT, LayerSet((1,))),))
    assert window.move_on(0) == Move(MoveState.SEND)


def test_only_what_is_sent_moves() -> None:
    moving = {
        state
        for state in MoveState
        if Move(
            state,
            inputs=("key",) if state is MoveState.DERIVED else (),
            side="either" if state is MoveState.OPTIONAL else "",
        ).moves
    }
    assert moving == {MoveState.SEND, MoveState.OPTIONAL}


def test_shares_below_a_byte_depend_on_the_instance_and_are_not_refused_by_the_buffer() -> None:
    assert buffer("key", [0], heads(4, Split.EVEN), bits=8).parts[0].axes[0].size == 4
