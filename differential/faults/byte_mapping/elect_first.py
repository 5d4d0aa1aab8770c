"""The election ignores its key: the first of the ranks that hold an index always sends it."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size
from differential.managers.facts import Facts
from differential.runner import Kind
from differential.subjects.protocol import Subject
from oracle.model.case import Case
from oracle.model.topology import Topology
from oracle.model.writes import Pair, Refusal, Segment, Writes


def elect_first(subject: Subject, case: Case, facts: Facts) -> Writes | Refusal:
    """The plan of ``subject``, with each request sent by those who would send it to data-parallel rank 0."""
    plan = subject.plan(case, facts)
    if isinstance(plan, Refusal):
        return plan
    pairs, segments = list(plan.pairs), list(plan.segments)
    for home in sorted({request.generation_dp for request in case.requests} - {0}):
        as_first = subject.plan(*exchange_ranks(case, facts, home))
        if isinstance(as_first, Refusal):
            continue
        topology = case.generation.topology
        mine = {number for number, request in enumerate(case.requests) if request.generation_dp == home}
        pairs = _replace_own(pairs, [_pair_back(pair, topology, home) for pair in as_first.pairs], mine)
        segments = _replace_own(segments, [_back(each, topology, home) for each in as_first.segments], mine)
    return replace(plan, pairs=tuple(pairs), segments=tuple(segments))


def exchange_ranks(case: Case, facts: Facts, home: int) -> tuple[Case, Facts]:
    """The same transfer with the generation side's data-parallel ranks 0 and ``home`` exchanged."""
    topology = case.generation.topology
    other = {0: home, home: 0}
    requests = tuple(
        replace(request, generation_dp=other.get(request.generation_dp, request.generation_dp))
        for request in case.requests
    )
    ranks = tuple(
        replace(facts.generation[exchanged(topology, number, home)], rank=topology.rank(number))
        for number in range(topology.size)
    )
    return replace(case, requests=requests), replace(facts, generation=ranks)


def exchanged(topology: Topology, number: int, home: int) -> int:
    """The rank number with the tensor coordinates 0 and ``home`` exchanged."""
    rank = topology.rank(number)
    return topology.number(rank.pp, {0: home, home: 0}.get(rank.tp, rank.tp), rank.cp)


def _pair_back(pair: Pair, topology: Topology, home: int) -> Pair:
    return replace(pair, destination=exchanged(topology, pair.destination, home))


def _back(segment: Segment, topology: Topology, home: int) -> Segment:
    return replace(segment, destination_rank=exchanged(topology, segment.destination_rank, home))


def _replace_own(all_of_them: list, instead: list, requests: set[int]) -> list:  # type: ignore[type-arg]
    """``all_of_them`` with those of ``requests`` taken from ``instead``."""
    return [each for each in all_of_them if each.request not in requests] + [
        each for each in instead if each.request in requests
    ]


def has_keys(case: Case) -> bool:
    return case.generation.topology.attention_dp and any(request.generation_dp for request in case.requests)


FAULT = Fault(
    name="elect-first",
    description="the first holder sends, whatever the key",
    kinds=frozenset({Kind.NOT_ELECTED}),
    minimum=Size(ranks=4, layers=1, blocks=1),
    plant=elect_first,
    applies=has_keys,
)
