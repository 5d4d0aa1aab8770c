"""Who holds which index is derived three times, and a mistake in any one of them makes them disagree.

Truth asks a predicate of each index, the mapping computes intervals, packing counts. Each is
replaced by a wrong version while the others stay: the plan of the mapping must then fail the judge
or be refused, or a region must not fit its bytes, on one of a few small cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import ceil

import pytest

from differential.managers.tables import gather_facts
from differential.subjects.mapping import Mapping, shares
from oracle.model import counts
from oracle.model.axes import Axis, Grid, Split
from oracle.model.buffers import Model
from oracle.model.case import Case, Request
from oracle.model.writes import Refusal
from oracle.truth import holders
from oracle.truth.elements import truth_of
from oracle.truth.judge import judge
from tests.small_cases import case_of, group

ROOMS = ("oracle.", "differential.")


def heads(split: str, number: int, context: str, generation: str) -> Case:
    """K and V on two layers, so that a region of the wrong size moves its neighbours."""
    buffers = (f"{role} @ 0..1 : H({number}).{split} T D(1) ; 8" for role in ("key", "value"))
    return case_of(Model(2, (group(*buffers),)), context, generation)


def state(text: str, context: str, generation: str, **options: object) -> Case:
    buffers = (f"conv @ 0..1 : {text} ; 8", f"ssm @ 0..1 : {text} P(2) ; 8")
    return case_of(Model(2, (group(*buffers, state=True),)), context, generation, **options)  # type: ignore[arg-type]


# Built anew for each mutant: a case keeps what it was checked with.
CASES: dict[str, Callable[[], Case]] = {
    "heads": lambda: heads("heads", 4, "tp2", "tp4"),
    "repeated heads": lambda: heads("heads", 2, "tp4", "tp8"),
    "repeated heads meet whole ones": lambda: heads("heads", 2, "tp4", "tp1"),
    "overlapping heads": lambda: heads("heads", 6, "tp4", "tp2"),
    "floor": lambda: heads("floor", 5, "tp2", "tp1"),
    "few by floor": lambda: heads("floor", 2, "tp1", "tp4"),
    "cyclic": lambda: heads("cyc", 5, "tp2", "tp1"),
    "even": lambda: heads("even", 4, "tp1", "tp2"),
    "sections": lambda: state("C[x:8.even, B:2.all, C:4.even]", "tp1", "tp2"),
    "state": lambda: state("H(4).even@TPCP", "tp4", "tp2 cp2"),
    "state of many": lambda: state("H(12).even@TPCP", "tp2", "tp2 cp3"),
    "attention DP": lambda: heads("heads", 4, "tp2", "tp2 dp"),
    "state under attention DP": lambda: state(
        "H(4).even@TPCP", "tp1", "tp2 dp", requests=(Request(0, 2, generation_dp=1),)
    ),
}


def trouble(build: Callable[[], Case]) -> str:
    """In what the derivations disagree about a case; empty if in nothing."""
    try:
        case = build()
        plan = Mapping().plan(case, gather_facts(case))
        if isinstance(plan, Refusal) or plan.refusals:
            return f"refused: {plan if isinstance(plan, Refusal) else plan.refusals}"
        verdict = judge(case, plan)
        truth = truth_of(case)
    except Exception as error:  # a share that fits nowhere is a disagreement, wherever it is noticed
        return f"raised {type(error).__name__}: {error}"
    if not verdict:
        return f"judged {verdict.counts}"
    # A region larger than its bytes is seen by nobody who only copies: what is left of it belongs to no element.
    for flat, memory in ((truth.context, truth.source), (truth.generation, truth.due)):
        for rank in case.side(flat.name).topology.ranks():
            if case.side(flat.name).topology.attention_dp and rank.tp != case.requests[0].dp_rank(flat.name):
                continue
            table = flat.side.tables[rank.number]
            for entry in table.entries:
                slot = int(flat.side.slots[rank.number][entry.group][0][0])
                start = flat.starts[rank.number][entry.pool] + slot * table.pools[entry.pool].slot_stride + entry.offset
                if (memory[start : start + entry.nbytes] < 0).any():
                    return f"{entry.role} has {entry.nbytes} bytes on {flat.name} rank {rank.number}, not all elements"
    return ""


def clear_caches() -> None:
    """Forget everything that was derived."""
    for name, module in list(sys.modules.items()):
        if name.startswith(ROOMS):
            for member in list(vars(module).values()):
                if hasattr(member, "cache_clear") and not isinstance(member, type):
                    member.cache_clear()


@pytest.fixture
def replace_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[object, object], None]]:
    """Replace a function under every name that a module knows it by, with all caches cleared before and after."""

    def replace(old: object, new: object) -> None:
        found = 0
        for name, module in list(sys.modules.items()):
            if name.startswith(ROOMS):
                for attribute, member in list(vars(module).items()):
                    if member is old:
                        monkeypatch.setattr(module, attribute, new)
                        found += 1
        assert found

    clear_caches()
    yield replace
    monkeypatch.undo()
    clear_caches()


# ---- wrong predicates of truth


def wrong_holds(split: Split, rule: Callable[[int, int, int, int], bool]) -> tuple[object, object]:
    """``holds`` with ``rule(size, index, rank, ranks)`` in place of one split."""
    right = holders.holds

    def holds(kind: Split, size: int, index: int, place: tuple[int, int]) -> bool:
        return rule(size, index, *place) if kind is split else right(kind, size, index, place)

    return right, holds


def wrong_seat(rule: Callable[[object, object, Grid], tuple[int, int]]) -> tuple[object, object]:
    return holders.seat, rule


def swapped_sections_held() -> tuple[object, object]:
    right = holders.held_indices

    def held_indices(axis: Axis, place: tuple[int, int]) -> object:
        found = right(axis, place)
        return found[::-1].copy() if axis.sections else found

    return right, held_indices


def from_ceiling(size: int, rank: int, ranks: int) -> int:
    return ceil(rank * size / ranks)


TRUTH = {
    "heads from the ceiling": lambda: wrong_holds(
        Split.HEADS, lambda n, i, r, p: from_ceiling(n, r, p) <= i < from_ceiling(n, r, p) + ceil(n / p)
    ),
    "one head too many": lambda: wrong_holds(
        Split.HEADS, lambda n, i, r, p: r * n // p <= i <= r * n // p + ceil(n / p)
    ),
    "heads of a floor share": lambda: wrong_holds(
        Split.HEADS, lambda n, i, r, p: r * n // p <= i < r * n // p + max(1, n // p)
    ),
    "head = rank mod heads": lambda: wrong_holds(
        Split.HEADS, lambda n, i, r, p: i == r % n if p > n else r * n // p <= i < r * n // p + ceil(n / p)
    ),
    "heads dealt out in turn": lambda: wrong_holds(Split.HEADS, lambda n, i, r, p: i % p == r % n),
    "floor shares rounded up": lambda: wrong_holds(
        Split.FLOOR, lambda n, i, r, p: ceil(r * n / p) <= i < max(ceil(r * n / p) + 1, ceil((r + 1) * n / p))
    ),
    "no head where ranks outnumber them": lambda: wrong_holds(
        Split.FLOOR, lambda n, i, r, p: r * n // p <= i < (r + 1) * n // p
    ),
    "even shares off by one": lambda: wrong_holds(Split.EVEN, lambda n, i, r, p: (i - 1) % n // (n // p) == r),
    "even shares in reverse": lambda: wrong_holds(Split.EVEN, lambda n, i, r, p: i // (n // p) == p - 1 - r),
    "cyclic shares in runs": lambda: wrong_holds(Split.CYCLIC, lambda n, i, r, p: i * p // n == r),
    "sections in reverse": swapped_sections_held,
    "tp in place of tp*cp": lambda: wrong_seat(lambda t, r, g: (0, 1) if t.attention_dp else (r.tp, t.tp)),
    "tp counts fastest": lambda: wrong_seat(
        lambda t, r, g: (
            (0, 1) if t.attention_dp else (r.tp, t.tp) if g is Grid.TP else (r.cp * t.tp + r.tp, t.tp * t.cp)
        )
    ),
    "attention DP splits": lambda: wrong_seat(
        lambda t, r, g: (r.tp, t.tp) if g is Grid.TP else (r.tp * t.cp + r.cp, t.tp * t.cp)
    ),
}


# ---- wrong intervals of the mapping


def wrong_share(split: Split, rule: Callable[[int, int, int], range]) -> tuple[object, object]:
    """``share`` with ``rule(size, part, parts)`` in place of one split."""
    right = shares.share
    return (
        right,
        lambda size, kind, part, parts: rule(size, part, parts) if kind is split else right(size, kind, part, parts),
    )


def wrong_mapping_seat(rule: Callable[[object, object], object]) -> tuple[object, object]:
    return shares.seat_of, rule


def swapped_sections_shared() -> tuple[object, object]:
    right = shares.axis_shares
    return right, lambda axis, seat: right(axis, seat)[::-1]


def unsplit_sections_shared() -> tuple[object, object]:
    """A flat split of the whole axis in place of one of each section."""
    right = shares.axis_shares

    def axis_shares(axis: Axis, seat: object) -> tuple[range, ...]:
        if not axis.sections:
            return right(axis, seat)
        part, parts = seat[0 if axis.grid is Grid.TP else 1]
        return (range(part * axis.size // parts, (part + 1) * axis.size // parts),)

    return right, axis_shares


MAPPING = {
    "heads from the ceiling": lambda: wrong_share(
        Split.HEADS, lambda n, r, p: range(from_ceiling(n, r, p), from_ceiling(n, r, p) + ceil(n / p))
    ),
    "one head too many": lambda: wrong_share(
        Split.HEADS, lambda n, r, p: range(r * n // p, r * n // p + ceil(n / p) + 1)
    ),
    "heads of a floor share": lambda: wrong_share(
        Split.HEADS, lambda n, r, p: range(r * n // p, r * n // p + max(1, n // p))
    ),
    "head = rank mod heads": lambda: wrong_share(
        Split.HEADS, lambda n, r, p: range(r % n, r % n + 1) if p > n else range(r * n // p, r * n // p + ceil(n / p))
    ),
    "floor shares rounded up": lambda: wrong_share(
        Split.FLOOR, lambda n, r, p: range(ceil(r * n / p), max(ceil(r * n / p) + 1, ceil((r + 1) * n / p)))
    ),
    "no head where ranks outnumber them": lambda: wrong_share(
        Split.FLOOR, lambda n, r, p: range(r * n // p, (r + 1) * n // p)
    ),
    "even shares off by one": lambda: wrong_share(
        Split.EVEN, lambda n, r, p: range(min(r * n // p + 1, n - n // p), min(r * n // p + 1, n - n // p) + n // p)
    ),
    "even shares in reverse": lambda: wrong_share(
        Split.EVEN, lambda n, r, p: range((p - 1 - r) * n // p, (p - r) * n // p)
    ),
    "cyclic shares in runs": lambda: wrong_share(
        Split.CYCLIC, lambda n, r, p: range(-(-r * n // p), -(-(r + 1) * n // p))
    ),
    "sections in reverse": swapped_sections_shared,
    "one split of all sections": unsplit_sections_shared,
    "tp in place of tp*cp": lambda: wrong_mapping_seat(
        lambda t, r: ((0, 1), (0, 1)) if t.attention_dp else ((r.tp, t.tp), (r.tp, t.tp))
    ),
    "tp counts fastest": lambda: wrong_mapping_seat(
        lambda t, r: ((0, 1), (0, 1)) if t.attention_dp else ((r.tp, t.tp), (r.cp * t.tp + r.tp, t.tp * t.cp))
    ),
    "attention DP splits": lambda: wrong_mapping_seat(lambda t, r: ((r.tp, t.tp), (r.tp * t.cp + r.cp, t.tp * t.cp))),
}


# ---- wrong counts of packing


def wrong_count(split: Split, rule: Callable[[int, int, int], int]) -> tuple[object, object]:
    """``_count`` with ``rule(size, part, parts)`` in place of one split."""
    right = counts._count

    def count(size: int, kind: Split, part: int, parts: int, name: str) -> int:
        return rule(size, part, parts) if kind is split else right(size, kind, part, parts, name)

    return right, count


def wrong_grid(rule: Callable[[object, object, Grid], tuple[int, int]]) -> tuple[object, object]:
    return counts.grid_part, rule


def first_section_counted() -> tuple[object, object]:
    """The last section is taken to be split as the first one is."""
    right = counts.count_indices

    def count_indices(axis: Axis, part: int, parts: int) -> int:
        return axis.size // parts if axis.sections else right(axis, part, parts)

    return right, count_indices


COUNTS = {
    "heads of a floor share": lambda: wrong_count(Split.HEADS, lambda n, r, p: max(1, n // p)),
    "one head too many": lambda: wrong_count(Split.HEADS, lambda n, r, p: ceil(n / p) + 1),
    "no repeated heads": lambda: wrong_count(Split.HEADS, lambda n, r, p: n // p),
    "floor shares rounded up": lambda: wrong_count(Split.FLOOR, lambda n, r, p: ceil(n / p)),
    "equal cyclic shares": lambda: wrong_count(Split.CYCLIC, lambda n, r, p: n // p),
    "rounded cyclic shares": lambda: wrong_count(Split.CYCLIC, lambda n, r, p: ceil(n / p)),
    "even shares off by one": lambda: wrong_count(Split.EVEN, lambda n, r, p: n // p + 1),
    "even shares of all": lambda: wrong_count(Split.EVEN, lambda n, r, p: n),
    "replicated sections split": lambda: wrong_count(Split.ALL, lambda n, r, p: ceil(n / p)),
    "one split of all sections": first_section_counted,
    "tp in place of tp*cp": lambda: wrong_grid(lambda t, r, g: (0, 1) if t.attention_dp else (r.tp, t.tp)),
    "attention DP splits": lambda: wrong_grid(
        lambda t, r, g: (r.tp, t.tp) if g is Grid.TP else (r.tp * t.cp + r.cp, t.tp * t.cp)
    ),
}

MUTANTS = {
    f"{derivation}: {name}": build
    for derivation, mutants in (("truth", TRUTH), ("mapping", MAPPING), ("counts", COUNTS))
    for name, build in mutants.items()
}


def test_the_derivations_agree_on_every_case() -> None:
    clear_caches()
    assert {name: trouble(build) for name, build in CASES.items()} == dict.fromkeys(CASES, "")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_in_one_derivation_makes_them_disagree(
    name: str, replace_all: Callable[[object, object], None]
) -> None:
    replace_all(*MUTANTS[name]())
    assert any(trouble(build) for build in CASES.values())
