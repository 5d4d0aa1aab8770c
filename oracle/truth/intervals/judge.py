"""The closed-form judge: a plan against what is due, on runs and pieces, slot by slot as they are visited alike."""

from __future__ import annotations

import numpy as np

from oracle.model.case import Case
from oracle.model.encodings import Encoding
from oracle.model.writes import Refusal, Writes, check_plan
from oracle.truth.blocks import is_required
from oracle.truth.findings import LIMIT, find_outside, find_unpaired, unserved_violation
from oracle.truth.intervals.compare import Due, Visit, compare
from oracle.truth.intervals.known import DueMap, Known, Owners, known_of
from oracle.truth.intervals.report import WRITTEN, Findings, Pool
from oracle.truth.intervals.visits import Visits, plan_of
from oracle.truth.judge import Election, Padding, check_options, pair_trouble, settle_refusals, with_refusals
from oracle.truth.reserved import FOREIGN, PADDING
from oracle.truth.verdict import Kind, Outcome, Verdict, Violation

OTHER, SAME = 0, 1
"""how a sender's block stands to the block that is due; from 2 on: the same for some token rows"""


def judge_intervals(
    case: Case,
    writes: Writes | Refusal,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
    encoding: Encoding = "tables",
    checked: bool = False,
) -> Verdict:
    """Judge a plan of ``case`` without touching each byte.

    Arguments and verdict are those of ``oracle.truth.judge.judge``: the same outcome, bytes by kind,
    and violations. Work and memory grow with the pieces of a slot and the number of slots, not with
    their product.
    """
    check_options(padding, election, encoding)
    known = known_of(case, with_tails=encoding != "tables")
    if isinstance(writes, Refusal):
        writes = Writes(refusals=(writes,))
    if not checked:
        check_plan(writes, len(case.requests), len(case.model.groups))
    false, refused = settle_refusals(known, writes, encoding)
    return with_refusals(_judge_plan(known, writes, padding, election, refused), false, writes)


def _judge_plan(known: Known, writes: Writes, padding: Padding, election: Election, refused: frozenset[int]) -> Verdict:
    unplanned = pair_trouble(known, writes, refused) if election == "paired" else ()
    plan = plan_of(writes, known.context, known.generation)
    findings = Findings(known, plan)
    senders = np.array([(s.source_rank, s.source_pool) for s in writes.segments], dtype=np.int64).reshape(-1, 2)
    for rank, starts in enumerate(known.generation.starts):
        for number in range(len(starts)):
            pool = Pool(rank, number, known.owners("generation", rank, number), plan.visits(rank, number))
            if len(pool.visits.slot) or len(pool.owners.group):
                _PoolJudge(findings, pool, senders, padding, election, refused).judge()
    violations: list[Violation] = []
    counts: dict[Kind, int] = {}
    find_unpaired(known, writes, violations, counts)
    find_outside(known, writes, sorted(plan.outside), plan.nowhere, violations, counts)
    for kind in (*WRITTEN, Kind.MISSING):
        if kind in findings.counts:
            counts[kind] = findings.counts[kind]
            violations += findings.tell(kind, LIMIT)
    if election == "paired" and not counts:
        for unserved in [row for row in known.unserved if row[0] not in refused][:1]:
            counts[Kind.MISSING] = 0
            violations.append(unserved_violation(known, unserved))
    for violation in unplanned:
        counts[violation.kind] = counts.get(violation.kind, 0) + violation.nbytes
    violations = [*unplanned, *violations]
    return Verdict(
        Outcome.FAIL if violations else Outcome.PASS,
        tuple(violations),
        counts,
        nbytes=plan.nbytes,
        runs=writes.run_count,
        pairs=len(writes.pairs),
    )


class _PoolJudge:
    """Compares the slots of one pool of a receiver, those that are visited alike at once."""

    def __init__(
        self,
        findings: Findings,
        pool: Pool,
        senders: np.ndarray,
        padding: Padding,
        election: Election,
        refused: frozenset[int],
    ) -> None:
        self.findings = findings
        self.known = findings.known
        self.pool = pool
        self.senders = senders
        self.padding = padding
        self.election = election
        self.refused = refused
        self.rows_alike: list[np.ndarray] = []
        """by relation - 2: for which tokens of a block the sender's block is the one that is due"""

    def judge(self) -> None:
        visits = self.pool.visits
        columns, sort_of = self._sort_by_slot()
        kinds, codes = self._visit_kinds()
        firsts = np.flatnonzero(np.diff(visits.slot, prepend=-1))
        slots = visits.slot[firsts]
        ends = [*firsts[1:].tolist(), len(codes)]
        alike: dict[tuple[int, bytes], list[int]] = {}
        for number, (sort, first, end) in enumerate(zip(sort_of[slots].tolist(), firsts.tolist(), ends, strict=False)):
            alike.setdefault((sort, codes[first:end].tobytes()), []).append(number)
        for (sort, signature), members in alike.items():
            rows = kinds[np.frombuffer(signature, dtype=np.int64)]
            self._compare(None if sort < 0 else columns[sort], rows, slots[members], firsts[members])
        unvisited = sort_of.copy()
        unvisited[slots] = -1
        idle = np.flatnonzero(unvisited >= 0)
        for sort in set(unvisited[idle].tolist()):
            mine = idle[unvisited[idle] == sort]
            self._compare(columns[sort], kinds[:0], mine, np.zeros_like(mine))

    def _sort_by_slot(self) -> tuple[np.ndarray, np.ndarray]:
        """(what tells sorts of blocks apart, by slot the sort of its block: -1 where nothing may come)."""
        owners = self.pool.owners
        key = (self.pool.rank, id(owners), self.padding)
        found = self.known.sorts.get(key)
        if found is None:
            found = self.known.sorts[key] = self._sorts()
        columns, sorts = found
        if self.refused:
            sorts = np.where(np.isin(owners.request, list(self.refused)), -1, sorts)
        return columns, np.append(sorts, -1)[owners.block]

    def _sorts(self) -> tuple[np.ndarray, np.ndarray]:
        """(what tells sorts of blocks apart, the sort of each block).

        A sort is (group, first request that hears from the same ranks with the same key, residue of
        the ordinal, class, valid tokens, whether its tokens have several codes).
        """
        case, owners = self.known.case, self.pool.owners
        size, cp = case.generation.tokens_per_block, case.context.topology.cp
        groups = case.model.groups
        tokens = np.array(
            [[size if not g.is_paged else request.tokens(g.length) for request in case.requests] for g in groups]
        )
        valid = np.minimum(size, tokens[owners.group, owners.request] - owners.ordinal * size)
        paged = np.array([group.is_paged for group in groups])[owners.group]
        if self.padding == "due":
            valid = np.full_like(valid, size)
        signatures: dict[tuple[object, ...], int] = {}
        like = np.array(
            [
                signatures.setdefault((heard.get(self.pool.rank), request.generation_dp), number)
                for number, (heard, request) in enumerate(zip(self.known.heard, case.requests, strict=True))
            ]
        )
        rows = [
            owners.group,
            like[owners.request],
            np.where(paged, owners.ordinal % cp, 0),
            owners.klass,
            valid,
            owners.code < 0,
        ]
        columns, sorts = np.unique(np.stack(rows, axis=1), axis=0, return_inverse=True)
        return columns, sorts.ravel()

    def _visit_kinds(self) -> tuple[np.ndarray, np.ndarray]:
        """(kinds of visits: runs, sender, its pool, group of its block or -1, relation; the kind of each visit)."""
        visits = self.pool.visits
        if not len(visits.slot):
            return np.zeros((0, 5), dtype=np.int64), visits.slot
        rank, pool = self.senders[visits.segment].T
        group = np.full_like(visits.slot, -1)
        relation = np.full_like(visits.slot, OTHER)
        for sender in sorted({*zip(rank.tolist(), pool.tolist(), strict=True)}):
            mine = np.flatnonzero((rank == sender[0]) & (pool == sender[1]))
            theirs = self.known.owners("context", *sender)
            block = theirs.block[visits.source[mine]]
            mine, block = mine[block >= 0], block[block >= 0]
            group[mine] = theirs.group[block]
            if self.known.comparable:
                relation[mine] = self._relate(theirs, block, visits, mine)
        key = visits.runs
        columns = (visits.runs, rank, pool, group, relation)
        for column in columns[1:]:
            key = key * (int(column.max()) + 2) + column + 1
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        return np.stack(columns, axis=1)[first], which.astype(np.int64)

    def _relate(self, theirs: Owners, block: np.ndarray, visits: Visits, mine: np.ndarray) -> np.ndarray:
        """Whether each sender's block is the block that is due in the slot it is written to."""
        owners = self.pool.owners
        found = np.full_like(mine, OTHER)
        due = owners.block[visits.slot[mine]]
        chosen = np.flatnonzero(due >= 0)
        due, block = due[chosen], block[chosen]
        like = (owners.group[due] == theirs.group[block]) & (owners.ordinal[due] == theirs.ordinal[block])
        ours, other = owners.code[due], theirs.code[block]
        found[chosen[like & (ours == other)]] = SAME
        for number in np.flatnonzero(like & (ours != other) & ((ours < 0) | (other < 0))).tolist():
            found[chosen[number]] = self._relate_rows(int(ours[number]), int(other[number]))
        return found

    def _relate_rows(self, code: int, other: int) -> int:
        first, second = (np.array(each) if each >= 0 else self.known.mixed[-1 - each] for each in (code, other))
        same = first == second
        if not same.any():
            return OTHER
        for number, known in enumerate(self.rows_alike):
            if np.array_equal(known, same):
                return number + 2
        self.rows_alike.append(same)
        return len(self.rows_alike) + 1

    def _compare(self, sort: np.ndarray | None, kinds: np.ndarray, slots: np.ndarray, firsts: np.ndarray) -> None:
        """Compare one of ``slots`` with its visits, and report it for all of them."""
        known, pool = self.known, self.pool
        due: DueMap | None = None
        asked: Due | None = None
        paired = self.election == "paired"
        if sort is not None:
            group, request, residue, klass, valid, mixed = sort.tolist()
            if not len(kinds) and not is_required(klass, paired=paired):
                return
            by_row = bool(mixed) or valid < known.case.generation.tokens_per_block or bool((kinds[:, 4] > SAME).any())
            due = known.due_map(pool.rank, pool.pool, group, request, residue, by_row=by_row)
            if due is not None:
                asked = Due(due, klass, valid)
        visits = [self._visit(*row) for row in kinds.tolist()]
        found = compare(asked, visits, comparable=known.comparable, paired=paired)
        if found:
            self.findings.add(pool, slots, firsts, due, found)

    def _visit(self, runs: int, sender: int, pool: int, group: int, relation: int) -> Visit:
        known = self.known
        same = self.rows_alike[relation - 2] if relation > SAME else relation == SAME
        listed = self.findings.plan.runs[runs]
        if group < 0:
            return Visit(listed, sender, None, FOREIGN, same)
        layered = known.context.side.tables[sender].pools[pool].layer_stride
        return Visit(listed, sender, known.maps("context", sender, group)[pool], FOREIGN if layered else PADDING, same)
