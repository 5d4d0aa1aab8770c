"""Which source ranks a destination rank hears from: ranks whose shares of each parallel dimension overlap."""

from __future__ import annotations

from functools import lru_cache

from oracle.model.topology import Topology


def overlap(source: int, sources: int, destination: int, destinations: int) -> bool:
    """Whether [s/S, (s+1)/S) and [d/D, (d+1)/D) have a point in common."""
    return source * destinations < (destination + 1) * sources and destination * sources < (source + 1) * destinations


@lru_cache(maxsize=4096)
def pairs(context: Topology, generation: Topology, context_dp: int, generation_dp: int) -> tuple[tuple[int, int], ...]:
    """(source rank, destination rank) of a request on these data-parallel ranks, in order of both numbers."""
    found: list[tuple[int, int]] = []
    for source in context.ranks():
        if context.attention_dp and source.tp != context_dp:
            continue
        layers = set(context.stage_layers(source.pp))
        for destination in generation.ranks():
            if generation.attention_dp and destination.tp != generation_dp:
                continue
            if not layers.intersection(generation.stage_layers(destination.pp)):
                continue
            tensor = overlap(
                0 if context.attention_dp else source.tp,
                1 if context.attention_dp else context.tp,
                0 if generation.attention_dp else destination.tp,
                1 if generation.attention_dp else generation.tp,
            )
            if tensor and overlap(source.cp, context.cp, destination.cp, generation.cp):
                found.append((source.number, destination.number))
    return tuple(found)


@lru_cache(maxsize=4096)
def paired_sources(
    context: Topology, generation: Topology, context_dp: int, generation_dp: int
) -> dict[int, tuple[int, ...]]:
    """Paired source ranks, in rank order, of each destination rank that the request is on."""
    heard: dict[int, tuple[int, ...]] = {}
    for rank in generation.ranks():
        if not generation.attention_dp or rank.tp == generation_dp:
            heard[rank.number] = ()
    for source, destination in pairs(context, generation, context_dp, generation_dp):
        heard[destination] += (source,)
    return heard
