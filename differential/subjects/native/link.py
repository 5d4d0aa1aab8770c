"""All that the sender derives from two instances, apart from requests: rank infos, pairs and in-slot runs."""

from __future__ import annotations

import numpy as np

from differential.managers.facts import Facts, RankFacts
from differential.subjects.native import auxiliary, compatibility, election, mappers, pairing, topology
from differential.subjects.native.auxiliary import Items
from differential.subjects.native.declared import Declared, declare, declared_alike
from differential.subjects.native.pairing import Mapped
from differential.subjects.native.rank_info import Attention, RankInfo, attention_of, shape_of
from differential.subjects.native.settings import Settings
from differential.subjects.native.views import Table, build_table
from oracle.model.case import Case
from oracle.model.instance import Instance
from oracle.model.records import frozen


@frozen(eq=False)
class Part:
    """In-slot runs (int64, n x 3) between a pool of the sender and one of the receiver, of one layer group."""

    group: int
    peer_group: int
    source_pool: int
    destination_pool: int
    source_stride: int
    destination_stride: int
    runs: np.ndarray


class Link:
    """Two instances whose ranks have registered with each other.

    Nothing is checked or mapped before a request needs it; what a rank pair was found to be is kept.
    ``helix``: whether a whole context side sends to context-parallel receivers.
    """

    def __init__(self, case: Case, facts: Facts, settings: Settings) -> None:
        assert case.native is not None
        self.settings = settings
        declared = declare(case.model, case.native, case.context)
        self.context = _rank_infos(declared, case.context, facts.context, settings)
        if not declared_alike(case.context, case.generation):
            declared = declare(case.model, case.native, case.generation)
        self.generation = _rank_infos(declared, case.generation, facts.generation, settings)
        self.helix = self.context[0].shape.cp == 1 and self.generation[0].shape.cp > 1
        self._pools = (
            tuple(rank.table.pools for rank in facts.context),
            tuple(rank.table.pools for rank in facts.generation),
        )
        self._items: tuple[tuple[Items, ...], ...] = ()
        if any(group.native_only for group in case.model.groups):
            sides = (facts.context, facts.generation)
            self._items = tuple([tuple([auxiliary.items_of(case.model, r.table) for r in side]) for side in sides])
        self._pairs: dict[tuple[int, int], tuple[tuple[int, int, str], ...]] = {}
        self._parts: dict[tuple[int, int], tuple[Part, ...]] = {}
        self._mapped: dict[tuple[object, ...], tuple[Mapped, ...]] = {}
        self._uncut: dict[Mapped, mappers.Uncut] = {}
        self._runs: dict[tuple[Mapped, mappers.Cut], np.ndarray] = {}

    def pairs(self, context_dp: int, generation_dp: int) -> tuple[tuple[int, int, str], ...]:
        """(source, destination, seen by whom) for a request of these attention-DP ranks; ranks need not exist."""
        key = context_dp, generation_dp
        if key not in self._pairs:
            asked = {
                (source, info.rank.number)
                for info in _holders(self.generation, generation_dp)
                for source in topology.peer_ranks(info.shape, info.rank, self.context[0].shape, context_dp)
            }
            awaited = {
                (info.rank.number, destination)
                for info in _holders(self.context, context_dp)
                for destination in topology.peer_ranks(info.shape, info.rank, self.generation[0].shape, generation_dp)
            }
            self._pairs[key] = tuple(
                (*pair, "both" if pair in asked and pair in awaited else "receiver" if pair in asked else "sender")
                for pair in sorted(asked | awaited)
            )
        return self._pairs[key]

    def parts(self, source: int, destination: int) -> tuple[Part, ...]:
        """What ``source`` sends to ``destination`` of every slot; raises ``Refused``."""
        key = source, destination
        if key not in self._parts:
            self._parts[key] = self._build(self.context[source], self.generation[destination])
        return self._parts[key]

    def _build(self, own: RankInfo, peer: RankInfo) -> tuple[Part, ...]:
        registered = id(own.table), id(peer.table), own.attention, peer.attention
        if registered not in self._mapped:
            compatibility.check_peers(own, peer, self.settings)
            election.duplication(own, peer)
            self._mapped[registered] = pairing.match_views(own.table, peer.table)
        found: dict[tuple[int, int, int, int], list[np.ndarray]] = {}
        heads = whole = None
        for mapped in self._mapped[registered]:
            view = mapped.own
            if not view.paged:
                sends = election.sends_state(own, peer, view.mapper)
            elif view.mapper == "replicated":
                whole = sends = election.sends_replicated(own, peer) if whole is None else whole
            else:
                heads = sends = election.sends_heads(own, peer) if heads is None else heads
            if sends:
                place = view.group, mapped.peer.group, view.pool, mapped.peer.pool
                found.setdefault(place, []).append(self._view_runs(mapped, own, peer))
        if self._items and auxiliary.sends_items(own, peer):
            items = self._items[0][own.rank.number], self._items[1][peer.rank.number]
            for place, runs in auxiliary.item_runs(*items):
                found.setdefault(place, []).append(runs)
        source_pools, destination_pools = self._pools[0][own.rank.number], self._pools[1][peer.rank.number]
        return tuple(
            Part(
                *place,
                source_pools[place[2]].slot_stride,
                destination_pools[place[3]].slot_stride,
                runs[0] if len(runs) == 1 else np.concatenate(runs),
            )
            for place, runs in found.items()
        )

    def _view_runs(self, mapped: Mapped, own: RankInfo, peer: RankInfo) -> np.ndarray:
        """Runs of one view, found once for all rank pairs that cut it alike."""
        cut = mappers.cut_of(mapped, own, peer)
        runs = self._runs.get((mapped, cut))
        if runs is None:
            uncut = self._uncut.get(mapped)
            if uncut is None:
                uncut = self._uncut[mapped] = mappers.uncut_runs(mapped, own, peer)
            runs = self._runs[mapped, cut] = mappers.cut_runs(uncut, cut)
        return runs


def _rank_infos(
    declared: Declared, instance: Instance, ranks: tuple[RankFacts, ...], settings: Settings
) -> tuple[RankInfo, ...]:
    shape = shape_of(declared, instance)
    attention: dict[int, Attention | None] = {}
    tables: dict[object, Table] = {}
    infos = []
    for facts in ranks:
        rank = facts.rank
        grid = topology.state_grid(shape, rank)
        key = (id(facts.table), grid) if declared.uneven_state else id(facts.table)
        if key not in tables:
            tables[key] = build_table(declared, instance, grid, facts.table)
        if rank.pp not in attention:
            attention[rank.pp] = attention_of(declared, instance, rank.pp, settings)
        dp = rank.tp if shape.attention_dp else 0
        infos.append(RankInfo(rank, shape, dp, attention[rank.pp], grid, tables[key]))
    return tuple(infos)


def _holders(infos: tuple[RankInfo, ...], dp: int) -> list[RankInfo]:
    """Ranks that a request of attention-DP rank ``dp`` is on."""
    return [info for info in infos if not info.shape.attention_dp or info.dp == dp]
