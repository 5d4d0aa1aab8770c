"""Region mappers: which bytes of a slot go where in the peer's slot (spec: legacy sender, 5).

Each gives runs (int64, n x 3): source offset, destination offset, bytes, all from the slot's start.
"""

from __future__ import annotations

import itertools

import numpy as np

from differential.subjects.native.election import heads_match
from differential.subjects.native.pairing import Mapped
from differential.subjects.native.rank_info import RankInfo
from differential.subjects.native.refusals import Refused

Spread = tuple[list[int], list[int], list[int]]
"""Source offsets, destination offsets and bytes inside one layer's region."""
Cut = tuple[int, int]
"""(source, destination) where the shared part starts: in heads of a paged view, in shares of a state view."""
Uncut = tuple[int, np.ndarray]
"""Bytes of one head (0: shares count by the run's bytes), and the runs of a peer that starts at the first one."""
SMALL = 32
"""Runs below which a loop is faster than array arithmetic."""


def uncut_runs(mapped: Mapped, own: RankInfo, peer: RankInfo) -> Uncut:
    """What all rank pairs of one pair of page tables share of a view that is sent."""
    return paged_runs(mapped, own, peer) if mapped.own.paged else (0, state_runs(mapped, own, peer))


def cut_of(mapped: Mapped, own: RankInfo, peer: RankInfo) -> Cut:
    """Where the part that two ranks share starts on either side."""
    if mapped.own.mapper == "replicated":
        return 0, 0
    if not mapped.own.paged:
        return state_offsets(own, peer) if own.state_grid[0] != peer.state_grid[0] else (0, 0)
    assert own.attention is not None and peer.attention is not None
    return (0, 0) if heads_match(own.attention, peer.attention) else head_offsets(own, peer)


def cut_runs(uncut: Uncut, cut: Cut) -> np.ndarray:
    """``uncut`` runs moved to where the shared part starts."""
    unit, runs = uncut
    if cut == (0, 0):
        return runs
    if unit:
        return runs + np.array((cut[0] * unit, cut[1] * unit, 0))
    return runs + runs[:, 2:] * np.array((*cut, 0))


def paged_runs(mapped: Mapped, own: RankInfo, peer: RankInfo) -> Uncut:
    """Bytes of a head, and the runs of a paged view."""
    assert own.attention is not None and peer.attention is not None
    if mapped.own.mapper == "replicated" or heads_match(own.attention, peer.attention):
        return 0, whole_regions(mapped)
    unit = head_bytes(mapped, own, peer)
    if mapped.own.mapper == "nhd":
        unit, spread = token_major(mapped, own, peer, unit)
    else:
        spread = head_major(mapped, own, peer, unit)
    sources = [mapped.own.starts[layer] for layer in mapped.layers]
    destinations = [mapped.peer.starts[layer] for layer in mapped.layers]
    return unit, _over_layers(sources, destinations, spread)


def whole_regions(mapped: Mapped) -> np.ndarray:
    """Every shared layer whole; layers that touch on both sides are merged."""
    nbytes = _equal_bytes(mapped)
    runs: list[list[int]] = []
    for layer in mapped.layers:
        source, destination = mapped.own.starts[layer], mapped.peer.starts[layer]
        if runs and touches(runs[-1], source, destination):
            runs[-1][2] += nbytes
        else:
            runs.append([source, destination, nbytes])
    return np.array(runs, dtype=np.int64)


def touches(run: list[int], source: int, destination: int) -> bool:
    """Whether a region at these offsets goes on where ``run`` ends, on both sides."""
    return run[0] + run[2] == source and run[1] + run[2] == destination


def _equal_bytes(mapped: Mapped) -> int:
    nbytes, other = mapped.own.layer_bytes, mapped.peer.layer_bytes
    if nbytes != other:
        raise Refused("region_sizes_differ", f"a layer of {mapped.own} has {nbytes} bytes, on the peer {other}")
    return nbytes


def head_bytes(mapped: Mapped, own: RankInfo, peer: RankInfo) -> int:
    """Bytes of one head of one buffer of a block, by the one head count a rank reports."""
    assert own.attention is not None and peer.attention is not None
    view, other = mapped.own, mapped.peer
    if view.buffers_per_layer != other.buffers_per_layer:
        counts = f"{view.buffers_per_layer} buffers a layer, on the peer {other.buffers_per_layer}"
        raise Refused("buffer_counts_differ", f"{view} has {counts}")
    layer_bytes = view.layer_bytes, other.layer_bytes
    for side in (view, other):
        if len({nbytes for _, _, nbytes, _ in side.entries}) != 1:
            raise Refused("view_geometry_differs", f"the buffers of {side} are of unequal size and heads must be cut")
    number = view.buffers_per_layer
    bytes_of_heads = layer_bytes[0], own.attention.heads * number
    peer_bytes_of_heads = layer_bytes[1], peer.attention.heads * number
    unit, rest = divmod(*bytes_of_heads)
    if rest or divmod(*peer_bytes_of_heads) != (unit, 0):
        pairs = f"{bytes_of_heads[0]} / {bytes_of_heads[1]} and {peer_bytes_of_heads[0]} / {peer_bytes_of_heads[1]}"
        raise Refused("head_bytes_differ", f"a head of {view} has {pairs} bytes")
    return unit


def head_offsets(own: RankInfo, peer: RankInfo) -> Cut:
    """First head to send, in each side's own heads; tensor ranks are absolute."""
    assert own.attention is not None and peer.attention is not None
    mine, theirs = own.shape.group_size, peer.shape.group_size
    heads, peer_heads = own.attention.heads, peer.attention.heads
    if mine < theirs:
        return peer.rank.tp * heads * mine // theirs % heads, 0
    if mine > theirs:
        return 0, own.rank.tp * peer_heads * theirs // mine % peer_heads
    return 0, 0


def head_major(mapped: Mapped, own: RankInfo, peer: RankInfo, unit: int) -> Spread:
    """One run a buffer: its heads are contiguous."""
    assert own.attention is not None and peer.attention is not None
    buffers = range(mapped.own.buffers_per_layer)
    heads, peer_heads = own.attention.heads, peer.attention.heads
    return (
        [buffer * heads * unit for buffer in buffers],
        [buffer * peer_heads * unit for buffer in buffers],
        [min(heads, peer_heads) * unit] * len(buffers),
    )


def token_major(mapped: Mapped, own: RankInfo, peer: RankInfo, unit: int) -> tuple[int, Spread]:
    """(bytes of a head of one token, one run a buffer and token); ``unit`` bytes are shared by a block's tokens."""
    assert own.attention is not None and peer.attention is not None
    tokens = own.attention.tokens_per_block
    width, rest = divmod(unit, tokens)
    if rest:
        raise Refused("head_bytes_differ", f"a head of {mapped.own} has {unit} bytes for {tokens} tokens")
    rows = range(mapped.own.buffers_per_layer * tokens)
    heads, peer_heads = own.attention.heads, peer.attention.heads
    return width, (
        [row * heads * width for row in rows],
        [row * peer_heads * width for row in rows],
        [min(heads, peer_heads) * width] * len(rows),
    )


def state_runs(mapped: Mapped, own: RankInfo, peer: RankInfo) -> np.ndarray:
    """Runs of a state view, for the first share of the coarser side."""
    sources = _slice(mapped.own.pointers, mapped.own.starts, mapped.layers)
    destinations = _slice(mapped.peer.pointers, mapped.peer.starts, mapped.layers)
    if len(sources) != len(destinations):
        lengths = f"{len(sources)} and {len(destinations)} layers after the first shared one"
        raise Refused("crash: state pointers of unequal length", f"{mapped.own} has {lengths}")
    if mapped.own.mapper == "replicated" or own.state_grid[0] == peer.state_grid[0]:
        spread = [0], [0], [_equal_bytes(mapped)]
    elif mapped.own.mapper == "sectioned":
        spread = sectioned(mapped.own.geometry[1], mapped.peer.geometry[1])
    else:
        spread = [0], [0], [min(mapped.own.layer_bytes, mapped.peer.layer_bytes)]
    return _over_layers(sources, destinations, spread)


def _slice(pointers: list[int], starts: dict[int, int], layers: tuple[int, ...]) -> list[int]:
    """As many pointers as there are shared layers, from the first shared one on: takes them to be consecutive."""
    first = pointers.index(starts[layers[0]])
    return pointers[first : first + len(layers)]


def state_offsets(own: RankInfo, peer: RankInfo) -> Cut:
    """Which share of the coarser grid's rank the finer grid's rank has, in shares of the finer grid."""
    (size, index), (peer_size, peer_index) = own.state_grid, peer.state_grid
    small, large = sorted((size, peer_size))
    if large % small:
        raise Refused("shard_counts_not_divisible", f"state grids of {size} and {peer_size} ranks")
    ratio = large // small
    return (peer_index % ratio, 0) if size < peer_size else (0, index % ratio)


def sectioned(sizes: tuple[int, ...], others: tuple[int, ...]) -> Spread:
    """One run a section; each is split on its own, so its share starts elsewhere on the two sides."""
    return _prefix_sums(sizes), _prefix_sums(others), [min(pair) for pair in zip(sizes, others, strict=True)]


def _prefix_sums(sizes: tuple[int, ...]) -> list[int]:
    return list(itertools.accumulate(sizes[:-1], initial=0))


def _over_layers(sources: list[int], destinations: list[int], spread: Spread) -> np.ndarray:
    """``spread`` repeated in every layer's region."""
    if len(sources) * len(spread[0]) < SMALL:
        inside = list(zip(*spread, strict=True))
        starts = zip(sources, destinations, strict=True)
        return np.array([(s + x, d + y, nbytes) for s, d in starts for x, y, nbytes in inside], dtype=np.int64)
    inner = np.array(spread, dtype=np.int64)
    runs = np.empty((len(sources), inner.shape[1], 3), dtype=np.int64)
    runs[:, :, 0] = np.add.outer(sources, inner[0])
    runs[:, :, 1] = np.add.outer(destinations, inner[1])
    runs[:, :, 2] = inner[2]
    return runs.reshape(-1, 3)
