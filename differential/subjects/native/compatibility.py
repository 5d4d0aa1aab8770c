"""What is refused when a peer registers (spec: legacy sender, 3), rule by rule in that order."""

from __future__ import annotations

from differential.subjects.native.election import heads_match
from differential.subjects.native.rank_info import RankInfo
from differential.subjects.native.refusals import Refused
from differential.subjects.native.settings import Settings
from differential.subjects.native.views import Table, View


def check_peers(own: RankInfo, peer: RankInfo, settings: Settings) -> None:
    """Raise ``Refused`` for two ranks that cannot be peers.

    Not refused: layer counts, tensor sizes that do not divide, disjoint layers, heads that do not
    split evenly.
    """
    _check_context_parallel(own, peer, settings)
    if own.attention is not None and peer.attention is not None:
        _check_attention(own, peer)
    if own.table.state_views() and peer.table.state_views():
        _check_state(own, peer)


def _check_context_parallel(own: RankInfo, peer: RankInfo, settings: Settings) -> None:
    sizes = (own.shape.cp, peer.shape.cp)
    if (1 not in sizes) if settings.helix else (sizes != (1, 1)):
        raise Refused("context_parallel_unsupported", f"context-parallel sizes {sizes[0]} and {sizes[1]}")
    if sizes == (1, 1) or own.attention is None or peer.attention is None:
        return
    tokens = (own.attention.tokens_per_block, peer.attention.tokens_per_block)
    if tokens[0] != tokens[1]:
        raise Refused("helix_tokens_per_block_differ", f"{tokens[0]} and {tokens[1]} tokens per block")


def _check_attention(own: RankInfo, peer: RankInfo) -> None:
    mine, theirs = own.attention, peer.attention
    assert mine is not None and theirs is not None
    for code, name in (
        ("latent_differs", "latent"),
        ("element_size_differs", "element_bits"),
        ("head_dims_differ", "dims"),
    ):
        if getattr(mine, name) != getattr(theirs, name):
            raise Refused(code, f"{name} is {getattr(mine, name)} on this side and {getattr(theirs, name)} on the peer")
    tokens = (mine.tokens_per_block, theirs.tokens_per_block)
    if tokens[0] != tokens[1]:
        strict = any(_needs_equal_tokens(view) for table in (own.table, peer.table) for view in _all_views(table))
        if strict or max(tokens) % min(tokens):
            raise Refused("tokens_per_block_differ", f"{tokens[0]} and {tokens[1]} tokens per block")
    if not heads_match(mine, theirs) and mine.tokens_per_block * mine.dims * mine.element_bits % 8:
        bits = mine.tokens_per_block * mine.dims * mine.element_bits
        raise Refused("head_bytes_not_whole", f"a head of one block has {bits} bits")
    if mine.latent and (mine.heads, theirs.heads) != (1, 1):
        raise Refused("latent_heads_not_one", f"{mine.heads} and {theirs.heads} heads a rank")


def _needs_equal_tokens(view: View) -> bool:
    return view.mapper in ("nhd", "replicated")


def _all_views(table: Table) -> list[View]:
    return [view for group in table.groups for view in group.views]


def _check_state(own: RankInfo, peer: RankInfo) -> None:
    for mine in own.table.state_views():
        for theirs in peer.table.state_views():
            if mine.mapper == theirs.mapper != "replicated":
                for role in sorted(mine.roles & theirs.roles):
                    _check_shards(role, (mine, own.state_grid[0]), (theirs, peer.state_grid[0]))
    _check_replicated_state(own.table, peer.table)


def _check_shards(role: str, own: tuple[View, int], peer: tuple[View, int]) -> None:
    """Shares of ``role`` times grid sizes must agree; ``own`` and ``peer`` are (view, state grid size)."""
    (mine, grid), (theirs, peer_grid) = own, peer
    sizes, others = mine.geometry[1], theirs.geometry[1]
    if mine.mapper == "indexed" and sizes != others:
        raise Refused("state_head_bytes_differ", f"a head of {role} has {sizes[0]} bytes, the peer's {others[0]}")
    share, other = _bytes_of(mine, role), _bytes_of(theirs, role)
    if share * grid != other * peer_grid:
        raise Refused("state_sizes_differ", f"{role} has {share} bytes x {grid} ranks, the peer {other} x {peer_grid}")
    if mine.mapper != "sectioned":
        return
    if len(sizes) != len(others):
        raise Refused("section_counts_differ", f"{role} has {len(sizes)} sections, the peer {len(others)}")
    if any(size * grid != other * peer_grid for size, other in zip(sizes, others, strict=True)):
        raise Refused("section_sizes_differ", f"{role} has sections {sizes} x {grid}, the peer {others} x {peer_grid}")


def _bytes_of(view: View, role: str) -> int:
    return next(nbytes for (_, name), nbytes in view.role_bytes.items() if name == role)


def _check_replicated_state(own: Table, peer: Table) -> None:
    mine, theirs = _replicated_state(own), _replicated_state(peer)
    for layer in sorted(_state_layers(own) & _state_layers(peer)):
        if mine.get(layer) != theirs.get(layer):
            reason = f"layer {layer} has {mine.get(layer, {})} bytes by role, on the peer {theirs.get(layer, {})}"
            raise Refused("replicated_state_differs", reason)


def _state_layers(table: Table) -> set[int]:
    return {layer for group in table.groups if not group.paged for layer in group.layers}


def _replicated_state(table: Table) -> dict[int, dict[str, int]]:
    """Bytes by role by layer."""
    found: dict[int, dict[str, int]] = {}
    for view in table.state_views():
        if view.mapper == "replicated":
            for (layer, role), nbytes in view.role_bytes.items():
                found.setdefault(layer, {})[role] = nbytes
    return found
