"""What a cache kind stresses: properties of a cache that senders get wrong (spec: kinds, which kinds stress what).

Each is declared, a property of the model, and reached, a property of a case. ``kvwitness kinds`` makes the table of
the kinds, and tests hold each kind to what it is there for.
"""

from __future__ import annotations

from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from strategies.stresses.heads import HEADS
from strategies.stresses.layers import LAYERS
from strategies.stresses.places import PLACES
from strategies.stresses.stress import Stress
from strategies.stresses.tokens import TOKENS

SUBJECTS = {
    "shares of an axis": HEADS,
    "tokens of a request": TOKENS,
    "places of buffers": PLACES,
    "layers and stages": LAYERS,
}
"""The stresses by what they depend on."""

STRESSES: tuple[Stress, ...] = tuple(stress for stresses in SUBJECTS.values() for stress in stresses)
"""All of them."""


def find_stress(name: str) -> Stress:
    """The stress called ``name``; raises ``InvalidCase`` that lists the known ones."""
    for stress in STRESSES:
        if stress.name == name:
            return stress
    raise InvalidCase("stress", name, f"expected one of {', '.join(stress.name for stress in STRESSES)}")


def stresses_of(case: Case) -> frozenset[str]:
    """The names of what ``case`` reaches."""
    return frozenset(stress.name for stress in STRESSES if stress.reached(case))


__all__ = ["STRESSES", "SUBJECTS", "Stress", "find_stress", "stresses_of"]
