"""What a receiver tells a sender of one request: who it is, and where its blocks lie."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestInfo:
    """The fields that every encoding has, under the names they travel by (spec: blocks, wire facts).

    ``block_ids_per_layer_groups`` has one int64 array per layer group of the receiver's page table,
    empty ones included; entries are slots. ``sender_req_id`` is the id on the context side,
    ``unique_rid`` the key of the transfer: the context side's id where there is one, for a retry
    changes the others on one side only. Numbers are at least 0 and below 2**63; what may be None is
    not always there.
    """

    sender_req_id: int
    instance_name: str
    instance_rank: int
    block_ids_per_layer_groups: tuple[np.ndarray, ...]
    unique_rid: int
    aux_slot: int | None = None
    slice_id: int | None = None
    bounce_dst_base: int | None = None

    @property
    def task(self) -> int:
        """The receiver's task that a result must name; a receiver that numbers no slices has one, task 0."""
        return 0 if self.slice_id is None else self.slice_id

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_alike(getattr(self, name), getattr(other, name)) for name in field_names(type(self)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableInfo(RequestInfo):
    """Positional tables: entry i of an array is prompt block i, -1 a block that is not asked for.

    ``dst_start_token``, a token of the whole prompt, masks what lies before it, too; None masks nothing.
    One at or behind the prompt's end masks everything. What was cached is -1 anyway, with or without it.
    """

    dst_start_token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SuffixInfo(RequestInfo):
    """Slots without positions: an array is the end of the prompt's blocks, beam tails behind it.

    ``dst_start_token`` is where the receiver starts, if that is further than the length of the array says;
    a token of the whole prompt. None leaves it to the length.
    """

    dst_start_token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnchorInfo(RequestInfo):
    """Runs of slots, each with the ordinal of its first block in ``first_ordinals``; beam tails behind it."""

    first_ordinals: tuple[int, ...]


KINDS = MappingProxyType({"tables": TableInfo, "anchors": AnchorInfo, "suffix": SuffixInfo})
"""The record of each encoding of block lists."""


@cache
def field_names(kind: type[RequestInfo]) -> tuple[str, ...]:
    """The fields of a record of that kind, in the order in which they are written."""
    return tuple(field.name for field in fields(kind))


def _alike(one: object, other: object) -> bool:
    """Whether two fields hold the same, so that 1 is neither True nor 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)  # type: ignore[attr-defined, arg-type]
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))  # type: ignore[arg-type]
    return one == other
