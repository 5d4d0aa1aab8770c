"""DeepSeek-V4: window caches, compressed caches and compressor states on one layer (spec: kinds, DeepSeek-V4)."""

from __future__ import annotations

from collections.abc import Sequence

from oracle.model.case import Native
from strategies.kinds.compressed import Forms, Rows, compressed
from strategies.kinds.fitting import draw_window
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

# The legacy sender leaves every buffer indexed with one head; one head on every rank is what replication is.
NATIVE = Native((("all", "indexed"),))

WINDOW, FINE, COARSE = 128, 4, 128
DIM, INDEX_DIM = 512, 128
RECORDS = Rows(((448 + 128, 8), (8, 8)), 64)
"""448 bytes of E4M3 and 64 BF16 elements a row, and after 64 such rows their 7 scales and a byte of padding each."""
INDEX_8, INDEX_4 = Rows(((INDEX_DIM, 8), (4, 8))), Rows(((INDEX_DIM // 2, 8), (4, 8)))
"""An index row: a byte an element and a scale of FP32, or half a byte an element and four of one byte."""

FLASH = (0, 0, *(FINE, COARSE) * 20, FINE)
PRO = (COARSE, COARSE, *(FINE, COARSE) * 29, FINE)
MTP = (0,)
"""The MTP layer after them: the configs' lists of ratios end with its own, which is 0, a window cache alone.

It is the last of the list, and so what further MTP layers (one less than there are drafts) copy.
"""


def forms(bits: int, *, records: bool = False, align: int = 0) -> Forms:
    """How the published models store rows: elements of 16 or 8 bits, 4 bits with block scales, or ``records``.

    With 4 bits the window cache keeps 8.
    """
    main = RECORDS if records else Rows(((DIM, bits),))
    window = Rows(((DIM, 8),)) if bits == 4 else main
    index = INDEX_4 if bits == 4 else INDEX_8
    return Forms(window, main, index, DIM, INDEX_DIM, DIM // 16 if bits == 4 else 0, align)


def declare(ratios: Sequence[int], window: int, fine: int, forms: Forms, extra: int = 0) -> Declaration:
    """A layer for each of ``ratios``, 0 for a window cache alone; the last ``extra`` of them are MTP layers."""
    return Declaration(compressed(ratios, window, fine, forms), NATIVE, extra)


MAPS = ("wwww", "fwff", "fcfc", "wfcf", "cfcf", "ccfc", "cccc", "wcfw")
"""Layers with a window cache alone, with fine and with coarse compression."""
ROWS_OF_16 = Forms(Rows(((1, 16),)), Rows(((1, 16),)), Rows(((2, 8), (1, 8))), 1, 1)
ROWS_OF_8 = Forms(Rows(((2, 8),)), Rows(((3, 8),)), Rows(((2, 8), (1, 8))), 1, 2)
FOOTERS = Forms(Rows(((2, 8), (1, 8)), 2), Rows(((2, 8), (1, 8)), 2), Rows(((3, 8), (2, 8))), 1, 2)
SCALED = Forms(Rows(((5, 8),)), Rows(((6, 4),)), Rows(((1, 8), (1, 8))), 1, 2, scale=1)
ALIKE = Forms(Rows(((4, 8),)), Rows(((4, 8),)), Rows(((1, 8), (1, 8))), 2, 1)
"""Rows of which some take as much room a block as those of other layers: they share pools, and layers are uneven."""
FORMS = (ROWS_OF_16, ROWS_OF_8, FOOTERS, SCALED, ROWS_OF_8, FOOTERS, SCALED, ALIKE)
WINDOWS = 12
"""Numbers of a window: eight near the prompt, the others as long as the states of a coarse compressor."""


def draw_ratios(layer_map: int, ratio: int, around: Surroundings) -> tuple[tuple[int, ...], int, int]:
    """(ratio of each layer, the fine one, the coarse one) of a small model; a coarse row stands for a block or half."""
    block = around.tokens_per_block or 4
    coarse, fine = ((block, 2), (max(block // 2, 4), 2), (block, 4), (block, 2))[ratio]
    coarse, fine = min(coarse, block), min(fine, block)
    of = {"w": 0, "f": fine, "c": coarse}
    return tuple(of[layer] for layer in (MAPS[layer_map] * around.layers)[: around.layers]), fine, coarse


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    layer_map, form, window, ratio = numbers
    ratios, fine, coarse = draw_ratios(layer_map, ratio % 4, around)
    more = MTP if ratio >= 4 else ()
    reach = draw_window(window, around) if window < 8 else coarse
    return declare((*ratios, *more), reach, fine, FORMS[form], len(more))


def _published(name: str, title: str, ratios: tuple[int, ...], source: str) -> PublishedModel:
    return PublishedModel(
        name,
        title,
        len(ratios),
        lambda bits: declare((*ratios, *MTP), WINDOW, FINE, forms(bits), len(MTP)),
        source,
        "config",
        element_bits=(8, 16, 4),
        tokens_per_block=(128, 256),
    )


KIND = Kind(
    name="deepseek_v4",
    description="compressed attention: window caches, rows of several tokens and compressor states in three retentions",
    order=16,
    bounds=(len(MAPS), len(FORMS), WINDOWS, 6),
    decode=decode,
    scope=((3, 1, 8, 0), (2, 2, 0, 1), (4, 3, 9, 0)),
    published=(
        _published(
            "deepseek-v4-flash",
            "DeepSeek-V4-Flash",
            FLASH,
            "43 layers, ratios 0, 0, (4, 128) x 20, 4, window 128, one head of 512, index 128; an MTP layer of 0",
        ),
        _published(
            "deepseek-v4-pro",
            "DeepSeek-V4-Pro",
            PRO,
            "61 layers, ratios 128, 128, (4, 128) x 29, 4, window 128, one head of 512, index 128; an MTP layer of 0",
        ),
    ),
    layers=(1, 4),
    tokens_per_block=(4, 8),
    places=True,
)
