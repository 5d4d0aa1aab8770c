"""The least case in which a fault shows, by trying them all."""

from __future__ import annotations

from collections.abc import Iterable

from differential.faults.fault import Fault, Size
from differential.subjects.protocol import Subject
from oracle.model.case import Case


def size_of(case: Case) -> Size:
    """The size of ``case``; a request has as many blocks as its longest group, at least one."""
    blocks = 0
    for request in case.requests:
        longest = max([request.tokens(group.length) for group in case.model.groups if group.is_paged], default=1)
        blocks += -(-longest // case.context.tokens_per_block)
    return Size(case.context.topology.size + case.generation.topology.size, case.model.layers, blocks)


def find_minimum(fault: Fault, cases: Iterable[Case], subject: Subject) -> tuple[Size, Case] | None:
    """(size, case) of the first of the lexicographically least cases in which ``fault`` shows, None if it never does.

    Tries every case that is smaller than the least one so far.
    """
    best: tuple[Size, Case] | None = None
    for case in cases:
        size = size_of(case)
        if (best is None or size < best[0]) and fault.shows(case, subject):
            best = size, case
    return best
