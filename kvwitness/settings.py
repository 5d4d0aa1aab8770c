"""What a run of ``verify`` was asked for: plain data that travels to worker processes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from oracle.model.errors import InvalidCase, require_whole

SHARD = 250
"""Random cases of a full shard. Raising it changes which cases a seed stands for."""

SCOPES = ("none", "small", "large")

STATES = ("none", "all")
"""Which cache states random cases have."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Who is judged, and how: subjects by name, the engine that carries plans out, a planted fault, padding."""

    subjects: tuple[str, ...] = ("mapping", "native")
    engine: str = "host"
    device: str = "cpu"
    fault: str = ""
    padding: str = "optional"


@dataclass(frozen=True, slots=True)
class Search:
    """Which cases are drawn. ``examples`` and ``seconds`` bound the random part; None: no bound of this sort.

    ``states``: whether the random cases have cache states, ``all`` or ``none``.
    """

    kinds: tuple[str, ...]
    scope: str = "small"
    examples: int | None = None
    seconds: float | None = None
    seed: int = 0
    jobs: int = 1
    shrink_seconds: float = 30.0
    states: str = "all"

    def __post_init__(self) -> None:
        require_whole("--jobs", self.jobs, least=1)
        require_whole("--seed", self.seed)
        if self.states not in STATES:
            raise InvalidCase("--states", self.states, f"expected {' or '.join(STATES)}")
        if self.examples is not None:
            require_whole("--examples", self.examples, least=1)

    def shards(self) -> int | None:
        """Number of shards of the random part; None where only time bounds it."""
        return None if self.examples is None else -(-self.examples // SHARD)

    def examples_of(self, shard: int) -> int:
        if self.examples is None:
            return SHARD
        return min(SHARD, self.examples - shard * SHARD)


def seed_of_shard(seed: int, shard: int) -> int:
    """The seed of one shard's own Hypothesis run: it depends on the seed and the shard's number alone."""
    return int.from_bytes(hashlib.sha256(f"kvwitness {seed} {shard}".encode()).digest()[:8])
