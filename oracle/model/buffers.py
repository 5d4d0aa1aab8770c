"""What a cache holds: buffers, the layer groups that retain them alike, and the model they belong to."""

from __future__ import annotations

from enum import Enum

from oracle.model.axes import Axis
from oracle.model.errors import InvalidCase, require_whole
from oracle.model.layers import LayerSet
from oracle.model.records import Hashed, record


@record
class Part(Hashed):
    """A dense array inside a buffer: the row-major product of ``axes``, ``bits`` a element."""

    axes: tuple[Axis, ...]
    bits: int

    def __post_init__(self) -> None:
        require_whole("part.bits", self.bits, least=1)
        object.__setattr__(self, "axes", tuple(self.axes))
        names = [axis.name for axis in self.axes]
        if len(set(names)) != len(names):
            raise InvalidCase("part.axes", names, "expected distinct axis names")
        if "R" in names and self.token_axis:
            raise InvalidCase("part.axes", names, "ring rows R are of the request and have no token axis T")

    @property
    def token_axis(self) -> Axis | None:
        return next((axis for axis in self.axes if axis.is_token), None)

    @property
    def has_whole_rows(self) -> bool:
        """Whether the innermost stored row, and each section of it, is whole bytes."""
        inner = self.axes[-1] if self.axes else None
        if inner is None or inner.is_token:
            widths = [1]
        else:
            widths = [section.size for section in inner.sections] or [inner.size]
        return not any(width * self.bits % 8 for width in widths)


class MoveState(Enum):
    """What a transfer does with a buffer."""

    SEND = "send"
    DERIVED = "derived"
    """the receiver computes it from ``inputs``; a write to it is stray"""
    REBUILT = "rebuilt"
    """the receiver rebuilds it by running; a write to it is stray"""
    NEVER = "never"
    OPTIONAL = "optional"
    """sent iff both sides hold it; ``side`` says which instance may be declared without it"""


@record
class Move(Hashed):
    """A move state for a set of layers (``None``: all layers no earlier rule of the buffer names)."""

    state: MoveState = MoveState.SEND
    layers: LayerSet | None = None
    inputs: tuple[str, ...] = ()
    side: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        if (self.state is MoveState.DERIVED) != bool(self.inputs):
            raise InvalidCase(
                "move.inputs", self.inputs, "derived(...) names the roles it comes from, others name none"
            )
        if self.state is MoveState.OPTIONAL:
            if self.side not in ("context", "generation", "either"):
                raise InvalidCase("move.side", self.side, "expected optional(context), (generation) or (either)")
        elif self.side:
            raise InvalidCase("move.side", self.side, f"{self.state.value} takes no side")

    @property
    def moves(self) -> bool:
        return self.state in (MoveState.SEND, MoveState.OPTIONAL)


@record
class Placement(Hashed):
    """Where a buffer's region of one layer goes: placement chooses addresses, never identities.

    ``own``: a pool of the role's own over its layers. ``pad``: to that many bytes. ``align``: to a
    multiple of that many bytes. ``fused``: members of one name on one layer form one region, back
    to back in declared order; ``pad`` and ``align`` then act on the region.
    """

    own: bool = False
    pad: int = 0
    align: int = 0
    fused: str = ""

    def __post_init__(self) -> None:
        require_whole("place.pad", self.pad)
        require_whole("place.align", self.align)
        if self.pad and self.align:
            raise InvalidCase("place", f"pad({self.pad}) align({self.align})", "expected one of the two")


PLAIN = Placement()
"""Where nothing is said of the place."""


@record
class Buffer(Hashed):
    """Bytes of one (layer, role), or of one role of the whole request, for one block or one request.

    ``parts`` stand one after another, once per sub-page. A sub-page is the whole block, or
    ``sub_rows`` token rows (fewer where the block has fewer), or the ``expansion``-th part of it.
    ``ids = (mul, add)`` gives the virtual layer id ``mul*layer + add`` under which a manager
    registers it. ``first_local`` (request scope only): held on the first layer of ``layers`` of
    each stage. ``alias``: layers without bytes of their own that read the nearest owner below.
    """

    role: str
    layers: LayerSet
    parts: tuple[Part, ...]
    moves: tuple[Move, ...] = (Move(),)
    placement: Placement = PLAIN
    sub_rows: int = 0
    expansion: int = 1
    request_scope: bool = False
    first_local: bool = False
    ids: tuple[int, int] = (1, 0)
    alias: LayerSet | None = None

    def __post_init__(self) -> None:
        where = f"buffer {self.role}"
        if not self.role or not self.role.isidentifier():
            raise InvalidCase("buffer.role", self.role, "expected an identifier")
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "moves", tuple(self.moves))
        object.__setattr__(self, "ids", tuple(self.ids))
        if not len(self.layers):
            raise InvalidCase(f"{where}.layers", str(self.layers), "expected at least one layer")
        if not self.parts:
            raise InvalidCase(f"{where}.parts", self.parts, "expected at least one part")
        for part in self.parts:
            if not part.has_whole_rows:
                what = f"{[axis.name for axis in part.axes]} of {part.bits} bits"
                raise InvalidCase(f"{where}.parts", what, "the innermost stored row must be whole bytes")
        require_whole(f"{where}.sub_rows", self.sub_rows)
        require_whole(f"{where}.expansion", self.expansion, least=1)
        if self.sub_rows and self.expansion > 1:
            raise InvalidCase(f"{where}.expansion", self.expansion, "expected sub-page rows or x(k), not both")
        rows = {axis.tokens_per_row for part in self.parts if (axis := part.token_axis)}
        if len(rows) > 1:
            raise InvalidCase(f"{where}.parts", sorted(rows), "all parts of a buffer have the same tokens per row")
        if (self.sub_rows or self.expansion > 1 or len(self.parts) > 1) and any(
            part.token_axis is None for part in self.parts
        ):
            raise InvalidCase(f"{where}.parts", self.role, "sub-pages and several parts need a token axis in each part")
        if self.first_local and not self.request_scope:
            raise InvalidCase(f"{where}.first_local", True, "only a request-wide role may sit on the first local layer")
        if self.request_scope and not self.first_local and len(self.layers) > 1:
            accepted = "a request-wide role is its own key: expected one layer, or first_local"
            raise InvalidCase(f"{where}.layers", str(self.layers), accepted)
        if len(self.ids) != 2 or self.ids[0] < 1 or not self.ids[1] >= 0:
            raise InvalidCase(f"{where}.ids", self.ids, "expected (mul >= 1, add >= 0)")
        if self.alias is not None:
            for layer in self.alias:
                if layer in self.layers or not any(owner < layer for owner in self.layers):
                    raise InvalidCase(
                        f"{where}.alias", layer, "an alias layer has an owner below it and no bytes itself"
                    )

    @property
    def tokens_per_row(self) -> int:
        """Tokens that share a row; 0 without a token axis."""
        axis = self.parts[0].token_axis
        return axis.tokens_per_row if axis else 0

    def id_on(self, layer: int) -> int:
        """The virtual layer id under which a manager registers layer ``layer``."""
        return self.ids[0] * layer + self.ids[1]

    def move_on(self, layer: int) -> Move:
        """The first move rule that names ``layer``."""
        for move in self.moves:
            if move.layers is None or layer in move.layers:
                return move
        return Move()

    def owner_of(self, layer: int) -> int:
        """The layer whose bytes alias layer ``layer`` reads."""
        return max(owner for owner in self.layers if owner < layer)


class GroupKind(Enum):
    PAGED = "paged"
    STATE = "state"


@record
class LayerGroup(Hashed):
    """Layers of the same retention.

    ``paged``: one slot per block of ``tokens_per_block`` tokens; ``window`` tokens stay (``None``:
    all), ``sinks`` tokens at the front stay besides. ``state``: one slot per request. ``domain``
    tells groups of equal retention apart. ``length`` names the number of the request that the group
    is as long as: ``prompt``, or a second one such as ``encoder``. ``native_only`` (state): what only
    a sender with an election of its own brings, once to every receiver rank; such buffers are of the
    request, whole on the first local layer, and always sent.
    """

    name: str
    kind: GroupKind
    buffers: tuple[Buffer, ...]
    window: int | None = None
    sinks: int = 0
    domain: str = ""
    length: str = "prompt"
    native_only: bool = False

    def __post_init__(self) -> None:
        where = f"group {self.name}"
        object.__setattr__(self, "buffers", tuple(self.buffers))
        if not self.name or not self.name.isidentifier():
            raise InvalidCase("group.name", self.name, "expected an identifier")
        if not self.buffers:
            raise InvalidCase(f"{where}.buffers", (), "expected at least one buffer")
        require_whole(f"{where}.sinks", self.sinks)
        if self.window is not None:
            require_whole(f"{where}.window", self.window, least=1)
        if self.sinks and self.window is None:
            raise InvalidCase(f"{where}.sinks", self.sinks, "sinks need a window")
        keys: set[tuple[int, str]] = set()
        roles: dict[str, Buffer] = {}
        for buffer in self.buffers:
            other = roles.get(buffer.role)
            if other is not None and (buffer.request_scope or other.request_scope):
                raise InvalidCase(f"{where}.buffers", buffer.role, "expected one request-wide buffer of a role")
            roles[buffer.role] = buffer
            for layer in buffer.layers:
                if (layer, buffer.role) in keys:
                    raise InvalidCase(f"{where}.buffers", (layer, buffer.role), "two buffers have one key")
                keys.add((layer, buffer.role))
            paged = any(part.token_axis for part in buffer.parts)
            if self.kind is GroupKind.STATE:
                if self.window is not None or self.sinks:
                    raise InvalidCase(f"{where}.window", self.window, "a state group has no window")
                if paged:
                    raise InvalidCase(f"{where}.{buffer.role}", "T", "a state buffer has no token axis")
        if self.native_only:
            self._check_native_only(where)

    def _check_native_only(self, where: str) -> None:
        if self.is_paged:
            raise InvalidCase(f"{where}.native_only", True, "only a state group may be native only")
        for buffer in self.buffers:
            axes = [axis for part in buffer.parts for axis in part.axes]
            accepted = "native only buffers have "
            if not (buffer.request_scope and buffer.first_local):
                raise InvalidCase(f"{where}.{buffer.role}", "not request-wide", f"{accepted}request and first_local")
            if any(axis.is_split or axis.sections for axis in axes):
                raise InvalidCase(f"{where}.{buffer.role}", "split", f"{accepted}no axis that ranks share")
            if buffer.moves != (Move(),):
                raise InvalidCase(f"{where}.{buffer.role}", "move", f"{accepted}the move send on every layer")

    @property
    def is_paged(self) -> bool:
        return self.kind is GroupKind.PAGED

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(sorted({layer for buffer in self.buffers for layer in buffer.layers}))


@record
class Model(Hashed):
    """``layers`` layers, ids from 0, and what each retains. ``draft``: ids of declared draft layers, at the end."""

    layers: int
    groups: tuple[LayerGroup, ...]
    draft: LayerSet = LayerSet()

    def __post_init__(self) -> None:
        require_whole("model.layers", self.layers, least=1)
        object.__setattr__(self, "groups", tuple(self.groups))
        if not self.groups:
            raise InvalidCase("model.groups", (), "expected at least one group")
        names = [group.name for group in self.groups]
        if len(set(names)) != len(names):
            raise InvalidCase("model.groups", names, "expected distinct group names")
        keys: set[tuple[int | None, str]] = set()
        retention: dict[tuple[object, ...], LayerGroup] = {}
        for group in self.groups:
            alike = (group.kind, group.window, group.sinks, group.domain, group.length, group.native_only)
            if alike in retention:
                other = retention[alike]
                accepted = f"it retains as group {other.name} ({other.buffers[0].role}) does: name a domain"
                raise InvalidCase(f"group {group.name} ({group.buffers[0].role})", group.domain, accepted)
            retention[alike] = group
            holders = {(layer, buffer.role): buffer for buffer in group.buffers for layer in buffer.layers}
            for buffer in group.buffers:
                if group.native_only and len(buffer.layers) != self.layers:
                    accepted = f"native only buffers are on all of {self.layers} layers"
                    raise InvalidCase(f"buffer {buffer.role}.layers", str(buffer.layers), accepted)
                for layer in (*buffer.layers, *(buffer.alias or ())):
                    if layer >= self.layers:
                        raise InvalidCase(f"buffer {buffer.role}.layers", layer, f"the model has {self.layers} layers")
                for layer in (None,) if buffer.request_scope else buffer.layers:
                    key = (layer, buffer.role)
                    if key in keys:
                        raise InvalidCase(f"group {group.name}", key, "two buffers have one key")
                    keys.add(key)
                for layer in buffer.layers:
                    for name in buffer.move_on(layer).inputs:
                        source = holders.get((layer, name))
                        if source is None or not source.move_on(layer).moves:
                            accepted = "derived from a role that its group does not move on that layer"
                            raise InvalidCase(f"buffer {buffer.role}.move", (layer, name), accepted)
        self._check_ids(keys)
        for layer in self.draft:
            if layer >= self.layers:
                raise InvalidCase("model.draft", layer, f"the model has {self.layers} layers")

    def _check_ids(self, keys: set[tuple[int | None, str]]) -> None:
        """No two layers of a role are registered under one id, and no alias layer of a role has bytes or another owner.

        ``keys``: every (layer, role) with bytes, request-wide roles without their layer.
        """
        registered: dict[tuple[int, str], int] = {}
        buffers = [buffer for group in self.groups for buffer in group.buffers]
        for buffer in buffers:
            for layer in buffer.layers:
                key = (buffer.id_on(layer), buffer.role)
                if key in registered:
                    accepted = f"layer {registered[key]} of the role has that id: expected each (layer id, role) once"
                    raise InvalidCase(f"buffer {buffer.role}.ids", key[0], accepted)
                registered[key] = layer
        read: set[tuple[int, str]] = set()
        for buffer in buffers:
            for layer in buffer.alias or ():
                where = f"buffer {buffer.role}.alias"
                if (layer, buffer.role) in keys or (buffer.id_on(layer), buffer.role) in registered:
                    accepted = "another buffer of the role has bytes there: expected a layer without any"
                    raise InvalidCase(where, layer, accepted)
                if (layer, buffer.role) in read:
                    raise InvalidCase(where, layer, "another buffer of the role has that alias: expected one owner")
                read.add((layer, buffer.role))

    def group_index(self, name: str) -> int:
        for index, group in enumerate(self.groups):
            if group.name == name:
                return index
        raise InvalidCase("group", name, f"expected one of {[group.name for group in self.groups]}")
