"""What lies in the pages of an instance, buffer by buffer: the identity of every byte, taken from the truth.

A *piece* is what one rank stores of one part of a buffer in one block: a slice of the tensor that the
declaration says the buffer is. Nothing here plans anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from oracle.model.axes import Grid
from oracle.model.buffers import Buffer, Model, MoveState
from oracle.model.case import Case
from oracle.model.counts import in_bytes, order_axes, sub_pages
from oracle.model.topology import Rank
from oracle.truth.elements import truth_of
from oracle.truth.holders import held_indices, seat
from oracle.truth.stacks import moves_between


@dataclass(frozen=True, slots=True)
class Place:
    """Which tensor a piece is of. The layer is -1 where the role alone is the key; blocks count in the request."""

    group: int
    layer: int
    role: str
    request: int
    block: int
    part: int = 0

    def __str__(self) -> str:
        layer = "" if self.layer < 0 else f" of layer {self.layer}"
        return f"{self.role}{layer}, block {self.block}"


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The indices of one axis (int64, in stored order) that a rank holds, of ``length`` in all."""

    axis: str
    indices: np.ndarray
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """What a rank stores of one tensor: ``ids`` (int64, flat), an id for every byte in the order stored.

    ``stored``: the axes in that order; after them come the ``unit`` bytes of an element. ``declared``: their
    names in declared order, which is that of the tensor. ``first``: the place of the tensor's first byte
    among those of a block. ``moves``: whether a transfer brings it.
    """

    rank: int
    place: Place
    page: int
    stored: tuple[Held, ...]
    declared: tuple[str, ...]
    unit: int
    first: int
    ids: np.ndarray
    moves: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the tensor as a whole, in declared order, and the bytes of an element."""
        lengths = {held.axis: held.length for held in self.stored}
        return (*(lengths[axis] for axis in self.declared), self.unit)

    @property
    def where(self) -> tuple[np.ndarray, ...]:
        """The piece as an index into the tensor."""
        indices = {held.axis: held.indices for held in self.stored}
        return np.ix_(*(indices[axis] for axis in self.declared), np.arange(self.unit))

    def read(self, ids: np.ndarray) -> np.ndarray:
        """What is stored, flat, as an array in declared order."""
        names = [held.axis for held in self.stored]
        array = ids.reshape(*(len(held.indices) for held in self.stored), self.unit)
        return array.transpose(*(names.index(axis) for axis in self.declared), len(names))

    def store(self, array: np.ndarray) -> np.ndarray:
        """An array in declared order as it is stored, flat."""
        order = [self.declared.index(held.axis) for held in self.stored]
        return array.transpose(*order, len(order)).ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """All pieces of an instance. Ids repeat every ``width``: what is left over is the place in a block."""

    pieces: tuple[Piece, ...]
    width: int


def image_of(case: Case, side: str) -> Image:
    """What the ranks of ``side`` hold of the requests of ``case``; of a receiver, once all has come."""
    alone = _alone(case, side)
    truth = truth_of(alone)
    instance = alone.context
    topology = instance.topology
    found: list[Piece] = []
    for rank in topology.ranks():
        table, slots_of = truth.context.side.tables[rank.number], truth.context.side.slots[rank.number]
        for entry in table.entries:
            buffer = _buffer(case.model, entry.group, entry.role, entry.layer)
            moves = moves_between(case, buffer, entry.layer) and not case.model.groups[entry.group].native_only
            pool = table.pools[entry.pool]
            start = truth.context.starts[rank.number][entry.pool] + entry.offset
            base = truth.context_keys.base[(entry.group, -1 if buffer.request_scope else entry.layer, entry.role)]
            for request, slots in enumerate(slots_of[entry.group]):
                if topology.attention_dp and alone.requests[request].context_dp != rank.tp:
                    continue
                for block, slot in enumerate(slots.tolist()):
                    address = start + slot * pool.slot_stride
                    region = truth.source[address : address + entry.nbytes]
                    if slot < 0 or region[0] < 0:  # another rank's block, or one that has left its window
                        continue
                    layer = -1 if buffer.request_scope else entry.layer
                    place = Place(entry.group, layer, entry.role, request, block)
                    found += _parts(alone, rank, buffer, place, region, base, moves)
    return Image(tuple(found), truth.context_keys.width)


def _alone(case: Case, side: str) -> Case:
    """The instance of ``side`` with its equal: what it holds, whoever sends it there or fetches it."""
    instance = case.side(side)
    requests = tuple(
        replace(request, context_dp=request.dp_rank(side), generation_dp=request.dp_rank(side))
        for request in case.requests
    )
    return replace(case, model=_either(case.model), context=instance, generation=instance, requests=requests)


def _either(model: Model) -> Model:
    """``model``, of which either side may lack what one may."""

    def allow(buffer: Buffer) -> Buffer:
        moves = tuple(
            replace(move, side="either") if move.state is MoveState.OPTIONAL else move for move in buffer.moves
        )
        return buffer if moves == buffer.moves else replace(buffer, moves=moves)

    groups = tuple(replace(group, buffers=tuple(map(allow, group.buffers))) for group in model.groups)
    return model if groups == model.groups else replace(model, groups=groups)


def _buffer(model: Model, group: int, role: str, layer: int) -> Buffer:
    return next(each for each in model.groups[group].buffers if each.role == role and layer in each.layers)


def _parts(
    case: Case, rank: Rank, buffer: Buffer, place: Place, region: np.ndarray, base: int, moves: bool
) -> Iterator[Piece]:
    """The region of a buffer cut into sub-pages, and each into parts."""
    instance = case.context
    pages, rows = sub_pages(buffer, instance.tokens_per_block)
    seats = {grid: seat(instance.topology, rank, grid) for grid in Grid}
    end = 0
    for page in range(pages):
        first = base
        for number, part in enumerate(buffer.parts):
            axes, unit = in_bytes(part.axes, instance.bits_of(buffer.role, part.bits))
            stored = tuple(
                Held(axis.name, np.arange(page * rows, (page + 1) * rows), pages * rows)
                if axis.is_token
                else Held(axis.name, held_indices(axis, seats[axis.grid]), axis.size)
                for axis in order_axes(axes, instance.layout_of(buffer.role))
            )
            start = end
            end += unit * prod([len(held.indices) for held in stored])
            declared = tuple(axis.name for axis in axes)
            where = replace(place, part=number)
            yield Piece(rank.number, where, page, stored, declared, unit, first, region[start:end], moves)
            first += unit * prod([held.length for held in stored])
