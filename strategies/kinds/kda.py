"""Kimi delta attention (KDA) with latent attention: three equal sections of channels (spec: kinds, KDA)."""

from __future__ import annotations

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.pieces import paged, rows, state
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings
from strategies.kinds.recurrent import (
    ATTENTION,
    STATE,
    delta_net,
    draw_state_heads,
    interval_mask,
    masks,
    on_layers,
)
from strategies.numbers import pick

NATIVE = Native((("all", "indexed"), ("ssm_state", "indexed"), ("conv_state", "sectioned")))

LATENTS = (1, 2, 3, 4, 5, 6, 8, 12)
HEAD_DIMS = (1, 2, 3, 4)


def declare(
    mask: str, latent: int, bits: int, heads: int, head_dim: int, steps: int, *, replicated: bool = False
) -> Declaration:
    """A layer a letter of ``mask``: attention ones have a latent, recurrent ones ``heads`` heads of ``head_dim``.

    Queries, keys and values have ``heads * head_dim`` channels each, of which the last ``steps`` inputs stay.
    ``replicated``: every rank holds all of the state, instead of a share.
    """
    recurrent = delta_net(on_layers(mask, STATE), heads, head_dim, heads, head_dim, steps, replicated=replicated)
    latents = rows("key", on_layers(mask, ATTENTION), latent, bits)
    return Declaration(Model(len(mask), (state("state", recurrent), paged("kv", (latents,)))), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    mask, latent, width, heads, head_dim, steps = numbers
    return declare(
        pick(masks(around.layers), mask),
        LATENTS[latent],
        (16, 8)[width],
        draw_state_heads(1 + heads, around),
        HEAD_DIMS[head_dim],
        1 + steps,
    )


def _published(name: str, title: str, mask: str, heads: int, source: str, evidence: str) -> PublishedModel:
    return PublishedModel(
        name, title, len(mask), lambda bits: declare(mask, 576, bits, heads, 128, 3), source, evidence
    )


KIND = Kind(
    name="kda",
    description="KDA hybrids: convolution state in three equal sections and state by heads, latent attention",
    order=13,
    bounds=(64, len(LATENTS), 2, 3, len(HEAD_DIMS), 3),
    decode=decode,
    scope=((0, 1, 0, 0, 1, 1), (0, 0, 1, 1, 0, 0)),
    published=(
        _published(
            "kimi-linear-48b",
            "Kimi Linear 48B",
            interval_mask(26, 4) + ATTENTION,
            32,
            "config of moonshotai/Kimi-Linear-48B-A3B: every fourth of 27 layers and the last one have a latent of 512 "
            "and 64, the other 20 have 32 heads of 128, kernel 4",
            "config",
        ),
        _published(
            "kimi-k3",
            "Kimi K3",
            interval_mask(92, 4) + ATTENTION,
            96,
            "config of moonshotai/Kimi-K3: every fourth of 93 layers and the last one have a latent of 512 and 64, the "
            "other 69 have 96 heads of 128, kernel 4; state bytes from transfer tests",
            "config in part",
        ),
    ),
    layers=(2, 6),
)
