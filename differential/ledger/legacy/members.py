"""Views that the legacy sender takes for partners though a layer has other roles in the one than in the other."""

from __future__ import annotations

from itertools import product

from differential.ledger.legacy.views import View, layers, roles, views
from oracle.model.case import Case


def roles_on(view: View, layer: int) -> frozenset[str]:
    return frozenset(role for own, role in view if own == layer)


def some_layer_has_other_roles(case: Case) -> bool:
    """Whether a view has a partner, the first of its roles with a layer of it, and a shared layer differs in roles."""
    sides = case.context.topology, case.generation.topology
    groups = range(len(case.model.groups))
    for source, destination, group in product(range(sides[0].size), range(sides[1].size), groups):
        there = views(case, "generation", destination, group)
        for own in views(case, "context", source, group):
            fitting = (view for view in there if roles(view) == roles(own) and layers(view) & layers(own))
            partner = next(fitting, None)
            if partner is None:
                continue
            if any(roles_on(own, layer) != roles_on(partner, layer) for layer in layers(own) & layers(partner)):
                return True
    return False
