"""Fixtures for the tests of a serving framework; the pytest plugin offers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from oracle.model.case import Case
from oracle.truth.verdict import Verdict


@pytest.fixture
def kvwitness_memory() -> Callable[..., Verdict]:
    """A check of one transfer on memory, which fails the test with the whole argument.

    Call it as ``kvwitness.check_memory``: ``kvwitness_memory(case, memories, transfer, writes=plan)``.
    A check that did not run fails too.
    """
    return require_landed


def require_landed(case: Case, memories: Any, transfer: Callable[[], object], **options: Any) -> Verdict:
    """The verdict of ``check_memory`` where it passes; fails the running test otherwise."""
    from kvwitness.memory import check_memory
    from oracle.truth.explain import explain
    from oracle.truth.verdict import Outcome

    verdict = check_memory(case, memories, transfer, **options)
    if verdict.outcome is not Outcome.PASS:
        pytest.fail(f"the memory is not as it must be: {explain(case, verdict)}", pytrace=False)
    return verdict
