"""Sizes and pairs of two instances, as the legacy sender sees them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.topology import Rank


def tensor_size(instance: Instance) -> int:
    """Ranks that share the heads of one request."""
    return 1 if instance.topology.attention_dp else instance.topology.tp


def is_helix(case: Case) -> bool:
    """Whether a whole context side sends to context-parallel receivers."""
    return case.context.topology.cp == 1 and case.generation.topology.cp > 1


def divides(one: int, other: int) -> bool:
    """Whether either size is a multiple of the other."""
    return max(one, other) % min(one, other) == 0


@lru_cache(maxsize=4096)
def asked_ranks(case: Case, request: Request, destination: int) -> tuple[Rank, ...]:
    """Context ranks that exist and that ``destination`` asks, in order of their numbers.

    Where tensor sizes do not divide, a coordinate may lie beyond the tensor grid. Its number then is
    that of no rank, or of one of the next stage.
    """
    there, here = case.context.topology, case.generation.topology
    sizes = tensor_size(case.context), tensor_size(case.generation)
    receiver = here.rank(destination)
    own = 0 if here.attention_dp else receiver.tp
    if there.attention_dp:
        tensor = range(request.context_dp, request.context_dp + 1)
    elif sizes[1] > sizes[0]:
        tensor = range(own // (sizes[1] // sizes[0]), own // (sizes[1] // sizes[0]) + 1)
    else:
        tensor = range(own * (sizes[0] // sizes[1]), (own + 1) * (sizes[0] // sizes[1]))
    numbers = {
        there.number(stage, rank, cp)
        for stage, met in legacy_stage_pairs(case)
        if met == receiver.pp
        for rank in tensor
        for cp in range(there.cp)
    }
    return tuple(there.rank(number) for number in sorted(numbers) if number < there.size)


def asked_tensor_ranks(case: Case, request: Request, destination: int, stage: int) -> list[int]:
    """Tensor coordinates of the ranks of context stage ``stage`` that ``destination`` asks."""
    return sorted({rank.tp for rank in asked_ranks(case, request, destination) if rank.pp == stage})


def election_key(case: Case, request: Request) -> int:
    """The destination's attention data-parallel rank."""
    return request.generation_dp if case.generation.topology.attention_dp else 0


def stages(instance: Instance) -> Iterator[tuple[int, int, int]]:
    """(stage, first layer, end) of each pipeline stage."""
    first = 0
    for stage, layers in enumerate(instance.topology.stages):
        yield stage, first, first + layers
        first += layers


def stage_of(instance: Instance, layer: int) -> int:
    """The stage that holds ``layer``; -1 where the instance has no such layer, as of drafts that it lacks."""
    return next((stage for stage, first, end in stages(instance) if first <= layer < end), -1)


def legacy_stage_pairs(case: Case) -> Iterator[tuple[int, int]]:
    """(context stage, generation stage) that the legacy sender pairs: an empty one inside the other's layers too."""
    for there, first, end in stages(case.context):
        for here, own_first, own_end in stages(case.generation):
            if first < own_end and end > own_first:
                yield there, here


def chunk_count(case: Case, request: Request) -> int:
    """Slices in which the context side sends ``request`` (spec: blocks, chunked prefill); one if it is not cut."""
    block = case.context.tokens_per_block
    start, sent = request.context.cached, 0
    low = 0
    for cut in request.cuts:
        if cut > start and cut // block > low:
            sent, low = sent + 1, cut // block
    return sent + 1
