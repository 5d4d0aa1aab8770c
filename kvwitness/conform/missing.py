"""What a kind has not, and might have: nothing of it breaks a law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvwitness.conform.law import Law, Result, broken, holds, not_run
from kvwitness.conform.sample import Sample, around, block_of, grids_of
from kvwitness.conform.sources import how_to_register
from kvwitness.words import joined
from strategies.kinds import registered_kinds
from strategies.kinds.protocol import Kind
from strategies.stresses import find_stress
from strategies.stresses.reach import CASES, reach_of

STEPS = 12
"""Values of a number that are tried on their way from 0 to the last."""
SELDOM = 20
"""One in so many small models has to show what a law asks of the cases."""
BASES = 8
"""Settings of the other numbers, in which a number is to have an effect."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What is missing, and what to do about it in lines."""

    what: str
    how: tuple[str, ...] = ()


def unreached(sample: Sample) -> tuple[list[str], list[str]]:
    """Stresses that small models can show and no case reaches, and those that hardly any but published models show."""
    kind = sample.kind
    missed = [name for name, found in reach_of(kind).items() if found.is_missed or found.is_of_published]
    small = [(case.model, kind.tokens_per_block) for case in sample.cases]
    shown = []
    for name in missed:
        stress = find_stress(name)
        if sum(stress.declared_by(kind, (model,)) for model in small) * SELDOM > len(small):
            shown.append(name)
    return shown, [name for name in missed if name not in shown]


def check_stresses(sample: Sample) -> Result:
    """Count what the cases reach of all that the declarations can show."""
    try:
        reach = reach_of(sample.kind)
    except Exception as error:  # of other cases than those that were drawn to be built
        return not_run(f"not every drawn case can be: {sample.told(error)}")
    declared = sum(found.declared for found in reach.values())
    missed, only_published = unreached(sample)
    if missed:
        said = f"{len(missed)} of {declared} that small models can show are reached by none of {CASES} cases"
        return broken(said, *missed)
    if only_published:
        return holds(f"{declared} declared, {declared - len(only_published)} reached within {CASES} cases")
    return holds(f"{declared} declared, all reached within {CASES} cases")


STRESSED = Law("stresses", "The drawn cases reach what the declarations can show.", check_stresses, whole=True)


def missing_of(sample: Sample) -> Iterator[Missing]:
    """What a kind of one's own might still have."""
    source, kind = sample.source, sample.kind
    if not kind.description.strip():
        yield Missing("a description: description=... is shown wherever kinds are listed")
    if not kind.published:
        yield Missing("a published model: published=(PublishedModel(...),), for verify --model at real size")
    elif silent := [model.name for model in kind.published if not model.source.strip()]:
        yield Missing(f"the source of the figures of {joined(silent)}")
    if sample.cases and not any(case.native for case in sample.cases):
        yield Missing("a legacy declaration: native is None, so that nothing is compared with the legacy sender")
    if len(kind.scope) == 1:
        yield Missing("a second model in scope: the large scope takes two, and one says little")
    for name in _only_published(sample):
        yield Missing(f"small models that show {name}, which the declarations can")
    for place in _idle_numbers(kind):
        yield Missing(f"an effect of number {place + 1} of {len(kind.bounds)}: it never changes the declaration")
    if not source.registered:
        known = next((other for other in registered_kinds() if other.name == kind.name), None)
        if known is not None:
            yield Missing(f"a name of its own: another kind is called {kind.name}")
        yield Missing("a registration: in the pyproject.toml of the package that has the file", how_to_register(source))


def _only_published(sample: Sample) -> list[str]:
    try:
        return unreached(sample)[1]
    except Exception:
        return []  # cases that cannot be drawn are told elsewhere


def _idle_numbers(kind: Kind) -> list[int]:
    """Places of numbers that change no declaration, whatever the others are."""
    idle = []
    grids = grids_of(kind)
    block = block_of(kind)
    layers = min(max(4, kind.layers[0]), kind.layers[1])
    settings = [around(grids[place * 5 % len(grids)], layers, block, 3 * block + 1) for place in range(BASES)]
    for place, bound in enumerate(kind.bounds):
        if bound > 1 and not any(
            _has_effect(kind, place, bound, base, surroundings) for base, surroundings in enumerate(settings)
        ):
            idle.append(place)
    return idle


def _has_effect(kind: Kind, place: int, bound: int, base: int, surroundings: object) -> bool:
    others = [base * (at + 3) % other for at, other in enumerate(kind.bounds)]
    found = set()
    for number in range(0, bound, max(1, bound // STEPS)):
        numbers = (*others[:place], number, *others[place + 1 :])
        try:
            found.add(kind.declare(numbers, surroundings))  # type: ignore[arg-type]
        except Exception:
            return True  # a broken declaration is told elsewhere
        if len(found) > 1:
            return True
    return False
