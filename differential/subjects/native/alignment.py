"""Which slot goes to which: positional tables and the older suffix lists (spec: legacy sender, 6.2, 6.3)."""

from __future__ import annotations

import numpy as np

from differential.managers.facts import BlockTable, Chunk
from differential.subjects.native.refusals import Refused
from oracle.model.records import frozen

Slots = tuple[np.ndarray, np.ndarray]
"""Source and destination slots (int64), pairwise."""
SHORT = 64
NOTHING = np.zeros(0, dtype=np.int64)
Lists = dict[int, tuple[np.ndarray, bool]]
"""By the identity of a block table: its entries for the blocks of its request, and whether there is no hole."""
Stride = tuple[int, int] | None
"""(rank, size) of a context-parallel receiver of a whole sender; ``None`` without Helix."""


@frozen()
class Piece:
    """What alignment needs to know of one group of one request: its length in tokens, and the slice being sent.

    ``chunk`` None is everything. What the receiver has already by reuse is a hole of its list.
    """

    paged: bool
    tokens: int
    source_tokens_per_block: int
    destination_tokens_per_block: int
    window: int | None
    chunk: Chunk | None

    @property
    def source_blocks(self) -> int:
        return -(-self.tokens // self.source_tokens_per_block)

    @property
    def destination_blocks(self) -> int:
        return -(-self.tokens // self.destination_tokens_per_block)


def stale_blocks(tokens: int, window: int | None, tokens_per_block: int) -> int:
    """Blocks that a window has left behind when the next token runs."""
    return 0 if window is None else max(0, (tokens + 1 - window) // tokens_per_block)


def helix_stride(entries: np.ndarray, rank: int, size: int) -> np.ndarray:
    """The entries of a whole list that belong to a context-parallel receiver."""
    return entries[rank::size]


def align_tables(
    source: BlockTable, destination: BlockTable, piece: Piece, stride: Stride, lists: Lists | None = None
) -> Slots:
    """Newest rule: lists of one entry a block; what both sides hold is sent.

    ``lists``: what is known of tables, which live as long; added to.
    """
    lists = {} if lists is None else lists
    offered, full = lists.get(id(source)) or _listed_once(source, piece.source_blocks, lists)
    if piece.chunk is not None:
        offered = offered.copy()
        offered[: max(0, piece.chunk.first)] = -1
        offered[piece.chunk.end :] = -1
        full = False
    if stride is not None:
        offered = helix_stride(offered, *stride)
    wanted, wanted_full = lists.get(id(destination)) or _listed_once(destination, piece.destination_blocks, lists)
    if len(offered) != len(wanted):
        raise Refused("list_lengths_differ", f"the source lists {len(offered)} blocks, the destination {len(wanted)}")
    if wanted_full and (full or _is_full(offered)):
        return offered, wanted
    both = (offered >= 0) & (wanted >= 0)
    return offered[both], wanted[both]


def align_suffixes(source: BlockTable, destination: BlockTable, piece: Piece, stride: Stride) -> Slots:
    """Older rule: resident slots without holes; where a list starts follows from its length."""
    end = piece.source_blocks
    offered = _listed(source, piece.source_blocks)
    wanted = _compact(_listed(destination, piece.destination_blocks))
    if piece.chunk is not None:
        end = piece.chunk.end
        offered = offered[piece.chunk.first : end]
        first = piece.destination_blocks - len(wanted)
        wanted = wanted[max(0, piece.chunk.first - first) : max(0, end - first)]
    offered = _compact(offered)
    if stride is not None:
        offered = helix_stride(offered, *stride)
    surplus = len(wanted) - len(offered)
    if surplus > 0:
        if piece.window is None:
            lists = f"{len(wanted)} blocks on the destination, {len(offered)} on the source"
            raise Refused("destination_lists_more_blocks_than_source", lists)
        wanted = wanted[surplus:]
    starts = window_starts(piece, end - len(offered), end - len(wanted))
    later = max(starts)
    offered, wanted = offered[later - starts[0] :], wanted[later - starts[1] :]
    count = min(len(offered), len(wanted))
    return offered[:count], wanted[:count]


def window_starts(piece: Piece, source: int, destination: int) -> tuple[int, int]:
    """Starts of both lists, raised to the first live block; the lists themselves stay as they are."""
    live = stale_blocks(piece.tokens, piece.window, piece.source_tokens_per_block)
    return max(source, live), max(destination, live)


def align_states(source: BlockTable, destination: BlockTable) -> Slots:
    """One slot or none; none on either side sends nothing, and nobody is told."""
    slots = source.slots[:1], destination.slots[:1]
    return slots if all(len(own) and own[0] >= 0 for own in slots) else (NOTHING, NOTHING)


def _listed_once(table: BlockTable, blocks: int, lists: Lists) -> tuple[np.ndarray, bool]:
    slots = _listed(table, blocks)
    found = lists[id(table)] = slots, _is_full(slots)
    return found


def _listed(table: BlockTable, blocks: int) -> np.ndarray:
    """One entry for each of the ``blocks`` of the request that are this rank's; what is not allocated is a hole."""
    count = len(range(table.first, blocks, table.stride))
    if len(table.slots) >= count:
        return table.slots[:count]
    return np.concatenate((table.slots, np.full(count - len(table.slots), -1, dtype=np.int64)))


def _is_full(slots: np.ndarray) -> bool:
    """Whether there is no hole; a reduction costs more than a loop over a short list."""
    return min(slots.tolist(), default=0) >= 0 if len(slots) < SHORT else bool((slots >= 0).all())


def _compact(slots: np.ndarray) -> np.ndarray:
    return slots[slots >= 0]
