"""The cache managers of the grid, each with a small model of what its name says (spec: mapping, the grid; kinds)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oracle.model.errors import InvalidCase
from strategies import kinds as registry
from strategies.kinds import (
    cross,
    csa2,
    deepseek_v4,
    draft,
    dsa,
    fp4_mla,
    fp8,
    gdn,
    gemma4,
    gqa,
    kda,
    mamba2,
    minimax_m3,
    mla,
    nvfp4,
    qwen4_exp,
    vllm_hybrid,
    vswa,
)
from strategies.kinds.pieces import layers
from strategies.kinds.protocol import Declaration, Kind, Surroundings
from strategies.kinds.recurrent import STATE, delta_net, interval_mask, on_layers

TOKENS_PER_BLOCK = 4
LAYERS = 4
UNEVEN_LAYERS = 3
"""Two stages of them are uneven either way."""
WINDOW = TOKENS_PER_BLOCK + 1
"""Every prompt of the grid has a block that is out of it, and one that is not."""
COARSE, FINE = 8, 2
"""Ratios of a small DeepSeek-V4: a coarse row stands for a block of as many tokens and is as long as the window."""
HYBRID = "SASA"
"""A layer of state and one of attention on either stage."""


@dataclass(frozen=True, slots=True)
class Manager:
    """A cache manager of the grid.

    ``declare``: its small model; None: the first of its kind's small scope. ``cut``: which of the ways to cut the
    layers, (context, generation); 0 is even. ``layout`` and ``tokens_per_block`` are those of both instances.
    """

    name: str
    kind: str
    declare: Callable[[], Declaration] | None = None
    cut: tuple[int, int] = (0, 0)
    layout: str = "HND"
    tokens_per_block: int = TOKENS_PER_BLOCK

    def declaration(self, kind: Kind, around: Surroundings) -> Declaration:
        """The small model; ``around``: what it has to fit where the kind decides it."""
        return self.declare() if self.declare else kind.declare(kind.scope[0], around)


def _two_of_three(count: int) -> list[int]:
    """Two layers of every three: on no stage are there as many of them as of others."""
    return [layer for layer in range(count) if layer % 3 != 2]


def _minimax_m3(index_dim: int) -> Declaration:
    """Two heads of two elements: a rank with one of them has keys as long as an index key of two elements."""
    return minimax_m3.declare(LAYERS, 2, 2, 16, range(1, LAYERS), index_dim, 16)


def _mamba(mask: str) -> Declaration:
    return mamba2.declare(mask, 2, 2, 16, heads=4, head_dim=3, groups=4, state_dim=2, steps=3)


def _qwen4_exp() -> Declaration:
    mask = interval_mask(8, 4)
    recurrent = delta_net(on_layers(mask, STATE), 4, 2, 12, 2, 3)
    embedding = qwen4_exp.embedding(layers((1,)), 10, 9, 2, context_first=False)
    return qwen4_exp.declare(mask, 2, 4, 16, 2, 16, (*recurrent, *embedding))


def _fp4_mla() -> Declaration:
    return fp4_mla.declare(
        LAYERS, (LAYERS - 1,), stored=8, latent=6, values=6, tile=2, ring=WINDOW, tokens_per_block=TOKENS_PER_BLOCK
    )


def _csa2(replay: int = 0) -> Declaration:
    ratios, owners = (0, 2, 2, 1, 1, 1), (1, 3)
    return csa2.declare(ratios, owners, WINDOW, csa2.SIZES[0], indexed=(4,), replay=replay, lacks=replay > 0)


def _deepseek_v4() -> Declaration:
    return deepseek_v4.declare((0, FINE, COARSE, FINE), COARSE, FINE, deepseek_v4.ROWS_OF_8)


def _width(heads: int) -> draft.Width:
    """0 heads: a latent."""
    return draft.Width(heads, 2)


def _delta_net(value_heads: int) -> Declaration:
    return gdn.declare(HYBRID, 2, 2, 16, delta_net(on_layers(HYBRID, STATE), 4, 2, value_heads, 3, 3))


def _vllm_hybrid() -> Declaration:
    heads, dim, bits = 4, 4, 16
    page = vllm_hybrid.page_bytes(heads, dim, bits, TOKENS_PER_BLOCK)
    return vllm_hybrid.declare(HYBRID, heads, dim, bits, ((8, 4, 4), 3, (4, 3, 2)), page)


UPSTREAM = (
    Manager("MHA", "gqa", lambda: gqa.declare(LAYERS, 8, 2, 16)),
    Manager("GQA, also with duplicated heads", "gqa", lambda: gqa.declare(LAYERS, 2, 2, 16)),
    Manager("MLA", "mla", lambda: mla.declare(LAYERS, 6, 16)),
    Manager("VSWA, separate groups", "vswa", lambda: vswa.declare(6, [(WINDOW, _two_of_three(6))], 2, 2, 16)),
    Manager("VSWA, shared pool group", "vswa", lambda: vswa.declare(4, [(WINDOW, range(0, 4, 2))], 2, 2, 16)),
    Manager("uneven PP", "gqa", lambda: gqa.declare(UNEVEN_LAYERS, 4, 2, 16), cut=(0, 1)),
    Manager("MiniMax M3, index key separate, HND", "minimax_m3", lambda: _minimax_m3(3)),
    Manager("MiniMax M3, index key separate, NHD", "minimax_m3", lambda: _minimax_m3(3), layout="NHD"),
    Manager("MiniMax M3, index key coalesced, HND", "minimax_m3", lambda: _minimax_m3(2)),
    Manager("MiniMax M3, index key coalesced, NHD", "minimax_m3", lambda: _minimax_m3(2), layout="NHD"),
    Manager("Mamba V2", "mamba2", lambda: _mamba(HYBRID)),
    Manager("Mamba V2, no attention on a stage", "mamba2", lambda: _mamba("SSSA")),
    Manager("Qwen4Exp with PLE", "qwen4_exp", _qwen4_exp),
    Manager("FP4 MLA", "fp4_mla", _fp4_mla),
    Manager("CSA2", "csa2", _csa2),
    Manager("DeepSeek-V4", "deepseek_v4", _deepseek_v4, tokens_per_block=COARSE),
)
"""The 16 that upstream names."""

FURTHER = (
    Manager("FP8 keys and values", "fp8", lambda: fp8.declare(LAYERS, 4, 3)),
    Manager("NVFP4 with block scales", "nvfp4", lambda: nvfp4.declare(LAYERS, 2, 16, 32)),
    Manager("Gemma-4", "gemma4", lambda: gemma4.declare(6, _two_of_three(6), WINDOW, (4, 2), (1, 4), 16)),
    Manager("cross attention", "cross", lambda: cross.declare(LAYERS, range(4), range(0, 4, 2), 2, 4, 2, 16)),
    Manager("MTP layer in the target's manager", "draft", lambda: draft.declare(LAYERS, 1, _width(2), _width(2))),
    Manager("EAGLE-3 layer of other heads", "draft", lambda: draft.declare(LAYERS, 1, _width(4), _width(1))),
    Manager("draft model apart", "draft", lambda: draft.declare(LAYERS, 2, _width(0), _width(0), apart=True)),
    Manager(
        "draft model on the receiver alone",
        "draft",
        lambda: draft.declare(LAYERS, 2, _width(2), _width(0), apart=True, lacking=("context",)),
    ),
    Manager("DSA", "dsa", lambda: dsa.declare(LAYERS + 1, 3, 16, (0, 2, 4), 4, 1, extra=1)),
    Manager("gated delta net", "gdn", lambda: _delta_net(12)),
    Manager("KDA", "kda", lambda: kda.declare(HYBRID, 3, 16, 4, 2, 3)),
    Manager("KDA, replicated", "kda_replicated", lambda: kda.declare(HYBRID, 3, 16, 4, 2, 3, replicated=True)),
    Manager("CSA2 with replay", "csa2", lambda: _csa2(WINDOW + TOKENS_PER_BLOCK)),
    Manager("vLLM, keys and values in one region", "vllm_fused"),
    Manager("vLLM, state padded to the page", "vllm_hybrid", _vllm_hybrid),
    Manager("vLLM, DeepSeek-V4 with aligned pages", "vllm_v4"),
)
"""Those beyond."""

GRIDS = ("upstream", "all")
"""What can be run: the managers that upstream names, or these and those of all other kinds."""


def managers_of(grid: str) -> tuple[Manager, ...]:
    """The managers of a grid. All: after the named ones, every kind that none of them is of, by its first small model.

    Raises ``InvalidCase`` for a grid that does not exist.
    """
    if grid not in GRIDS:
        raise InvalidCase("grid", grid, f"expected one of {', '.join(GRIDS)}")
    if grid == "upstream":
        return UPSTREAM
    named = {manager.kind for manager in UPSTREAM + FURTHER}
    rest = (kind for kind in registry.kinds() if kind.name not in named)
    return (
        *UPSTREAM,
        *FURTHER,
        *(Manager(kind.name, kind.name, tokens_per_block=_block(kind)) for kind in rest),
    )


def _block(kind: Kind) -> int:
    """Tokens a block of a kind that no manager names: the usual ones where it can have them."""
    allowed = kind.tokens_per_block
    return TOKENS_PER_BLOCK if TOKENS_PER_BLOCK in allowed else max(allowed)
