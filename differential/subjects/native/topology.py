"""Which ranks of the peer instance a rank deals with: the topology overlap (spec: legacy sender, 4.1)."""

from __future__ import annotations

from oracle.model.records import frozen
from oracle.model.topology import Rank


@frozen()
class Shape:
    """Parallel sizes that one instance publishes; ``group_size`` is its tensor size inside one attention-DP group."""

    stages: tuple[int, ...]
    tp: int
    cp: int
    group_size: int
    attention_dp: bool


def fan(own_size: int, peer_size: int, own_rank: int, peer_group: int = 0) -> range:
    """Peers along one dimension. Sizes that do not divide are not refused: the range may leave the peer's ranks."""
    first = peer_group * peer_size
    if own_size <= peer_size:
        width = peer_size // own_size
        return range(first + own_rank * width, first + (own_rank + 1) * width)
    peer = first + own_rank // (own_size // peer_size)
    return range(peer, peer + 1)


def stages_met(own: tuple[int, ...], stage: int, peer: tuple[int, ...]) -> list[int]:
    """Peer stages whose layer interval meets that of ``stage``, by counts.

    The inequality is the sender's own: an empty stage strictly inside a peer's interval counts.
    """
    start = sum(own[:stage])
    end = start + own[stage]
    met = []
    peer_start = 0
    for number, layers in enumerate(peer):
        peer_end = peer_start + layers
        if start < peer_end and end > peer_start:
            met.append(number)
        peer_start = peer_end
    return met


def rank_number(shape: Shape, pp: int, tp: int, cp: int) -> int:
    """Number of a rank, context-parallel coordinate innermost. Coordinates are not checked: see ``fan``."""
    return (pp * shape.tp + tp) * shape.cp + cp


def peer_ranks(own: Shape, rank: Rank, peer: Shape, peer_dp: int) -> list[int]:
    """Numbers of the peer ranks that ``rank`` counts on for a request of the peer's attention-DP rank ``peer_dp``."""
    tensor = fan(own.group_size, peer.group_size, rank.tp % own.group_size, peer_dp)
    context = fan(own.cp, peer.cp, rank.cp)
    return [
        rank_number(peer, pp, tp, cp)
        for pp in stages_met(own.stages, rank.pp, peer.stages)
        for tp in tensor
        for cp in context
    ]


def state_grid(shape: Shape, rank: Rank) -> tuple[int, int]:
    """(size, index) of the grid that shares recurrent state: context-parallel ranks act as tensor ranks."""
    if shape.attention_dp:
        return 1, 0
    if shape.cp > 1:
        return shape.tp * shape.cp, rank.tp * shape.cp + rank.cp
    return shape.tp, rank.tp
