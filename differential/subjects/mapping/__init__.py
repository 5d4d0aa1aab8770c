"""The new layout mapping (spec: mapping): which bytes a source sends, from two page tables and nothing else.

Written apart from the legacy rules and from the oracle. The way of a plan: ``compatible`` refuses
what cannot be; ``pairing`` and ``fan`` say who hears from whom; ``shares``, ``geometry`` and
``election`` find the bytes of one buffer by interval algebra; ``relation`` puts them at their places
in a slot, once per pair of instances; ``blocks`` and ``plan`` repeat them over the blocks that move.
"""

from __future__ import annotations

from differential.subjects.mapping import election, geometry, pairing, relation, shares
from differential.subjects.mapping.compatible import check_compatible
from differential.subjects.mapping.fan import fan
from differential.subjects.mapping.merge import merge_runs
from differential.subjects.mapping.pages import Pages, RankPages, group_kinds, layer_group_of
from differential.subjects.mapping.plan import Mapping
from differential.subjects.mapping.refusals import Refused
from differential.subjects.mapping.relation import PoolRuns, map_buffers

__all__ = [
    "Mapping",
    "Pages",
    "PoolRuns",
    "RankPages",
    "Refused",
    "check_compatible",
    "clear_caches",
    "fan",
    "group_kinds",
    "layer_group_of",
    "map_buffers",
    "merge_runs",
]


def clear_caches() -> None:
    """Forget what was found: needed after a function of this package was replaced, and to measure a cold start."""
    for cached in (
        election.elect,
        geometry._geometry,
        pairing.overlapping_stages,
        pairing.paired_ranks,
        pairing.ranks_of,
        relation.relate,
        shares.axis_shares,
    ):
        cached.cache_clear()
