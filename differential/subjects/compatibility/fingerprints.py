"""A text for all that fixes the bytes of an instance: where each buffer lies in a slot, and what each byte of it is.

Made from the bytes themselves, run by run, and not from the options that led to them: options that
lead to the same bytes must not tell two configurations apart, and any that changes a byte must.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from math import prod

import numpy as np

from differential.subjects.compatibility.configuration import Configuration, share
from oracle.model.axes import Axis
from oracle.model.buffers import Buffer, Part
from oracle.model.counts import in_bytes, ordered_axes, sub_pages
from oracle.model.instance import Instance
from oracle.model.topology import Rank

DIGITS = 32
"""Hexadecimal digits of a fingerprint."""


def fingerprint(configuration: Configuration) -> str:
    """The fingerprint of an instance, all of whose ranks are in it by number.

    How many slots a pool has does not count: it moves no byte inside a slot.
    """
    digest = hashlib.sha256()
    known: dict[tuple[int, tuple[object, ...]], bytes] = {}
    for rank in configuration.instance.topology.ranks():
        table = configuration.tables[rank.number]
        seat = id(table), _seat(configuration.instance, rank)
        if seat not in known:
            known[seat] = _image(configuration, rank)
        digest.update(known[seat])
    return digest.hexdigest()[:DIGITS]


def _seat(instance: Instance, rank: Rank) -> tuple[object, ...]:
    return () if instance.topology.attention_dp else (rank.tp, rank.cp)


def _image(configuration: Configuration, rank: Rank) -> bytes:
    """Digest of one rank: its pools without their lengths, and each region with its bytes."""
    table, digest = configuration.tables[rank.number], hashlib.sha256()
    for pool in table.pools:
        sizes = pool.slot_bytes, pool.slot_stride, bool(pool.layer_stride), pool.pool_group
        digest.update(f"pool {sizes};".encode())
    for entry in sorted(table.entries, key=lambda each: (each.group, each.layer, each.role)):
        stride = table.pools[entry.pool].layer_stride
        place = divmod(entry.offset, stride) if stride else (0, entry.offset)
        buffer = configuration.find(entry.group, entry.role, entry.layer)
        layer = -1 if buffer.request_scope else entry.layer
        digest.update(f"at {entry.pool} {place} {entry.nbytes}: {entry.group} {layer} {entry.role};".encode())
        digest.update(_bytes_of(buffer, configuration.instance, _alike(configuration.instance, rank)))
    return digest.digest()


def _alike(instance: Instance, rank: Rank) -> Rank:
    """A rank that stands for all with this one's shares."""
    return instance.topology.rank(0) if instance.topology.attention_dp else Rank(0, 0, rank.tp, rank.cp)


@lru_cache(maxsize=4096)
def _bytes_of(buffer: Buffer, instance: Instance, rank: Rank) -> bytes:
    """What the stored bytes of ``buffer`` are, in stored order: axes, then runs of consecutive global bytes."""
    pages, rows = sub_pages(buffer, instance.tokens_per_block)
    found: list[np.ndarray] = []
    for page in range(pages):
        base = 0
        for part in buffer.parts:
            axes, unit = in_bytes(part.axes, instance.bits_of(buffer.role, part.bits))
            offsets = np.full(1, base, dtype=np.int64)
            for axis in ordered_axes(Part(axes, 8), instance.layout_of(buffer.role)):
                held = range(page * rows, (page + 1) * rows) if axis.is_token else _indices(axis, instance, rank)
                step = unit * _inside(axis, axes, pages * rows)
                offsets = (offsets[:, None] + np.asarray(held, dtype=np.int64) * step).ravel()
            found.append((offsets[:, None] + np.arange(unit)).ravel())
            base += unit * prod(pages * rows if axis.is_token else axis.size for axis in axes)
    text = [_named(part, instance.bits_of(buffer.role, part.bits), pages * rows) for part in buffer.parts]
    sequence = np.concatenate(found)
    first = np.flatnonzero(np.concatenate(([True], np.diff(sequence) != 1)))
    runs = np.stack((sequence[first], np.diff(np.append(first, len(sequence)))), axis=1)
    return "; ".join(text).encode() + runs.astype("<i8").tobytes()


def _named(part: Part, bits: int, rows: int) -> str:
    """The axes of more than one index by name, for the others tell no two bytes apart; tokens a row; element bits."""
    sizes = [(axis.name, rows if axis.is_token else axis.size) for axis in part.axes]
    tokens = next((f"T({axis.tokens_per_row}) " for axis in part.axes if axis.is_token), "")
    return f"{' '.join(f'{name}{size}' for name, size in sizes if size > 1)} {tokens}{bits} bits"


def _indices(axis: Axis, instance: Instance, rank: Rank) -> list[int]:
    return [index for run in share(axis, instance, rank) for index in run]


def _inside(axis: Axis, axes: tuple[Axis, ...], tokens: int) -> int:
    """Elements from one index of ``axis`` to the next in the whole, unsplit buffer, in declared order."""
    return prod(tokens if each.is_token else each.size for each in axes[axes.index(axis) + 1 :])
