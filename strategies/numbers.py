"""The numbers that a case is drawn from: one byte a concept, in a fixed shape, 0 the simplest.

A case costs Hypothesis one draw, of ``WIDTH`` bytes: a primitive draw costs 15-17 µs and the bytes of one draw 1 µs
each. The shrinker lowers every byte on its own, first of all to 0 and 1 and then step by step, so the order of the
values of a concept is what it shrinks along. Two numbers are never lowered together: each value must be reachable from
a larger one alone, and whatever one concept supplies in place of another must stand before it.

Concepts are drawn apart from each other, each off with a probability of its own: the features of a case are a random
set. In half of the cases two *features that must meet* are switched on besides.

The last numbers are those of cache states. Without states they are drawn all the same and not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from oracle.model.errors import InvalidCase

T = TypeVar("T")

MOST_REQUESTS = 3
KIND_NUMBERS = 8
"""Numbers set aside for a kind's own choices, see ``Kind.bounds``."""

BOTH_MUST_MEET = 0.5
"""How often two features must meet."""


class Concept:
    """A concept and its values: 0 is off or simplest, then ``shares`` percent each for 1, 2, ...

    ``drawn[byte]`` is the value. Byte 0 means 0, then come the others in order, and what is left at the top means 0
    again. ``forced[byte]`` never is 0.
    """

    __slots__ = ("drawn", "forced", "index", "name")

    def __init__(self, name: str, *shares: float) -> None:
        self.name = name
        values = [value for value, share in enumerate(shares, 1) for _ in range(max(1, round(share * 2.56)))]
        if len(values) > 255:
            raise InvalidCase(f"shares of {name}", shares, "expected at most 99 percent")
        self.drawn = (0, *values, *(0 for _ in range(255 - len(values))))
        self.forced = tuple(values[byte * len(values) >> 8] for byte in range(256)) if values else self.drawn
        self.index = len(_SHAPE)
        _SHAPE.append(self)

    def __repr__(self) -> str:
        return f"Concept({self.name})"


class Number(Concept):
    """A concept whose value is its byte: what a byte selects is up to :func:`pick`."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.drawn = self.forced = tuple(range(256))


def pick(options: Sequence[T], number: int) -> T:
    """The option that ``number`` in 0..255 selects, evenly; a number below ``len(options)`` is an index."""
    count = len(options)
    return options[number if number < count else number * count >> 8]


_SHAPE: list[Concept] = []

# The shape. An earlier byte weighs more when two cases are compared, so what makes a case larger comes first.
FIRST_THAT_MEETS = Number("first_that_meets")
SECOND_THAT_MEETS = Number("second_that_meets")
KIND = Number("kind")
NO_DIVISOR = Concept("no_divisor", 25)
OTHER_WIDTH = Concept("other_width", 1.2)
OTHER_BLOCK = Concept("other_block", 1.5)
HELIX_WITH_DP = Concept("helix_with_attention_dp", 15)
HELIX_TWICE = Concept("helix_on_both_sides", 5, 8)
REQUESTS = Concept("requests", 0.4, 10, 0.4, 8, 6)
CONTEXT_STAGES = Concept("context_stages", 18, 4)
GENERATION_STAGES = Concept("generation_stages", 20, 5, 1)
HELIX = Concept("helix", 12, 5, 2)
CONTEXT_DP = Concept("context_attention_dp", 16)
GENERATION_DP = Concept("generation_attention_dp", 18)
CONTEXT_TP = Concept("context_tp", 34, 5, 17, 3, 3)
GENERATION_TP = Concept("generation_tp", 34, 5, 17, 3, 3)
LAYERS = Concept("layers", 42, 14, 6, 3, 2)
TOKENS_PER_BLOCK = Concept("tokens_per_block", 34, 18, 26, 6)
CONTEXT_CUT = Concept("context_cut", *[0.4] * 140)
GENERATION_CUT = Concept("generation_cut", *[0.4] * 140)
LAYOUT = Concept("layout", 22, 8, 8)
LAYER_ORDER = Concept("layer_order", 8, 8, 6)
PACKING = Concept("packing", 6, 6, 3, 3, 9, 2)
SHARED_PREFIX = Concept("shared_prefix", 8, 3, 3)
SHARED_BLOCKS = Number("shared_blocks")
SHARED_ROWS = Concept("shared_rows", 30, 20)
CHUNKS = Concept("chunks", 12, 8, 4)
CHUNK_ENDS = (Number("first_chunk_end"), Number("second_chunk_end"), Number("third_chunk_end"))
PROMPT_BLOCKS = tuple(Concept(f"prompt_blocks_{i}", 22, 36, 20, 8, 3) for i in range(MOST_REQUESTS))
PROMPT_ROWS = tuple(Concept(f"prompt_rows_{i}", 30, 25, 15) for i in range(MOST_REQUESTS))
CACHED = tuple(Concept(f"cached_{i}", 4, 4, 4, 2, 1, 1, 2, 2) for i in range(MOST_REQUESTS))
CONTEXT_REQUEST_DP = tuple(Number(f"context_rank_{i}") for i in range(MOST_REQUESTS))
GENERATION_REQUEST_DP = tuple(Number(f"generation_rank_{i}") for i in range(MOST_REQUESTS))
SLOT_MUL = Concept("slot_mul", *[11] * 6)
SLOT_ADD = Concept("slot_add", *[8] * 10)
OF_KIND = tuple(Number(f"kind_number_{i}") for i in range(KIND_NUMBERS))
LENGTH_BLOCKS = tuple(Concept(f"length_blocks_{i}", 30, 20, 6) for i in range(MOST_REQUESTS))
LENGTH_ROWS = tuple(Concept(f"length_rows_{i}", 30, 25, 15) for i in range(MOST_REQUESTS))

# ---- cache states, see strategies.states. What supplies something in place of another number stands before it: what a
# receiver reached beyond the prompt makes it a reserve. Beams are read where both managers are V1.
BEAMS = Concept("beams", 17, 28, 14)
TAILS = Concept("tails", 35, 10, 10, 10, 6, 6, 8)
SINKS = Concept("sinks", 4, 2, 2)
CHUNKS_ANYWHERE = Concept("chunks_anywhere", 16)
CONTEXT_REACHED = Concept("context_reached", 9, 3, 2, 2, 1.5, 1, 1)
GENERATION_REACHED = Concept("generation_reached", 4, 3, 2, 1, 1, 0.7, 0.7)
CONTEXT_DRAFTS = Concept("context_drafts", 2, 3, 1, 1.5, 1, 0.7)
GENERATION_DRAFTS = Concept("generation_drafts", 2, 4, 1, 2, 1.5, 1)
CONTEXT_EXTRA = Concept("context_extra", 3, 4, 3, 2)
GENERATION_EXTRA = Concept("generation_extra", 4, 5, 4, 2)
REUSED = tuple(Concept(f"reused_{i}", 3, 2, 2, 1.5, 0.7, 0.7, 1, 1) for i in range(MOST_REQUESTS))
CONTEXT_RESERVE = Concept("context_reserve", 5, 5, 4, 3, 2, 3)
GENERATION_RESERVE = Concept("generation_reserve", 8, 6, 5, 4, 3, 4)
CONTEXT_SCRATCH = Concept("context_scratch", 5, 3, 7, 4)
GENERATION_SCRATCH = Concept("generation_scratch", 3, 2, 4)
LOOK_AHEAD = Concept("look_ahead", 22, 14)
CONTEXT_MANAGER = Concept("context_manager", 42)
GENERATION_MANAGER = Concept("generation_manager", 42)

WIDTH = len(_SHAPE)
"""Numbers of a case."""

MAY_MEET = (
    HELIX,
    CONTEXT_DP,
    GENERATION_DP,
    CONTEXT_STAGES,
    GENERATION_STAGES,
    LAYOUT,
    LAYER_ORDER,
    PACKING,
    REQUESTS,
    SHARED_PREFIX,
    CACHED[0],
    CHUNKS,
)
"""Concepts that are drawn to meet in pairs; those not among them are common anyway, or a matter of the kind."""

STATES_MAY_MEET = (CONTEXT_REACHED, GENERATION_DRAFTS, REUSED[0], CONTEXT_MANAGER, GENERATION_MANAGER)
"""Those of cache states."""

WINDOWS_MAY_MEET = (SINKS, GENERATION_RESERVE, CONTEXT_SCRATCH)
"""Those that are about windows, for kinds that place some."""


_EVER = MAY_MEET + STATES_MAY_MEET + WINDOWS_MAY_MEET
_ON = round(255 * (BOTH_MUST_MEET / (1 - 1 / len(_EVER))) ** 0.5)
"""Bytes that switch a feature on."""


class Meeting:
    """Which of ``concepts`` may meet: the one that each byte selects, None for none.

    Either of two bytes alone switches one on, so a pair shrinks to one. A byte selects the same concept whatever else
    may meet, so that it stays when the kind is lowered.
    """

    __slots__ = ("by_byte", "concepts")

    def __init__(self, concepts: tuple[Concept, ...]) -> None:
        self.concepts = concepts
        chosen = [self._selected(number) for number in range(_ON)]
        self.by_byte: tuple[Concept | None, ...] = (None, *chosen, *(None,) * (255 - _ON))

    def _selected(self, number: int) -> Concept:
        concept = _EVER[number * len(_EVER) // _ON]
        return concept if concept in self.concepts else self.concepts[number % len(self.concepts)]


WITHOUT_STATES = Meeting(MAY_MEET)
WITH_STATES = Meeting(MAY_MEET + STATES_MAY_MEET)
WITH_WINDOWS = Meeting(_EVER)


class Numbers:
    """The numbers of one case, read by concept; ``states``: whether those of cache states are to be read too."""

    __slots__ = ("_first", "_second", "_values", "states")

    def __init__(self, values: Sequence[int], *, states: bool = True) -> None:
        if len(values) != WIDTH:
            raise InvalidCase("numbers", len(values), f"expected {WIDTH} numbers in 0..255")
        self._values = values
        self.states = states
        self.choose(WITH_STATES if states else WITHOUT_STATES)

    def choose(self, meeting: Meeting) -> None:
        """Draw from ``meeting`` which features must meet."""
        self._first = meeting.by_byte[self._values[0]]
        self._second = meeting.by_byte[self._values[1]]

    def __call__(self, concept: Concept) -> int:
        number = self._values[concept.index]
        if concept is self._first or concept is self._second:
            return concept.forced[number]
        return concept.drawn[number]

    def forced(self, concept: Concept) -> int:
        """The value of ``concept`` if it is to be on."""
        return concept.forced[self._values[concept.index]]

    def must_meet(self, concept: Concept) -> bool:
        return concept is self._first or concept is self._second


def simplest(**values: int) -> bytes:
    """The numbers of the simplest case, but for ``values`` by concept name.

    >>> simplest(layers=1)[LAYERS.index]
    1
    """
    numbers = bytearray(WIDTH)
    places = {concept.name: concept.index for concept in _SHAPE}
    for name, value in values.items():
        if name not in places:
            raise InvalidCase("number", name, f"expected one of {', '.join(places)}")
        numbers[places[name]] = value
    return bytes(numbers)


def shape() -> tuple[Concept, ...]:
    """All concepts, in the order of their numbers."""
    return tuple(_SHAPE)
