"""Head by head: what the legacy sender writes onto a receiver, and what ought to arrive there.

The legacy sender counts heads as a rank's heads times its ranks, which is too many where shares
overlap (spec: legacy sender, 4.2 and 5). Heads are shared out by ceil and floor on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from differential.ledger.legacy.sides import asked_tensor_ranks, election_key, tensor_size
from oracle.model.axes import Split
from oracle.model.case import Case, Request


@dataclass(frozen=True, slots=True)
class Arrival:
    """One head of a receiver: ``due`` is its global index, ``owner`` the tensor rank elected among the asked holders.

    ``written`` are (tensor rank, global index of the head it sends) in the order of ranks.
    """

    due: int
    owner: int | None
    written: tuple[tuple[int, int | None], ...]

    @property
    def as_due(self) -> bool:
        return self.written == ((self.owner, self.due),)

    @property
    def is_right(self) -> bool:
        """Whether the due head arrives exactly once, from whomever."""
        return len(self.written) == 1 and self.written[0][1] == self.due


@dataclass(frozen=True, slots=True)
class Arrivals:
    """All heads of a receiver by global index; ``overflows``: a run leaves the heads of its sender or its receiver."""

    heads: dict[int, Arrival]
    overflows: bool


def head_count(case: Case) -> int | None:
    """The number of heads of the model's head-split paged buffers; None if there are none, or several numbers."""
    found = {
        axis.size
        for group in case.model.groups
        if group.is_paged
        for buffer in group.buffers
        for part in buffer.parts
        for axis in part.axes
        if axis.name == "H" and axis.split is Split.HEADS
    }
    return found.pop() if len(found) == 1 else None


def is_head_split(case: Case, group: int | None, role: str | None) -> bool:
    """Whether ``role`` of a paged group is split by heads."""
    if group is None or not case.model.groups[group].is_paged:
        return False
    return any(
        axis.name == "H" and axis.split is Split.HEADS
        for buffer in case.model.groups[group].buffers
        if buffer.role == role
        for part in buffer.parts
        for axis in part.axes
    )


def is_even(heads: int, ranks: int) -> bool:
    """Whether ``ranks`` hold whole shares of one size, or each head on as many ranks."""
    return heads % ranks == 0 or ranks % heads == 0


def per_rank(heads: int, ranks: int) -> int:
    return -(-heads // ranks)


@lru_cache(maxsize=1024)
def arrivals(case: Case, request: Request, destination: int, stage: int, heads: int) -> Arrivals:
    """What arrives of ``heads`` heads on ``destination`` for ``request``, of a layer of context stage ``stage``."""
    there, here = tensor_size(case.context), tensor_size(case.generation)
    receiver = case.generation.topology.rank(destination).tp
    own, key = (0 if here == 1 else receiver), election_key(case, request)
    source_heads, own_heads = per_rank(heads, there), per_rank(heads, here)
    first = own * heads // here
    context_dp = case.context.topology.attention_dp
    asked = asked_tensor_ranks(case, request, destination, stage)

    def begins(rank: int) -> int:
        return 0 if context_dp else rank * heads // there

    copies = max(1, source_heads * there // (own_heads * here))
    written: dict[int, list[tuple[int, int | None]]] = {}
    overflows = False
    for rank in asked:
        if (0 if context_dp else rank) % copies != key % copies:
            continue
        count, skip, shift = min(source_heads, own_heads), 0, 0
        if source_heads != own_heads and there < here:
            skip = receiver * source_heads * there // here % source_heads
        elif source_heads != own_heads and there > here:
            shift = rank * own_heads * here // there % own_heads
        for step in range(count):
            inside = skip + step < source_heads
            overflows |= not inside or shift + step >= own_heads
            sent = begins(rank) + skip + step if inside else None
            written.setdefault(shift + step, []).append((rank, sent))
    found: dict[int, Arrival] = {}
    for place in range(own_heads):
        holders = [rank for rank in asked if begins(rank) <= first + place < begins(rank) + source_heads]
        owner = holders[key % len(holders)] if holders else None
        found[first + place] = Arrival(first + place, owner, tuple(written.get(place, ())))
    return Arrivals(found, overflows)
