"""Holding the legacy sender's model to recorded plans: bytes moved, senders elected, and where two plans differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.managers.facts import Facts
from differential.managers.tables import gather_facts
from differential.subjects.protocol import Subject
from oracle.model.case import Case
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from tests.golden import Scenario, case_of, writes_of

SETTINGS = {"main": "suffix,no-helix", "main_helix": "suffix"}
"""Options of the subject that stands for each recorded generation."""
BYTE = ("src_rank", "dst_rank", "src_pool", "dst_pool", "src_offset", "dst_offset")


def _freeze(data: Any) -> Any:
    return tuple(_freeze(item) for item in data) if isinstance(data, list) else data


# Scenarios are plain dictionaries, shared and kept: their ids stay theirs as long as they are kept here too.
_CASES: dict[int, tuple[Scenario, Case, Facts]] = {}


def case_and_facts(scenario: Scenario) -> tuple[Case, Facts]:
    """The case of a scenario and what its managers hand over, built once."""
    if id(scenario) not in _CASES:
        case = case_of(scenario)
        _CASES[id(scenario)] = scenario, case, gather_facts(case)
    return _CASES[id(scenario)][1:]


def moved_bytes(writes: Writes) -> np.ndarray:
    """One row of ``BYTE`` for each byte a plan moves, sorted; a byte moved twice has two rows."""
    columns = writes.columns()
    nbytes = columns["nbytes"]
    inside = np.arange(nbytes.sum()) - np.repeat(np.cumsum(nbytes) - nbytes, nbytes)
    rows = np.stack([np.repeat(columns[name], nbytes) for name in BYTE], axis=1)
    rows[:, 4:] += inside[:, None]
    return rows[np.lexsort(rows.T[::-1])]


_RECORDED: dict[int, tuple[Scenario, np.ndarray]] = {}


def recorded_bytes(scenario: Scenario, result: Scenario) -> np.ndarray:
    """:func:`moved_bytes` of a recorded result, found once."""
    if id(result) not in _RECORDED:
        case, _ = case_and_facts(scenario)
        _RECORDED[id(result)] = result, moved_bytes(writes_of(scenario, result, case))
    return _RECORDED[id(result)][1]


def cut_as_recorded(scenario: Scenario, case: Case, plan: Writes) -> Writes:
    """``plan`` with its runs cut where a region starts or ends, as recorded ones are.

    The recording calls a run that leaves its buffer out of range only past the end of the pool.
    """
    columns = plan.columns()
    fragments = list(zip(*(columns[name].tolist() for name in (*BYTE, "nbytes")), strict=True))
    cut = writes_of(scenario, {"status": "ok", "pairs": [], "fragments": fragments}, case)
    return Writes(plan.pairs, cut.segments)


def elections(scenario: Scenario, case: Case, writes: Writes) -> list[tuple[Any, ...]]:
    """(destination, group, buffers, source stage, candidates, senders) as recorded, read off a plan.

    Candidates are the paired ranks of one source stage that hold buffers of the role on a layer
    that the destination has too; only where there are several, they are listed.
    """
    sides = lay_out(case, "context").tables, lay_out(case, "generation").tables
    stage_of = {rank.number: rank.pp for rank in case.context.topology.ranks()}
    columns = writes.columns()
    rows = list(zip(*(columns[name].tolist() for name in ("group", *BYTE[:4], "dst_offset")), strict=True))
    found = []
    for group_index, group in enumerate(scenario["model"]["groups"]):
        for role in group["roles"]:
            names = set(role["buffers"])
            for destination, table in enumerate(sides[1]):
                held = [entry for entry in table.entries if entry.group == group_index and entry.role in names]
                layers = {entry.layer for entry in held}
                candidates: dict[int, list[int]] = {}
                for pair in writes.pairs:
                    if pair.destination != destination or pair.seen_by != "both":
                        continue
                    entries = sides[0][pair.source].entries
                    if any(e.group == group_index and e.role in names and e.layer in layers for e in entries):
                        candidates.setdefault(stage_of[pair.source], []).append(pair.source)
                senders = {
                    source
                    for of_group, source, to, _, pool, offset in rows
                    if (of_group, to) == (group_index, destination)
                    and any(_lies_in(table, entry, pool, offset) for entry in held)
                }
                for stage, ranks in candidates.items():
                    if len(ranks) > 1:
                        chosen = tuple(rank for rank in sorted(ranks) if rank in senders)
                        buffers = "+".join(role["buffers"])
                        found.append((destination, group_index, buffers, stage, tuple(sorted(ranks)), chosen))
    return sorted(found)


def _lies_in(table: Any, entry: Any, pool: int, offset: int) -> bool:
    """Whether a byte of ``pool`` lies in the region of ``entry`` in any slot."""
    if pool != entry.pool:
        return False
    described = table.pools[pool]
    slot, inside = divmod(offset - entry.offset, described.slot_stride)
    return 0 <= slot < described.count and inside < entry.nbytes


def disagreements(scenario: Scenario, result: Scenario, subject: Subject) -> list[str]:
    """Where the plan of ``subject`` and a recorded result differ, in words; empty if nowhere."""
    case, facts = case_and_facts(scenario)
    plan = subject.plan(case, facts)
    refusals = [plan] if isinstance(plan, Refusal) else list(plan.refusals)
    expected = [result["reason"]] if result["status"] == "refused" else []
    if refusals or expected or isinstance(plan, Refusal):
        codes = [refusal.code for refusal in refusals]
        return [] if codes == expected else [f"refused {list(map(str, refusals))}, recorded {expected}"]
    found = []
    recorded = writes_of(scenario, result, case)
    if sorted(plan.pairs) != list(recorded.pairs):
        found.append(f"pairs {sorted(plan.pairs)}, recorded {list(recorded.pairs)}")
    chosen, listed = elections(scenario, case, plan), sorted(map(_freeze, result["elections"]))
    if chosen != listed:
        found.append(f"elections {sorted(set(chosen) - set(listed))}, recorded {sorted(set(listed) - set(chosen))}")
    moved, due = moved_bytes(plan), recorded_bytes(scenario, result)
    if not np.array_equal(moved, due):
        ours, theirs = set(map(tuple, moved.tolist())), set(map(tuple, due.tolist()))
        first = [sorted(rows)[:1] for rows in (ours - theirs, theirs - ours)]
        found.append(f"{len(moved)} bytes, recorded {len(due)}; first ours alone {first[0]}, recorded alone {first[1]}")
    return found
