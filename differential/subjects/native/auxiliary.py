"""Auxiliary buffers: first tokens, draft tokens, logits (spec: legacy sender, 1, 6.4, 7.12, 7.13).

They are in no view and no mapper touches them: a rank publishes where its items lie and how long they
are, and an elected sender copies each of them whole.
"""

from __future__ import annotations

import numpy as np

from differential.subjects.native.rank_info import RankInfo
from differential.subjects.native.topology import stages_met
from oracle.model.buffers import Model
from oracle.model.pages import Entry, PageTable

Items = dict[tuple[int, str], Entry]
"""Regions by (group index, role): one of each, whatever the layer that it is laid out with."""
Place = tuple[int, int, int, int]
"""Group of the sender and of the receiver, pool of the sender and of the receiver."""


def items_of(model: Model, pages: PageTable) -> Items:
    """The auxiliary items that a rank publishes, in the order of its page table."""
    return {(entry.group, entry.role): entry for entry in pages.entries if model.groups[entry.group].native_only}


def sends_items(own: RankInfo, peer: RankInfo) -> bool:
    """Election for auxiliary buffers: the first tensor rank of those that the peer pairs with, on the first stage.

    The peer's attention-DP rank does not turn it, and context-parallel ranks are not told apart:
    those of a sender all win, and each of a receiver is sent its own.
    """
    candidates = max(1, own.shape.group_size // peer.shape.group_size)
    met = stages_met(peer.shape.stages, peer.rank.pp, own.shape.stages)
    return own.tensor_rank % candidates == 0 and met[:1] == [own.rank.pp]


def item_runs(own: Items, peer: Items) -> list[tuple[Place, np.ndarray]]:
    """One run (int64, 1 x 3) for each item that both publish: as long as it is on the sender."""
    found = []
    for key, entry in own.items():
        target = peer.get(key)
        if target is not None:
            run = np.array([(entry.offset, target.offset, entry.nbytes)], dtype=np.int64)
            found.append(((entry.group, target.group, entry.pool, target.pool), run))
    return found
