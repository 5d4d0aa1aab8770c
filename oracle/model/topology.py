"""The grid of ranks of one instance."""

from __future__ import annotations

from itertools import product

from oracle.model.errors import InvalidCase, require_whole
from oracle.model.records import Hashed, record

MOST_RANKS = 1 << 14
"""ranks of an instance: more is a slip of the pen, and would only be enumerated"""


@record
class Rank(Hashed):
    """One rank: its number in the instance and its coordinates; number = (pp*TP + tp)*CP + cp."""

    number: int
    pp: int
    tp: int
    cp: int


class Ranked(Hashed):
    """Room for the ranks of a topology, listed once."""

    __slots__ = ("_ranks",)


@record
class Topology(Ranked):
    """How an instance is split: tensor parallelism, layers per pipeline stage, Helix context parallelism, attention DP.

    ``stages`` are layer counts, in order, zeros allowed: stage p holds the next ``stages[p]`` layers.
    Under attention DP every rank of the tensor grid holds its own requests whole.
    """

    tp: int = 1
    stages: tuple[int, ...] = (1,)
    cp: int = 1
    attention_dp: bool = False

    def __post_init__(self) -> None:
        require_whole("tp", self.tp, least=1)
        require_whole("cp", self.cp, least=1)
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages:
            raise InvalidCase("stages", self.stages, "expected at least one pipeline stage")
        for layers in self.stages:
            require_whole("stages", layers)
        if self.size > MOST_RANKS:
            raise InvalidCase("topology", self.size, f"expected at most {MOST_RANKS} ranks")
        if type(self.attention_dp) is not bool:
            raise InvalidCase("attention_dp", self.attention_dp, "expected true or false")

    @property
    def pp(self) -> int:
        return len(self.stages)

    @property
    def size(self) -> int:
        return self.pp * self.tp * self.cp

    @property
    def data_parallel(self) -> int:
        """Number of attention data-parallel ranks (1 without attention DP)."""
        return self.tp if self.attention_dp else 1

    def rank(self, number: int) -> Rank:
        if not 0 <= number < self.size:
            raise InvalidCase("rank", number, f"this instance has ranks 0..{self.size - 1}")
        return self.ranks()[number]

    def ranks(self) -> tuple[Rank, ...]:
        """All ranks in order of their number."""
        try:
            return self._ranks
        except AttributeError:
            grid = product(range(self.pp), range(self.tp), range(self.cp))
            ranks = tuple([Rank(number, *place) for number, place in enumerate(grid)])
            object.__setattr__(self, "_ranks", ranks)
            return ranks

    def number(self, pp: int, tp: int, cp: int) -> int:
        return (pp * self.tp + tp) * self.cp + cp

    def stage_layers(self, pp: int) -> range:
        """Global layer ids of stage ``pp``."""
        first = sum(self.stages[:pp])
        return range(first, first + self.stages[pp])
