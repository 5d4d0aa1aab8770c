"""What a case exercises: its features by name and its sizes, for distributions and for the choice of cases.

These are features of instances and requests; ``strategies.stresses`` are those of the cache itself, and what is about
windows needs a kind that has some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from oracle.model.case import SIDES, Case, SideState
from oracle.model.slots import block_count
from strategies.stresses.heads import repeats_heads, shares_heads_unevenly
from strategies.topologies import Shape, even_cut


def _sides(case: Case) -> tuple[Shape, Shape]:
    return Shape.of(case.context.topology), Shape.of(case.generation.topology)


def _stages(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return case.context.topology.stages, case.generation.topology.stages


def _packings(case: Case) -> set[str]:
    return {rule for side in (case.context, case.generation) for _, rule in side.packing}


def _states(case: Case) -> tuple[SideState, ...]:
    return tuple(request.state(side) for request in case.requests for side in SIDES)


def _shares_content(case: Case) -> bool:
    contents = [request.content for request in case.requests]
    return len(set(contents)) < len(contents) or any(content.parent >= 0 for content in case.contents)


FEATURES: dict[str, Callable[[Case], bool]] = {
    "unequal tp": lambda case: _sides(case)[0].tensor != _sides(case)[1].tensor,
    "heads on several ranks": repeats_heads,
    "uneven heads": shares_heads_unevenly,
    "Helix": lambda case: case.generation.topology.cp > 1,
    "context attention DP": lambda case: case.context.topology.attention_dp,
    "generation attention DP": lambda case: case.generation.topology.attention_dp,
    "context stages": lambda case: case.context.topology.pp > 1,
    "generation stages": lambda case: case.generation.topology.pp > 1,
    "uneven stages": lambda case: any(stages != even_cut(sum(stages), len(stages)) for stages in _stages(case)),
    "empty stage": lambda case: any(0 in stages for stages in _stages(case)),
    "NHD": lambda case: "NHD" in (case.context.layout, case.generation.layout),
    "two layouts": lambda case: case.context.layout != case.generation.layout,
    "reversed layers": lambda case: bool(case.context.layer_order or case.generation.layer_order),
    "interleaved": lambda case: "interleaved" in _packings(case),
    "separate": lambda case: "separate" in _packings(case),
    "8 bits": lambda case: any(
        part.bits == 8 for group in case.model.groups for buffer in group.buffers for part in buffer.parts
    ),
    "several requests": lambda case: len(case.requests) > 1,
    "shared prefix": _shares_content,
    "cached prefix": lambda case: any(request.generation.cached for request in case.requests),
    "chunks": lambda case: any(request.cuts for request in case.requests),
    "partial block": lambda case: any(request.prompt % case.generation.tokens_per_block for request in case.requests),
    "V1 context": lambda case: case.context.manager == "v1",
    "V1 generation": lambda case: case.generation.manager == "v1",
    "reused prefix": lambda case: any(request.context.cached for request in case.requests),
    "extra tokens": lambda case: any(state.extra for state in _states(case)),
    "drafts": lambda case: any(state.drafts for state in _states(case)),
    "beyond the prompt": lambda case: any(state.reached for state in _states(case)),
    "beams": lambda case: any(request.beams > 1 for request in case.requests),
    "look-ahead": lambda case: case.context.look_ahead > 0,
    "reserve": lambda case: bool(case.context.reserve or case.generation.reserve),
    "scratch": lambda case: case.context.scratch is not None or case.generation.scratch is not None,
    "sinks": lambda case: any(group.sinks for group in case.model.groups),
}
"""Predicates on a case by the name of the feature."""

OF_STATES = frozenset(
    ("V1 context", "V1 generation", "reused prefix", "extra tokens", "drafts", "beyond the prompt", "beams")
    + ("look-ahead", "reserve", "scratch", "sinks")
)
"""Features that only cases with states have; but for sinks, which a kind may have of its own."""

OF_WINDOWS = frozenset(("reserve", "scratch", "sinks"))
"""Features that need a window."""

CANNOT_MEET = frozenset(
    frozenset(pair)
    for pair in (
        ("chunks", "Helix"),
        ("chunks", "context stages"),
        ("look-ahead", "Helix"),
        ("look-ahead", "context stages"),
        ("look-ahead", "V1 context"),
        ("Helix", "generation attention DP"),
        ("beams", "Helix"),
        ("beams", "chunks"),
        ("beams", "look-ahead"),
        ("beams", "scratch"),
        ("beams", "sinks"),
        ("sinks", "V1 context"),
        ("sinks", "V1 generation"),
    )
)
"""Pairs of features that no two instances can have together, or only to be refused, by the legacy sender at least."""


def features_of(case: Case) -> frozenset[str]:
    """The names of the features that ``case`` has."""
    return frozenset(name for name, holds in FEATURES.items() if holds(case))


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a case is: ranks of both sides together, layers, requests, and blocks of its longest prompt."""

    ranks: int
    layers: int
    requests: int
    blocks: int


def sizes_of(case: Case) -> Sizes:
    """The sizes of ``case``."""
    return Sizes(
        case.context.topology.size + case.generation.topology.size,
        case.model.layers,
        len(case.requests),
        max(block_count(request, "prompt", case.generation.tokens_per_block) for request in case.requests),
    )


def median_sizes(cases: Iterable[Case]) -> Sizes:
    """The median of each size over ``cases``, rounded down."""
    found = [sizes_of(case) for case in cases]
    return Sizes(*(int(median(getattr(size, name) for size in found)) for name in Sizes.__slots__))
