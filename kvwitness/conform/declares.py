"""The law that a legacy declaration is about the roles that the kind has, and about each of them."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from kvwitness.conform.law import Law, Result, broken, holds, not_run
from kvwitness.conform.sample import Sample, around, block_of, grids_of, some_numbers
from kvwitness.words import count, joined
from oracle.model.buffers import Model
from oracle.model.case import Native

FALLBACK = "all"
MOST = 200

Declared = tuple[str, Model, Native | None]
"""Where a declaration is from, in words; its model; its legacy declaration."""


def _declared(sample: Sample) -> Iterator[Declared]:
    """Whatever can be built: small models of the kind's numbers, the drawn cases, and all published models.

    What cannot be built is told by other laws.
    """
    kind = sample.kind
    grid, tokens = grids_of(kind)[0], block_of(kind)
    surroundings = around(grid, kind.layers[1], tokens, 2 * tokens + 1)
    for numbers in some_numbers(sample, MOST):
        try:
            declaration = kind.declare(numbers, surroundings)
        except Exception:
            continue
        yield f"numbers {numbers}", declaration.model, declaration.native
    for case in sample.cases:
        yield "a drawn case", case.model, case.native
    for model in kind.published:
        for bits in model.element_bits:
            try:
                declaration = model.declare(bits)
            except Exception:
                continue
            yield f"{model.name}, {bits} bits", declaration.model, declaration.native


def _known(roles: set[str], written: str) -> str:
    """What to write in place of ``written``."""
    near = get_close_matches(written, sorted(roles), n=1)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(sorted(roles))}"


def check_declares(sample: Sample) -> Result:
    """Hold the roles of the legacy declarations against those of the buffers.

    A role that one model lacks another may have: a name is wrong only where no model of the kind has it. Request-wide
    buffers go by no mapper, so none is missing for them.
    """
    roles: set[str] = set()
    named: dict[tuple[str, str], str] = {}
    silent: dict[str, str] = {}
    models = 0
    for where, model, native in _declared(sample):
        buffers = [buffer for group in model.groups for buffer in group.buffers]
        roles.update(buffer.role for buffer in buffers)
        if native is None:
            continue
        models += 1
        mapped = dict(native.mappers)
        for role in mapped:
            named.setdefault(("mappers", role), where)
        for role in native.ignored:
            named.setdefault(("ignored", role), where)
        if FALLBACK not in mapped:
            for buffer in buffers:
                if not buffer.request_scope and buffer.role not in mapped and buffer.role not in native.ignored:
                    silent.setdefault(buffer.role, where)
    if not roles:
        return not_run("no model could be built")
    if not models:
        return not_run("no legacy rule: the kind declares nothing for the legacy sender")
    for (field, role), where in named.items():
        if role not in roles and (field, role) != ("mappers", FALLBACK):
            others = [f"{other} has no mapper" for other in silent]
            return broken(f"native.{field} names {role}, which no buffer has: {_known(roles, role)}", where, *others)
    if silent:
        said = (
            f"native.mappers names neither {joined(sorted(silent))} nor {FALLBACK}: such a role goes by indexed, unsaid"
        )
        return broken(said, next(iter(silent.values())))
    return holds(f"{count(len(roles), 'role')} of {count(models, 'model')}")


DECLARES = Law(
    "declares",
    "The legacy declaration names roles that the kind has, and has a mapper for each of them.",
    check_declares,
)
