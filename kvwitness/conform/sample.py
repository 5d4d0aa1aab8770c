"""What the laws of one kind are tried on: cases drawn from a seed, and what the subjects plan of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from kvwitness.conform.sources import Source, last_line, line_of
from kvwitness.search import save_failure
from kvwitness.settings import Judged
from kvwitness.trial import Judgement, Trial
from oracle.model.case import SIDES, Case, Request
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from strategies.cases import decode
from strategies.instances import LAYOUTS, make_instance
from strategies.kinds.protocol import Declaration, Kind, Surroundings, of_kind
from strategies.numbers import WIDTH
from strategies.requests import lengths_of
from strategies.topologies import MOST_RANKS, TENSOR_SIZES, Grid, Shape, even_cut, with_extra

if TYPE_CHECKING:
    from kvwitness.conform.mutants import Standing

EXAMPLES = 150
"""Cases that are drawn unless told otherwise."""
MORE = 12
"""How many times as many are drawn at most where something rare is looked for."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn case and the numbers that it stands for."""

    numbers: bytes
    case: Case


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was raised where something was built: in words, with the line of the kind's own file if it is one."""

    numbers: tuple[int, ...]
    said: str


class Sample:
    """One kind, and everything about it that several laws look at, made once."""

    def __init__(self, source: Source, seed: int = 0, examples: int = EXAMPLES, out: str = "") -> None:
        self.source = source
        self.out = out
        self.kind: Kind = source.kind
        self.seed = seed
        self.examples = examples

    def random(self, what: str) -> Random:
        """Numbers for one purpose that depend on the kind and the seed alone."""
        return Random(f"conform {self.kind.name} {self.seed} {what}")

    # ---- drawn cases

    @cached_property
    def _attempts(self) -> tuple[list[Drawn], list[Trouble]]:
        random = self.random("cases")
        drawn: list[Drawn] = []
        trouble: list[Trouble] = []
        for _ in range(self.examples):
            numbers = random.randbytes(WIDTH)
            found = self.draw(numbers)
            if isinstance(found, Case):
                drawn.append(Drawn(numbers, found))
            else:
                trouble.append(found)
        return drawn, trouble

    def draw(self, numbers: Sequence[int]) -> Case | Trouble:
        """The case of these numbers, laid out on both sides, or why there is none."""
        try:
            case = decode(bytes(numbers), kinds=(self.kind,))
            return _laid_out(self.kind, case)
        except Exception as error:
            return Trouble(tuple(numbers), self.told(error))

    @property
    def drawn(self) -> list[Drawn]:
        return self._attempts[0]

    @property
    def trouble(self) -> list[Trouble]:
        """Why cases that were drawn do not exist."""
        return self._attempts[1]

    @property
    def cases(self) -> list[Case]:
        return [drawn.case for drawn in self.drawn]

    def more_cases(self) -> Iterator[Case]:
        """Further cases, for what the drawn ones do not show."""
        random = self.random("more cases")
        for _ in range(MORE * self.examples):
            found = self.draw(random.randbytes(WIDTH))
            if isinstance(found, Case):
                yield found

    def told(self, error: BaseException) -> str:
        """``error`` in words: kind, role and rule of what cannot be; the line of the file where it comes from there."""
        where = line_of(error, self.source)
        if isinstance(error, InvalidCase):
            return f"{where}{of_kind(f'kind {self.kind.name}', error)}"
        place = "" if where else f" at {last_line(error)}"
        return f"{where}{type(error).__name__}: {error}{place}"

    # ---- judged cases

    @cached_property
    def trial(self) -> Trial:
        return Trial(Judged())

    @cached_property
    def judgements(self) -> list[Judgement]:
        """The drawn cases, each planned by the mapping and the legacy sender, judged and compared."""
        return [self.trial(case, carry=False) for case in self.cases]

    @cached_property
    def standings(self) -> list[Standing]:
        """Small mistakes in the drawn declarations, and who notices each."""
        from kvwitness.conform.mutants import judge_mutants  # it is told of samples

        return judge_mutants(self)

    def keep(self, judgement: Judgement) -> tuple[str, ...]:
        """Write the witness of a failing case where one is asked for; the line that replays it."""
        if not self.out or judgement.failure is None:
            return ()
        path, _ = save_failure(judgement, self.trial, self.out)
        return (f"replay it: kvwitness replay {path}",)


# ---- models between grids of a given shape


GRIDS: tuple[Grid, ...] = tuple(
    sorted(
        (
            Grid(Shape(tp), Shape(own, cp=cp))
            for tp in TENSOR_SIZES
            for own in TENSOR_SIZES
            for cp in (1, 2)
            if own * cp <= MOST_RANKS
        ),
        key=lambda grid: (grid.size, grid.generation.cp),
    )
)
"""Pairs of shapes that a model has to fit, the smallest first."""


def grids_of(kind: Kind) -> tuple[Grid, ...]:
    """Those of ``GRIDS`` that ``kind`` can be split as."""
    return GRIDS if kind.helix else tuple(grid for grid in GRIDS if grid.generation.cp == 1)


def block_of(kind: Kind) -> int:
    """Tokens a block: more than one where the kind can, or the layouts would be one."""
    return next((tokens for tokens in kind.tokens_per_block if tokens > 1), kind.tokens_per_block[0])


def around(grid: Grid, layers: int, tokens_per_block: int, prompt: int) -> Surroundings:
    """What a model on ``grid`` has to fit."""
    return grid.surroundings(layers, tokens_per_block, prompt)


def case_between(
    kind: Kind,
    declaration: Declaration,
    grid: Grid,
    *,
    tokens_per_block: int,
    prompt: int,
    layouts: tuple[str, str] = LAYOUTS[0],
) -> Case:
    """A case of one request of ``prompt`` tokens, on the last attention-DP rank of each side; stages are cut evenly."""
    model = declaration.model
    sides = []
    for side, shape, layout, without in zip(
        SIDES, (grid.context, grid.generation), layouts, declaration.without, strict=True
    ):
        stages = with_extra(even_cut(model.layers - declaration.extra, shape.pp), declaration.extra_of(side))
        sides.append(make_instance(model, shape.topology(stages), tokens_per_block, layout=layout, without=without))
    lengths = tuple((name, prompt) for name in lengths_of(model))
    ranks = [side.topology.data_parallel - 1 for side in sides]
    case = Case(model, *sides, (Request(0, prompt, *ranks, lengths),), native=declaration.native, kind=kind.name)
    return _laid_out(kind, case)


def _laid_out(kind: Kind, case: Case) -> Case:
    """``case``, of which every rank's pages can be laid out; what cannot be names the kind."""
    try:
        for side in SIDES:
            lay_out(case, side)
    except InvalidCase as error:
        raise of_kind(f"kind {kind.name}", error) from error
    return case


def some_numbers(sample: Sample, most: int) -> Iterator[tuple[int, ...]]:
    """All combinations of the kind's numbers where there are at most ``most``, else as many drawn ones, 0 first."""
    bounds = sample.kind.bounds
    total = 1
    for bound in bounds:
        total *= bound
    if total <= most:
        for index in range(total):
            numbers = []
            for bound in bounds:
                index, number = divmod(index, bound)
                numbers.append(number)
            yield tuple(numbers)
        return
    random = sample.random("numbers")
    yield (0,) * len(bounds)
    # Each number once at its largest and all others 0: ends of ranges are where tables are too short.
    for place, bound in enumerate(bounds):
        yield tuple(bound - 1 if place == at else 0 for at in range(len(bounds)))
    for _ in range(most - 1 - len(bounds)):
        yield tuple(random.randrange(bound) for bound in bounds)
