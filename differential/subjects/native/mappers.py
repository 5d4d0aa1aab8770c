"""Region mappers: which bytes of a slot go where in the peer's slot (spec: legacy sender, 5).

Each gives runs (int64, n x 3): source offset, destination offset, bytes, all from the slot's start.
"""

from __future__ import annotations

import numpy as np

from differential.subjects.native.election import heads_match
from differential.subjects.native.pairing import Mapped
from differential.subjects.native.rank_info import RankInfo
from differential.subjects.native.refusals import Refused

Spread = tuple[list[int], list[int], list[int]]
"""Source offsets, destination offsets and bytes inside one layer's region."""


def view_runs(mapped: Mapped, own: RankInfo, peer: RankInfo) -> np.ndarray:
    """Runs of a view that is sent."""
    return paged_runs(mapped, own, peer) if mapped.own.paged else state_runs(mapped, own, peer)


def variant(mapped: Mapped, own: RankInfo, peer: RankInfo) -> tuple[int, int]:
    """What the runs of a view depend on besides the two page tables and attention records: where the cut is."""
    if mapped.own.mapper == "replicated":
        return 0, 0
    if not mapped.own.paged:
        return state_offsets(own, peer) if own.state_grid[0] != peer.state_grid[0] else (0, 0)
    assert own.attention is not None and peer.attention is not None
    return (0, 0) if heads_match(own.attention, peer.attention) else head_offsets(own, peer, 1)


def paged_runs(mapped: Mapped, own: RankInfo, peer: RankInfo) -> np.ndarray:
    """Runs of a paged view."""
    assert own.attention is not None and peer.attention is not None
    if mapped.own.mapper == "replicated" or heads_match(own.attention, peer.attention):
        return whole_regions(mapped)
    head_unit = head_bytes(mapped, own, peer)
    if mapped.own.mapper == "nhd":
        unit, spread = token_major(mapped, own, peer, head_unit)
    else:
        unit, spread = head_unit, head_major(mapped, own, peer, head_unit)
    return _over_layers(
        [mapped.own.starts[layer] for layer in mapped.layers],
        [mapped.peer.starts[layer] for layer in mapped.layers],
        spread,
        head_offsets(own, peer, unit),
    )


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
    for side in (view, other):
        if len({nbytes for _, _, nbytes, _ in side.entries}) != 1:
            raise Refused("view_geometry_differs", f"the buffers of {side} are of unequal size and heads must be cut")
    number = view.buffers_per_layer
    bytes_of_heads = view.layer_bytes, own.attention.heads * number
    peer_bytes_of_heads = other.layer_bytes, peer.attention.heads * number
    unit, rest = divmod(*bytes_of_heads)
    if rest or divmod(*peer_bytes_of_heads) != (unit, 0):
        pairs = f"{bytes_of_heads[0]} / {bytes_of_heads[1]} and {peer_bytes_of_heads[0]} / {peer_bytes_of_heads[1]}"
        raise Refused("head_bytes_differ", f"a head of {view} has {pairs} bytes")
    return unit


def head_offsets(own: RankInfo, peer: RankInfo, unit: int) -> tuple[int, int]:
    """(source, destination) offset of the first head to send, ``unit`` bytes a head; tensor ranks are absolute."""
    assert own.attention is not None and peer.attention is not None
    mine, theirs = own.shape.group_size, peer.shape.group_size
    heads, peer_heads = own.attention.heads, peer.attention.heads
    if mine < theirs:
        return (peer.rank.tp * heads * mine // theirs % heads) * unit, 0
    if mine > theirs:
        return 0, (own.rank.tp * peer_heads * theirs // mine % peer_heads) * unit
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
    """Runs of a state view."""
    sources = _slice(mapped.own.pointers, mapped.own.starts, mapped.layers)
    destinations = _slice(mapped.peer.pointers, mapped.peer.starts, mapped.layers)
    if len(sources) != len(destinations):
        lengths = f"{len(sources)} and {len(destinations)} layers after the first shared one"
        raise Refused("crash: state pointers of unequal length", f"{mapped.own} has {lengths}")
    (size, _), (peer_size, _) = own.state_grid, peer.state_grid
    if mapped.own.mapper == "replicated" or size == peer_size:
        return _over_layers(sources, destinations, ([0], [0], [_equal_bytes(mapped)]), (0, 0))
    source, destination = state_offsets(own, peer)
    if mapped.own.mapper == "sectioned":
        spread = sectioned(mapped.own.geometry[1], mapped.peer.geometry[1], source, destination)
    else:
        nbytes = min(mapped.own.layer_bytes, mapped.peer.layer_bytes)
        spread = [source * nbytes], [destination * nbytes], [nbytes]
    return _over_layers(sources, destinations, spread, (0, 0))


def _slice(pointers: list[int], starts: dict[int, int], layers: tuple[int, ...]) -> list[int]:
    """As many pointers as there are shared layers, from the first shared one on: takes them to be consecutive."""
    first = pointers.index(starts[layers[0]])
    return pointers[first : first + len(layers)]


def state_offsets(own: RankInfo, peer: RankInfo) -> tuple[int, int]:
    """(source, destination) offset in shares of the finer grid."""
    (size, index), (peer_size, peer_index) = own.state_grid, peer.state_grid
    small, large = sorted((size, peer_size))
    if large % small:
        raise Refused("shard_counts_not_divisible", f"state grids of {size} and {peer_size} ranks")
    ratio = large // small
    return (peer_index % ratio, 0) if size < peer_size else (0, index % ratio)


def sectioned(sizes: tuple[int, ...], others: tuple[int, ...], source: int, destination: int) -> Spread:
    """One run a section; each is split on its own, so its share starts elsewhere on the two sides."""
    spread: Spread = [], [], []
    start = other_start = 0
    for size, other in zip(sizes, others, strict=True):
        nbytes = min(size, other)
        spread[0].append(start + source * nbytes)
        spread[1].append(other_start + destination * nbytes)
        spread[2].append(nbytes)
        start, other_start = start + size, other_start + other
    return spread


def _over_layers(sources: list[int], destinations: list[int], spread: Spread, shift: tuple[int, int]) -> np.ndarray:
    """``spread`` repeated in every layer's region."""
    inner = np.array(spread, dtype=np.int64)
    runs = np.empty((len(sources), inner.shape[1], 3), dtype=np.int64)
    runs[:, :, 0] = np.add.outer(np.array(sources, dtype=np.int64) + shift[0], inner[0])
    runs[:, :, 1] = np.add.outer(np.array(destinations, dtype=np.int64) + shift[1], inner[1])
    runs[:, :, 2] = inner[2]
    return runs.reshape(-1, 3)
