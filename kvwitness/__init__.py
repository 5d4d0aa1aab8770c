"""kvwitness judges where the bytes of a KV cache go when it moves between differently split instances.

The public API, for the tests of a serving framework:

* :func:`deployment` and :func:`load_case` make a :class:`Case`;
* :func:`gather_facts` gives what its cache managers would hand over: page tables and slots by rank;
* a plan is a :class:`Writes`, mostly from ``Writes.from_runs``, or a :class:`Refusal`;
* :func:`check` judges it, and :func:`explain` tells a :class:`Verdict` as an argument;
* :func:`check_memory` judges what somebody's own transfer left in somebody's own memory.
"""

from __future__ import annotations

from differential.managers.facts import Facts
from differential.managers.tables import gather_facts
from kvwitness.api import check, deployment
from kvwitness.errors import CannotRun
from kvwitness.memory import check_landed, check_memory, fill_memory, plane_count, planes, pool_sizes, read_memory
from kvwitness.version import VERSION as __version__
from kvwitness.witness import load_case
from oracle.model.case import Case
from oracle.model.codec import case_id, encode
from oracle.model.errors import InvalidCase
from oracle.model.writes import Pair, Refusal, Segment, Writes
from oracle.truth.explain import explain
from oracle.truth.verdict import Kind, Outcome, Verdict, Violation

__all__ = [
    "CannotRun",
    "Case",
    "Facts",
    "InvalidCase",
    "Kind",
    "Outcome",
    "Pair",
    "Refusal",
    "Segment",
    "Verdict",
    "Violation",
    "Writes",
    "__version__",
    "case_id",
    "check",
    "check_landed",
    "check_memory",
    "deployment",
    "encode",
    "explain",
    "fill_memory",
    "gather_facts",
    "load_case",
    "plane_count",
    "planes",
    "pool_sizes",
    "read_memory",
]
