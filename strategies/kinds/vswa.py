"""VSWA: keys and values of which some layers keep a window only (spec: kinds, VSWA).

Layers of one window are one group. Groups of as many layers on a stage have slots of one width and share a pool group,
each with slots of its own; others have pool groups of their own. So a cut into stages can turn one into the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.fitting import WINDOWED, draw_heads, draw_window, windowed_layers
from strategies.kinds.pieces import key_value, layers, paged
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

NATIVE = Native((("all", "indexed"),))
DIMS = (1, 2, 3, 1, 2, 4, 1, 2)


def declare(
    count: int, windows: Sequence[tuple[int, Iterable[int]]], heads: int, dim: int, bits: int, sinks: int = 0
) -> Declaration:
    """``heads`` K/V heads of ``dim`` elements on ``count`` layers.

    ``windows`` are different windows in tokens with their layers; layers of none keep everything. ``sinks`` tokens at
    the front stay besides each window.
    """
    groups = []
    for window, ids in windows:
        groups.append(paged(f"w{window}", key_value(layers(ids), heads, dim, bits), window, sinks=sinks))
    full = set(range(count)).difference(*(group.layers for group in groups))
    if full:
        groups.append(paged("full", key_value(layers(full), heads, dim, bits)))
    return Declaration(Model(count, tuple(groups)), NATIVE)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    heads, dim, width, which, place, more, sink = numbers
    local = windowed_layers(around.layers, which)
    window = draw_window(place, around)
    windows = [(window, local)]
    if more == 7 and len(local) > 1:
        # A second window, a block and a token longer, on the last of the windowed layers.
        windows = [(window, local[:-1]), (window + around.tokens_per_block + 1, local[-1:])]
    sinks = {14: 1, 15: around.tokens_per_block + 1}.get(sink, 0)
    return declare(around.layers, windows, draw_heads(heads, around, 64), DIMS[dim], (16, 8)[width], sinks)


def _gemma_3(bits: int) -> Declaration:
    local = [layer for layer in range(62) if layer % 6 != 5]
    return declare(62, [(1024, local)], 16, 128, bits)


def _gpt_oss(count: int, bits: int) -> Declaration:
    return declare(count, [(128, range(0, count, 2))], 8, 64, bits)


def _published_gpt_oss(size: str, count: int) -> PublishedModel:
    return PublishedModel(
        f"gpt-oss-{size}b",
        f"GPT-OSS {size}B",
        count,
        lambda bits: _gpt_oss(count, bits),
        f"{count} layers, 8 K/V heads of 64, window 128 on even layers (config of openai/gpt-oss-{size}b); "
        "its attention sinks are learned logits, no cached tokens (general knowledge)",
        "config",
    )


KIND = Kind(
    name="vswa",
    description="keys and values of which some layers keep a window only: pool groups apart, or shared by two windows",
    order=4,
    bounds=(64, len(DIMS), 2, len(WINDOWED), 8, 8, 16),
    decode=decode,
    # The first shares a pool group wherever a stage has as many layers of either sort; the second never does.
    scope=((1, 0, 1, 0, 0, 0, 0), (1, 0, 1, 3, 1, 0, 0), (2, 0, 1, 0, 2, 0, 0)),
    published=(
        PublishedModel(
            "gemma-3-27b",
            "Gemma-3 27B",
            62,
            _gemma_3,
            "62 layers, 16 K/V heads of 128, window 1024 on 5 of 6 layers (config of google/gemma-3-27b-it)",
            "config",
        ),
        _published_gpt_oss("20", 24),
        _published_gpt_oss("120", 36),
    ),
    layers=(2, 6),
    places=True,
)
