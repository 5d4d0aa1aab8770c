"""Axis sizes that the shares of both sides fit, for the small models of kinds."""

from __future__ import annotations

from functools import lru_cache
from math import lcm

from strategies.kinds.protocol import Surroundings

HEADS = (1, 2, 3, 4, 6, 8)
"""Head counts of small models; they divide the tensor sizes that are drawn, or do not."""

UNEVEN = 1 / 6
"""How often a head count is drawn without regard to the tensor sizes."""


@lru_cache(maxsize=256)
def even_heads(tensor: tuple[int, int]) -> tuple[int, ...]:
    """Head counts of which each side holds whole shares of one size, or each head on as many ranks."""
    return tuple(heads for heads in HEADS if all(heads % tp == 0 or tp % heads == 0 for tp in tensor))


def draw_heads(number: int, around: Surroundings, bound: int) -> int:
    """The head count that ``number`` in ``0..bound-1`` selects, mostly one that both sides share out evenly.

    Others are valid too: the shares overlap, and the pair of instances may have to be refused.
    """
    even = even_heads(around.tensor)
    regular = bound - int(bound * UNEVEN)
    if number < regular or len(even) == len(HEADS):
        return even[number % len(even)]
    return [heads for heads in HEADS if heads not in even][(number - regular) % (len(HEADS) - len(even))]


def divisible(unit: int, parts: tuple[int, int]) -> int:
    """The ``unit``-th size that cuts into equal shares on both sides: a multiple of both numbers of ``parts``."""
    return unit * lcm(*parts)


def draw_window(number: int, around: Surroundings) -> int:
    """The window in tokens that ``number`` in 0..7 selects, placed a few blocks back from the longest prompt.

    Where the prompt is long enough, as many blocks of it are out of the window as stand here, the window ending exactly
    at a block, a token further or a token earlier; 7 selects one that the prompt does not fill. A kind that calls this
    must say that it ``places``; windows of two numbers may be equal.
    """
    if number == 7:
        return around.prompt + 1
    blocks, beside = ((1, 0), (1, -1), (0, 1), (2, 0), (2, -1), (1, 1), (2, 1))[number]
    return max(1, around.prompt + 1 - blocks * around.tokens_per_block + beside)


WINDOWED = (
    lambda count: range(0, count, 2),
    lambda count: range(1, count, 2),
    lambda count: [layer for layer in range(count) if layer % 3 != 2 and layer != count - 1],
    lambda count: range(count - 1),
    lambda count: range(1, count),
    lambda count: range(count // 2),
    lambda count: range(count // 2, count),
    lambda count: range(count - 1, count),
)
"""Ways to choose, of at least two layers, those that keep a window: some, and never all."""


def windowed_layers(count: int, which: int) -> tuple[int, ...]:
    """The layers of ``count`` that keep a window, in the way that ``which`` selects from ``WINDOWED``."""
    return tuple(WINDOWED[which](count))
