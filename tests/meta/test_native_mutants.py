"""The recorded plans notice a change of any single rule of the legacy sender's model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from differential.subjects.native import alignment, compatibility, declared, election, make, mappers, pairing, topology
from tests.golden import scenarios
from tests.native_data import SETTINGS, disagreements

REPLAYED = [
    (scenario, result, SETTINGS[generation])
    for scenario in scenarios()
    for result in scenario["results"]
    for generation in result["generations"]
    if generation in SETTINGS
]


def noticed_by(*, enough: int = 1) -> list[str]:
    """Ids of scenarios whose recorded plan is no longer planned; stops when there are ``enough``."""
    found: list[str] = []
    subjects = {options: make(options) for options in SETTINGS.values()}
    for scenario, result, options in REPLAYED:
        if disagreements(scenario, result, subjects[options]):
            found.append(scenario["id"])
            if len(found) >= enough:
                break
    return found


def wins_without_key(own: Any, peer: Any, candidates: int) -> bool:
    return candidates <= 1 or own.tensor_rank % candidates == 0


def wins_rotated(own: Any, peer: Any, candidates: int) -> bool:
    return candidates <= 1 or (own.tensor_rank + 1) % candidates == peer.dp % candidates


def head_offset_by_rank(own: Any, peer: Any) -> tuple[int, int]:
    """The early formula, which is the same only where no head is duplicated."""
    mine, theirs = own.shape.group_size, peer.shape.group_size
    cut = min(own.attention.heads, peer.attention.heads)
    if mine < theirs:
        return peer.rank.tp % (theirs // mine) * cut, 0
    return (0, own.rank.tp % (mine // theirs) * cut) if mine > theirs else (0, 0)


def sections_without_prefix_at_the_peer(sizes: Any, others: Any) -> Any:
    offsets, _, nbytes = mappers_sectioned(sizes, others)
    return offsets, [0] * len(offsets), nbytes


def sections_cut_as_one(sizes: Any, others: Any) -> Any:
    return [0], [0], [min(sum(sizes), sum(others))]


def stages_that_touch(own: Any, stage: int, peer: Any) -> list[int]:
    start, end = sum(own[:stage]), sum(own[: stage + 1])
    return [number for number in range(len(peer)) if start <= sum(peer[: number + 1]) and end >= sum(peer[:number])]


def stages_of_the_first_layer(own: Any, stage: int, peer: Any) -> list[int]:
    return topology_stages_met(own, stage, peer)[:1]


def contiguous_stride(entries: Any, rank: int, size: int) -> Any:
    share = -(-len(entries) // size)
    return entries[rank * share : (rank + 1) * share]


def rank_tensor_minor(shape: Any, pp: int, tp: int, cp: int) -> int:
    return (pp * shape.cp + cp) * shape.tp + tp


def fan_cyclic(own_size: int, peer_size: int, own_rank: int, peer_group: int = 0) -> range:
    first = peer_group * peer_size
    if own_size <= peer_size:
        return range(first + own_rank, first + peer_size, own_size)
    return range(first + own_rank % peer_size, first + own_rank % peer_size + 1)


def grid_without_context_parallel(shape: Any, rank: Any) -> tuple[int, int]:
    return (1, 0) if shape.attention_dp else (shape.tp, rank.tp)


def head_major_always(mapped: Any, own: Any, peer: Any, unit: int) -> Any:
    return unit, mappers.head_major(mapped, own, peer, unit)


def one_stale_block_fewer(tokens: int, window: int | None, tokens_per_block: int) -> int:
    return 0 if window is None else max(0, (tokens + 1 - window) // tokens_per_block - 1)


def positions_from_the_start(piece: Any, source: int, destination: int) -> tuple[int, int]:
    return 0, 0


def partner_by_layers_alone(view: Any, group: Any) -> Any:
    return next((other for other in group.views if set(other.starts) & set(view.starts)), None)


mappers_sectioned = mappers.sectioned
topology_stages_met = topology.stages_met
Mutant = tuple[object, str, Callable[..., Any]]

MUTANTS: dict[str, Mutant] = {
    "election: the key is ignored": (election, "_wins", wins_without_key),
    "election: the next candidate": (election, "_wins", wins_rotated),
    "election: no candidate is left out": (election, "_wins", lambda own, peer, candidates: True),
    "election: heads by tensor sizes alone": (
        election,
        "duplication",
        lambda own, peer: max(1, own.shape.group_size // peer.shape.group_size),
    ),
    "heads: never cut": (mappers, "heads_match", lambda own, peer: True),
    "head offset: by rank": (mappers, "head_offsets", head_offset_by_rank),
    "head offset: none": (mappers, "head_offsets", lambda own, peer: (0, 0)),
    "token-major heads: as head-major": (mappers, "token_major", head_major_always),
    "sections: no prefix at the peer": (mappers, "sectioned", sections_without_prefix_at_the_peer),
    "sections: cut as one": (mappers, "sectioned", sections_cut_as_one),
    "state offset: none": (mappers, "state_offsets", lambda own, peer: (0, 0)),
    "state: everyone is paired": (election, "state_paired", lambda own, peer: True),
    "state: no election": (election, "sends_state", lambda own, peer, mapper: election.state_paired(own, peer)),
    "state grid: no context parallelism": (topology, "state_grid", grid_without_context_parallel),
    "stages: touching is meeting": (topology, "stages_met", stages_that_touch),
    "stages: only the first": (topology, "stages_met", stages_of_the_first_layer),
    "fan: cyclic": (topology, "fan", fan_cyclic),
    "rank numbers: tensor rank innermost": (topology, "rank_number", rank_tensor_minor),
    "views: partners by layers alone": (pairing, "_partner", partner_by_layers_alone),
    "helix: contiguous": (alignment, "helix_stride", contiguous_stride),
    "helix: no stride": (alignment, "helix_stride", lambda entries, rank, size: entries),
    "window: starts not raised": (alignment, "window_starts", lambda piece, source, destination: (source, destination)),
    "window: one block fewer is stale": (alignment, "stale_blocks", one_stale_block_fewer),
    "suffix: lists start at block 0": (alignment, "window_starts", positions_from_the_start),
    "merge: source side alone": (mappers, "touches", lambda run, source, destination: run[0] + run[2] == source),
    "heads per rank: floor": (declared.Heads, "per_rank", lambda self, ranks: self.count // ranks),
    "registration: attention not checked": (compatibility, "_check_attention", lambda own, peer: None),
    "registration: context parallelism not checked": (
        compatibility,
        "_check_context_parallel",
        lambda own, peer, settings: None,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_changed_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, changed = MUTANTS[name]
    assert getattr(where, attribute) is not changed
    monkeypatch.setattr(where, attribute, changed)
    assert noticed_by()


def test_the_unchanged_rules_are_not_noticed() -> None:
    assert not noticed_by()
