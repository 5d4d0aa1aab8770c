"""What a case exercises: its features by name and its sizes, for distributions and for the choice of cases.

These are features of instances and requests; ``strategies.stresses`` are those of the cache itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from oracle.model.case import Case
from oracle.model.slots import block_count
from strategies.stresses.heads import repeats_heads, shares_heads_unevenly
from strategies.topologies import Shape, even_cut


def _sides(case: Case) -> tuple[Shape, Shape]:
    return Shape.of(case.context.topology), Shape.of(case.generation.topology)


def _stages(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return case.context.topology.stages, case.generation.topology.stages


def _packings(case: Case) -> set[str]:
    return {rule for side in (case.context, case.generation) for _, rule in side.packing}


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
}
"""Predicates on a case by the name of the feature."""

CANNOT_MEET = frozenset(
    frozenset(pair)
    for pair in (
        ("chunks", "Helix"),
        ("chunks", "context stages"),
        ("Helix", "generation attention DP"),
    )
)
"""Pairs of features that no two instances can have together, or only to be refused."""


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
