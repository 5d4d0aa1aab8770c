"""One side of a transfer: a topology and what may differ by side."""

from __future__ import annotations

from oracle.model.errors import InvalidCase, require_whole
from oracle.model.layers import LayerSet
from oracle.model.pages import PageTable
from oracle.model.records import Hashed, record
from oracle.model.topology import Topology

LAYOUTS = ("", "HND", "NHD")
MANAGERS = ("v1", "v2")


@record
class Without(Hashed):
    """Roles that an instance lacks on ``layers``: legal only for optional buffers and declared draft layers."""

    roles: tuple[str, ...]
    layers: LayerSet

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", tuple(self.roles))


@record
class Instance(Hashed):
    """A topology plus what belongs to the side.

    ``layout``: ``HND`` puts the head axis (H) before the token axis, ``NHD`` after it, the empty
    string keeps the declared order; ``layouts`` says so by role. ``layer_order``: ids in physical
    order, empty for ascending; ids not listed follow ascending. ``element_bits``: width by role
    where it differs from the declared one. ``packing``: rule by group name, see
    ``oracle.model.packing``. ``page_tables``: explicit tables by rank instead of packed ones.
    ``manager``: which of two cache managers, ``v1`` or ``v2``. ``reserve``: tokens that a windowed
    group keeps beyond its window, by group name. ``scratch`` (V2): blocks of a windowed group that
    prefill will have left behind are written into shared slots that nobody reads; the number is how
    many tokens a rewind may take back, ``None`` switches it off. ``look_ahead`` (V2): blocks that the
    scheduler has allocated beyond the chunk that runs. ``without``: what this instance does not hold.
    """

    topology: Topology = Topology()
    tokens_per_block: int = 1
    layout: str = ""
    layouts: tuple[tuple[str, str], ...] = ()
    layer_order: tuple[int, ...] = ()
    element_bits: tuple[tuple[str, int], ...] = ()
    packing: tuple[tuple[str, str], ...] = ()
    page_tables: tuple[tuple[int, PageTable], ...] = ()
    manager: str = "v2"
    reserve: tuple[tuple[str, int], ...] = ()
    without: tuple[Without, ...] = ()
    scratch: int | None = None
    look_ahead: int = 0

    def __post_init__(self) -> None:
        require_whole("tokens_per_block", self.tokens_per_block, least=1)
        for name in ("layouts", "element_bits", "packing", "page_tables", "reserve"):
            given = getattr(self, name)
            if given == () and type(given) is tuple:
                continue  # as most are
            pairs = tuple(sorted((tuple(pair) for pair in given), key=lambda pair: pair[0]))
            if len({key for key, _ in pairs}) != len(pairs):
                raise InvalidCase(name, [key for key, _ in pairs], "expected each key once")
            object.__setattr__(self, name, pairs)
        for layout in (self.layout, *(layout for _, layout in self.layouts)):
            if layout not in LAYOUTS:
                raise InvalidCase("layout", layout, "expected HND, NHD or nothing")
        object.__setattr__(self, "layer_order", tuple(self.layer_order))
        if len(set(self.layer_order)) != len(self.layer_order):
            raise InvalidCase("layer_order", self.layer_order, "expected each layer id once")
        for role, bits in self.element_bits:
            require_whole(f"element_bits of {role}", bits, least=1)
        for group, tokens in self.reserve:
            require_whole(f"reserve of {group}", tokens)
        if self.manager not in MANAGERS:
            raise InvalidCase("manager", self.manager, "expected v1 or v2")
        require_whole("look_ahead", self.look_ahead)
        if self.scratch is not None:
            require_whole("scratch", self.scratch)
        for name, off in (("scratch", None), ("look_ahead", 0)):
            if self.manager == "v1" and getattr(self, name) != off:
                accepted = "manager v1 allocates the blocks of a prompt at once and has neither scratch nor look_ahead"
                raise InvalidCase(name, getattr(self, name), accepted)
        for rank, _ in self.page_tables:
            if not 0 <= rank < self.topology.size:
                raise InvalidCase("page_tables", rank, f"this instance has ranks 0..{self.topology.size - 1}")
        object.__setattr__(self, "without", tuple(self.without))

    def layout_of(self, role: str) -> str:
        return dict(self.layouts).get(role, self.layout) if self.layouts else self.layout

    def bits_of(self, role: str, declared: int) -> int:
        return dict(self.element_bits).get(role, declared) if self.element_bits else declared

    def reserve_of(self, group: str) -> int:
        return dict(self.reserve).get(group, 0) if self.reserve else 0

    def lacks(self, layer: int, role: str) -> bool:
        return any(role in lack.roles and layer in lack.layers for lack in self.without)

    def in_layer_order(self, layers: tuple[int, ...] | range) -> tuple[int, ...]:
        """``layers`` in this instance's physical order."""
        if not self.layer_order:
            return tuple(sorted(layers))
        place = {layer: index for index, layer in enumerate(self.layer_order)}
        return tuple(sorted(layers, key=lambda layer: (place.get(layer, len(place)), layer)))
