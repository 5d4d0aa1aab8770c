"""Which of the two judges: small memory is enumerated, large memory is judged in closed form."""

from __future__ import annotations

from typing import Literal

from oracle.model.case import SIDES, Case
from oracle.model.encodings import Encoding
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from oracle.model.writes import Refusal, Writes
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import Election, Padding, judge
from oracle.truth.verdict import Verdict

Method = Literal["auto", "elements", "intervals"]

ENUMERATED = 16 << 20
"""Bytes of both sides' pools up to which memory is enumerated: about 0.5 GiB of ids, and a second."""


def judge_any(
    case: Case,
    writes: Writes | Refusal,
    *,
    padding: Padding = "optional",
    election: Election = "paired",
    encoding: Encoding = "tables",
    checked: bool = False,
    method: Method = "auto",
) -> Verdict:
    """Judge a plan of ``case`` by enumeration (``elements``), in closed form (``intervals``) or by whichever suits.

    Both give the same verdict; the other arguments are those of ``oracle.truth.judge.judge``.
    """
    if method not in ("auto", "elements", "intervals"):
        raise InvalidCase("method", method, "expected auto, elements or intervals")
    if method == "auto":
        method = method_for(case)
    chosen = judge if method == "elements" else judge_intervals
    return chosen(case, writes, padding=padding, election=election, encoding=encoding, checked=checked)


def method_for(case: Case) -> Method:
    """The judge that suits the memory of ``case``."""
    return "elements" if sum([_memory(case, side) for side in SIDES]) <= ENUMERATED else "intervals"


def _memory(case: Case, side: str) -> int:
    """Bytes of all pools of one side."""
    extents: dict[int, int] = {}
    total = 0
    for table in lay_out(case, side).tables:
        extent = extents.get(id(table))
        if extent is None:
            extent = extents[id(table)] = sum([table.pool_extent(pool) for pool in range(len(table.pools))])
        total += extent
    return total
