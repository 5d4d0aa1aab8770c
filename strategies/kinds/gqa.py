"""MHA and GQA: a key and a value per layer, split by heads (spec: kinds, base K/V)."""

from __future__ import annotations

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds import pieces
from strategies.kinds.fitting import draw_heads
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

NATIVE = Native((("all", "indexed"),))
DIMS = (1, 2, 1, 2, 4, 3, 1, 2)


def declare(layers: int, heads: int, dim: int, bits: int, value_dim: int = 0) -> Declaration:
    """``heads`` K/V heads of ``dim`` elements on each of ``layers`` layers; ``value_dim`` where the value's differs."""
    buffers = pieces.key_value(pieces.layers(range(layers)), heads, dim, bits, value_dim)
    return Declaration(Model(layers, (pieces.paged("kv", buffers),)), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, dim, width, wider = numbers
    size = DIMS[dim]
    value_size = size + 1 if wider == 7 else size
    return declare(around.layers, draw_heads(heads, around, 64), size, (16, 8)[width], value_size)


def _published(name: str, title: str, layers: int, heads: int, source: str, evidence: str) -> PublishedModel:
    return PublishedModel(name, title, layers, lambda bits: declare(layers, heads, 128, bits), source, evidence)


KIND = Kind(
    name="gqa",
    description="multi-head and grouped-query attention: key and value split by heads, which repeat on further ranks",
    order=0,
    bounds=(64, len(DIMS), 2, 8),
    decode=decode,
    scope=((1, 0, 1, 0), (2, 0, 1, 0), (0, 0, 1, 0)),
    published=(
        _published(
            "llama-3-70b", "Llama-3 70B", 80, 8, "80 layers, 8 K/V heads of 128, 64 query heads", "general knowledge"
        ),
        _published("qwen3-32b", "Qwen3-32B", 64, 8, "64 layers, 8 K/V heads of 128", "general knowledge"),
        _published("qwen3-235b-a22b", "Qwen3-235B-A22B", 94, 4, "94 layers, 4 K/V heads of 128", "general knowledge"),
        _published(
            "minimax-m2",
            "MiniMax-M2",
            62,
            8,
            "62 layers, full attention (config of MiniMaxAI/MiniMax-M2), 8 K/V heads of 128 (general knowledge)",
            "config in part",
        ),
    ),
)
