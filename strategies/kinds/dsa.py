"""Sparse latent attention (DSA): an index key as a page footer beside a latent or opaque records (spec: kinds, DSA)."""

from __future__ import annotations

from collections.abc import Iterable

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds.pieces import footer, layers, paged, records, rows
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

# The latent counts as one head on every rank, as in MLA.
NATIVE = Native((("all", "indexed"), ("index_key", "replicated")))

LATENTS = ((1, 16), (2, 16), (3, 8), (4, 16), (5, 8), (6, 16), (3, 0), (7, 0))
"""Elements of a latent and bits of each; 0 bits: bytes of an opaque record."""
FOOTERS = ((2, 1), (4, 1), (2, 2), (1, 1), (5, 1), (6, 2))
"""Bytes of an index key and bytes of its scale: some together as wide as a latent, most not."""
OWNERS = 7
"""Numbers of a set of layers that own an indexer."""


def declare(
    total: int,
    latent: int,
    bits: int,
    owners: Iterable[int],
    data: int,
    tail: int,
    *,
    extra: int = 0,
) -> Declaration:
    """A latent of ``latent`` elements of ``bits`` bits on ``total`` layers, an index key on those that own an indexer.

    No bits: an opaque record of ``latent`` bytes a token. An index key has ``data`` bytes a token and after all of a
    block ``tail`` bytes of scale each. The last ``extra`` layers are MTP layers.
    """
    every = layers(range(total))
    key = rows("key", every, latent, bits) if bits else records("key", every, latent)
    group = paged("kv", (key, footer("index_key", layers(owners), data, tail)))
    return Declaration(Model(total, (group,)), NATIVE, extra)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    latent, index, owners, more = numbers
    extra = int(more == 5)
    owning = _owners(owners, around.layers)
    # An MTP layer is of the kind of the layer before it.
    last = [around.layers] if extra and around.layers - 1 in owning else []
    return declare(around.layers + extra, *LATENTS[latent], [*owning, *last], *FOOTERS[index], extra=extra)


def _owners(number: int, total: int) -> range | tuple[int, ...]:
    """Layers that own an indexer: all, the first, every second or third, all but the first or the last, the last."""
    if total == 1:
        return (0,)
    return (
        range(total),
        (0,),
        range(0, total, 2),
        range(0, total, 3),
        range(1, total),
        range(total - 1),
        (total - 1,),
    )[number]


def _published(
    name: str, title: str, latent: int, widths: tuple[int, ...], data: int, *, opaque: bool = False, says: str = ""
) -> PublishedModel:
    return PublishedModel(
        name,
        title,
        61,
        lambda bits: declare(62, latent, 0 if opaque else bits, range(62), data, 4, extra=1),
        "61 layers and one MTP layer on the last stage, latent 512 and rope 64, one index key of 128" + says,
        "config in part",
        element_bits=widths,
        tokens_per_block=(64,) if opaque else (),
    )


KIND = Kind(
    name="dsa",
    description="sparse latent attention: an index key with its scales as a page footer, on layers with an indexer",
    order=9,
    bounds=(len(LATENTS), len(FOOTERS), OWNERS, 6),
    decode=decode,
    scope=((1, 0, 1, 0), (6, 0, 0, 5), (2, 1, 2, 0)),
    published=(
        _published("deepseek-v3.2", "DeepSeek-V3.2", 576, (16, 8), 128),
        _published("deepseek-v3.2-fp4-index", "DeepSeek-V3.2, index key in FP4", 576, (16, 8), 64, says=", in FP4"),
        _published(
            "deepseek-v3.2-records",
            "DeepSeek-V3.2, latent with inline scales",
            656,
            (8,),
            128,
            opaque=True,
            says="; latents as records of 512 FP8 bytes, 4 FP32 scales and 64 BF16 of rope",
        ),
    ),
)
