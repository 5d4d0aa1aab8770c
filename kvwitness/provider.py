"""Drawing that depends on the seed alone.

Hypothesis mixes constants that it finds in the source of loaded modules into what it draws. Which
modules are loaded, and whether they count as the user's own, differs between a command, a test and
a worker process; so a search that promises the same cases for the same seed goes without them.

Around every example Hypothesis also saves and restores the state of NumPy's global generator, which costs 60 µs,
a good part of what it takes to draw a case. Nobody looks at it between two examples of a search: it is enough to
seed it for each, and to restore it when the search is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis.internal import entropy
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
        with _numpy_saved_once():
            yield
    finally:
        providers.AVAILABLE_PROVIDERS[name] = before


@contextmanager
def _numpy_saved_once() -> Iterator[None]:
    """Within, NumPy's global generator is seeded for each example, and its state is saved for all of them together."""
    note_generators = getattr(entropy, "get_seeder_and_restorer", None)
    if note_generators is not None:
        note_generators()  # Hypothesis notes NumPy's only when it is first to seed all
    managed = getattr(entropy, "NP_RANDOM", None)
    if managed is None or not {"getstate", "setstate"} <= vars(managed).keys():
        yield  # another Hypothesis, which does it in another way
        return
    usual, state = (managed.getstate, managed.setstate), np.random.get_state()
    managed.getstate, managed.setstate = (lambda: None), (lambda state: None)
    try:
        yield
    finally:
        managed.getstate, managed.setstate = usual
        np.random.set_state(state)
