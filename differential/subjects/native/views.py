"""Page-table views of a rank: its buffers bucketed by (pool, mapper kind) (spec: legacy sender, 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from differential.subjects.native.declared import Declared, state_geometry
from differential.subjects.native.refusals import Refused
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.records import frozen

ALLOWED = {True: ("indexed", "replicated", "nhd"), False: ("indexed", "replicated", "sectioned")}
"""Mapper kinds by whether the layer group is paged."""

Geometry = tuple[str, tuple[int, ...]]
Place = tuple[int, int, int, str]
Bucket = tuple[list[Place], dict[str, Geometry]]
"""Entries, and the geometry of each role."""


T = TypeVar("T")


class Lazily(Generic[T]):
    """An attribute that is worked out when it is first read, as ``functools.cached_property`` without its lock."""

    def __init__(self, make: Callable[..., T]) -> None:
        self.make = make
        self.__doc__ = make.__doc__

    def __get__(self, view: View | None, owner: type) -> T:
        if view is None:
            return self  # type: ignore[return-value]
        value = view.__dict__[self.make.__name__] = self.make(view)
        return value


@dataclass(frozen=True, eq=False)
class View:
    """Entries (offset, layer id, bytes, role) of one mapper kind in one pool of one layer group, ascending by offset.

    Offsets count from the start of the slot. ``geometry`` is that of the roles of a state view:
    ("sections", bytes of each), ("head", (bytes,)) or ("none", ()).
    """

    group: int
    pool: int
    mapper: str
    paged: bool
    roles: frozenset[str]
    entries: tuple[Place, ...]
    geometry: Geometry

    @Lazily
    def starts(self) -> dict[int, int]:
        """Offset of each layer's region, by layer id in slot order."""
        starts: dict[int, int] = {}
        for offset, layer, _, _ in self.entries:
            starts.setdefault(layer, offset)
        return starts

    @Lazily
    def layer_bytes(self) -> int:
        """Bytes of each layer's region; refuses regions that differ or have gaps."""
        ends: dict[int, int] = {}
        for offset, layer, nbytes, _ in self.entries:
            if ends.setdefault(layer, offset) != offset:
                raise Refused("layer_region_not_contiguous", f"layer {layer} of {self} has a gap at offset {offset}")
            ends[layer] = offset + nbytes
        sizes = {end - self.starts[layer] for layer, end in ends.items()}
        if len(sizes) != 1:
            raise Refused("layer_regions_differ", f"the layers of {self} have {sorted(sizes)} bytes")
        return sizes.pop()

    @Lazily
    def buffers_per_layer(self) -> int:
        return len(self.entries) // len(self.starts)

    @Lazily
    def role_bytes(self) -> dict[tuple[int, str], int]:
        """Bytes by (layer id, role)."""
        return {(layer, role): nbytes for _, layer, nbytes, role in self.entries}

    @Lazily
    def pointers(self) -> list[int]:
        """Starts of the layers' regions, ascending: what the extractor hands a state mapper."""
        return sorted(self.starts.values())

    def __str__(self) -> str:
        return f"the view of {', '.join(sorted(self.roles))} in pool {self.pool} of group {self.group}"


@frozen(eq=False)
class Group:
    """A layer group of one rank: its layer ids, and its views by (pool, lowest offset)."""

    index: int
    paged: bool
    layers: frozenset[int]
    views: tuple[View, ...]


@frozen(eq=False)
class Table:
    """The registered page table of one rank, groups in order."""

    groups: tuple[Group, ...]

    def state_views(self) -> list[View]:
        return [view for group in self.groups if not group.paged for view in group.views]


def build_table(declared: Declared, instance: Instance, grid: tuple[int, int], pages: PageTable) -> Table:
    """Bucket the registered entries of ``pages``; ``grid`` is the rank's (size, index) in the state grid."""
    layers: dict[int, set[int]] = {}
    buckets: dict[int, dict[tuple[int, str], Bucket]] = {}
    for entry in pages.entries:
        registered = declared.find(entry.group, entry.role, entry.layer)
        if registered is None:
            continue
        layer = registered.layer_id(entry.layer)
        paged = declared.paged[entry.group]
        if registered.mapper not in ALLOWED[paged]:
            kind = "paged" if paged else "state"
            raise Refused("mapper_kind_not_allowed", f"{entry.role} of a {kind} group is {registered.mapper}")
        layers.setdefault(entry.group, set()).add(layer)
        bucket = buckets.setdefault(entry.group, {}).setdefault((entry.pool, registered.mapper), ([], {}))
        bucket[0].append((entry.offset, layer, entry.nbytes, entry.role))
        if entry.role not in bucket[1]:
            bucket[1][entry.role] = ("none", ()) if paged else state_geometry(registered, instance, grid)
    return Table(
        tuple(
            Group(
                index,
                declared.paged[index],
                frozenset(layers[index]),
                _views(index, declared.paged[index], buckets[index]),
            )
            for index in sorted(buckets)
        )
    )


def _views(group: int, paged: bool, buckets: dict[tuple[int, str], Bucket]) -> tuple[View, ...]:
    views = []
    for (pool, mapper), (entries, geometries) in buckets.items():
        entries.sort()
        geometry = next(iter(geometries.values()))
        view = View(group, pool, mapper, paged, frozenset(geometries), tuple(entries), geometry)
        if any(other != geometry for other in geometries.values()):
            raise Refused("view_geometry_differs", f"the roles of {view} declare {sorted(geometries.items())}")
        kind, sizes = geometry
        if kind == "sections" and sum(sizes) != view.layer_bytes:
            raise Refused("view_geometry_wrong", f"sections {sizes} of {view} are not {view.layer_bytes} bytes")
        if kind == "head" and (not sizes[0] or view.layer_bytes % sizes[0]):
            raise Refused(
                "view_geometry_wrong", f"{view.layer_bytes} bytes of {view} are not whole heads of {sizes[0]}"
            )
        views.append(view)
    views.sort(key=lambda view: (view.pool, view.entries[0][0]))
    return tuple(views)
