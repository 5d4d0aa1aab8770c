"""What a side knows of a request, against which a request info is checked."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.model.errors import InvalidCase, require_whole


@dataclass(frozen=True, slots=True)
class ExpectedGroup:
    """One layer group of the receiver's page table.

    ``blocks`` is how many blocks its entries can name: the prompt's, of a Helix rank those that it
    owns, 1 for a state group. ``pool_group`` is an index into ``Expected.pools``. ``offered`` is how
    many entries the sender's own list has without tails, ``offered_tails`` how many tails; None where
    this side does not know, as before sending. ``windowed`` says whether the window cuts the prompt.
    """

    blocks: int
    pool_group: int
    windowed: bool = False
    offered: int | None = None
    offered_tails: int | None = None

    def __post_init__(self) -> None:
        for name in ("blocks", "pool_group", "offered", "offered_tails"):
            if (value := getattr(self, name)) is not None or name in ("blocks", "pool_group"):
                require_whole(name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one side knows of a request: the receiver before it sends its info, the sender when it has received it.

    ``groups`` are the layer groups of the receiver's page table, ``pools`` the number of slots of
    each pool group. ``peer_tokens_per_block`` is the other side's block length, where it is known.
    ``helix`` says that the receiver is one of several context-parallel ranks; ``counts_own_blocks``,
    that such ranks and their senders agree to anchor in blocks of the rank's own, which W7 else
    refuses. ``token_range`` is [start, end) of the slice about to be sent, None for a whole prompt.

    Raises ``InvalidCase`` for counts that cannot be, and for beams with Helix or slices: no such request exists.
    """

    groups: tuple[ExpectedGroup, ...]
    pools: tuple[int, ...]
    tokens_per_block: int
    peer_tokens_per_block: int | None = None
    beams: int = 1
    helix: bool = False
    counts_own_blocks: bool = False
    token_range: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        require_whole("tokens_per_block", self.tokens_per_block, least=1)
        require_whole("beams", self.beams, least=1)
        if self.peer_tokens_per_block is not None:
            require_whole("peer_tokens_per_block", self.peer_tokens_per_block, least=1)
        for number, slots in enumerate(self.pools):
            require_whole(f"pools[{number}]", slots)
        for number, group in enumerate(self.groups):
            if group.pool_group >= len(self.pools):
                accepted = f"expected the number of one of {len(self.pools)} pool groups"
                raise InvalidCase(f"groups[{number}].pool_group", group.pool_group, accepted)
        if self.token_range is not None and [type(token) for token in self.token_range] != [int, int]:
            raise InvalidCase("token_range", self.token_range, "expected the numbers of a first and an end token")
        if self.beams > 1 and (self.helix or self.token_range is not None):
            raise InvalidCase("beams", self.beams, "expected 1 where the receiver is a Helix rank or slices are sent")
