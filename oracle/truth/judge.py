"""The enumerating judge: a plan against the identity of every byte of the destination's memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from oracle.model.case import Case
from oracle.model.encodings import BLOCK_LOST, CODES, ENCODINGS, Encoding
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes, check_plan
from oracle.truth.blocks import is_required
from oracle.truth.elements import Frame, Truth, truth_of
from oracle.truth.encodings import may_refuse
from oracle.truth.findings import find_violations, unserved_violation
from oracle.truth.runs import Carried, Runs, place_runs, senders_of
from oracle.truth.servable import right_refusals
from oracle.truth.verdict import Kind, Outcome, Verdict, Violation

LONG = 256
"""bytes of a run, on average, from which runs are compared as they are"""

Padding = Literal["optional", "due"]
Election = Literal["paired", "own"]


def judge(
    case: Case,
    writes: Writes | Refusal,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
    encoding: Encoding = "tables",
    checked: bool = False,
) -> Verdict:
    """Judge a plan of ``case``.

    ``padding``: whether rows past the prompt may or must arrive. ``election``: ``paired`` also
    judges who sends each byte and which pairs the plan names; ``own`` leaves both to the
    comparison, and has to bring what is native only. ``encoding``: how block lists reached the
    subject; those other than ``tables`` carry beam tails, and cannot say every state. ``checked``: the
    plan has passed ``oracle.model.writes.check_plan``. A right refusal passes, and so does a plan that
    serves in chunks to or from context-parallel ranks, where refusing is the rule, if its every byte is
    right; see ``oracle.truth.verdict`` for the kinds of violation.
    """
    check_options(padding, election, encoding)
    truth = truth_of(case, padding, with_tails=encoding != "tables")
    if isinstance(writes, Refusal):
        writes = Writes(refusals=(writes,))
    if not checked:
        check_plan(writes, len(case.requests), len(case.model.groups))
    false, refused = settle_refusals(truth, writes, encoding)
    return with_refusals(_judge_bytes(truth, writes, election, refused), false, writes)


def check_options(padding: str, election: str, encoding: str = "tables") -> None:
    """Raise ``InvalidCase`` for a way of judging that does not exist."""
    if padding not in ("optional", "due"):
        raise InvalidCase("padding", padding, "expected optional or due")
    if election not in ("paired", "own"):
        raise InvalidCase("election", election, "expected paired or own")
    if encoding not in ENCODINGS:
        raise InvalidCase("encoding", encoding, "expected tables, anchors or suffix")


def settle_refusals(
    frame: Frame, writes: Writes, encoding: Encoding = "tables"
) -> tuple[tuple[Violation, ...], frozenset[int]]:
    """(false refusals, requests that the plan refuses): of a refused request nothing is due and nothing may come.

    What is wrong with one request refuses that request, never the pair of instances. A code of
    ``oracle.model.encodings`` says why, and must be true of the request; one that is not known passes
    with any right reason, for it is a subject's own.
    """
    if not writes.refusals:
        return (), frozenset()
    reasons, lost = right_refusals(frame)
    false = []
    refused: set[int] = set()
    for refusal in writes.refusals:
        request = refusal.request
        refused.update(range(len(frame.case.requests)) if request is None else (request,))
        if reasons:
            continue
        note = "every due byte has a paired holder"
        if request is None:
            note = "what is wrong with a request refuses it, not the pair of instances" if lost else note
        elif refusal.code == BLOCK_LOST:
            if request in frame.lost:
                continue
        elif refusal.code in CODES:
            if may_refuse(frame.case, request, encoding, refusal.code):
                continue
            note = f"right to refuse, for another reason: {lost[request]}" if request in lost else note
        elif request in lost:
            continue
        false.append(Violation(Kind.FALSE_REFUSAL, 0, request, refusal=refusal, note=note))
    return tuple(false), frozenset(refused)


def with_refusals(verdict: Verdict, false: tuple[Violation, ...], writes: Writes) -> Verdict:
    """The verdict of the bytes of a plan, and its refusals."""
    if not writes.refusals:
        return verdict
    counts = dict(verdict.counts)
    if false:
        counts[Kind.FALSE_REFUSAL] = len(false)
    return replace(
        verdict,
        outcome=Outcome.FAIL if false else verdict.outcome,
        violations=(*false, *verdict.violations),
        counts=counts,
        reason="; ".join(map(str, writes.refusals)),
        refusals=writes.refusals,
    )


def _judge_bytes(truth: Truth, writes: Writes, election: Election, without: frozenset[int] = frozenset()) -> Verdict:
    """``without``: refused requests, of which nothing is due and nothing may come."""
    runs = place_runs(truth, writes)
    due, elected = truth.due, truth.elected
    required = is_required(truth.klass, paired=election == "paired")
    if without:
        everything = len(without) == len(truth.case.requests)
        gone = truth.owner >= 0 if everything else np.isin(truth.owner, list(without))
        due, elected = due.copy(), elected.copy()
        due[gone], required[gone], elected[gone] = -1, False, -1
    unplanned = pair_trouble(truth, writes, without) if election == "paired" else ()
    # A lost due block has one right answer, a refusal; what the plan did instead the bytes show.
    clean = not runs.outside and not runs.nowhere and not unplanned and _runs_are_paired(truth, writes)
    if clean and election == "paired":
        clean = all(row[0] in without for row in truth.unserved)
    nbytes = int(runs.nbytes.sum())
    carried = None
    if clean:
        senders = senders_of(writes.segments) if election == "paired" and writes.segments else None
        if nbytes >= LONG * len(runs.nbytes):
            clean = _are_right(truth.source, runs, due, required, elected, senders)
        else:
            carried = runs.expand()
            clean = _bytes_are_right(truth.source, carried, due, required, elected, senders)
    if clean:
        return Verdict(
            Outcome.PASS,
            nbytes=nbytes,
            runs=writes.run_count,
            pairs=len(writes.pairs),
        )
    carried = carried or runs.expand()
    violations, counts = find_violations(truth, writes, carried, due, required, elected, election)
    if election == "paired" and not counts:
        unserved = [row for row in truth.unserved if row[0] not in without]
        violations += tuple(unserved_violation(truth, row) for row in unserved[:1])
        if unserved:
            counts[Kind.MISSING] = 0
    violations = (*unplanned, *violations)
    for violation in unplanned:
        counts[violation.kind] = counts.get(violation.kind, 0) + violation.nbytes
    return Verdict(
        Outcome.FAIL if violations else Outcome.PASS,
        violations,
        counts,
        nbytes=nbytes,
        runs=writes.run_count,
        pairs=len(writes.pairs),
    )


def _bytes_are_right(
    source: np.ndarray,
    carried: Carried,
    due: np.ndarray,
    required: np.ndarray,
    elected: np.ndarray,
    senders: np.ndarray | None,
) -> bool:
    """Whether all that is due comes, once and from its sender (``senders`` None: from anybody), and nothing else."""
    # Reserved ids differ on both sides, so that equal ids are those of an element.
    target = carried.destination
    if not (source.take(carried.source) == due.take(target)).all():
        return False
    written = np.zeros(len(due), dtype=bool)
    written[target] = True
    if np.count_nonzero(written) != len(target) or np.count_nonzero(required & ~written):
        return False
    return senders is None or bool((elected.take(target) == senders.take(carried.segment)).all())


def _are_right(
    source: np.ndarray,
    runs: Runs,
    due: np.ndarray,
    required: np.ndarray,
    elected: np.ndarray,
    senders: np.ndarray | None,
) -> bool:
    """What ``_bytes_are_right`` says, run by run: faster where runs are long."""
    order = runs.destination.argsort(kind="stable")
    starts, lengths = runs.destination[order], runs.nbytes[order]
    if bool((starts[1:] < starts[:-1] + lengths[:-1]).any()):
        return False  # a byte comes twice
    written = np.zeros(len(due), dtype=bool)
    # Runs are compared as byte strings, for which Python needs one call and no vector in between.
    came, wanted, sent = (memoryview(each).cast("B") for each in (source, due, elected))
    wide, narrow = due.itemsize, elected.itemsize
    longest = int(lengths.max(initial=0))
    ranks = () if senders is None else set(senders.tolist())
    patterns = {rank: np.full(longest, rank, elected.dtype).tobytes() for rank in ranks}
    asked = [None] * len(starts) if senders is None else senders[runs.segment[order]].tolist()
    places = zip(runs.source[order].tolist(), starts.tolist(), lengths.tolist(), asked, strict=True)
    for read, target, nbytes, sender in places:
        end = target + nbytes
        if bytes(came[read * wide : (read + nbytes) * wide]) != bytes(wanted[target * wide : end * wide]):
            return False
        if sender is not None and bytes(sent[target * narrow : end * narrow]) != patterns[sender][: nbytes * narrow]:
            return False
        written[target:end] = True
    return not (required & ~written).any()


def _runs_are_paired(truth: Truth, writes: Writes) -> bool:
    return all(
        segment.source_rank in truth.heard[segment.request].get(segment.destination_rank, ())
        for segment in writes.segments
    )


def pair_trouble(frame: Frame, writes: Writes, without: frozenset[int]) -> tuple[Violation, ...]:
    """Pairs that the plan names and no overlap justifies, and pairs that it leaves out."""
    right = {
        (request, source, destination)
        for request, heard in enumerate(frame.heard)
        if request not in without
        for destination, sources in heard.items()
        for source in sources
    }
    named = {(pair.request, pair.source, pair.destination) for pair in writes.pairs if pair.seen_by == "both"}
    if named == right:
        return ()
    found = [
        Violation(
            Kind.UNPAIRED_SENDER,
            0,
            request,
            source,
            destination,
            paired=frame.heard[request].get(destination, ()),
            note="the plan names a pair whose shares do not overlap",
        )
        for request, source, destination in sorted(named - right)
        if request not in without
    ]
    found += [
        Violation(
            Kind.MISSING,
            0,
            request,
            source,
            destination,
            paired=frame.heard[request].get(destination, ()),
            note="the plan leaves out this pair",
        )
        for request, source, destination in sorted(right - named)
    ]
    return tuple(found)


def carried_bytes(case: Case, writes: Writes, *, padding: Padding = "optional") -> Carried:
    """The bytes that a plan reads and writes in the flat memory of ``truth_of(case, padding)``."""
    return place_runs(truth_of(case, padding), writes).expand()
