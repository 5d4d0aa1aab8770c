"""The page table of one rank: its pools, and where each buffer lies in their slots."""

from __future__ import annotations

from itertools import pairwise

from oracle.model.errors import LARGEST, InvalidCase, require_whole
from oracle.model.records import Hashed, record


@record
class Pool(Hashed):
    """An array of ``count`` equal slots; slot s starts ``s * slot_stride`` bytes into the pool.

    ``slot_stride`` 0 means ``slot_bytes``. A layer-major pool has a ``layer_stride``: the region of
    its n-th layer starts ``n * layer_stride`` bytes further on, so an entry's offset may exceed the
    slot. Pools with one ``pool_group`` share slot numbers.
    """

    slot_bytes: int
    count: int
    slot_stride: int = 0
    layer_stride: int = 0
    pool_group: int = 0

    def __post_init__(self) -> None:
        if not (
            type(self.slot_bytes) is type(self.count) is type(self.slot_stride) is type(self.layer_stride) is int
            and 0 < self.slot_bytes < LARGEST
            and 0 < self.count < LARGEST
            and 0 <= self.slot_stride < LARGEST
            and 0 <= self.layer_stride < LARGEST
        ):
            self._tell()
        require_whole("pool.pool_group", self.pool_group)
        if not self.slot_stride:
            object.__setattr__(self, "slot_stride", self.slot_bytes)
        if self.slot_stride < self.slot_bytes:
            raise InvalidCase("pool.slot_stride", self.slot_stride, f"expected at least slot_bytes, {self.slot_bytes}")

    def _tell(self) -> None:
        """Raise ``InvalidCase`` for the first size that is none."""
        require_whole("pool.slot_bytes", self.slot_bytes, least=1)
        require_whole("pool.count", self.count, least=1)
        require_whole("pool.slot_stride", self.slot_stride)
        require_whole("pool.layer_stride", self.layer_stride)


@record
class Entry(Hashed):
    """The region of one buffer: ``nbytes`` at ``offset`` past the start of a slot of ``pool``."""

    group: int
    pool: int
    layer: int
    role: str
    offset: int
    nbytes: int

    def __post_init__(self) -> None:
        numbers = group, pool, layer, offset, nbytes = self.group, self.pool, self.layer, self.offset, self.nbytes
        if not (
            type(group) is type(pool) is type(layer) is type(offset) is type(nbytes) is int
            and min(numbers) >= 0 < nbytes
            and max(numbers) < LARGEST
        ):
            self._tell()

    def _tell(self) -> None:
        """Raise ``InvalidCase`` for the first number that is none."""
        require_whole("entry.group", self.group)
        require_whole("entry.pool", self.pool)
        require_whole("entry.layer", self.layer)
        require_whole("entry.offset", self.offset)
        require_whole("entry.nbytes", self.nbytes, least=1)


@record
class PageTable(Hashed):
    """Pools and entries of one rank. Address = pool base + slot * slot_stride + offset.

    Entries of different groups may share a pool (each group owns other slots of it); entries of one
    group never overlap.
    """

    pools: tuple[Pool, ...]
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        if type(self.pools) is not tuple or type(self.entries) is not tuple:
            object.__setattr__(self, "pools", tuple(self.pools))
            object.__setattr__(self, "entries", tuple(self.entries))
        keys: set[tuple[int, int, str]] = set()
        spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for entry in self.entries:
            if entry.pool >= len(self.pools):
                raise InvalidCase("entry.pool", entry.pool, f"this table has {len(self.pools)} pools")
            key = (entry.group, entry.layer, entry.role)
            if key in keys:
                raise InvalidCase("page table", key, "two entries have one key")
            keys.add(key)
            pool = self.pools[entry.pool]
            if not pool.layer_stride and entry.offset + entry.nbytes > pool.slot_bytes:
                raise InvalidCase("entry.offset", entry.offset, f"the entry ends past its slot of {pool.slot_bytes} B")
            if pool.layer_stride and entry.offset % pool.layer_stride + entry.nbytes > pool.slot_bytes:
                raise InvalidCase("entry.offset", entry.offset, f"the entry ends past its slot of {pool.slot_bytes} B")
            spans.setdefault((entry.group, entry.pool), []).append((entry.offset, entry.offset + entry.nbytes))
        for (_, pool_index), taken in spans.items():
            taken.sort()
            for (_, end), (start, _) in pairwise(taken):
                if start < end:
                    raise InvalidCase(f"pool {pool_index}", start, "two buffers of one group overlap")

    def pool_extent(self, pool: int) -> int:
        """Bytes of ``pool``: up to the end of the last layer's last slot."""
        p = self.pools[pool]
        slots = p.count * p.slot_stride
        if not p.layer_stride:
            return slots
        layers = max((e.offset // p.layer_stride for e in self.entries if e.pool == pool), default=0)
        return layers * p.layer_stride + slots

    def groups(self) -> tuple[int, ...]:
        return tuple(sorted({entry.group for entry in self.entries}))
