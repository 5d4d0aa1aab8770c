"""What is known of each cache kind: its declarations, where they lie, what they stress, and what the cases reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvwitness.story import describe_retention
from kvwitness.words import count, joined
from oracle.model.buffers import Model
from oracle.model.case import Case, Native, Request
from oracle.model.notation import format_buffer
from oracle.model.sides import lay_out
from strategies.deployments import deployment
from strategies.instances import has_heads, make_instance
from strategies.kinds.protocol import Declaration, Kind, PublishedModel
from strategies.requests import lengths_of
from strategies.topologies import Grid, Shape, with_extra


@dataclass(frozen=True, slots=True)
class ShownPool:
    """A pool of a rank: pools of one ``pool_group`` share slot numbers. ``holds``: by group, what lies in a slot."""

    number: int
    pool_group: int
    slot_bytes: int
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A declaration in the notation, by group, and the pools of rank 0 of a topology."""

    title: str
    groups: tuple[tuple[str, str, tuple[str, ...]], ...]
    """(name, retention, buffers)"""
    rank: str
    pools: tuple[ShownPool, ...]


def splits_of(kind: Kind) -> tuple[str, ...]:
    """The splits that ``kind`` can have: of ``tp``, ``pp``, ``cp`` and ``dp``."""
    allowed = (("tp", True), ("pp", kind.stages), ("cp", kind.helix), ("dp", kind.attention_dp))
    return tuple(name for name, can in allowed if can)


def native_of(kind: Kind) -> tuple[Native | None, ...]:
    """What the legacy sender declares for the models of ``kind``: mostly one declaration, ``None`` for no rule."""
    models = [small_model(kind, numbers) for numbers in kind.scope]
    models += [published.declare() for published in kind.published]
    return tuple(dict.fromkeys(model.native for model in models))


def describe_native(native: Native | None) -> str:
    """``all indexed, index_key replicated; not registered: index_value``."""
    if native is None:
        return "no legacy rule"
    said = ", ".join(f"{role} {mapper}" for role, mapper in native.mappers) or "all indexed"
    return f"{said}; not registered: {joined(native.ignored)}" if native.ignored else said


def small_model(kind: Kind, numbers: tuple[int, ...] | None = None, tp: int = 1) -> Declaration:
    """The small model of ``numbers`` (the first of the scope) over ``tp`` ranks a side."""
    grid, tokens = Grid(Shape(tp), Shape(tp)), _block(kind)
    around = grid.surroundings(min(max(2, kind.layers[0]), kind.layers[1]), tokens, 3 * tokens)
    return kind.declare(kind.scope[0] if numbers is None else numbers, around)


def _block(kind: Kind) -> int:
    return next((tokens for tokens in kind.tokens_per_block if tokens > 1), kind.tokens_per_block[0])


def show_small(kind: Kind, tp: int = 1) -> ShownModel:
    """The first small model of the scope of ``kind``."""
    declaration, tokens = small_model(kind, tp=tp), _block(kind)
    model, extra = declaration.model, declaration.extra_of("context")
    topology = Shape(tp).topology(with_extra((model.layers - declaration.extra,), extra))
    layout = "HND" if has_heads(model) else ""
    instance = make_instance(model, topology, tokens, layout=layout, without=declaration.without[0])
    other = make_instance(
        model,
        Shape().topology(with_extra((model.layers - declaration.extra,), declaration.extra_of("generation"))),
        tokens,
        layout=layout,
        without=declaration.without[1],
    )
    request = Request(0, 1, lengths=tuple((name, 1) for name in lengths_of(model)))
    case = Case(model, instance, other, (request,), native=declaration.native)
    return _shown(f"a small model, {count(model.layers, 'layer')}, {count(tokens, 'token')} a block", case)


def show_published(published: PublishedModel, tp: int = 1) -> ShownModel:
    """``published`` with its usual block length and element width."""
    case = deployment(published.name, {"tp": tp}, {}, prompt=1)
    tokens = count(case.context.tokens_per_block, "token")
    return _shown(f"{published.title}, {count(case.model.layers, 'layer')}, {tokens} a block", case)


def _shown(title: str, case: Case) -> ShownModel:
    groups = tuple(
        (group.name, describe_retention(group), tuple(map(format_buffer, group.buffers))) for group in case.model.groups
    )
    return ShownModel(title, groups, f"rank 0, tp {case.context.topology.tp}", tuple(_pools(case)))


def _pools(case: Case) -> Iterator[ShownPool]:
    table = lay_out(case, "context").tables[0]
    for number, pool in enumerate(table.pools):
        held: dict[int, dict[tuple[str, int], int]] = {}
        for entry in table.entries:
            if entry.pool == number:
                members = held.setdefault(entry.group, {})
                members[entry.role, entry.nbytes] = members.get((entry.role, entry.nbytes), 0) + 1
        holds = tuple(_members(case.model, group, members) for group, members in held.items())
        yield ShownPool(number, pool.pool_group, pool.slot_bytes, holds)


def _members(model: Model, group: int, members: dict[tuple[str, int], int]) -> str:
    """``kv: key and value ×80 of 65,536 B``."""
    alike: dict[tuple[int, int], list[str]] = {}
    for (role, nbytes), layers in members.items():
        alike.setdefault((layers, nbytes), []).append(role)
    said = [f"{joined(roles)} ×{layers} of {nbytes:,} B" for (layers, nbytes), roles in alike.items()]
    return f"{model.groups[group].name}: {', '.join(said)}"
