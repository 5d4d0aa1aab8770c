"""KDA as it was declared once: all of the state on every rank, and reported as a share of it (spec: kinds, KDA).

The legacy sender takes such state for shares, so what differs in the number of ranks has to be refused: the
aggregate sizes of the two sides disagree. No model is published so any more.
"""

from __future__ import annotations

from strategies.kinds import kda
from strategies.kinds.protocol import Declaration, Kind, Surroundings
from strategies.kinds.recurrent import masks
from strategies.numbers import pick

HEADS = (1, 2, 3, 4)
"""No rank has a share, so any number will do."""


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    mask, latent, width, heads, head_dim, steps = numbers
    return kda.declare(
        pick(masks(around.layers), mask),
        kda.LATENTS[latent],
        (16, 8)[width],
        HEADS[heads],
        kda.HEAD_DIMS[head_dim],
        1 + steps,
        replicated=True,
    )


KIND = Kind(
    name="kda_replicated",
    description="KDA hybrids of an older declaration: every rank holds the whole state, reported as a share of it",
    order=14,
    bounds=(64, len(kda.LATENTS), 2, len(HEADS), len(kda.HEAD_DIMS), 3),
    decode=decode,
    scope=((0, 1, 0, 1, 1, 1), (0, 0, 1, 0, 0, 0)),
    layers=(2, 6),
)
