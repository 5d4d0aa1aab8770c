"""One thing that a cache kind can stress, and what the predicates of several share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from oracle.model.axes import Axis, Grid
from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import SIDES, Case
from oracle.model.counts import grid_part
from oracle.model.instance import Instance
from strategies.kinds.protocol import Kind


@dataclass(frozen=True, slots=True)
class Stress:
    """A property of a cache that senders get wrong.

    ``declared(model)``: a cache so declared can show it at all, with suitable instances and requests.
    ``reached(case)``: this case does. ``splits``: what a kind has to allow besides, of ``stages``, ``helix`` and
    ``attention_dp``. ``with_blocks(model, tokens)``: whether blocks of so many tokens are suitable, where not all are.
    """

    name: str
    sentence: str
    declared: Callable[[Model], bool]
    reached: Callable[[Case], bool]
    splits: tuple[str, ...] = ()
    with_blocks: Callable[[Model, int], bool] | None = None

    def allowed(self, kind: Kind) -> bool:
        """Whether ``kind`` can be split as it takes."""
        return all(getattr(kind, split) for split in self.splits)

    def declared_by(self, kind: Kind, models: Iterable[tuple[Model, tuple[int, ...]]]) -> bool:
        """Whether one of ``models``, each with its block lengths (none: any), can show it as ``kind`` can be split."""
        return self.allowed(kind) and any(
            self.declared(model) and self._fits(model, blocks) for model, blocks in models
        )

    def _fits(self, model: Model, blocks: tuple[int, ...]) -> bool:
        suits = self.with_blocks
        return suits is None or not blocks or any(suits(model, tokens) for tokens in blocks)


Held = tuple[LayerGroup, Buffer]


@lru_cache(maxsize=4096)
def moving(model: Model) -> tuple[Held, ...]:
    """Buffers that move on some layer, with their groups."""
    return tuple(
        (group, buffer)
        for group in model.groups
        for buffer in group.buffers
        if any(move.moves for move in buffer.moves) or not buffer.moves
    )


def every(model: Model) -> Iterator[Held]:
    """All buffers with their groups."""
    return ((group, buffer) for group in model.groups for buffer in group.buffers)


@lru_cache(maxsize=4096)
def split_axes(model: Model) -> tuple[Axis, ...]:
    """The axes, each once, that ranks share out."""
    return tuple(
        dict.fromkeys(
            axis for _, buffer in every(model) for part in buffer.parts for axis in part.axes if axis.is_split
        )
    )


def shares(instance: Instance, grid: Grid = Grid.TP) -> int:
    """Into how many shares ``instance`` cuts an axis of ``grid``."""
    return grid_part(instance.topology, instance.topology.ranks()[0], grid)[1]


def sides(case: Case) -> tuple[tuple[str, Instance], ...]:
    """Both instances with the names of their sides."""
    return tuple((name, case.side(name)) for name in SIDES)
