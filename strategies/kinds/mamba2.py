"""Mamba-2 hybrids: sectioned convolution state and SSM state, attention and MLP layers (spec: kinds, Mamba-2)."""

from __future__ import annotations

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.fitting import draw_heads
from strategies.kinds.pieces import key_value, paged, state
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings
from strategies.kinds.recurrent import (
    ATTENTION,
    NEITHER,
    STATE,
    STEP_STATES,
    conv,
    draw_state_dim,
    draw_state_heads,
    masks,
    on_layers,
    ssm,
    step_states,
)
from strategies.numbers import pick

NATIVE = Native((("all", "indexed"), ("ssm_state", "indexed"), ("conv_state", "sectioned")), ignored=(STEP_STATES,))

DIMS = (1, 2, 1, 2, 4, 3, 1, 2)
HEAD_DIMS = (2, 1, 3, 4)
GROUPS = ((1, False), (1, True), (2, False), (3, False), (4, False))
"""(groups, whether every rank holds B and C whole)"""
WIDTHS = ((32, 16), (16, 16), (32, 32))
"""Element bits of the SSM and of the convolution state."""


MTP = ATTENTION + NEITHER
"""The layers of an MTP module, after those of the model."""


def declare(
    mask: str,
    kv_heads: int,
    kv_dim: int,
    bits: int,
    heads: int,
    head_dim: int,
    groups: int,
    state_dim: int,
    steps: int,
    *,
    whole: bool = False,
    widths: tuple[int, int] = WIDTHS[0],
    speculates: bool = False,
    extra: int = 0,
) -> Declaration:
    """A layer a letter of ``mask``; recurrent ones have ``heads`` heads of ``head_dim``, attention ones K/V heads.

    The convolution keeps ``steps`` inputs of the channels x (``heads * head_dim``), B and C (``groups * state_dim``
    each). ``whole``: every rank holds B and C whole, as where there is one group. ``speculates``: there are states of
    single steps besides, which stay where they are.
    """
    recurrent, attention = on_layers(mask, STATE), on_layers(mask, ATTENTION)
    sections = (("x", heads * head_dim), ("B", groups * state_dim), ("C", groups * state_dim))
    states = (
        ssm(recurrent, heads, head_dim, state_dim, widths[0]),
        conv(recurrent, sections, steps, widths[1], whole=("B", "C") if whole else ()),
    )
    groups_of_layers = (
        state("state", (*states, step_states(recurrent, 8)) if speculates else states),
        paged("kv", key_value(attention, kv_heads, kv_dim, bits)),
    )
    return Declaration(Model(len(mask), groups_of_layers), NATIVE, extra)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    mask, kv_heads, row, heads, groups, state_dim, steps, widths = numbers
    count, whole = GROUPS[groups]
    more = MTP if widths > len(WIDTHS) else ""
    return declare(
        pick(masks(around.layers, STATE + ATTENTION + NEITHER), mask) + more,
        draw_heads(kv_heads, around, 64),
        DIMS[row % 8],
        (16, 8)[row // 8],
        draw_state_heads(1 + heads // 4, around),
        HEAD_DIMS[heads % 4],
        count,
        draw_state_dim(count, 1 + state_dim, around),
        1 + steps,
        whole=whole,
        widths=WIDTHS[widths % len(WIDTHS)],
        speculates=widths >= len(WIDTHS),
        extra=len(more),
    )


def _nemotron(bits: int, pattern: str, kv_heads: int, extra: int = 0) -> Declaration:
    """``pattern`` as the configs write it: M recurrent, * attention, - or E neither."""
    mask = pattern.translate(str.maketrans("M*E", STATE + ATTENTION + NEITHER))
    return declare(mask, kv_heads, 128, bits, 128, 64, 8, 128, 3, extra=extra)


NEMOTRON_H_8B = "M-M-M-M*-" + 3 * "M-M-M-M-M*-" + "M-M-M-M-M-"
NEMOTRON_3_SUPER = "MEMEMEM*E" + 2 * "MEMEMEM*E" + 4 * "MEMEMEMEM*E" + "MEMEMEM*E" + "MEMEMEME"

KIND = Kind(
    name="mamba2",
    description="Mamba-2 hybrids: convolution state in unequal sections and SSM state over the TP×CP grid, K/V, MLP",
    order=11,
    bounds=(256, 64, 16, 12, len(GROUPS), 3, 3, len(WIDTHS) + 2),
    decode=decode,
    scope=((0, 1, 1, 0, 0, 0, 1, 0), (0, 0, 1, 4, 1, 1, 0, 0)),
    published=(
        PublishedModel(
            "nemotron-h-8b",
            "Nemotron-H 8B",
            52,
            lambda bits: _nemotron(bits, NEMOTRON_H_8B, 8),
            "config of nvidia/Nemotron-H-8B-Base-8K: 24 Mamba-2, 4 attention and 24 MLP layers; 128 heads of 64, "
            "8 groups of 128, kernel 4; 8 K/V heads of 128",
            "config",
        ),
        PublishedModel(
            "nemotron-3-super-120b",
            "Nemotron-3 Super 120B",
            88,
            lambda bits: _nemotron(bits, NEMOTRON_3_SUPER + "*E", 2, len(MTP)),
            "config of nvidia/NVIDIA-Nemotron-3-Super-120B-A12B: 40 Mamba-2, 8 attention and 40 MoE layers, MTP of "
            "one attention and one MoE layer; 128 heads of 64, 8 groups of 128, kernel 4; 2 K/V heads of 128",
            "config",
        ),
    ),
    layers=(2, 6),
)
