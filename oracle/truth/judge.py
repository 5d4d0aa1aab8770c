"""The enumerating judge: a plan against the identity of every byte of the destination's memory."""

from __future__ import annotations

from typing import Literal

import numpy as np

from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes
from oracle.truth.blocks import DUE, FORBIDDEN
from oracle.truth.elements import Frame, Truth, truth_of
from oracle.truth.findings import find_violations
from oracle.truth.runs import Carried, carry, segment_ranks
from oracle.truth.servable import right_refusals
from oracle.truth.verdict import Kind, Outcome, Verdict, Violation

Padding = Literal["optional", "due"]
Election = Literal["paired", "own"]


def judge(
    case: Case, writes: Writes | Refusal, *, padding: Padding = "optional", election: Election = "paired"
) -> Verdict:
    """Judge a plan of ``case``.

    ``padding``: whether rows past the prompt may or must arrive. ``election``: ``paired`` also
    judges who sends each byte and which pairs the plan names; ``own`` leaves both to the
    comparison. A right refusal passes; see ``oracle.truth.verdict`` for the kinds of violation.
    """
    check_options(padding, election)
    truth = truth_of(case, padding)
    if isinstance(writes, Refusal):
        writes = Writes(refusals=(writes,))
    refused: frozenset[int] = frozenset()
    if writes.refusals:
        settled = settle_refusals(truth, writes)
        if isinstance(settled, Verdict):
            return settled
        refused = settled
    return _judge_bytes(truth, writes, election, refused)


def check_options(padding: str, election: str) -> None:
    """Raise ``InvalidCase`` for a way of judging that does not exist."""
    if padding not in ("optional", "due"):
        raise InvalidCase("padding", padding, "expected optional or due")
    if election not in ("paired", "own"):
        raise InvalidCase("election", election, "expected paired or own")


def settle_refusals(frame: Frame, writes: Writes) -> Verdict | frozenset[int]:
    """The verdict where refusals settle it; else the requests that are rightly refused."""
    reasons, lost = right_refusals(frame)
    false = [
        refusal
        for refusal in writes.refusals
        if not reasons
        and (refusal.request is None or refusal.request not in lost)
        and not _all_lost(frame, refusal, lost)
    ]
    if false:
        violations = tuple(
            Violation(
                Kind.FALSE_REFUSAL, 0, refusal.request, refusal=refusal, note="every due byte has a paired holder"
            )
            for refusal in false
        )
        return Verdict(Outcome.FAIL, violations, {Kind.FALSE_REFUSAL: len(false)}, refusals=writes.refusals)
    refused = {refusal.request for refusal in writes.refusals}
    if None in refused or len(refused) == len(frame.case.requests):
        if writes.segments:
            return frozenset()
        return Verdict(Outcome.PASS, reason="; ".join(map(str, writes.refusals)), refusals=writes.refusals)
    return frozenset(request for request in refused if request is not None)


def _all_lost(frame: Frame, refusal: Refusal, lost: dict[int, str]) -> bool:
    return refusal.request is None and len(lost) == len(frame.case.requests)


def _judge_bytes(truth: Truth, writes: Writes, election: Election, without: frozenset[int] = frozenset()) -> Verdict:
    """``without``: refused requests, of which nothing is due and nothing may come."""
    carried = carry(truth, writes)
    due, klass, elected = truth.due, truth.klass, truth.elected
    if without:
        gone = np.isin(truth.owner, list(without))
        due, klass, elected = due.copy(), klass.copy(), elected.copy()
        due[gone], klass[gone], elected[gone] = -1, FORBIDDEN, -1
    unplanned = pair_trouble(truth, writes, without) if election == "paired" else ()
    # A lost due block has one right answer, a refusal; what the plan did instead the bytes show.
    clean = not carried.outside and not carried.nowhere and not unplanned and _runs_are_paired(truth, writes)
    if clean:
        due_here = due[carried.destination]
        clean = bool((truth.source[carried.source] == due_here).all()) and bool((due_here >= 0).all())
    if clean:
        written = np.zeros(len(due), dtype=bool)
        written[carried.destination] = True
        clean = np.count_nonzero(written) == len(carried.destination) and not ((klass == DUE) & ~written).any()
    if clean and election == "paired":
        ranks = segment_ranks(writes.segments)[0]
        clean = not len(ranks) or bool((elected[carried.destination] == ranks[carried.segment]).all())
        clean = clean and not truth.unserved
    if clean:
        return Verdict(
            Outcome.PASS,
            nbytes=len(carried.destination),
            runs=writes.run_count,
            pairs=len(writes.pairs),
            refusals=writes.refusals,
        )
    violations, counts = find_violations(truth, writes, carried, due, klass, elected, election)
    violations = (*unplanned, *violations)
    for violation in unplanned:
        counts[violation.kind] = counts.get(violation.kind, 0) + violation.nbytes
    return Verdict(
        Outcome.FAIL if violations else Outcome.PASS,
        violations,
        counts,
        nbytes=len(carried.destination),
        runs=writes.run_count,
        pairs=len(writes.pairs),
        refusals=writes.refusals,
    )


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
    return carry(truth_of(case, padding), writes)
