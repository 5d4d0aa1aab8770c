"""Two instances seen together: who hears from whom, and which runs in a slot each pair of ranks exchanges."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

import numpy as np

from differential.subjects.mapping.compatible import check_compatible
from differential.subjects.mapping.election import Election, Sent, elect
from differential.subjects.mapping.geometry import Geometry, geometry_of
from differential.subjects.mapping.merge import merge_few, merge_runs
from differential.subjects.mapping.pages import Pages, RankPages
from differential.subjects.mapping.pairing import paired_ranks, ranks_of
from differential.subjects.mapping.refusals import UNSERVABLE_INDEX, Refused
from differential.subjects.mapping.shares import Seat, seat_of
from oracle.model.buffers import Buffer
from oracle.model.errors import InvalidCase
from oracle.model.pages import Entry, PageTable
from oracle.model.writes import Refusal

KEPT = 32
"""relations that are kept"""
FEW = 32
"""below this many runs plain Python is faster than NumPy"""


class PoolRuns(NamedTuple):
    """What a source rank sends of one slot: ``runs`` (int64, n x 3) between two pools, from the start of the slots."""

    group: int
    source_pool: int
    destination_pool: int
    source_stride: int
    destination_stride: int
    runs: np.ndarray


class GroupRuns(NamedTuple):
    """What some sources send a destination of a slot of a group: runs by source; ``unheld``: what none of them has."""

    by_source: dict[int, tuple[PoolRuns, ...]]
    unheld: str


class Wanted(NamedTuple):
    """A region of a destination's page table that moves, and how it is found on a source."""

    entry: Entry
    geometry: Geometry
    where: tuple[int, str]
    may_lack: bool


class Relation:
    """Everything about a pair of instances that no request decides; found when first asked for, then kept."""

    def __init__(self, source: Pages, destination: Pages) -> None:
        self.source = source
        self.destination = destination
        self.source_topology = source.instance.topology
        self.topology = destination.instance.topology
        self.incompatible = check_compatible(source, destination)
        self._unservable: Refusal | None = None
        self._decided = False
        self._tables: dict[int, dict[tuple[int, str], Entry]] = {}
        self._wanted: dict[tuple[int, int], list[Wanted]] = {}
        self._runs: dict[tuple[int, int, tuple[int, ...], int], GroupRuns] = {}
        self._elections: dict[tuple[int, int, tuple[int, ...], int], Election] = {}
        self._seats: dict[tuple[int, int], Seat] = {}
        self._own_seats: dict[tuple[int, int], Seat] = {}
        self._paired: dict[tuple[int, int], tuple[int, ...]] = {}
        self._holders: dict[tuple[int, int, tuple[int, ...]], tuple[tuple[int, ...], ...]] = {}
        self._groups: dict[int, tuple[int, ...]] = {}
        self._geometries: dict[int, Geometry] = {}
        self._buffers: dict[tuple[int, str], Buffer] = {
            (layer, buffer.role): buffer
            for group in destination.model.groups
            for buffer in group.buffers
            for layer in buffer.layers
        }

    def ranks(self, dp: int) -> tuple[int, ...]:
        """The destination ranks that a request of generation DP rank ``dp`` is on."""
        return ranks_of(self.topology, dp)

    def paired(self, number: int, source_dp: int) -> tuple[int, ...]:
        """The source ranks that destination rank ``number`` hears from for a request of that context DP rank."""
        memo = (number, source_dp)
        found = self._paired.get(memo)
        if found is None:
            found = self._paired[memo] = paired_ranks(self.source_topology, self.topology, number, source_dp)
        return found

    def groups_of(self, number: int) -> tuple[int, ...]:
        """The groups in the page table of destination rank ``number`` that are the mapping's to bring."""
        found = self._groups.get(number)
        if found is None:
            there, groups = self.destination.tables[number].groups(), self.destination.model.groups
            found = self._groups[number] = tuple([group for group in there if not groups[group].native_only])
        return found

    def why_refused(self, source_dp: int, destination_dp: int) -> Refusal | None:
        """Why the pair of instances cannot be served, if so; it depends on no request.

        Ranks of another attention-DP rank hold the same, so those of any one request decide for all.
        """
        if self.incompatible is None and not self._decided:
            self._unservable = self._find_unheld(source_dp, destination_dp)
            self._decided = True
        return self.incompatible or self._unservable

    def _find_unheld(self, source_dp: int, destination_dp: int) -> Refusal | None:
        """A refusal if an index due on a rank has no paired holder, over one full period of ordinals."""
        for number in self.ranks(destination_dp):
            paired = self.paired(number, source_dp)
            for group in self.groups_of(number):
                for sources in self.holders(number, group, paired):
                    unheld = self.runs(number, group, sources, destination_dp).unheld
                    if unheld:
                        reason = f"{unheld} is due on generation rank {number}, paired with context ranks "
                        reason += f"{list(paired)}"
                        if not sources:
                            return Refusal(UNSERVABLE_INDEX, f"{reason}: none of them has the blocks concerned")
                        if len(sources) != len(paired):
                            reason += f", of which {list(sources)} have the blocks concerned"
                        return Refusal(UNSERVABLE_INDEX, f"{reason}: none of them holds it")
        return None

    def holders(self, number: int, group: int, paired: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Those of ``paired`` that have anything of ``group`` for rank ``number``, by the blocks they have.

        Block o is on context-parallel rank o mod cp, on either side: of a paged group, there is one
        tuple for each residue that an ordinal of the destination can have among the sources. A tuple
        may be empty; there is none if nothing of the group moves.
        """
        memo = (number, group, paired)
        found = self._holders.get(memo)
        if found is None:
            found = self._holders[memo] = self._find_holders(number, group, paired)
        return found

    def _find_holders(self, number: int, group: int, paired: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        wanted = self._wanted_of(self.destination.tables[number], group)
        if not wanted:
            return ()
        indexes = [(source, self._index(self.source.tables[source])) for source in paired]
        having = tuple([source for source, index in indexes if any(each.where in index for each in wanted)])
        size = self.source_topology.cp
        if size == 1 or not self.destination.model.groups[group].is_paged:
            return (having,)
        own = self.topology.cp
        residues = dict.fromkeys(o % size for o in range(number % own, lcm(size, own), own))
        return tuple(tuple(source for source in having if source % size == residue) for residue in residues)

    def runs(self, number: int, group: int, sources: tuple[int, ...], key: int) -> GroupRuns:
        """What ``sources`` send destination rank ``number`` of one slot of ``group`` if they all have the block."""
        memo = (number, group, sources, key)
        found = self._runs.get(memo)
        if found is None:
            found = self._runs[memo] = self._find(number, group, sources, key)
        return found

    def _find(self, number: int, group: int, sources: tuple[int, ...], key: int) -> GroupRuns:
        table = self.destination.tables[number]
        indexes: list[tuple[dict[tuple[int, str], Entry], list[int]]] = []
        for source in sources:
            index = self._index(self.source.tables[source])
            if indexes and indexes[-1][0] is index:
                indexes[-1][1].append(source)
            else:
                indexes.append((index, [source]))
        rows: dict[tuple[int, int, int], tuple[list[tuple[int, int]], list[Sent]]] = {}
        unheld = ""
        for entry, geometry, where, may_lack in self._wanted_of(table, group):
            held = [(source, index[where]) for index, members in indexes if where in index for source in members]
            if not held and may_lack:
                continue
            holders = sources if len(held) == len(sources) else tuple([source for source, _ in held])
            sent, lacking = self._elect(number, geometry, holders, key)
            if lacking and not unheld:
                whole = "" if where[0] < 0 else f" of layer {entry.layer}"
                unheld = f"{entry.role}{whole}, {lacking},"
            for (source, place), own in zip(held, sent, strict=True):
                if own is None:
                    continue
                pools = (source, place.pool, entry.pool)
                found = rows.get(pools)
                if found is None:
                    found = rows[pools] = ([], [])
                found[0].append((place.offset, entry.offset))
                found[1].append(own)
        by_source: dict[int, tuple[PoolRuns, ...]] = {}
        for (source, pool, own_pool), (bases, parts) in rows.items():
            there = self.source.tables[source].pools[pool]
            here = table.pools[own_pool]
            runs = _place(bases, parts, there.layer_stride, here.layer_stride)
            part = PoolRuns(group, pool, own_pool, there.slot_stride, here.slot_stride, runs)
            by_source[source] = (*by_source.get(source, ()), part)
        return GroupRuns(by_source, unheld)

    def _index(self, table: PageTable) -> dict[tuple[int, str], Entry]:
        """Regions of a source by (layer, role); request-wide ones, whose key is the role alone, by (-1, role)."""
        found = self._tables.get(id(table))
        if found is None:
            found = {}
            for entry in table.entries:
                buffer = self._buffer(entry)
                found.setdefault((-1 if buffer.request_scope else entry.layer, entry.role), entry)
            self._tables[id(table)] = found
        return found

    def _wanted_of(self, table: PageTable, group: int) -> list[Wanted]:
        """Regions of ``group`` that move into ``table``, in the order of their addresses."""
        found = self._wanted.get((id(table), group))
        if found is None:
            found = []
            for entry in table.entries:
                if entry.group != group:
                    continue
                buffer = self._buffer(entry)
                if not buffer.move_on(entry.layer).moves:
                    continue
                where = (-1 if buffer.request_scope else entry.layer, entry.role)
                lacked = self.source.instance.lacks(entry.layer, buffer.role)
                found.append(Wanted(entry, self._geometry(buffer), where, lacked))
            found.sort(key=lambda wanted: (wanted.entry.pool, wanted.entry.offset))
            self._wanted[id(table), group] = found
        return found

    def _buffer(self, entry: Entry) -> Buffer:
        found = self._buffers.get((entry.layer, entry.role))
        if found is None:
            raise InvalidCase("page table", (entry.layer, entry.role), "expected buffers that the model declares")
        return found

    def _geometry(self, buffer: Buffer) -> Geometry:
        found = self._geometries.get(id(buffer))
        if found is None:
            found = geometry_of(buffer, self.source.instance, self.destination.instance)
            self._geometries[id(buffer)] = found
        return found

    def _elect(self, number: int, geometry: Geometry, holders: tuple[int, ...], key: int) -> Election:
        memo = (id(geometry), number, holders, key)
        found = self._elections.get(memo)
        if found is None:
            grids = geometry.grids
            seats = tuple([self._seat(source, grids) for source in holders])
            found = elect(geometry, self._own_seat(number, grids), seats, key)
            self._elections[memo] = found
        return found

    def _seat(self, number: int, grids: int) -> Seat:
        found = self._seats.get((number, grids))
        if found is None:
            topology = self.source_topology
            found = self._seats[number, grids] = _only(seat_of(topology, topology.rank(number)), grids)
        return found

    def _own_seat(self, number: int, grids: int) -> Seat:
        found = self._own_seats.get((number, grids))
        if found is None:
            found = _only(seat_of(self.topology, self.topology.rank(number)), grids)
            self._own_seats[number, grids] = found
        return found


def _only(seat: Seat, grids: int) -> Seat:
    """``seat`` without the positions that decide nothing, so that ranks with equal shares share an election."""
    return seat if grids == 2 else (seat[0] if grids else (0, 1), (0, 1))


def _place(bases: list[tuple[int, int]], parts: list[Sent], source_stride: int, destination_stride: int) -> np.ndarray:
    """The runs of several buffers at their places in the slots, merged, in destination order."""
    if sum([len(sent.rows) for sent in parts]) <= FEW:
        rows = [(s + a, d + b, n) for (s, d), sent in zip(bases, parts, strict=True) for a, b, n in sent.rows]
        return np.array(merge_few(rows, source_stride, destination_stride), dtype=np.int64)
    runs = np.concatenate([sent.array for sent in parts])
    runs[:, :2] += np.repeat(np.array(bases, dtype=np.int64), [len(sent.rows) for sent in parts], axis=0)
    return merge_runs(runs, source_stride=source_stride, destination_stride=destination_stride)


class Relations:
    """The relations of the last pairs of instances, told apart by which objects they are.

    Hardly two cases have equal page tables, and to compare those would cost more than it saves.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], Relation] = {}

    def __call__(self, source: Pages, destination: Pages) -> Relation:
        """The relation of two instances: one object while it is kept, and with it what its key consists of."""
        key = source.identity + destination.identity
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            found = self._kept[key] = Relation(source, destination)
        return found

    def cache_clear(self) -> None:
        self._kept.clear()


relate = Relations()


def map_buffers(source: RankPages, destination: RankPages, *, key: int = 0) -> tuple[PoolRuns, ...]:
    """The byte runs that one source rank sends one destination rank of a slot of each group (spec: mapping, contract).

    They cover, for every buffer both ranks hold, the indices both hold and that the source is
    elected to send among the ranks that the destination is paired with; ranks that are not paired
    send nothing. ``key`` is the destination's attention data-parallel rank (0 without attention DP).
    Raises ``Refused`` if the instances are not compatible at all.
    """
    relation = relate(source.pages, destination.pages)
    if relation.incompatible is not None:
        raise Refused(relation.incompatible)
    topology = source.pages.instance.topology
    paired = relation.paired(destination.number, source.rank.tp if topology.attention_dp else 0)
    found: list[PoolRuns] = []
    for group in relation.groups_of(destination.number):
        for sources in relation.holders(destination.number, group, paired):
            if source.number in sources:
                found += relation.runs(destination.number, group, sources, key).by_source.get(source.number, ())
    return tuple(found)
