"""Latent attention (MLA): one key a token, the same on every tensor rank (spec: kinds, MLA)."""

from __future__ import annotations

from oracle.model.buffers import Model
from oracle.model.case import Native
from strategies.kinds import pieces
from strategies.kinds.protocol import Declaration, Kind, PublishedModel, Surroundings

# The legacy sender leaves the key indexed with one head; one head on every rank is what replication is.
NATIVE = Native((("all", "indexed"),))
DIMS = (1, 2, 3, 4, 5, 6, 8, 12)


def declare(layers: int, dim: int, bits: int, extra: int = 0) -> Declaration:
    """A latent of ``dim`` elements a token on each of ``layers`` layers, the last ``extra`` of them MTP layers."""
    key = pieces.rows("key", pieces.layers(range(layers)), dim, bits)
    return Declaration(Model(layers, (pieces.paged("kv", (key,)),)), NATIVE, extra)


def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    dim, width = numbers
    return declare(around.layers, DIMS[dim], (16, 8)[width])


KIND = Kind(
    name="mla",
    description="latent attention: a key of latent and rope elements only, replicated over the tensor ranks",
    order=1,
    bounds=(len(DIMS), 2),
    decode=decode,
    scope=((1, 0), (1, 1)),
    published=(
        PublishedModel(
            "deepseek-v3",
            "DeepSeek-V3",
            61,
            lambda bits: declare(62, 576, bits, 1),
            "61 layers, one MTP layer on the last stage, latent 512 and rope 64",
            "config in part",
        ),
    ),
)
