"""Which view of the peer a view goes to (spec: legacy sender, 6.1, step 1)."""

from __future__ import annotations

from differential.subjects.native.refusals import Refused
from differential.subjects.native.views import Group, Table, View
from oracle.model.records import frozen


@frozen(eq=False)
class Mapped:
    """A view, its partner on the peer, and the layer ids both hold in the first one's slot order."""

    own: View
    peer: View
    layers: tuple[int, ...]


def match_views(own: Table, peer: Table) -> tuple[Mapped, ...]:
    """Partners of all views, in the sender's order. A view without a partner is skipped without a word."""
    mapped = []
    for group in own.groups:
        for view in group.views:
            target = _group_of(view, group, peer)
            partner = _partner(view, target) if target is not None else None
            if partner is None:
                continue
            if partner.mapper != view.mapper:
                raise Refused("mapper_kinds_differ", f"{view} is {view.mapper}, on the peer {partner.mapper}")
            mapped.append(Mapped(view, partner, tuple(layer for layer in view.starts if layer in partner.starts)))
    return tuple(mapped)


def _group_of(view: View, group: Group, peer: Table) -> Group | None:
    """The first peer group of this kind that holds one of the view's layers."""
    for layer in view.starts:
        for candidate in peer.groups:
            if candidate.paged == group.paged and layer in candidate.layers:
                return candidate
    return None


def _partner(view: View, group: Group) -> View | None:
    for candidate in group.views:
        if candidate.roles == view.roles and any(layer in candidate.starts for layer in view.starts):
            return candidate
    return None
