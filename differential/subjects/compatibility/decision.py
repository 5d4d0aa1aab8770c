"""Accept or refuse a pair of instances: by what they declare, and by who holds what (spec: mapping, refusals)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import lcm

from differential.subjects.compatibility.configuration import Configuration, share
from oracle.model.axes import Axis
from oracle.model.buffers import Buffer, LayerGroup
from oracle.model.instance import Instance
from oracle.model.topology import Rank, Topology
from oracle.model.writes import Refusal

CODES = {
    "tokens_per_block_differ": "a block of one side is no block of the other",
    "buffer_missing": "a buffer that moves is declared on one side only",
    "buffer_differs": "a buffer that moves has other axes, splits, sub-pages, element widths or retention on one side",
    "sizes_do_not_divide": "along tp or cp neither size divides the other: who hears from whom is not defined",
    "context_parallel_with_attention_dp": "one instance joins context parallelism with attention data parallelism",
    "region_missing": "an explicit page table has no region for a buffer that moves, or one too small for its share",
    "index_without_holder": "an index due on a rank is on none of the ranks it hears from",
}


def decide(source: Configuration, destination: Configuration) -> Refusal | None:
    """Why the pair is refused, under one of ``CODES``; None if it is accepted.

    Everything that depends on model and instances is settled here, nothing that depends on a prompt.
    """
    there, here = source.moving(destination.instance), destination.moving(source.instance)
    return (
        _check_policy(source, destination, there)
        or _check_declarations(source, destination, there, here)
        or _check_tables("context", source, there)
        or _check_tables("generation", destination, here)
        or _check_holders(source, destination, here)
    )


Moving = dict[tuple[int, str], tuple[LayerGroup, Buffer]]


def _check_policy(source: Configuration, destination: Configuration, moving: Moving) -> Refusal | None:
    one, other = source.instance, destination.instance
    if one.tokens_per_block != other.tokens_per_block and any(group.is_paged for group, _ in moving.values()):
        return Refusal("tokens_per_block_differ", f"{one.tokens_per_block} and {other.tokens_per_block} tokens a block")
    for name, instance in (("context", one), ("generation", other)):
        if instance.topology.cp > 1 and instance.topology.attention_dp:
            reason = f"the {name} side has cp = {instance.topology.cp} and attention DP {instance.topology.tp}"
            return Refusal("context_parallel_with_attention_dp", reason)
    for name, sizes in (
        ("tp", tuple(1 if side.topology.attention_dp else side.topology.tp for side in (one, other))),
        ("cp", (one.topology.cp, other.topology.cp)),
    ):
        if lcm(*sizes) != max(sizes):
            return Refusal("sizes_do_not_divide", f"{name} {sizes[0]} and {sizes[1]}")
    return None


def _check_declarations(
    source: Configuration, destination: Configuration, there: Moving, here: Moving
) -> Refusal | None:
    for layer, role in sorted(there.keys() | here.keys()):
        what = role if layer < 0 else f"{role} of layer {layer}"
        found = [side.get((layer, role)) for side in (there, here)]
        if None in found:
            which = "context" if found[0] is None else "generation"
            return Refusal("buffer_missing", f"{what} is not declared on the {which} side")
        one, other = (
            described(group, buffer, side.instance)  # type: ignore[misc]
            for (group, buffer), side in zip(found, (source, destination), strict=True)  # type: ignore[misc]
        )
        if one != other:
            return Refusal("buffer_differs", f"{what} is {one} on the context side and {other} on the generation side")
    return None


def described(group: LayerGroup, buffer: Buffer, instance: Instance) -> str:
    """What both sides must agree on of a buffer, as text; the order of stored axes is not among it."""
    parts = []
    for part in buffer.parts:
        axes = sorted(_axis_text(axis) for axis in part.axes)
        parts.append(f"{' '.join(axes)} of {instance.bits_of(buffer.role, part.bits)} bits")
    pages = f" in sub-pages of {buffer.sub_rows} rows, x({buffer.expansion})" if buffer.tokens_per_row else ""
    scope = " of the request" if buffer.request_scope else ""
    return f"{group.kind.value}: {' | '.join(parts)}{pages}{scope}"


def _axis_text(axis: Axis) -> str:
    if axis.is_token:
        return f"T({axis.tokens_per_row})"
    inside = ", ".join(f"{each.name}:{each.size}.{each.split.value}" for each in axis.sections)
    return f"{axis.name}({axis.size}{f': {inside}' if inside else ''}).{axis.split.value}@{axis.grid.value}"


def _check_tables(side: str, configuration: Configuration, moving: Moving) -> Refusal | None:
    instance = configuration.instance
    for number, table in instance.page_tables:
        rank = instance.topology.rank(number)
        stage = instance.topology.stage_layers(rank.pp)
        regions: dict[tuple[int, str], int] = {(entry.layer, entry.role): entry.nbytes for entry in table.entries}
        for (layer, role), (_, buffer) in moving.items():
            own = [each for each in ((layer,) if layer >= 0 else buffer.layers) if each in stage]
            for each in own[:1] if buffer.first_local else own:
                needed = stored_bytes(buffer, instance, rank)
                if regions.get((each, role), 0) < needed:
                    where = f"{role} of layer {each} on rank {number} of the {side} side"
                    reason = f"{where} has {regions.get((each, role), 0)} B of {needed}"
                    return Refusal("region_missing", reason)
    return None


def stored_bytes(buffer: Buffer, instance: Instance, rank: Rank) -> int:
    """Bytes of the share of ``buffer`` that ``rank`` stores for one block, or one request."""
    bits = 0
    for part in buffer.parts:
        size = instance.bits_of(buffer.role, part.bits)
        for axis in part.axes:
            rows = instance.tokens_per_block // axis.tokens_per_row if axis.is_token else 0
            size *= rows if axis.is_token else sum(map(len, share(axis, instance, rank)))
        bits += size
    return bits // 8


def _check_holders(source: Configuration, destination: Configuration, moving: Moving) -> Refusal | None:
    there, here = source.instance, destination.instance
    for rank in here.topology.ranks():
        layers = here.topology.stage_layers(rank.pp)
        for heard in _heard(there.topology, here.topology, rank):
            for (layer, role), (group, buffer) in moving.items():
                if not _has(layers, layer, buffer):
                    continue
                senders = tuple(s for s in heard if _has(there.topology.stage_layers(s.pp), layer, buffer))
                where = f"{role}, layer {layer}, is due on rank {rank.number}"
                if group.is_paged and (missing := _missing_block(there, here, rank, senders)) is not None:
                    return Refusal("index_without_holder", f"block {missing} of {where}")
                for part in buffer.parts:
                    axes = tuple(axis for axis in part.axes if axis.is_split)
                    if not _covered(axes, there, here, rank, senders, group.is_paged):
                        names = ", ".join(axis.name for axis in axes)
                        return Refusal("index_without_holder", f"an index of {names or 'no axis'} of {where}")
    return None


def _has(stage: range, layer: int, buffer: Buffer) -> bool:
    return layer in stage if layer >= 0 else any(each in stage for each in buffer.layers)


def _heard(there: Topology, here: Topology, rank: Rank) -> Iterator[list[Rank]]:
    """The sources that ``rank`` hears from; under attention DP of the source, for each of its groups."""
    stage = set(here.stage_layers(rank.pp))
    met = [
        each
        for each in there.ranks()
        if not stage.isdisjoint(there.stage_layers(each.pp)) and _meets(each.cp, there.cp, rank.cp, here.cp)
    ]
    if there.attention_dp:
        yield from ([each for each in met if each.tp == group] for group in range(there.tp))
    else:
        yield [each for each in met if here.attention_dp or _meets(each.tp, there.tp, rank.tp, here.tp)]


def _meets(one: int, ones: int, other: int, others: int) -> bool:
    """Whether two ranks are partners along a dimension of which one size divides the other."""
    if ones >= others:
        return one // (ones // others) == other
    return other // (others // ones) == one


def _missing_block(there: Instance, here: Instance, rank: Rank, senders: tuple[Rank, ...]) -> int | None:
    """The first block ordinal of a full period that is the rank's and no sender's."""
    cp, own = there.topology.cp, here.topology.cp
    for ordinal in range(rank.cp, lcm(cp, own), own):
        if not any(ordinal % cp == sender.cp for sender in senders):
            return ordinal
    return None


@lru_cache(maxsize=4096)
def _covered(
    axes: tuple[Axis, ...], there: Instance, here: Instance, rank: Rank, senders: tuple[Rank, ...], paged: bool
) -> bool:
    """Whether each combination of indices that ``rank`` stores of ``axes`` is stored by some sender.

    With cp > 1 on the context side a block of a paged group is on the senders of one residue alone,
    so those of each residue must do by themselves.
    """
    cp = there.topology.cp if paged else 1
    own = here.topology.cp
    for residue in range(cp):
        able = [sender for sender in senders if cp == 1 or sender.cp == residue]
        if cp > 1 and not any(ordinal % own == rank.cp for ordinal in range(residue, lcm(cp, own), cp)):
            continue
        classes: list[set[frozenset[int]]] = []
        for axis in axes:
            held = [set().union(*share(axis, there, sender)) for sender in able]
            wanted = set().union(*share(axis, here, rank))
            classes.append({frozenset(n for n, indices in enumerate(held) if index in indices) for index in wanted})
        everyone = frozenset(range(len(able)))
        for combination in product(*classes):
            if not everyone.intersection(*combination):
                return False
    return True
