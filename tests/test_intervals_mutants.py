"""Right plans with one run altered: both judges see the same of each, byte for byte."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from oracle.model.case import Case
from oracle.model.writes import Writes
from oracle.truth.verdict import Kind
from tests.interval_cases import planned
from tests.run_mutants import MUTATIONS, mutant
from tests.small_cases import small_cases
from tests.test_intervals_agree import MODES, agreed

CASES, OF_EACH = 20, 4
"""cases of each mutation, and mutants of each case: with 26 mutations 2,080 mutants"""

SURELY_WRONG = {
    "cut_short": {Kind.MISSING},
    "cut_front": {Kind.MISSING},
    "drop_run": {Kind.MISSING},
    "double_run": {Kind.DUPLICATE},
    "double_slot": {Kind.DUPLICATE},
    "stray_twice": {Kind.STRAY},
    "double_plan_backwards": {Kind.DUPLICATE},
    "shift_source": {Kind.WRONG_ELEMENT, Kind.OUT_OF_BOUNDS},
    "read_another_request": {Kind.WRONG_ELEMENT},
    "read_free_slot": {Kind.STALE_SOURCE},
    "leave_bounds": {Kind.OUT_OF_BOUNDS},
    "ask_unpaired_rank": {Kind.UNPAIRED_SENDER},
}
"""kinds of which a mutation shows at least one in some case"""


@pytest.mark.parametrize("name", MUTATIONS)
def test_one_altered_run_is_judged_alike(name: str) -> None:
    seen: Counter[Kind] = Counter()

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(small_cases(), st.randoms(use_true_random=False))
    def altered(case: Case, random: Random) -> None:
        plan = planned(case)
        assume(isinstance(plan, Writes) and plan.run_count)
        for _ in range(OF_EACH):
            verdict = agreed(case, mutant(name, case, plan, random), *random.choice(MODES))
            seen.update(verdict.kinds)

    altered()
    assert name not in SURELY_WRONG or SURELY_WRONG[name] & set(seen)
