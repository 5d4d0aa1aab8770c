"""Drawing that depends on the seed alone.

Hypothesis mixes constants that it finds in the source of loaded modules into what it draws. Which
modules are loaded, and whether they count as the user's own, differs between a command, a test and
a worker process; so a search that promises the same cases for the same seed goes without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis.internal.conjecture import providers


class SeedOnlyProvider(providers.HypothesisProvider):
    """Hypothesis's own way to draw, less the constants."""

    def _maybe_draw_constant(self, choice_type: object, constraints: object, *, p: float = 0.05) -> None:
        return None


@contextmanager
def drawing_from_the_seed_alone() -> Iterator[None]:
    """Within, every Hypothesis run of this process draws with ``SeedOnlyProvider``."""
    name = "hypothesis"  # the engine treats no other backend as its own
    before = providers.AVAILABLE_PROVIDERS[name]
    providers.AVAILABLE_PROVIDERS[name] = SeedOnlyProvider
    try:
        yield
    finally:
        providers.AVAILABLE_PROVIDERS[name] = before
