"""Compressed attention: several retentions on one layer, and rows that stand for several tokens (spec: kinds, V4).

A layer of ratio 0 has a window cache alone. One of a higher ratio also has a cache of one row for so many tokens, and
keeps the states of its compressor for the tokens of the row to come. The finest ratio has an index besides, and its
compressor overlaps: its states are twice as wide and reach twice as far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from oracle.model.axes import Axis
from oracle.model.buffers import Buffer, LayerGroup, Model, Part, Placement
from oracle.model.layers import LayerSet
from strategies.kinds.pieces import layers, paged

SWA, STATES, MAIN = (7, 0), (7, 1), (7, 5)
"""Ids of the seven types of internal layers; an internal layer of several types goes by the first of them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How a row is stored: (elements, bits of one) of each part, one part after another in a sub-page of rows.

    ``opaque``: the elements of a row of one part are bytes of a record, as those of several parts always are.
    """

    parts: tuple[tuple[int, int], ...]
    sub_rows: int = 0
    opaque: bool = False

    def buffer(
        self,
        role: str,
        on: LayerSet,
        *,
        tokens_per_row: int = 1,
        ids: tuple[int, int] = (1, 0),
        align: int = 0,
    ) -> Buffer:
        """The buffer of such rows, the same on every rank."""
        parts = _parts(self.parts, tokens_per_row, self.opaque or len(self.parts) > 1)
        return Buffer(role, on, parts, placement=Placement(align=align), sub_rows=self.sub_rows, ids=ids)


@lru_cache(maxsize=1024)
def _parts(sizes: tuple[tuple[int, int], ...], tokens_per_row: int, opaque: bool) -> tuple[Part, ...]:
    tokens = Axis("T", tokens_per_row=tokens_per_row)
    name = "B" if opaque else "D"
    return tuple(Part((tokens, Axis(name, size)), bits) for size, bits in sizes)


@dataclass(frozen=True, slots=True)
class Forms:
    """How the caches of a model store their rows; ``state`` and ``index_state`` count 32-bit elements.

    ``scale``: bytes of the block scales of a row of ``main``, 0 for none. ``align``: bytes that each page of a layer is
    aligned to.
    """

    window: Rows
    main: Rows
    index: Rows
    state: int
    index_state: int
    scale: int = 0
    align: int = 0


def compressed(ratios: Sequence[int], window: int, fine: int, forms: Forms, *, virtual: bool = True) -> Model:
    """One layer for each of ``ratios`` (0: window only), ``window`` tokens of it; ``fine`` is the ratio with an index.

    Buffers that are kept equally long are in one group: the states of a coarse ratio equal to the window, for one.
    ``virtual``: the manager has several internal layers a layer, with ids of their own.
    """
    swa_id, states_id, main_id = (SWA, STATES, MAIN) if virtual else ((1, 0),) * 3
    align = forms.align
    every = layers(range(len(ratios)))
    groups: dict[int | None, list[Buffer]] = {window: [forms.window.buffer("swa", every, ids=swa_id, align=align)]}
    groups[None] = []
    for ratio in sorted({ratio for ratio in ratios if ratio}):
        on = layers(layer for layer, own in enumerate(ratios) if own == ratio)
        overlap = 2 if ratio == fine else 1
        states = groups.setdefault(overlap * ratio, [])
        main = [forms.main.buffer("compress", on, tokens_per_row=ratio, ids=main_id, align=align)]
        width = Rows(((overlap * forms.state, 32),))
        # A coarse layer has its states with its window cache, where both are kept equally long.
        ids = states_id if overlap * ratio != window or ratio == fine else swa_id
        states += [width.buffer(f"compressor_{what}", on, ids=ids, align=align) for what in ("kv", "score")]
        if ratio == fine:
            main.append(forms.index.buffer("indexer_compress", on, tokens_per_row=ratio, ids=main_id, align=align))
            width = Rows(((overlap * forms.index_state, 32),))
            states += [width.buffer(f"indexer_compressor_{what}", on, ids=ids, align=align) for what in ("kv", "score")]
        if forms.scale:
            scale = Rows(((forms.scale, 8),))
            main.append(scale.buffer("compress_block_scale", on, tokens_per_row=ratio, ids=main_id, align=align))
        groups[None] += main
    return Model(len(ratios), tuple(_group(kept, window, buffers) for kept, buffers in groups.items() if buffers))


def _group(kept: int | None, window: int, buffers: list[Buffer]) -> LayerGroup:
    name = "full" if kept is None else "window" if kept == window else f"states_{kept}"
    return paged(name, buffers, kept)
