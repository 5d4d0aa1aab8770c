"""Who of several senders with the same bytes sends, and who is paired for state (spec: legacy sender, 4.2, 4.3)."""

from __future__ import annotations

from differential.subjects.native.rank_info import Attention, RankInfo
from differential.subjects.native.refusals import Refused


def heads_match(own: Attention, peer: Attention) -> bool:
    """Whether whole regions are copied, because both ranks hold equally many heads or latents."""
    return own.latent or own.heads == peer.heads


def head_totals(own: RankInfo, peer: RankInfo) -> tuple[int, int]:
    """Heads a rank times ranks of an attention-DP group, on both sides: inflated where heads repeat or overlap."""
    assert own.attention is not None and peer.attention is not None
    return own.attention.heads * own.shape.group_size, peer.attention.heads * peer.shape.group_size


def duplication(own: RankInfo, peer: RankInfo) -> int:
    """How many consecutive senders hold what the peer holds of the heads; both directions are divided at once.

    A stage without attention reports no heads, and the division crashes.
    """
    if own.attention is None or peer.attention is None:
        return 1
    mine, theirs = head_totals(own, peer)
    try:
        factor, _ = mine // theirs, theirs // mine
    except ZeroDivisionError:
        whose = "this rank" if not mine else "the peer"
        raise Refused(
            "crash: division by zero", f"{whose} reports no heads, as a stage without attention does"
        ) from None
    return max(1, factor)


def sends_heads(own: RankInfo, peer: RankInfo) -> bool:
    """Election for a sharded paged view."""
    return _wins(own, peer, duplication(own, peer))


def sends_replicated(own: RankInfo, peer: RankInfo) -> bool:
    """Election for a replicated view, among tensor ranks alone."""
    return _wins(own, peer, max(1, own.shape.group_size // peer.shape.group_size))


def _wins(own: RankInfo, peer: RankInfo, candidates: int) -> bool:
    """Candidates are consecutive tensor ranks; the key is the destination's attention-DP rank."""
    return candidates <= 1 or own.tensor_rank % candidates == peer.dp % candidates


def state_paired(own: RankInfo, peer: RankInfo) -> bool:
    """Whether the two state grids pair these ranks: no state at all passes between others."""
    (size, index), (peer_size, peer_index) = own.state_grid, peer.state_grid
    if size <= peer_size:
        return peer_index // (peer_size // size) == index
    return index // (size // peer_size) == peer_index


def sends_state(own: RankInfo, peer: RankInfo, mapper: str) -> bool:
    """Election for a state view: replicated state must also win among tensor ranks."""
    return state_paired(own, peer) and (mapper != "replicated" or sends_replicated(own, peer))
