"""What one encoding of block lists cannot say and another can: no difference between those who use them.

A refusal for it counts only where truth agrees that the state is such a one. Chunks with context
parallelism count here too: tables could say them, yet refusing them is right for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from differential.compare.records import BOTH, FIRST, SECOND, ByteDifference, Comparison, RefusalDifference, Unsaid
from oracle.model.case import Case
from oracle.model.encodings import BEAM_TAILS, Encoding
from oracle.truth.encodings import may_refuse

Encodings = tuple[Encoding, Encoding]
"""Those in which the block lists reach the first and the second subject."""


def set_apart(case: Case, comparison: Comparison, encodings: Encodings) -> Comparison:
    """``comparison`` without the differences that follow from ``encodings``; they are told as ``unsaid``."""
    tables = encodings == ("tables", "tables")
    if comparison.identical or (tables and not comparison.refusals):
        return comparison
    unsaid: dict[Unsaid, None] = {}
    refusals: list[RefusalDifference] = []
    for refusal in comparison.refusals:
        encoding = encodings[refusal.refused_by == SECOND]
        if refusal.request is not None and may_refuse(case, refusal.request, encoding, refusal.code):
            unsaid[Unsaid(refusal.refused_by, refusal.code, refusal.request)] = None
        else:
            refusals.append(refusal)
    written: list[ByteDifference] = []
    for difference in comparison.bytes:
        if tables or (tails := _tails(case, difference, encodings)) is None:
            written.append(difference)
        else:
            unsaid[tails] = None
    if not unsaid:
        return comparison
    return replace(comparison, bytes=tuple(written), refusals=tuple(refusals), unsaid=tuple(unsaid))


def _tails(case: Case, difference: ByteDifference, encodings: Encodings) -> Unsaid | None:
    """The beam tails that only one of the encodings carries, if these bytes are such: rightly sent or not at all."""
    request, senders = difference.request, (difference.first_senders, difference.second_senders)
    if request is None or case.requests[request].beams == 1 or difference.right != BOTH:
        return None
    for by, encoding, own, other in (
        (FIRST, encodings[0], *senders),
        (SECOND, encodings[1], *reversed(senders)),
    ):
        if encoding == "tables" and not own and other:
            return Unsaid(by, BEAM_TAILS, request)
    return None


def carry_tails(encodings: Sequence[Encoding]) -> bool:
    """Whether any of the encodings carries beam tails."""
    return any(encoding != "tables" for encoding in encodings)
