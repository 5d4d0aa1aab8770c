"""Laws of the declaration itself: it can be built, means one thing, and starts simple."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

from kvwitness.conform.law import Law, Result, broken, holds, not_run
from kvwitness.conform.sample import Sample, around, block_of, case_between, grids_of, some_numbers
from kvwitness.conform.shrink import smallest
from kvwitness.words import count, joined
from oracle.model.buffers import Buffer, Model
from oracle.model.case import Case
from oracle.model.codec import decode, encode
from oracle.model.errors import InvalidCase
from oracle.model.layers import LayerSet
from strategies.kinds.protocol import Kind, Surroundings
from strategies.scope import small_scope
from strategies.topologies import Grid

MOST_COMBINATIONS = 500
MOST_PURE = 200

Point = tuple[int, ...]
"""The numbers of a kind and, after them, a grid, a number of layers and a block length, each by its place."""


def _blocks(kind: Kind) -> tuple[int, ...]:
    return kind.tokens_per_block


def _setting(kind: Kind, point: Point) -> tuple[tuple[int, ...], Grid, Surroundings, int]:
    """(numbers, grid, surroundings, prompt) of a point."""
    *numbers, grid_number, layer_number, block_number = point
    grids, blocks = grids_of(kind), _blocks(kind)
    grid = grids[grid_number % len(grids)]
    layers = kind.layers[0] + layer_number % (kind.layers[1] - kind.layers[0] + 1)
    block = blocks[block_number % len(blocks)]
    prompt = block * grid.generation.cp * 2 + 1
    return tuple(numbers), grid, around(grid, layers, block, prompt), prompt


def _points(sample: Sample, most: int) -> Iterator[Point]:
    """Every combination of numbers, each on a few grids, layers and block lengths that go round."""
    kind = sample.kind
    total = min(prod(kind.bounds), most)
    each = max(1, min(len(grids_of(kind)), most // total))
    turn = 0
    for numbers in some_numbers(sample, most):
        for _ in range(each):
            yield (*numbers, turn % len(grids_of(kind)), turn // 5 % 16, turn // 3 % len(_blocks(kind)))
            turn += 1


def _trouble(sample: Sample, point: Point) -> str:
    """Why the declaration of ``point`` cannot be built and laid out, "" where it can."""
    kind = sample.kind
    numbers, grid, surroundings, prompt = _setting(kind, point)
    try:
        declaration = kind.declare(numbers, surroundings)
        case_between(kind, declaration, grid, tokens_per_block=surroundings.tokens_per_block, prompt=prompt)
    except Exception as error:
        return sample.told(error)
    return ""


def _rule(said: str) -> str:
    """What is left of a message without the values in it: shrinking keeps to the rule that is broken."""
    return "".join(letter for letter in said.rpartition(": ")[2] if not letter.isdigit())


def _breaks(sample: Sample, rule: str, point: Point) -> bool:
    said = _trouble(sample, point)
    return bool(said) and _rule(said) == rule


def _told_point(kind: Kind, point: Point) -> tuple[str, ...]:
    numbers, grid, surroundings, _ = _setting(kind, point)
    block = surroundings.tokens_per_block
    where = f"{count(surroundings.layers, 'layer')}, {grid}, {count(block, 'token')} a block"
    return (f"numbers {numbers}", where)


def check_builds(sample: Sample) -> Result:
    """Build and lay out each combination of numbers, and what is drawn."""
    tried = 0
    for point in _points(sample, MOST_COMBINATIONS):
        tried += 1
        if said := _trouble(sample, point):
            least = smallest(point, partial(_breaks, sample, _rule(said)))
            return broken(_trouble(sample, least), *_told_point(sample.kind, least))
    if sample.trouble:
        least = smallest(sample.trouble[0].numbers, lambda lower: not isinstance(sample.draw(lower), Case))
        found = sample.draw(least)
        said = sample.trouble[0].said if isinstance(found, Case) else found.said
        return broken(said, f"{count(len(sample.trouble), 'drawn case')} of {sample.examples} cannot be")
    total = prod(sample.kind.bounds)
    some = "" if total <= MOST_COMBINATIONS else f"{MOST_COMBINATIONS:,} of "
    return holds(f"{some}{count(total, 'combination')} of numbers, {count(tried, 'layout')}")


def check_pure(sample: Sample) -> Result:
    """Build some declarations in one order and again in the other."""
    kind = sample.kind
    points = list(_points(sample, MOST_PURE))[:MOST_PURE]
    settings = [_setting(kind, point) for point in points]
    try:
        first = [kind.declare(numbers, surroundings) for numbers, _, surroundings, _ in settings]
        second = [kind.declare(numbers, surroundings) for numbers, _, surroundings, _ in reversed(settings)]
    except Exception as error:
        return not_run(f"not every combination of numbers builds: {sample.told(error)}")
    for point, one, other in zip(points, first, reversed(second), strict=True):
        if one != other:
            return broken("decode gives two declarations for the same numbers", *_told_point(kind, point))
    return holds(f"{count(len(points), 'declaration')}, built twice in different orders")


def _buffers(model: Model) -> frozenset[tuple[str, Buffer]]:
    """Buffers with the name of their group; on which layers they are is no matter."""
    nowhere = LayerSet((0,))
    return frozenset(
        (group.name, replace(b, layers=nowhere, alias=None)) for group in model.groups for b in group.buffers
    )


def check_simplest(sample: Sample) -> Result:
    """Hold the declaration of all zeros against those with one other number."""
    kind = sample.kind
    zeros = (0,) * len(kind.bounds)
    tried = 0
    for place in range(0, len(grids_of(kind)), 7):
        end = (place, place, place)
        try:
            least = _buffers(kind.declare(zeros, _setting(kind, (*zeros, *end))[2]).model)
            for at, bound in enumerate(kind.bounds):
                for number in range(1, bound, max(1, bound // 12)):
                    tried += 1
                    other = (*zeros[:at], number, *zeros[at + 1 :])
                    found = _buffers(kind.declare(other, _setting(kind, (*other, *end))[2]).model)
                    if found < least:
                        more = joined(sorted({buffer.role for _, buffer in least - found}))
                        said = f"all numbers 0 declare {more}, numbers {other} do not: shrinking would add it"
                        return broken(said, *_told_point(kind, (*other, *end))[1:])
        except Exception as error:
            return not_run(f"not every combination of numbers builds: {sample.told(error)}")
    return holds(f"{count(tried, 'declaration')} held against that of all 0")


def check_scope(sample: Sample) -> Result:
    """Enumerate the small scope, and ask whether its models differ."""
    kind = sample.kind
    tokens = block_of(kind)
    try:
        cases = sum(1 for _ in small_scope(kind))
        surroundings = around(Grid(), max(2, kind.layers[0]), tokens, tokens + 1)
        models = [kind.declare(numbers, surroundings) for numbers in kind.scope]
    except Exception as error:
        return broken(sample.told(error))
    for number, model in enumerate(models):
        if model in models[:number]:
            twin = kind.scope[models.index(model)]
            return broken(f"scope {twin} and {kind.scope[number]} are one model on one rank a side")
    return holds(f"{count(cases, 'case')}, {count(len(models), 'model')}")


def check_files(sample: Sample) -> Result:
    """Write each drawn case as a file and read it back."""
    if not sample.cases:
        return not_run("no case could be drawn")
    for case in sample.cases:
        text = encode(case)
        try:
            again = decode(text)
        except InvalidCase as error:
            return broken(f"the file of a case cannot be read: {error}", text)
        if again != case or encode(again) != text:
            return broken("the file of a case holds another case", text)
    return holds(f"{count(len(sample.cases), 'file')}, written and read back")


FORMED = (
    Law("builds", "Every combination of numbers is a layout that exists.", check_builds),
    Law("pure", "The same numbers always declare the same.", check_pure),
    Law("simplest", "No number declares less than it does at 0: 0 is the simplest.", check_simplest),
    Law("scope", "The small scope can be enumerated, and its models differ.", check_scope),
    Law("files", "A case file holds all of a case.", check_files),
)
