"""Which layers hold what: retentions, ids, subsets, owners, moves, stages."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from oracle.model.buffers import Buffer, Model, MoveState
from oracle.model.case import Case
from oracle.model.topology import Topology
from strategies.stresses.stress import Stress, every


def _topologies(case: Case) -> tuple[Topology, Topology]:
    return case.context.topology, case.generation.topology


@lru_cache(maxsize=4096)
def _retained_twice(model: Model) -> bool:
    held = Counter(layer for group in model.groups if not group.native_only for layer in group.layers)
    return max(held.values()) > 1


@lru_cache(maxsize=4096)
def _ids_of_its_own(model: Model) -> bool:
    return len(model.draft) > 0 or any(buffer.ids != (1, 0) for _, buffer in every(model))


# ---- subsets


@lru_cache(maxsize=4096)
def _held_by_role(model: Model) -> tuple[frozenset[int], ...]:
    """The layers of each role of each group, where they are not all layers of the model."""
    held: dict[tuple[str, str], frozenset[int]] = {}
    for group, buffer in every(model):
        if not buffer.first_local:
            held[group.name, buffer.role] = held.get((group.name, buffer.role), frozenset()) | {*buffer.layers}
    return tuple({layers for layers in held.values() if len(layers) < model.layers})


@lru_cache(maxsize=4096)
def _held_by_group(model: Model) -> tuple[frozenset[int], ...]:
    return tuple({frozenset(group.layers) for group in model.groups if len(group.layers) < model.layers})


def _leaves_out(case: Case, held: tuple[frozenset[int], ...]) -> bool:
    """Whether a stage has layers, but none of ``held``."""
    for topology in _topologies(case) if held else ():
        for pp, size in enumerate(topology.stages) if topology.pp > 1 else ():
            if size and any(layers.isdisjoint(topology.stage_layers(pp)) for layers in held):
                return True
    return False


# ---- owners


def _first_locals(model: Model) -> list[Buffer]:
    return [buffer for group, buffer in every(model) if buffer.first_local and not group.native_only]


def _owners(buffer: Buffer, topology: Topology) -> set[int]:
    """The layers that hold ``buffer``, one a stage."""
    found = ([layer for layer in buffer.layers if layer in topology.stage_layers(pp)] for pp in range(topology.pp))
    return {layers[0] for layers in found if layers}


def _owners_differ(case: Case) -> bool:
    context, generation = _topologies(case)
    return any(_owners(b, context) != _owners(b, generation) for b in _first_locals(case.model))


@lru_cache(maxsize=4096)
def _has_aliases(model: Model) -> bool:
    return any(buffer.alias is not None and len(buffer.alias) > 0 for _, buffer in every(model))


# ---- moves


def _has_moves(model: Model, *states: MoveState) -> bool:
    return any(buffer.move_on(layer).state in states for _, buffer in every(model) for layer in buffer.layers)


@lru_cache(maxsize=4096)
def _does_not_send_all(model: Model) -> bool:
    return _has_moves(model, MoveState.DERIVED, MoveState.REBUILT, MoveState.NEVER)


@lru_cache(maxsize=4096)
def _may_lack(model: Model) -> bool:
    return len(model.draft) > 0 or _has_moves(model, MoveState.OPTIONAL, MoveState.REBUILT)


# ---- shapes by layer


def _sizes(buffer: Buffer) -> tuple[tuple[str, int], ...]:
    return tuple((axis.name, axis.size) for part in buffer.parts for axis in part.axes if not axis.is_token)


@lru_cache(maxsize=4096)
def _unlike_by_layer(model: Model) -> bool:
    """Whether a role, or the number of heads of attention, is not the same on all layers that have it."""
    by_role: dict[str, set[object]] = {}
    heads: dict[int, set[int]] = {}
    for group, buffer in every(model):
        by_role.setdefault(buffer.role, set()).add(_sizes(buffer))
        counts = {size for name, size in _sizes(buffer) if name == "H" and group.is_paged}
        for layer in buffer.layers if counts else ():
            heads.setdefault(layer, set()).update(counts)
    return any(len(sizes) > 1 for sizes in by_role.values()) or len({frozenset(own) for own in heads.values()}) > 1


# ---- stages


def stages_are_uneven(case: Case) -> bool:
    """Whether the stages of a side do not hold the same number of layers."""
    return any(len(set(topology.stages)) > 1 for topology in _topologies(case))


LAYERS = (
    Stress(
        "several retention classes",
        "what one layer keeps is in several groups, each retained in its own way",
        _retained_twice,
        lambda case: _retained_twice(case.model),
    ),
    Stress(
        "virtual or declared layer ids",
        "a manager registers a buffer under another id than that of its layer, or declares layers of its own",
        _ids_of_its_own,
        lambda case: _ids_of_its_own(case.model),
    ),
    Stress(
        "layer subsets, masks",
        "not every layer has what others have",
        lambda model: bool(_held_by_role(model)),
        lambda case: bool(_held_by_role(case.model)),
    ),
    Stress(
        "a stage without a role",
        "a pipeline stage has layers, but none with one of the buffers of a group",
        lambda model: bool(_held_by_role(model)),
        lambda case: _leaves_out(case, _held_by_role(case.model)),
        ("stages",),
    ),
    Stress(
        "a stage without a group",
        "a pipeline stage has layers, but none of a group",
        lambda model: bool(_held_by_group(model)),
        lambda case: _leaves_out(case, _held_by_group(case.model)),
        ("stages",),
    ),
    Stress(
        "owner depends on the stage",
        "a buffer of the request is on the first of its layers on each stage, and the sides are cut differently",
        lambda model: bool(_first_locals(model)),
        _owners_differ,
        ("stages",),
    ),
    Stress(
        "alias layers",
        "a layer has no bytes of its own and reads those of an earlier one",
        _has_aliases,
        lambda case: _has_aliases(case.model),
    ),
    Stress(
        "derived, rebuilt or never sent",
        "a buffer that the receiver has, and that nothing may be sent to",
        _does_not_send_all,
        lambda case: _does_not_send_all(case.model),
    ),
    Stress(
        "one-sided buffers",
        "one side lacks a buffer or a draft layer that the other one has",
        _may_lack,
        lambda case: case.context.without != case.generation.without,
    ),
    Stress(
        "heads or dims by layer",
        "a layer has another number of heads, or larger ones, than another layer",
        _unlike_by_layer,
        lambda case: _unlike_by_layer(case.model),
    ),
    Stress(
        "uneven stages",
        "the pipeline stages of a side do not have the same number of layers",
        lambda model: True,
        stages_are_uneven,
        ("stages",),
    ),
)
"""What depends on which layer, or which stage, holds a buffer."""
