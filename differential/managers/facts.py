"""What cache managers hand over: page tables, and which block lies in which slot."""

from __future__ import annotations

import numpy as np

from oracle.model.pages import PageTable
from oracle.model.records import frozen
from oracle.model.topology import Rank


@frozen(eq=False)
class BlockTable:
    """Slots of one request's blocks in one group of one rank: entry i is block ``first + i*stride``, -1 a hole.

    ``stride`` is the rank's context-parallel size and ``first`` its coordinate; without Helix they
    are 1 and 0. A state group has one entry, block 0.
    """

    first: int
    stride: int
    slots: np.ndarray


@frozen(eq=False)
class RankFacts:
    """One rank's page table and its block tables by (request, group index); other requests are not on this rank."""

    rank: Rank
    table: PageTable
    blocks: dict[tuple[int, int], BlockTable]


@frozen(eq=False)
class Chunk:
    """One slice a sender sends: block ordinals [first, end) of unwindowed groups; the last carries the others whole.

    ``capacity``: tokens that V2 has room for when the slice is sent, those of later chunks included.
    """

    first: int
    end: int
    last: bool
    capacity: int = 0


@frozen(eq=False)
class Facts:
    """Facts of all ranks of both sides by rank number, and the chunks of each request in sending order."""

    context: tuple[RankFacts, ...]
    generation: tuple[RankFacts, ...]
    chunks: tuple[tuple[Chunk, ...], ...]
