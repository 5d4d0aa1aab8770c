"""Which ranks of two instances are paired, rank by rank and never by buffer (spec: mapping, pairing)."""

from __future__ import annotations

from functools import lru_cache

from differential.subjects.mapping.fan import fan
from oracle.model.topology import Topology


@lru_cache(maxsize=1024)
def overlapping_stages(source: tuple[int, ...], destination: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """For each destination stage, the source stages that have a layer in common with it."""
    bounds: list[tuple[int, int]] = []
    end = 0
    for layers in source:
        bounds.append((end, end + layers))
        end += layers
    found: list[tuple[int, ...]] = []
    first = 0
    for layers in destination:
        last = first + layers
        found.append(tuple(i for i, (low, high) in enumerate(bounds) if max(low, first) < min(high, last)))
        first = last
    return tuple(found)


@lru_cache(maxsize=8192)
def paired_ranks(source: Topology, destination: Topology, number: int, source_dp: int = 0) -> tuple[int, ...]:
    """Numbers of the source ranks that destination rank ``number`` hears from, in rank order.

    Under attention DP a rank holds its requests whole: its tensor size is 1, and ``source_dp``, the
    context rank of the request, chooses among the sources. Raises ``Refused`` where ``fan`` does.
    """
    rest, cp_rank = divmod(number, destination.cp)
    pp_rank, tp_rank = divmod(rest, destination.tp)
    source_tp = 1 if source.attention_dp else source.tp
    tp = fan(source_tp, 1, 0) if destination.attention_dp else fan(source_tp, destination.tp, tp_rank)
    if source.attention_dp:
        tp = range(source_dp, source_dp + 1)
    cp = fan(source.cp, destination.cp, cp_rank)
    stages = overlapping_stages(source.stages, destination.stages)[pp_rank]
    return tuple((p * source.tp + t) * source.cp + c for p in stages for t in tp for c in cp)


@lru_cache(maxsize=1024)
def ranks_of(topology: Topology, dp: int) -> tuple[int, ...]:
    """Numbers of the ranks that hold a request of attention-DP rank ``dp``: without attention DP, all."""
    if not topology.attention_dp:
        return tuple(range(topology.size))
    return tuple(topology.number(p, dp, c) for p in range(topology.pp) for c in range(topology.cp))
