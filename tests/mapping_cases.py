"""Short words for the cases that the tests of the mapping and of the managers are about."""

from __future__ import annotations

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping, Pages, RankPages
from oracle.model.axes import Axis, Grid, Section, Split
from oracle.model.buffers import Buffer, GroupKind, LayerGroup, Model, Part
from oracle.model.case import Case, Request
from oracle.model.instance import Instance
from oracle.model.layers import LayerSet
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.model.writes import Refusal, Writes

TOKENS = Axis("T", tokens_per_row=1)


def heads(size: int, split: Split = Split.HEADS, grid: Grid = Grid.TP) -> Axis:
    return Axis("H", size, split, grid)


def payload(size: int, name: str = "D") -> Axis:
    return Axis(name, size)


def sections(*given: tuple[str, int, Split]) -> Axis:
    """A channel axis over the tensor × context grid, of (name, size, split) each."""
    return Axis("C", 0, Split.ALL, Grid.TPCP, tuple(Section(*each) for each in given))


def buffer(role: str, layers: str, *axes: Axis, bits: int = 8, **others: object) -> Buffer:
    return Buffer(role, LayerSet.parse(layers), (Part(axes, bits),), **others)  # type: ignore[arg-type]


def paged(*buffers: Buffer, name: str = "full", **others: object) -> LayerGroup:
    return LayerGroup(name, GroupKind.PAGED, buffers, **others)  # type: ignore[arg-type]


def state(*buffers: Buffer, name: str = "state") -> LayerGroup:
    return LayerGroup(name, GroupKind.STATE, buffers)


def keys_only(size: int, *, layers: int = 1, dim: int = 1, order: str = "HND") -> Model:
    """One group of keys with ``size`` heads of ``dim`` bytes a token."""
    axes = (heads(size), TOKENS, payload(dim)) if order == "HND" else (TOKENS, heads(size), payload(dim))
    return Model(layers, (paged(buffer("key", f"0..{layers - 1}", *axes)),))


def case_of(
    model: Model, source: Topology, destination: Topology, *requests: Request, tokens: int = 2, **others: object
) -> Case:
    """``model`` between two topologies; a request of one block unless some are given."""
    sides = {
        side: Instance(topology, tokens_per_block=tokens, **others.pop(side, {}))  # type: ignore[arg-type]
        for side, topology in (("context", source), ("generation", destination))
    }
    return Case(model, requests=requests or (Request(0, tokens),), **sides, **others)  # type: ignore[arg-type]


def plan_of(case: Case) -> Writes:
    """The mapping's plan of ``case``, which it must not refuse."""
    writes = Mapping().plan(case, gather_facts(case))
    assert isinstance(writes, Writes), str(writes)
    return writes


def refusal_of(case: Case) -> Refusal:
    """The mapping's refusal of the pair of instances of ``case``."""
    refusal = Mapping().plan(case, gather_facts(case))
    assert isinstance(refusal, Refusal), refusal
    return refusal


def pages_of(case: Case, side: str) -> Pages:
    return Pages(case.model, case.side(side), lay_out(case, side).tables)


def ranks_of_case(case: Case) -> tuple[list[RankPages], list[RankPages]]:
    """The pages of all context ranks and of all generation ranks."""
    context, generation = (
        [RankPages(pages_of(case, side), number) for number in range(case.side(side).topology.size)]
        for side in ("context", "generation")
    )
    return context, generation


def runs_by_pair(case: Case) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """Runs in the slot by (source rank, destination rank), of a case with one block and one pool on each side."""
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for segment in plan_of(case).segments:
        pair = (segment.source_rank, segment.destination_rank)
        assert pair not in found, "two segments for one pair of ranks"
        found[pair] = [tuple(run) for run in segment.runs.tolist()]
    return found
