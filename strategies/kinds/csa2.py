"""CSA2 (DeepSeek-V4.1): layers that own a global cache, layers that read an owner's, and windows that are rebuilt.

The last owner begins the decoder. With bounded replay the generation side runs the decoder layers over the last tokens
again and so rebuilds their window caches, which then are kept for as long as the replay reaches back; the context side
need not hold them (spec: kinds, CSA2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oracle.model.buffers import Buffer, Model, Move, MoveState
from oracle.model.case import Native
from oracle.model.instance import Without
from strategies.kinds.compressed import Rows
from strategies.kinds.fitting import draw_window
from strategies.kinds.pieces import layers, paged
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

NATIVE = Native((("all", "replicated"),))

SWA, GLOBAL, STATE = (3, 0), (3, 1), (3, 2)
"""Ids of the three types of internal layers; a layer that reads an owner's cache has none of the second."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a record of the window and of the global cache and of an index row; 32-bit elements of a state."""

    window: int
    main: int
    index: tuple[int, int]
    sub_rows: int
    state: int


RECORDS = Sizes(512 + 16, 256 + 32, (64, 4), 64, 512)


def declare(
    ratios: Sequence[int],
    owners: Sequence[int],
    window: int,
    sizes: Sizes,
    *,
    indexed: Sequence[int] = (),
    replay: int = 0,
    lacks: bool = False,
    extra: int = 0,
) -> Declaration:
    """A layer for each of ``ratios``, 0 for a window cache alone; the others have or read the cache of an owner.

    ``indexed`` layers read an owner's cache and have index keys of their own, as ``owners`` do; those above read them.
    ``replay``: tokens over which the generation side runs the decoder again, 0 where it receives all windows;
    ``lacks``: the context side then holds no window of the decoder. The last ``extra`` layers draft.
    """
    every = range(len(ratios))
    decoder = layers(range(owners[-1], len(ratios) - extra)) if replay else layers(())
    kept: dict[int | None, list[Buffer]] = {}
    for reach, on in ((window, set(every) - set(decoder)), (max(window, replay), set(decoder))):
        if not on:
            continue
        known = kept.setdefault(reach, [])
        both = layers(on | {layer for buffer in known for layer in buffer.layers})
        buffer = Rows(((sizes.window, 8),), opaque=True).buffer("csa2_swa", both, ids=SWA)
        rebuilt = (Move(MoveState.REBUILT, decoder), Move())
        known[:] = [replace(buffer, moves=rebuilt) if not on.isdisjoint(decoder) else buffer]
    kept[None] = []
    for ratio in sorted({ratios[owner] for owner in owners}):
        for role, rows, holders in (
            ("csa2_global", Rows(((sizes.main, 8),), opaque=True), owners),
            ("csa2_index", Rows(tuple((size, 8) for size in sizes.index), sizes.sub_rows), (*owners, *indexed)),
        ):
            read = {layer: max(own for own in holders if own <= layer) for layer in every if ratios[layer]}
            on = layers(own for own in holders if ratios[own] == ratio)
            others = layers(layer for layer, own in read.items() if own in on and layer != own)
            buffer = rows.buffer(role, on, tokens_per_row=ratio, ids=GLOBAL)
            kept[None].append(replace(buffer, alias=others) if others else buffer)
        if ratio > 1:
            state = Rows(((sizes.state, 32),))
            roles = ("csa2_compressor_kv", "csa2_compressor_score")
            on = layers(owner for owner in owners if ratios[owner] == ratio)
            kept.setdefault(ratio, []).extend(state.buffer(role, on, ids=STATE) for role in roles)
    names = {window: "window", None: "full"}
    groups = [paged(names.get(reach, f"kept_{reach}"), buffers, reach) for reach, buffers in kept.items()]
    without = (Without(("csa2_swa",), decoder),) if lacks and decoder else ()
    return Declaration(Model(len(ratios), tuple(groups)), NATIVE, extra, (without, ()))


MAPS = ("1rrr", "2rrr", "021r", "2r1r", "22rr", "0121", "02r1", "1rr0", "1ir0", "21ir")
"""Layers that own a cache of ratio 1 or 2, read it (r), have index keys of their own besides (i), or windows alone."""
SIZES = (Sizes(2, 3, (1, 1), 2, 1), Sizes(3, 2, (1, 1), 2, 1), Sizes(3, 4, (2, 1), 4, 2), Sizes(5, 3, (2, 1), 2, 1))
"""Of the second and the last, global and index rows take equal room."""


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    layer_map, size, window, replay = numbers
    letters = (MAPS[layer_map] * around.layers)[: around.layers]
    owners = [layer for layer, letter in enumerate(letters) if letter in "12"]
    ratios: list[int] = []
    for layer, letter in enumerate(letters):
        ratios.append(int(letter) if letter not in "ri" else ratios[max(owner for owner in owners if owner < layer)])
    if not owners:
        owners, ratios[-1] = [around.layers - 1], 1
    reach = draw_window(window, around)
    # Nothing is replayed, or windows of the decoder are kept as long as others, or longer in a group of their own.
    again = (0, 0, reach, reach + 1, reach, reach + (around.tokens_per_block or 4), 0, reach)[replay]
    drafts = (0,) if replay in (6, 7) else ()
    indexed = [layer for layer, letter in enumerate(letters) if letter == "i"]
    return declare(
        (*ratios, *drafts),
        owners,
        reach,
        SIZES[size],
        indexed=indexed,
        replay=again,
        lacks=replay in (2, 3),
        extra=len(drafts),
    )


FLASH = (0, 0, *(2,) * 18, *(1,) * 20, 0, 0, 0)
OWNERS, INDEXED = (2, 8, 14, 20), (24, 28, 32, 36)
WINDOW, DRAFTS = 128, 3


def _published(name: str, title: str, replay: int, more: str) -> PublishedModel:
    return PublishedModel(
        name,
        title,
        len(FLASH) - DRAFTS,
        lambda bits: declare(
            FLASH, OWNERS, WINDOW, RECORDS, indexed=INDEXED, replay=replay, lacks=replay > 0, extra=DRAFTS
        ),
        "40 layers, ratios 0, 0, 2 x 18, 1 x 20, owners 2, 8, 14, 20, index keys also on 24, 28, 32, 36, window 128, "
        f"three draft layers{more}",
        "config",
        element_bits=(8,),
        tokens_per_block=(128, 256),
    )


KIND = Kind(
    name="csa2",
    description="compressed attention whose layers share an owner's cache; windows of the decoder may be rebuilt",
    order=17,
    bounds=(len(MAPS), len(SIZES), 8, 8),
    decode=decode,
    scope=((2, 0, 1, 2), (3, 1, 3, 0), (1, 3, 0, 5)),
    published=(
        _published("deepseek-v4.1-flash", "DeepSeek-V4.1-Flash", 0, ""),
        _published(
            "deepseek-v4.1-flash-replay",
            "DeepSeek-V4.1-Flash with bounded replay",
            WINDOW,
            "; windows of layers 20 to 39 rebuilt (source)",
        ),
    ),
    layers=(1, 4),
    tokens_per_block=(4, 8),
    stages=False,
    helix=False,
    places=True,
)
