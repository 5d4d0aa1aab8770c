"""Memories of a case that somebody else allocated, and transfers that somebody else wrote, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from differential.engines import find_engine
from differential.engines.host import HostEngine
from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping
from kvwitness import pool_sizes
from oracle.model.case import SIDES, Case
from oracle.model.sides import lay_out
from oracle.model.writes import Writes
from oracle.truth.judge import judge
from tests.small_cases import case_of

HOST = HostEngine()
MISSING = find_engine("torch").available()
needs_torch = pytest.mark.skipif(MISSING is not None, reason=f"engine torch: {MISSING}")
WIDE = "key @ 0 : H(2).heads T D(160) ; 8"
"""Two heads of two tokens of 160 B a block: 640 identities, more than one digit counts."""

Memories = dict[str, Any]


def wide_case() -> Case:
    """Two blocks for two receivers; 8 runs of 160 B, two planes, 7 slots a pool."""
    return case_of(WIDE, "tp1", "tp2", prompts=4, context_side={"layout": "NHD"}, generation_side={"layout": "HND"})


def right_plan(case: Case) -> Writes:
    plan = Mapping().plan(case, gather_facts(case))
    assert isinstance(plan, Writes) and judge(case, plan)
    return plan


def pools_of(case: Case, make: Callable[[int], Any] = bytearray) -> Memories:
    return {side: [[make(extent) for extent in rank] for rank in pool_sizes(case, side)] for side in SIDES}


def mover(plan: Writes, memories: Memories) -> Callable[[], None]:
    """A transfer that carries ``plan`` out on pools of the host."""
    return lambda: HOST.carry(plan, memories["context"], memories["generation"])


def numpy_views(case: Case) -> tuple[Memories, Memories]:
    """(pools, the same memory as an array for each layer and role)."""
    pools = pools_of(case, lambda extent: np.zeros(extent, dtype=np.uint8))
    views: Memories = {}
    for side in SIDES:
        views[side] = []
        for rank, table in enumerate(lay_out(case, side).tables):
            found = {}
            for entry in table.entries:
                pool = table.pools[entry.pool]
                base = pools[side][rank][entry.pool][entry.offset :]
                shape, strides = (pool.count, entry.nbytes), (pool.slot_stride, 1)
                found[entry.layer, entry.role] = np.lib.stride_tricks.as_strided(base, shape, strides)
            views[side].append(found)
    return pools, views
