"""Recurrent state: what Mamba-2, delta-net and KDA layers keep of a request, and which layers of a hybrid they are."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import gcd, lcm

from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, Move, MoveState, Part, Placement
from oracle.model.layers import LayerSet
from strategies.kinds.fitting import divisible
from strategies.kinds.pieces import KEPT
from strategies.kinds.protocol import Surroundings

STATE, ATTENTION, NEITHER = "S", "A", "-"
"""What a layer of a hybrid is: recurrent, attention, or without buffers (MLP alone)."""

STEP_STATES = "step_states"
"""The role of which the legacy sender knows nothing."""

SSM_BITS = 32
CONV_BITS = 16
"""Element widths of the published models, whatever the width of a K/V element."""


@lru_cache(maxsize=KEPT)
def ssm(
    on: LayerSet, heads: int, head_dim: int, state_dim: int, bits: int = SSM_BITS, split: Split = Split.EVEN
) -> Buffer:
    """A matrix of ``head_dim`` by ``state_dim`` for each of ``heads`` heads, which the TP×CP grid shares out."""
    axes = (Axis("H", heads, split, Grid.TPCP), Axis("P", head_dim), Axis("N", state_dim))
    return Buffer("ssm_state", on, (Part(axes, bits),))


@lru_cache(maxsize=KEPT)
def conv(
    on: LayerSet,
    sections: tuple[tuple[str, int], ...],
    steps: int,
    bits: int = CONV_BITS,
    *,
    whole: tuple[str, ...] = (),
) -> Buffer:
    """The last ``steps`` inputs of the channels in ``sections``, (name, channels) each; the TP×CP grid shares each out.

    ``steps`` is one less than the convolution is wide. Every rank holds all of the sections named in ``whole``.
    """
    cut = tuple(Section(name, size, Split.ALL if name in whole else Split.EVEN) for name, size in sections)
    return Buffer("conv_state", on, (Part((Axis("C", grid=Grid.TPCP, sections=cut), Axis("W", steps)), bits),))


def delta_net(
    on: LayerSet,
    key_heads: int,
    key_dim: int,
    value_heads: int,
    value_dim: int,
    steps: int,
    *,
    bits: int = SSM_BITS,
    replicated: bool = False,
) -> tuple[Buffer, Buffer]:
    """The state of delta-net layers: a matrix for each value head, and the last ``steps`` inputs of the convolution.

    Its sections are queries and keys, ``key_heads * key_dim`` channels each, and values, ``value_heads * value_dim``.
    ``replicated``: every rank holds all of it, instead of a share.
    """
    keys = key_heads * key_dim
    sections = (("q", keys), ("k", keys), ("v", value_heads * value_dim))
    split, whole = (Split.ALL, ("q", "k", "v")) if replicated else (Split.EVEN, ())
    return ssm(on, value_heads, value_dim, key_dim, bits, split), conv(on, sections, steps, whole=whole)


@lru_cache(maxsize=KEPT)
def step_states(on: LayerSet, nbytes: int) -> Buffer:
    """What speculation keeps of single steps: outside of the manager's pools, and never sent."""
    part = Part((Axis("B", nbytes),), 8)
    return Buffer(STEP_STATES, on, (part,), moves=(Move(MoveState.NEVER),), placement=Placement(own=True))


@lru_cache(maxsize=KEPT)
def on_layers(mask: str, letter: str) -> LayerSet:
    """The layers that are ``letter`` in ``mask``, a letter a layer."""
    return LayerSet(tuple(layer for layer, what in enumerate(mask) if what == letter))


def interval_mask(layers: int, interval: int) -> str:
    """A model whose every ``interval``-th layer is attention, the last of each interval, and all others recurrent."""
    return "".join(ATTENTION if layer % interval == interval - 1 else STATE for layer in range(layers))


@lru_cache(maxsize=64)
def masks(layers: int, letters: str = STATE + ATTENTION) -> tuple[str, ...]:
    """The masks of ``layers`` layers that hold recurrent and attention layers: the alternating one first."""
    alternating = ((STATE + ATTENTION) * layers)[:layers]
    found = ["".join(mask) for mask in product(letters, repeat=layers) if {STATE, ATTENTION} <= set(mask)]

    def rank(mask: str) -> tuple[int, int, str]:
        return mask.count(NEITHER), sum(a != b for a, b in zip(mask, alternating, strict=True)), mask

    return tuple(sorted(found, key=rank))


def draw_state_heads(unit: int, around: Surroundings) -> int:
    """The ``unit``-th number of heads of which either side has whole shares."""
    return divisible(unit, around.whole)


def draw_state_dim(groups: int, unit: int, around: Surroundings) -> int:
    """The size of a group of channels, of which ``groups`` cut into equal shares on both sides.

    Shares may end inside a group: it is the channels that are cut, not the groups.
    """
    parts = lcm(*around.whole)
    return unit * (parts // gcd(parts, groups))
