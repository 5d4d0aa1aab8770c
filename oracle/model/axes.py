"""One axis of a buffer and how a grid of ranks shares it: declarations only, no decision who holds what."""

from __future__ import annotations

from enum import Enum

from oracle.model.errors import InvalidCase, require_whole
from oracle.model.records import Hashed, record


class Split(Enum):
    """How the indices of an axis are shared out (spec: kinds, vocabulary)."""

    ALL = "all"
    """every rank holds every index (replicated)"""
    HEADS = "heads"
    """ceil(n/P) indices from floor(r*n/P); P > n repeats an index on consecutive ranks"""
    FLOOR = "floor"
    """from floor(r*n/P) to floor((r+1)*n/P), one index where P > n"""
    EVEN = "even"
    """n/P indices each; a remainder is no layout"""
    CYCLIC = "cyc"
    """index i on part i mod P"""


class Grid(Enum):
    """The grid of ranks that shares an axis."""

    TP = "TP"
    """part tp_rank of tp"""
    TPCP = "TPCP"
    """part tp_rank*cp + cp_rank of tp*cp: context-parallel ranks act as more tensor parallelism"""


@record
class Section(Hashed):
    """A run of consecutive indices of a sectioned axis that is split on its own."""

    name: str
    size: int
    split: Split = Split.EVEN

    def __post_init__(self) -> None:
        require_whole(f"section {self.name}.size", self.size, least=1)


@record
class Axis(Hashed):
    """An axis of a buffer: ``name(size).split@grid``.

    ``T`` is the token axis: ``tokens_per_row`` tokens share a row, its length is the block's and
    ``size`` stays 0. ``R`` are ring rows, opaque, without a token mask. A sectioned axis lists its
    ``sections``, each split on its own, and its size is their sum. Everything else is payload or a
    split axis such as ``H`` (heads) and ``C`` (channels).
    """

    name: str
    size: int = 0
    split: Split = Split.ALL
    grid: Grid = Grid.TP
    sections: tuple[Section, ...] = ()
    tokens_per_row: int = 0

    def __post_init__(self) -> None:
        if not self.name or not self.name.isidentifier():
            raise InvalidCase("axis.name", self.name, "expected an identifier such as H, T, D, C")
        if self.name == "T":
            require_whole("axis T.tokens_per_row", self.tokens_per_row, least=1)
            if self.size or self.sections or self.split is not Split.ALL:
                raise InvalidCase("axis T", self.name, "the token axis has the length of the block and is never split")
            return
        if self.tokens_per_row:
            raise InvalidCase(f"axis {self.name}.tokens_per_row", self.tokens_per_row, "only T has tokens per row")
        if self.sections:
            total = sum(section.size for section in self.sections)
            if self.size not in (0, total):
                raise InvalidCase(f"axis {self.name}.size", self.size, f"expected the sum of its sections, {total}")
            if self.split is not Split.ALL:
                raise InvalidCase(f"axis {self.name}.split", self.split.value, "a sectioned axis splits its sections")
            names = [section.name for section in self.sections]
            if len(set(names)) != len(names):
                raise InvalidCase(f"axis {self.name}.sections", names, "expected distinct section names")
            object.__setattr__(self, "size", total)
        require_whole(f"axis {self.name}.size", self.size, least=1)

    @property
    def is_token(self) -> bool:
        return self.name == "T"

    @property
    def is_split(self) -> bool:
        """Whether ranks may hold different indices of this axis."""
        return self.split is not Split.ALL or any(section.split is not Split.ALL for section in self.sections)
