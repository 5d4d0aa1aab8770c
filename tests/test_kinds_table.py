"""Each kind reaches what it is there for, within 300 cases (spec: kinds, which kinds stress what)."""

from __future__ import annotations

import pytest

from strategies.kinds import find_kind, kinds
from strategies.stresses import find_stress
from strategies.stresses.reach import CASES, reach_of

COLUMNS = {
    "GQA": ("gqa",),
    "MLA": ("mla",),
    "NVFP4": ("nvfp4",),
    "VSWA": ("vswa",),
    "M3": ("minimax_m3",),
    "DSA": ("dsa",),
    "Mamba/GDN": ("mamba2", "gdn"),
    "KDA": ("kda",),
    "Qwen4Exp": ("qwen4_exp",),
    "FP4 MLA": ("fp4_mla",),
    "V4": ("deepseek_v4",),
    "CSA2": ("csa2",),
    "draft": ("draft",),
}

MAIN, PRESENT = "#", "+"
LEAST = {MAIN: 5, PRESENT: 1}
"""Of 300 cases."""

# A line for each feature of the table; what is marked, in the order of the columns, blank as a dot.
MARKS = {
    "head split, duplicated heads": "#.+++...+...+",
    "overlapping or uneven head shares": "#.+++.......+",
    "NHD: run per token": "+.+.#...+....",
    "sub-byte elements, two units in a group": "..#.+....+++.",
    "replicated beside sharded": "....#...#...+",
    "election among replicas": "+#..#+..#+###",
    "sectioned axis": "......#+#....",
    "state group, TP×CP grid": "......###....",
    "Helix block-cyclic tokens": "##+.++++#+...",
    "windows, dropped blocks": "...#.....+##+",
    "several retention classes per layer": ".........+##.",
    "several groups in one pool group": "...#.........",
    "coalescing by accident, uneven stride": "....#...#....",
    "many size classes in one group": "..+..+++++##.",
    "virtual or declared layer ids": ".........###+",
    "layer subsets, masks, empty stages": "...+++###.#++",
    "owner depends on PP / alias layers": ".....+..#..#.",
    "compression ratio, partial rows": "..........##.",
    "footer/inline/ring records": ".....#...###.",
    "derived, rebuilt or one-sided buffers": "....+.+..#.##",
    "per-layer heads/dims": "+..#........#",
    "page padding/alignment (vLLM)": "......#...#..",
    "uneven PP": "##+##+###+#.#",
}

# What a mark asks for: of every kind that has one, of those whose main stress it is, and of single ones.
STRESSES: dict[str, dict[str, tuple[str, ...]]] = {
    "head split, duplicated heads": {PRESENT: ("duplicated heads",)},
    "overlapping or uneven head shares": {PRESENT: ("overlapping, uneven head shares",)},
    "NHD: run per token": {PRESENT: ("NHD: a run per token",)},
    "sub-byte elements, two units in a group": {PRESENT: ("sub-byte elements, two units",)},
    "replicated beside sharded": {PRESENT: ("replicated beside sharded",)},
    "election among replicas": {PRESENT: ("election among replicas",)},
    "sectioned axis": {
        PRESENT: ("sectioned axis, cut by two grids",),
        MAIN: ("sections of unequal width",),
    },
    "state group, TP×CP grid": {PRESENT: ("state over the TP×CP grid",)},
    "Helix block-cyclic tokens": {
        PRESENT: ("Helix: block-cyclic tokens",),
        MAIN: ("Helix: a rank without a block", "Helix: an unfinished round"),
    },
    "windows, dropped blocks": {PRESENT: ("windows, dropped blocks",)},
    "several retention classes per layer": {PRESENT: ("several retention classes",)},
    "several groups in one pool group": {PRESENT: ("several groups in one pool group",)},
    "coalescing by accident, uneven stride": {
        PRESENT: ("coalesced by accident",),
        MAIN: ("coalesced on one side only",),
    },
    "many size classes in one group": {
        PRESENT: ("two size classes in a group",),
        MAIN: ("many size classes in a group",),
    },
    "virtual or declared layer ids": {PRESENT: ("virtual or declared layer ids",)},
    "layer subsets, masks, empty stages": {
        PRESENT: ("layer subsets, masks",),
        MAIN: ("a stage without a role", "a stage without a group"),
    },
    "owner depends on PP / alias layers": {
        "Qwen4Exp": ("owner depends on the stage",),
        "CSA2": ("alias layers",),
        "DSA": ("alias layers",),
    },
    "compression ratio, partial rows": {
        PRESENT: ("compression, a row not full",),
        "V4": ("compression, one row a block",),
    },
    "footer/inline/ring records": {
        "DSA": ("page footers", "records"),
        "FP4 MLA": ("ring rows",),
        "V4": ("page footers", "several sub-pages in a block"),
        "CSA2": ("page footers", "records", "several sub-pages in a block"),
    },
    "derived, rebuilt or one-sided buffers": {
        "M3": ("derived, rebuilt or never sent",),
        "Mamba/GDN": ("derived, rebuilt or never sent",),
        "FP4 MLA": ("derived, rebuilt or never sent",),
        "CSA2": ("derived, rebuilt or never sent", "one-sided buffers"),
        "draft": ("one-sided buffers",),
    },
    "per-layer heads/dims": {PRESENT: ("heads or dims by layer",)},
    "page padding/alignment (vLLM)": {PRESENT: ("page padding, alignment",)},
    "uneven PP": {PRESENT: ("uneven stages",)},
}

# Where a mark of a column is kept by a kind of its own.
KEPT_BY = {
    ("per-layer heads/dims", "GQA"): ("gemma4",),
    ("per-layer heads/dims", "VSWA"): ("gemma4",),
    ("page padding/alignment (vLLM)", "Mamba/GDN"): ("vllm_hybrid",),
    ("page padding/alignment (vLLM)", "V4"): ("vllm_v4",),
}

# Marks that nothing can reach, and why. A test says when one of them is no longer true.
UNREACHABLE = {
    ("csa2", "sub-byte elements, two units"): "its FP4 rows are records, whose bytes nobody divides",
    ("dsa", "alias layers"): "layers that share an indexer have no index key: there is nothing to alias",
}

# What small models do not show yet, and why. The same test says when they do: then the line goes.
NOT_DRAWN = {
    ("fp4_mla", "sectioned axis, cut by two grids"): "only the published hybrid has recurrent layers",
    ("fp4_mla", "state over the TP×CP grid"): "only the published hybrid has recurrent layers",
}

# What else a kind is there for (spec: kinds, what vLLM and SGLang show, and hot spots).
BESIDES = {
    "vswa": ("sink blocks kept",),
    "cross": ("a length of its own",),
    "mamba2": ("whole sections beside cut ones", "coalesced by accident"),
    "qwen4_exp": ("replicated state under Helix", "many size classes in a group", "a stage without a role"),
    "minimax_m3": ("a stage without a role",),
    "dsa": ("a stage without a role",),
    "gemma4": ("duplicated heads", "a stage without a group", "windows, dropped blocks"),
    "vllm_hybrid": ("fused regions", "several groups in one pool group"),
    "vllm_fused": ("fused regions",),
}


def _asked() -> dict[tuple[str, str], str]:
    """The mark of each kind and stress: the stronger one where there are two."""
    found: dict[tuple[str, str], str] = {}
    for feature, row in MARKS.items():
        for column, mark in zip(COLUMNS, row, strict=True):
            if mark == ".":
                continue
            by_mark = STRESSES[feature]
            asked = by_mark.get(PRESENT, ()) + by_mark.get(column, ()) + (by_mark.get(MAIN, ()) if mark == MAIN else ())
            assert asked, (feature, column)
            for kind in KEPT_BY.get((feature, column), COLUMNS[column]):
                for stress in asked:
                    found[kind, stress] = max(mark, found.get((kind, stress), ""), key=("", PRESENT, MAIN).index)
    for kind, stresses in BESIDES.items():
        for stress in stresses:
            found.setdefault((kind, stress), PRESENT)
    return found


ASKED = _asked()
NAMES = frozenset(kind.name for kind in kinds())
REACHABLE = [(*key, mark) for key, mark in ASKED.items() if key not in UNREACHABLE | NOT_DRAWN and key[0] in NAMES]


@pytest.mark.parametrize(("kind", "stress", "mark"), REACHABLE)
def test_the_cases_of_a_kind_reach_what_it_is_marked_with(kind: str, stress: str, mark: str) -> None:
    reach = reach_of(find_kind(kind))[find_stress(stress).name]
    assert reach.declared
    assert reach.cases >= LEAST[mark], f"{kind} reaches {stress!r} in {reach.cases} of {CASES} cases"


@pytest.mark.parametrize(("kind", "stress"), UNREACHABLE)
def test_what_nothing_can_reach_is_not_declared(kind: str, stress: str) -> None:
    assert (kind, stress) in ASKED
    assert reach_of(find_kind(kind))[stress].is_blank


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_a_kind_reaches_all_that_it_declares(kind: str) -> None:
    missed = {stress for stress, reach in reach_of(find_kind(kind)).items() if reach.is_missed}
    assert missed <= {stress for name, stress in NOT_DRAWN if name == kind}


@pytest.mark.parametrize(("kind", "stress"), NOT_DRAWN)
def test_what_is_not_drawn_is_not_reached(kind: str, stress: str) -> None:
    reach = reach_of(find_kind(kind))[stress]
    assert reach.declared or (kind, stress) in ASKED
    assert not reach.cases, f"{kind} reaches {stress!r} now: take it out of NOT_DRAWN"


def test_each_stress_is_reached_by_some_kind() -> None:
    reached = {name for kind in kinds() for name, reach in reach_of(kind).items() if reach.cases}
    assert reached == set(reach_of(kinds()[0]))


def test_every_marked_kind_exists() -> None:
    assert {kind for kind, _ in ASKED} <= NAMES
