"""One instance of one model, as both sides of a handshake see it."""

from __future__ import annotations

from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Buffer, LayerGroup, Model
from oracle.model.case import Case
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.records import frozen
from oracle.model.sides import lay_out
from oracle.model.topology import Rank


@frozen()
class Configuration:
    """A model, an instance of it, and the page table of every rank by number."""

    model: Model
    instance: Instance
    tables: tuple[PageTable, ...]

    def find(self, group: int, role: str, layer: int) -> Buffer:
        """The buffer of ``role`` on ``layer`` in the group of that index."""
        return next(each for each in self.model.groups[group].buffers if each.role == role and layer in each.layers)

    def moving(self, other: Instance) -> dict[tuple[int, str], tuple[LayerGroup, Buffer]]:
        """What goes from one side to the other, by (layer, role); request-wide roles have layer -1.

        A buffer that either instance is declared without does not, nor does what is native only.
        """
        found: dict[tuple[int, str], tuple[LayerGroup, Buffer]] = {}
        for group in self.model.groups:
            for buffer in group.buffers if not group.native_only else ():
                for layer in buffer.layers:
                    asked = buffer.layers if buffer.request_scope else (layer,)
                    if any(side.lacks(each, buffer.role) for side in (self.instance, other) for each in asked):
                        continue
                    if buffer.move_on(layer).moves:
                        found[-1 if buffer.request_scope else layer, buffer.role] = group, buffer
        return found


def configuration_of(case: Case, side: str) -> Configuration:
    """The configuration of one side of ``case``."""
    return Configuration(case.model, case.side(side), lay_out(case, side).tables)


def share(axis: Axis, instance: Instance, rank: Rank) -> tuple[range, ...]:
    """The global indices of ``axis`` that ``rank`` stores, in stored order, as runs (spec: kinds, vocabulary)."""
    position, parts = 0, 1
    if not instance.topology.attention_dp:
        position, parts = rank.tp, instance.topology.tp
        if axis.grid is Grid.TPCP:
            position, parts = position * instance.topology.cp + rank.cp, parts * instance.topology.cp
    if not axis.sections:
        return (_part(axis.size, axis.split, position, parts, 0),)
    found, start = [], 0
    for section in axis.sections:
        found.append(_part(section.size, section.split, position, parts, start))
        start += section.size
    return tuple(found)


def _part(size: int, split: Split, position: int, parts: int, start: int) -> range:
    if split is Split.ALL:
        return range(start, start + size)
    if split is Split.CYCLIC:
        return range(start + position, start + size, parts)
    low, high = (edge * size // parts for edge in (position, position + 1))
    if split is Split.HEADS:
        high = low - (-size // parts)
    return range(start + low, start + max(high, low + 1))
