"""Cases between two splits of a declared kind, and plans taken apart by buffer so that one step can be made wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from differential.subjects.registry import find_subject
from oracle.model.case import SIDES, Case, Request, Slots
from oracle.model.instance import Instance
from oracle.model.pages import Entry, PageTable
from oracle.model.sides import lay_out
from oracle.model.topology import Topology
from oracle.model.writes import Refusal, Writes
from oracle.truth.decide import judge_any
from oracle.truth.verdict import Kind, Outcome, Verdict
from strategies.kinds.protocol import Declaration
from tests.small_cases import topology

TOKENS = 4


def between(
    declared: Declaration,
    context: str = "tp1",
    generation: str = "tp1",
    *,
    prompt: int = 9,
    tokens: int = TOKENS,
    key: int = 0,
    layout: str = "",
    **sides: dict[str, object],
) -> Case:
    """One request of ``declared`` between two topologies as text, such as ``tp2 cp2`` or ``tp4 dp`` or ``tp1 pp2+1``.

    Stages hold the extra layers where they are listed with them. ``key``: the attention data-parallel rank of the
    receiver. ``context_side`` and ``generation_side``: what else differs by side.
    """
    model = declared.model
    instances = []
    for side, text, without in zip(SIDES, (context, generation), declared.without, strict=True):
        held = model.layers - declared.extra + declared.extra_of(side)
        own = sides.get(f"{side}_side", {})
        given: dict[str, object] = {"tokens_per_block": tokens, "layout": layout, "without": without, **own}
        instances.append(Instance(topology(text, held), **given))  # type: ignore[arg-type]
    lengths = tuple((group.length, prompt) for group in model.groups if group.length != "prompt")
    return Case(
        model,
        *instances,
        (Request(0, prompt, 0, key, lengths),),
        slots=Slots(mul=2, add=1),
        native=declared.native,
        kind="hot spot",
    )


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive bytes of one buffer and slot on either side; offsets count from the start of the buffer's region."""

    group: int
    layer: int
    role: str
    source: int
    destination: int
    source_slot: int
    destination_slot: int
    source_offset: int
    destination_offset: int
    nbytes: int
    source_layer: int
    """differs from ``layer`` where the buffer is of the whole request"""


def entry_of(table: PageTable, group: int, layer: int, role: str) -> Entry:
    return next(each for each in table.entries if (each.group, each.layer, each.role) == (group, layer, role))


def tables_of(case: Case) -> tuple[tuple[PageTable, ...], tuple[PageTable, ...]]:
    return lay_out(case, "context").tables, lay_out(case, "generation").tables


def _inside(table: PageTable, group: int, pool: int, offset: int) -> tuple[Entry, int, int]:
    """(entry, slot, offset in the entry's region) of a byte of a pool that is packed slot by slot."""
    slot, rest = divmod(offset, table.pools[pool].slot_stride)
    for entry in table.entries:
        if (entry.group, entry.pool) == (group, pool) and entry.offset <= rest < entry.offset + entry.nbytes:
            return entry, slot, rest - entry.offset
    raise AssertionError(f"no buffer of group {group} at {rest} of a slot of pool {pool}")


def runs_of(case: Case, plan: Writes) -> list[Run]:
    """The runs of ``plan``, cut where a buffer ends on either side."""
    tables = tables_of(case)
    columns = plan.columns()
    names = ("group", "src_rank", "dst_rank", "src_pool", "dst_pool", "src_offset", "dst_offset", "nbytes")
    found = []
    for group, *places in zip(*(columns[name].tolist() for name in names), strict=True):
        ranks, pools, starts, nbytes = places[:2], places[2:4], places[4:6], places[6]
        edges = {0, nbytes}
        for own, rank, pool, start in zip(tables, ranks, pools, starts, strict=True):
            stride = own[rank].pools[pool].slot_stride
            for entry in own[rank].entries:
                if (entry.group, entry.pool) == (group, pool):
                    edges.update((start // stride * stride + entry.offset + at - start) for at in (0, entry.nbytes))
        for first, last in pairwise(sorted(edge for edge in edges if 0 <= edge <= nbytes)):
            (read, read_slot, read_at), (entry, slot, at) = (
                _inside(own[rank], group, pool, start + first)
                for own, rank, pool, start in zip(tables, ranks, pools, starts, strict=True)
            )
            slots = (read_slot, slot, read_at, at)
            found.append(Run(group, entry.layer, entry.role, *ranks, *slots, last - first, read.layer))
    return found


def plan_of(case: Case, runs: Iterable[Run], plan: Writes) -> Writes:
    """``plan`` with these runs instead of its own."""
    tables = tables_of(case)
    rows = []
    for run in runs:
        places = []
        for own, rank, layer, slot, offset in (
            (tables[0], run.source, run.source_layer, run.source_slot, run.source_offset),
            (tables[1], run.destination, run.layer, run.destination_slot, run.destination_offset),
        ):
            entry = entry_of(own[rank], run.group, layer, run.role)
            places.append((entry.pool, slot * own[rank].pools[entry.pool].slot_stride + entry.offset + offset))
        (source_pool, read), (pool, written) = places
        ranks = (run.source, run.destination)
        rows.append((0, 0, run.group, *ranks, source_pool, pool, read, written, run.nbytes))
    return Writes.from_runs(rows, pairs=plan.pairs)


def planted(case: Case, change: Callable[[Run], Run | Iterable[Run] | None]) -> Writes:
    """The right plan with each run changed: into another, into several, or, None, left out."""
    plan = right_plan(case)
    found: list[Run] = []
    for run in runs_of(case, plan):
        changed = change(run)
        found += [] if changed is None else [changed] if isinstance(changed, Run) else changed
    return plan_of(case, found, plan)


def from_rank(case: Case, run: Run, rank: int) -> Run:
    """``run`` as another context rank would send it, from the same place of its own slot of the same block."""
    slots = lay_out(case, "context").slots
    ordinal = slots[run.source][run.group][0].tolist().index(run.source_slot)
    return replace(run, source=rank, source_slot=int(slots[rank][run.group][0][ordinal]))


def ordinal_of(case: Case, run: Run) -> int:
    """The number of the block that ``run`` writes to."""
    return lay_out(case, "generation").slots[run.destination][run.group][0].tolist().index(run.destination_slot)


def slot_of(case: Case, side: str, rank: int, group: int, ordinal: int) -> int:
    return int(lay_out(case, side).slots[rank][group][0][ordinal])


def right_plan(case: Case) -> Writes:
    """The mapping's plan, which serves the case and is right by both judges."""
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes) and not plan.refusals, plan
    assert judged(case, plan).outcome is Outcome.PASS
    return plan


def refusal_of(case: Case) -> Refusal:
    """The mapping's refusal of the instances, which is a right one."""
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Refusal), plan
    assert judged(case, plan).outcome is Outcome.PASS
    return plan


def judged(case: Case, plan: Writes | Refusal, *, padding: str = "optional") -> Verdict:
    """The verdict on ``plan``, on which both judges agree."""
    one, other = (
        judge_any(case, plan, padding=padding, method=method)  # type: ignore[arg-type]
        for method in ("elements", "intervals")
    )
    assert (one.outcome, one.counts) == (other.outcome, other.counts)
    return one


def reported(case: Case, plan: Writes) -> set[Kind]:
    """The kinds of violation that both judges report of ``plan``."""
    return set(judged(case, plan).kinds)


def served(case: Case) -> list[Run]:
    """The runs of the mapping's right plan; the legacy sender's is alike but for what the ledger knows."""
    plan = right_plan(case)
    if case.native is not None:
        checked = check_case(case, [Mapping(), find_subject("native")])
        assert checked.passed, [line for each in checked.settled for line in each.open.lines()]
    return runs_of(case, plan)


def of_native(case: Case) -> Verdict:
    """What the judge says of the legacy sender's plan."""
    return run_case(case, [find_subject("native")]).verdicts["native"]


def accepted(case: Case) -> set[str]:
    """The ledger entries that explain how the legacy sender differs in ``case``."""
    checked = check_case(case, [Mapping(), find_subject("native")])
    assert checked.passed
    return {name for each in checked.settled for name in each.accepted}


__all__ = ["Kind", "Outcome", "Run", "Topology", "between"]
