"""Which of the two judges: small memory is enumerated, large memory is judged in closed form."""

from __future__ import annotations

from typing import Literal

from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal, Writes
from oracle.truth.intervals import judge_intervals
from oracle.truth.judge import Election, Padding, judge
from oracle.truth.stacks import flatten
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
    return chosen(case, writes, padding=padding, election=election)


def method_for(case: Case) -> Method:
    """The judge that suits the memory of ``case``."""
    small = sum([flatten(case, side).size for side in ("context", "generation")]) <= ENUMERATED
    return "elements" if small else "intervals"
