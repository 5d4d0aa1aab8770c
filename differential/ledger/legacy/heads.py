"""Head by head: what the legacy sender writes onto a receiver, and what ought to arrive there.

The legacy sender counts heads as those that a rank reports times its ranks. That is too many where
shares overlap, and a rank reports one number, that of its first layer, whatever its other layers
have (spec: legacy sender, 1, 4.2, 5 and 7.6). Heads are shared out by ceil and floor on both sides.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from differential.compare import ByteDifference
from differential.ledger.legacy.sides import (
    asked_tensor_ranks,
    divides,
    election_key,
    stage_of,
    tensor_size,
)
from differential.runner import Kind, Violation
from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer
from oracle.model.case import Case, Request
from oracle.model.records import frozen


@frozen()
class Arrival:
    """One head of a receiver: ``due`` is its global index, ``owner`` the tensor rank elected among the asked holders.

    ``written`` are (tensor rank, global index of the head it sends) in the order of ranks, None for what is no one
    head. ``pieces``: which ranks write each piece of it, where their runs end inside.
    """

    due: int
    owner: int | None
    written: tuple[tuple[int, int | None], ...]
    pieces: tuple[tuple[int, ...], ...]

    @property
    def as_due(self) -> bool:
        return self.written == ((self.owner, self.due),) and len(self.pieces) == 1

    def goes_wrong(self, kind: Kind) -> bool:
        """Whether the judge finds a violation of this kind in the head."""
        return {
            Kind.MISSING: not all(self.pieces),
            Kind.DUPLICATE: any(len(ranks) > 1 for ranks in self.pieces),
            Kind.WRONG_ELEMENT: any(sent != self.due for _, sent in self.written),
        }.get(kind, False)


@frozen()
class Arrivals:
    """Heads of a receiver by global index, none if not known; ``overflows``: runs leave those of a sender or of it."""

    heads: dict[int, Arrival]
    overflows: bool


def _head_axis(buffer: Buffer) -> Axis | None:
    return next((axis for part in buffer.parts for axis in part.axes if axis.name == "H"), None)


@lru_cache(maxsize=4096)
def heads_of(case: Case, layer: int) -> int | None:
    """The number of heads of the layer's head-split paged buffers; None if it has none, or several numbers."""
    found = {
        axis.size
        for group in case.model.groups
        if group.is_paged
        for buffer in group.buffers
        if layer in buffer.layers and (axis := _head_axis(buffer)) is not None and axis.split is Split.HEADS
    }
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=4096)
def is_head_split(case: Case, group: int | None, role: str | None) -> bool:
    """Whether ``role`` of a paged group is split by heads."""
    if group is None or not case.model.groups[group].is_paged:
        return False
    buffers = (buffer for buffer in case.model.groups[group].buffers if buffer.role == role)
    return any((axis := _head_axis(buffer)) is not None and axis.split is Split.HEADS for buffer in buffers)


def is_even(heads: int, ranks: int) -> bool:
    """Whether ``ranks`` hold whole shares of one size, or each head on as many ranks."""
    return heads % ranks == 0 or ranks % heads == 0


def is_uneven(case: Case, layer: int | None) -> bool:
    """Whether either side cannot share out the heads of the layer evenly, though the tensor sizes divide."""
    heads = None if layer is None else heads_of(case, layer)
    sizes = tensor_size(case.context), tensor_size(case.generation)
    return heads is not None and divides(*sizes) and not all(is_even(heads, ranks) for ranks in sizes)


def per_rank(heads: int, ranks: int) -> int:
    return -(-heads // ranks)


@lru_cache(maxsize=4096)
def reported_heads(case: Case, side: str, stage: int) -> int:
    """Heads that a rank of the stage reports: those of its first layer of which any are counted; 0 if there is none.

    Replicated buffers are not counted, unless there are no others.
    """
    instance = case.side(side)
    paged = [buffer for group in case.model.groups if group.is_paged for buffer in group.buffers]
    native = case.native
    if native is not None:
        paged = [buffer for buffer in paged if buffer.role not in native.ignored]
        paged = [buffer for buffer in paged if native.mapper_of(buffer.role) != "replicated"] or paged
    for layer in instance.in_layer_order(instance.topology.stage_layers(stage)):
        for buffer in paged:
            if layer in buffer.layers and not instance.lacks(layer, buffer.role):
                axis = _head_axis(buffer)
                if axis is None:
                    return 1
                return per_rank(axis.size, tensor_size(instance)) if axis.is_split else axis.size
    return 0


@lru_cache(maxsize=4096)
def counts_of_others(case: Case, destination: int | None, layer: int | None) -> bool:
    """Whether the heads that either rank of a pair reports are not those that it holds of this layer."""
    heads = None if layer is None else heads_of(case, layer)
    if heads is None or destination is None or layer is None:
        return False
    stage = stage_of(case.context, layer)
    if stage < 0:
        return False
    there = reported_heads(case, "context", stage)
    here = reported_heads(case, "generation", case.generation.topology.rank(destination).pp)
    sizes = tensor_size(case.context), tensor_size(case.generation)
    return (there, here) != (per_rank(heads, sizes[0]), per_rank(heads, sizes[1]))


@lru_cache(maxsize=4096)
def owner_of(case: Case, request: Request, destination: int, layer: int, head: int) -> int | None:
    """The tensor rank elected among those that ``destination`` asks and that hold ``head``; None if none does."""
    heads, there = heads_of(case, layer), tensor_size(case.context)
    assert heads is not None
    asked = asked_tensor_ranks(case, request, destination, stage_of(case.context, layer))
    holders = []
    for rank in asked:
        begins = 0 if there == 1 else rank * heads // there
        if begins <= head < begins + per_rank(heads, there):
            holders.append(rank)
    return holders[election_key(case, request) % len(holders)] if holders else None


def held_heads(case: Case, side: str, rank: int, layer: int) -> range:
    """The heads of the layer that a rank holds."""
    heads, instance = heads_of(case, layer), case.side(side)
    place = instance.topology.rank(rank)
    if heads is None or layer not in instance.topology.stage_layers(place.pp):
        return range(0)
    ranks = tensor_size(instance)
    first = 0 if ranks == 1 else place.tp * heads // ranks
    return range(first, first + per_rank(heads, ranks))


@lru_cache(maxsize=4096)
def arrivals(case: Case, request: Request, destination: int, layer: int) -> Arrivals:
    """What arrives of the heads of ``layer`` on ``destination`` for ``request``."""
    heads = heads_of(case, layer)
    assert heads is not None
    there, here = tensor_size(case.context), tensor_size(case.generation)
    rank_here, stage = case.generation.topology.rank(destination), stage_of(case.context, layer)
    receiver = rank_here.tp
    if stage < 0:
        return Arrivals({}, False)
    own, key = (0 if here == 1 else receiver), election_key(case, request)
    source_heads, own_heads = per_rank(heads, there), per_rank(heads, here)
    told, own_told = reported_heads(case, "context", stage), reported_heads(case, "generation", rank_here.pp)
    first = own * heads // here
    context_dp = case.context.topology.attention_dp
    asked = asked_tensor_ranks(case, request, destination, stage)

    def begins(rank: int) -> int:
        return 0 if context_dp else rank * heads // there

    copies = max(1, told * there // (own_told * here)) if told and own_told else 1
    # What the sender takes for one head is this many of the layer's heads.
    unit = Fraction(source_heads, told or 1)
    count = unit * min(told, own_told)
    sent: list[tuple[int, Fraction, Fraction]] = []
    for rank in asked:
        if (0 if context_dp else rank) % copies != key % copies:
            continue
        skip = shift = Fraction(0)
        if told != own_told and there < here:
            skip = unit * (receiver * told * there // here % told)
        elif told != own_told and there > here:
            shift = unit * (rank * own_told * here // there % own_told)
        sent.append((rank, skip, shift))
    if sent and source_heads * own_told != own_heads * told:
        return Arrivals({}, False)  # Such regions are refused where anyone is to send them.
    overflows = any(skip + count > source_heads or shift + count > own_heads for _, skip, shift in sent)
    found: dict[int, Arrival] = {}
    for place in range(own_heads):
        owner = owner_of(case, request, destination, layer, first + place)
        met = [(rank, skip, shift) for rank, skip, shift in sent if place - count < shift < place + 1]
        written = tuple((rank, _head_at(begins(rank), source_heads, skip + place - shift)) for rank, skip, shift in met)
        inside = {end for _, _, shift in met for end in (shift, shift + count) if place < end < place + 1}
        pieces = tuple(
            tuple(rank for rank, _, shift in met if shift <= start < shift + count)
            for start in sorted({Fraction(place), *inside})
        )
        found[first + place] = Arrival(first + place, owner, written, pieces)
    return Arrivals(found, overflows)


def _head_at(begins: int, heads: int, place: Fraction) -> int | None:
    """The global index of the head at ``place`` of a rank that holds ``heads``, if one begins there."""
    return begins + int(place) if place.denominator == 1 and 0 <= place < heads else None


def arrival(case: Case, request: int | None, destination: int | None, layer: int | None, head: int) -> Arrival | None:
    """What arrives of one head of one layer; None if that is not known."""
    if request is None or destination is None or layer is None or heads_of(case, layer) is None:
        return None
    found = arrivals(case, case.requests[request], destination, layer)
    return None if found.overflows else found.heads.get(head)


def arrives_so(case: Case, difference: ByteDifference) -> bool:
    """Whether the heads of a difference arrive wrong, and from those whom the subjects name."""
    if not difference.heads or not is_head_split(case, difference.group, difference.role):
        return False
    if difference.layer is None or case.context.topology.cp > 1:
        return False
    stage = stage_of(case.context, difference.layer)

    def numbers(ranks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(case.context.topology.number(stage, rank, 0) for rank in ranks))

    def is_predicted(head: int) -> bool:
        found = arrival(case, difference.request, difference.destination, difference.layer, head)
        if found is None or found.as_due or found.owner is None:
            return False
        senders = [numbers(ranks) for ranks in found.pieces]
        return difference.first_senders == numbers((found.owner,)) and difference.second_senders in senders

    return all(map(is_predicted, difference.heads))


def arrives_wrong(case: Case, violation: Violation) -> bool:
    """Whether this is how the due head arrives: not at all, more than once, or another one in its place."""
    if violation.due is None or not is_head_split(case, violation.group, violation.role):
        return False
    head = dict(violation.due.indices)["H"]
    found = arrival(case, violation.request, violation.destination, violation.layer, head)
    return found is not None and found.goes_wrong(violation.kind)
