"""DeepSeek-V4 in vLLM: records of 584 bytes, and pages of a layer aligned to 576 bytes (spec: kinds, vLLM)."""

from __future__ import annotations

from collections.abc import Sequence

from strategies.kinds.compressed import Forms, Rows, compressed
from strategies.kinds.deepseek_v4 import MAPS, WINDOWS, draw_ratios
from strategies.kinds.deepseek_v4 import forms as published_forms
from strategies.kinds.fitting import draw_window
from strategies.kinds.protocol import Declaration, Kind, Surroundings

ALIGNMENT = 576
FORMS = published_forms(8, records=True, align=ALIGNMENT)


def declare(ratios: Sequence[int], window: int, fine: int, forms: Forms = FORMS) -> Declaration:
    """A layer for each of ``ratios``, 0 for a window cache alone, with the legacy sender knowing nothing of it."""
    return Declaration(compressed(ratios, window, fine, forms, virtual=False), None)


SMALL = (
    Rows(((3, 8), (1, 8)), 2),
    Rows(((2, 8), (1, 8)), 2),
    Rows(((4, 8), (2, 8)), 4),
)
ALIGNMENTS = (5, 3, 8)
"""In bytes; pages of a layer are multiples of some of them and not of others."""


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    layer_map, records, alignment, window, ratio = numbers
    ratios, fine, coarse = draw_ratios(layer_map, ratio, around)
    rows = SMALL[records]
    forms = Forms(rows, rows, Rows(((2, 8), (1, 8))), 1, 2, align=ALIGNMENTS[alignment])
    return declare(ratios, draw_window(window, around) if window < 8 else coarse, fine, forms)


KIND = Kind(
    name="vllm_v4",
    description="DeepSeek-V4 in vLLM: records with a footer, and pages padded to a multiple of their alignment",
    order=20,
    bounds=(len(MAPS), len(SMALL), len(ALIGNMENTS), WINDOWS, 4),
    decode=decode,
    scope=((3, 0, 0, 8, 0), (2, 1, 2, 0, 1), (4, 2, 1, 9, 0)),
    layers=(1, 4),
    tokens_per_block=(4, 8),
    helix=False,
    places=True,
)
