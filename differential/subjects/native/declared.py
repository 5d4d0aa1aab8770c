"""What the legacy cache managers of one side would declare, read from the case's declaration."""

from __future__ import annotations

import itertools

from oracle.model.axes import Axis, Section, Split
from oracle.model.buffers import Buffer, Model, MoveState
from oracle.model.case import Native
from oracle.model.instance import Instance
from oracle.model.records import frozen


@frozen()
class Heads:
    """K/V heads of one layer; ``whole`` heads are on every rank."""

    count: int
    whole: bool

    def per_rank(self, ranks: int) -> int:
        return self.count if self.whole else -(-self.count // ranks)


@frozen()
class Registered:
    """A buffer that the sender registers, and the mapper kind under which it does."""

    buffer: Buffer
    mapper: str

    def layer_id(self, layer: int) -> int:
        """The global layer id: virtual where a manager has several internal layers a model layer."""
        mul, add = self.buffer.ids
        return mul * layer + add


@frozen(eq=False)
class Declared:
    """Declarations of one side. ``buffers`` by (group index, role), in declared order; ignored roles are absent.

    ``heads`` by layer, for layers whose paged buffers the instance holds, ascending; ``dims`` and
    ``element_bits`` are those of the model's first layer that has any, on whichever side; all three
    are read off the buffer that comes first among those not replicated. ``uneven_state``: ranks of
    one stage may differ in section sizes.
    """

    buffers: dict[tuple[int, str], list[Registered]]
    paged: tuple[bool, ...]
    heads: dict[int, Heads]
    dims: int
    element_bits: int
    latent: bool
    has_attention: bool
    uneven_state: bool

    def find(self, group: int, role: str, layer: int) -> Registered | None:
        """The buffer of (layer, role) as it takes part in transfers; None also where the receiver rebuilds it.

        Such layers have views of their own, which a receiver excludes (spec: legacy sender, 2 and 6.4).
        """
        for registered in self.buffers.get((group, role), ()):
            if layer in registered.buffer.layers:
                rebuilt = registered.buffer.move_on(layer).state is MoveState.REBUILT
                return None if rebuilt else registered
        return None


def declare(model: Model, native: Native, instance: Instance) -> Declared:
    """The declarations of ``instance``, without auxiliary buffers.

    Request scope and move states other than ignored roles and rebuilt are unknown here.
    """
    buffers: dict[tuple[int, str], list[Registered]] = {}
    attention: list[Registered] = []
    for index, group in enumerate(model.groups):
        if group.native_only:
            continue
        for buffer in group.buffers:
            if buffer.role in native.ignored:
                continue
            registered = Registered(buffer, _mapper(native.mapper_of(buffer.role), buffer, instance))
            buffers.setdefault((index, buffer.role), []).append(registered)
            if group.is_paged:
                attention.append(registered)
    sharded = [registered for registered in attention if registered.mapper != "replicated"] or attention
    first: dict[int, Buffer] = {}
    held: dict[int, Buffer] = {}
    for registered in sharded:
        for layer in registered.buffer.layers:
            first.setdefault(layer, registered.buffer)
            if not instance.lacks(layer, registered.buffer.role):
                held.setdefault(layer, registered.buffer)
    dims, bits = 0, 8
    if first:
        reference = first[min(first)]
        part = reference.parts[0]
        dims = 1
        for axis in part.axes:
            if not axis.is_token and axis.name != "H":
                dims *= axis.size
        bits = instance.bits_of(reference.role, part.bits)
    return Declared(
        buffers,
        tuple(group.is_paged for group in model.groups),
        {layer: _heads(held[layer]) for layer in sorted(held)},
        dims,
        bits,
        not any(registered.buffer.role.split("_")[-1] == "value" for registered in attention),
        bool(attention),
        any(
            section.split in (Split.FLOOR, Split.CYCLIC)
            for registered in itertools.chain.from_iterable(buffers.values())
            for axis in registered.buffer.parts[0].axes
            for section in axis.sections
        ),
    )


def declared_alike(one: Instance, other: Instance) -> bool:
    """Whether :func:`declare` says the same of two instances of one model."""
    return (one.layout, one.layouts, one.element_bits, one.without) == (
        other.layout,
        other.layouts,
        other.element_bits,
        other.without,
    )


def _mapper(declared: str, buffer: Buffer, instance: Instance) -> str:
    """Head-major and token-major K/V follow the instance's layout, where the buffer has both axes."""
    layout = instance.layout_of(buffer.role)
    if declared not in ("indexed", "nhd") or not layout:
        return declared
    names = {axis.name for axis in buffer.parts[0].axes}
    if not {"H", "T"} <= names:
        return declared
    return "nhd" if layout == "NHD" else "indexed"


def _heads(buffer: Buffer) -> Heads:
    axis = next((axis for axis in buffer.parts[0].axes if axis.name == "H"), None)
    return Heads(1, True) if axis is None else Heads(axis.size, not axis.is_split)


def state_geometry(registered: Registered, instance: Instance, grid: tuple[int, int]) -> tuple[str, tuple[int, ...]]:
    """Geometry that a recurrent manager declares for one role: bytes of each section, or of one head.

    ``grid`` is (size, index) of the rank's state grid, which is taken to share every section that
    is split at all; sections are taken to be outermost and contiguous, whatever the axes say.
    """
    part = registered.buffer.parts[0]
    bits = instance.bits_of(registered.buffer.role, part.bits)
    if registered.mapper == "sectioned":
        axis = next((axis for axis in part.axes if axis.sections), None)
        if axis is None:
            return "sections", ()
        bits *= _payload(part.axes, axis)
        return "sections", tuple(_held(section, *grid) * bits // 8 for section in axis.sections)
    if registered.mapper == "indexed":
        axis = next((axis for axis in part.axes if axis.is_split), part.axes[0] if part.axes else None)
        return "head", (_payload(part.axes, axis) * bits // 8,)
    return "none", ()


def _payload(axes: tuple[Axis, ...], without: Axis | None) -> int:
    size = 1
    for axis in axes:
        if axis is not without:
            size *= axis.size
    return size


def _held(section: Section, ranks: int, index: int) -> int:
    if section.split is Split.ALL:
        return section.size
    if section.split is Split.HEADS:
        return -(-section.size // ranks)
    if section.split is Split.FLOOR:
        return max(1, (index + 1) * section.size // ranks - index * section.size // ranks)
    if section.split is Split.CYCLIC:
        return -(-(section.size - index) // ranks)
    return section.size // ranks
