"""How fast the checker is: rates with the sizes of the drawn cases, and ratios against what a copy costs.

A ratio is measured in one run with both sides in turn, median against median, so a loaded machine
slows both. Rates count processor time, not the clock: they are those of one core. Durations of
whole commands are by the clock.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from differential.faults.minimum import size_of
from differential.ledger import check_case
from differential.managers.tables import gather_facts
from differential.subjects import mapping
from differential.subjects.protocol import Subject
from differential.subjects.registry import find_subject, known_subjects
from kvwitness.provider import drawing_from_the_seed_alone
from kvwitness.tally import Spread, Timing
from kvwitness.witness import save
from kvwitness.workers import spare_the_collector
from oracle.model.case import Case, Slots
from oracle.model.writes import Writes
from oracle.truth import elements
from oracle.truth.elements import truth_of
from oracle.truth.judge import judge
from strategies.cases import cases
from strategies.deployments import deployment
from strategies.kinds import kinds
from strategies.kinds.gqa import declare as declare_gqa
from strategies.scope import small_scope

ROUNDS = 5
CASES = 250
"""Cases of a round of a rate."""

DENSE = ("gqa", "mla")


@dataclass(frozen=True, slots=True)
class Measure:
    """One value and its bar, None where there is none. ``at_least``: it must reach the bar; else not exceed it."""

    name: str
    value: float
    unit: str
    bar: float | None
    at_least: bool = False
    detail: str = ""

    @property
    def holds(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def plain(self) -> dict[str, object]:
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "bar": self.bar,
            "holds": self.holds,
            "detail": self.detail,
        }


def measure_all(*, verify: bool = True) -> Iterator[Measure]:
    """All measures, each as soon as it is known. ``verify``: also time the default ``kvwitness verify``."""
    gc.collect()
    spare_the_collector()  # as the worker processes of verify do
    yield from rates()
    yield from small_scopes()
    yield from planning_side_by_side()
    yield warm_planning()
    yield cold_search()
    yield judging("HND", "runs of at least 512 B", 4)
    yield judging("NHD", "runs of 8 B", 10)
    yield from production("hnd", 5, 1)
    yield from production("nhd", 60, 2)
    yield replaying()
    if verify:
        yield verifying()


def timed(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that ``action`` takes by ``clock``."""
    began = clock()
    action()
    return clock() - began


def ratio(action: Callable[[], object], floor: Callable[[], object], *, rounds: int = 7) -> float:
    """How many times as long as ``floor`` an action takes: both in turn, the median of each."""
    pairs = [(timed(action), timed(floor)) for _ in range(rounds + 1)][1:]
    return median(pair[0] for pair in pairs) / median(pair[1] for pair in pairs)


def subjects() -> list[Subject]:
    """Both subjects, where both exist."""
    return [find_subject(name) for name in ("mapping", "native") if name in known_subjects()]


# ---- rates


def rates() -> Iterator[Measure]:
    """Cases a second on one core: drawn, planned by both, judged and compared; then the same without the drawing.

    A case that a subject refuses is not counted, and neither is the time that it took.
    """
    judged = subjects()
    every = tuple(kind.name for kind in kinds())
    for which, names, states, bars in (
        ("dense kinds", DENSE, False, (500, 1000)),
        ("all kinds", every, False, (250, None)),
        ("all kinds with states", every, True, (200, None)),
    ):
        drawn, undrawn = [], []
        sizes: list[Case] = []
        for number in range(ROUNDS):
            counted = _Counted(judged)
            counted.timing.whole = timed(
                lambda n=number, c=counted, k=names, s=states: _draw(k, n, c, s), time.process_time
            )
            undrawn.append(counted.timing.served / counted.timing.judging)
            drawn.append(counted.timing.rate())
            sizes += counted.cases
        detail = f"{' and '.join(subject.name for subject in judged)}; {spread_of(sizes)}"
        yield Measure(f"draw + plan + judge + compare, {which}", median(drawn), "cases/s", bars[0], True, detail)
        yield Measure(f"plan + judge + compare, {which}", median(undrawn), "cases/s", bars[1], True, detail)


class _Counted:
    """Plans, judges and compares cases, and times those that nobody refuses apart from the others."""

    def __init__(self, judged: list[Subject]) -> None:
        self.judged = judged
        self.cases: list[Case] = []
        self.timing = Timing()

    def __call__(self, case: Case) -> None:
        began = time.process_time()
        result = check_case(case, self.judged).result
        took = time.process_time() - began
        refused = any(verdict.refusals for verdict in result.verdicts.values())
        self.timing.add(took, 0.0, refused)
        if not refused:
            self.cases.append(case)


def _draw(names: Iterable[str], number: int, take: Callable[[Case], object], states: bool = False) -> None:
    @seed(number)
    @settings(
        max_examples=CASES,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(cases(tuple(names), states=states))
    def draw(case: Case) -> None:
        take(case)

    with drawing_from_the_seed_alone():
        draw()


def spread_of(drawn: list[Case]) -> str:
    """``ranks 2/7/16, layers 1/2/6, blocks 1/4/14``: least, median and most."""
    sizes = [size_of(case) for case in drawn]
    told = [
        f"{name} {Spread.of(Counter(getattr(size, name) for size in sizes))}" for name in ("ranks", "layers", "blocks")
    ]
    return ", ".join(told)


def small_scopes() -> Iterator[Measure]:
    """Seconds for the whole small scope of each kind."""
    judged = subjects()
    for kind in kinds():
        listed = list(small_scope(kind))
        seconds = timed(lambda c=listed: [check_case(case, judged) for case in c], time.process_time)
        yield Measure(f"small scope of {kind.name}", seconds, "s", 4, False, f"{len(listed):,} cases")


# ---- planning


def planning_side_by_side() -> Iterator[Measure]:
    """What planning costs the mapping and the legacy sender: drawn cases that both serve, then a large plan.

    Cold: nothing is known of the page tables. Warm: the same case once more.
    """
    first, second = (find_subject(name) for name in ("mapping", "native"))
    dense = [kind.name for kind in kinds() if kind.name in DENSE]
    listed: list[Case] = []
    _draw(dense, 0, lambda case: listed.append(case) if not _refused(case, (first, second)) else None)
    yield from _side_by_side("drawn cases", listed, first, second, spread_of(listed))
    case = deployment("llama-3-70b", {"tp": 4}, {"tp": 8}, prompt=131072)
    yield from _side_by_side("Llama-3 70B, 131,072 tokens, TP4 to TP8", [case], first, second, "5,242,880 runs")


def _refused(case: Case, both: Iterable[Subject]) -> bool:
    facts = gather_facts(case)
    plans = [subject.plan(case, facts) for subject in both]
    return any(not isinstance(plan, Writes) or plan.refusals for plan in plans)


def _side_by_side(what: str, listed: list[Case], first: Subject, second: Subject, detail: str) -> Iterator[Measure]:
    cold, warm = [], []
    for _ in range(ROUNDS):
        took = []
        for subject in (first, second):
            mapping.clear_caches()
            known = find_subject(subject.name)
            seconds = [0.0, 0.0]
            for case in listed:
                facts = gather_facts(case)
                for turn in (0, 1):
                    seconds[turn] += timed(lambda: known.plan(case, facts), time.perf_counter)  # noqa: B023
            took.append(seconds)
        cold.append((took[0][0], took[1][0]))
        warm.append((took[0][1], took[1][1]))
    for name, pairs in (("cold", cold), ("warm", warm)):
        costs = [median(pair[side] for pair in pairs) / len(listed) * 1e6 for side in (0, 1)]
        told = f"{first.name} {costs[0]:,.0f} µs, {second.name} {costs[1]:,.0f} µs a case; {detail}"
        yield Measure(
            f"planning, {name}, {first.name} against {second.name}: {what}", costs[0] / costs[1], "x", None, False, told
        )


def warm_planning() -> Measure:
    """Planning with known in-slot runs against writing the address columns of the same segment shapes."""
    slots = Slots(mul=2, add=1, counts=(("kv", 8191),))
    case = deployment("llama-3-70b", {"tp": 4}, {"tp": 8}, prompt=2048 * 32, slots=slots)
    subject = find_subject("mapping")
    facts = gather_facts(case)
    plan = subject.plan(case, facts)
    assert isinstance(plan, Writes)

    def write_columns() -> None:
        for segment in plan.segments:
            shape = (len(segment.source_bases), len(segment.runs))
            read, written, nbytes = (np.empty(shape, dtype=np.int64) for _ in range(3))
            np.add(segment.source_bases[:, None], segment.runs[:, 0], out=read)
            np.add(segment.destination_bases[:, None], segment.runs[:, 1], out=written)
            nbytes[...] = segment.runs[:, 2]

    value = ratio(lambda: subject.plan(case, facts), write_columns)
    detail = f"{plan.run_count:,} runs in {len(plan.segments)} segments, which keep slots and runs apart"
    return Measure("planning with known in-slot runs, against writing its columns", value, "x", 3, False, detail)


def cold_search() -> Measure:
    """Finding the in-slot runs of all rank pairs when nothing is cached: 80 layers, 12 ranks."""
    case = deployment("llama-3-70b", {"tp": 4}, {"tp": 8}, prompt=32)
    subject = find_subject("mapping")
    facts = gather_facts(case)
    seconds = []
    for _ in range(ROUNDS + 1):
        mapping.clear_caches()
        seconds.append(timed(lambda: subject.plan(case, facts)))
    return Measure("cold in-slot search, 80 layers, 12 ranks", 1000 * median(seconds[1:]), "ms", 20)


# ---- judging


def judging(layout: str, runs: str, bar: float) -> Measure:
    """Enumerating both sides and judging a plan, against copying the same id images."""
    case = _long_runs() if layout == "HND" else _tiny_heads()
    facts = gather_facts(case)
    plan = find_subject("mapping").plan(case, facts)
    assert isinstance(plan, Writes)
    truth = truth_of(case)
    images = truth.source.copy(), truth.due.copy()

    kept = [each for each in vars(elements).values() if hasattr(each, "cache_clear")]

    def judge_anew() -> None:
        for each in kept:
            each.cache_clear()
        assert judge(case, plan)

    def copy_images() -> None:
        for image in images:
            image.copy()

    value = ratio(judge_anew, copy_images, rounds=ROUNDS)
    ids = sum(len(image) for image in images)
    shortest = min(int(segment.runs[:, 2].min()) for segment in plan.segments)
    detail = f"{ids / 1e6:.1f} M ids, {plan.run_count:,} runs from {shortest} B"
    return Measure(f"enumerating judge against copying the id images, {runs}", value, "x", bar, False, detail)


def _long_runs() -> Case:
    """HND, half of the heads of a block in one run of 512 bytes."""
    declared = declare_gqa(4, 8, 32, 16)
    return deployment(declared.model, {"tp": 1}, {"tp": 2}, prompt=1024, tokens_per_block=2, native=declared.native)


def _tiny_heads() -> Case:
    """NHD with heads of 8 bytes: a run for each head and token."""
    declared = declare_gqa(64, 8, 4, 16)
    case = deployment(declared.model, {"tp": 4}, {"tp": 8}, prompt=512, layout="NHD", native=declared.native)
    return replace(case, slots=Slots())


# ---- commands


RUN_AND_TELL_MEMORY = """
import re, resource, sys
from pathlib import Path
from kvwitness.cli import run
status = run(sys.argv[1:])
own = Path("/proc/self/status")  # what getrusage says includes the process that started this one
peak = re.search(r"VmHWM:\\s+(\\d+)", own.read_text()) if own.exists() else None
print(int(peak[1]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def production(layout: str, seconds: float, gibibytes: float) -> Iterator[Measure]:
    """A production deployment in closed form, the start of Python included: 40 GiB of cache; duration and memory."""
    split = ("--context", "tp=4", "--generation", "tp=8", "--prompt", "131072", "--layout", layout)
    with tempfile.TemporaryDirectory() as directory:
        arguments = ("verify", "--model", "llama-3-70b", *split, "--out", directory)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", RUN_AND_TELL_MEMORY, *arguments], capture_output=True, text=True, check=True
        )
        took = time.perf_counter() - began
    name = f"Llama-3 70B, 131,072 tokens, TP4 to TP8, {layout.upper()}, 40 GiB"
    yield Measure(f"{name}: time", took, "s", seconds)
    yield Measure(f"{name}: memory", int(done.stderr) / 2**20, "GiB", gibibytes)


def replaying() -> Measure:
    """``kvwitness replay`` of a small witness, the start of Python included."""
    with tempfile.TemporaryDirectory() as directory:
        case = next(iter(small_scope("gqa")))
        path = save(case, directory, subject="mapping", property=("missing",))
        arguments = [sys.executable, "-m", "kvwitness", "replay", str(path)]
        seconds = [timed(lambda: subprocess.run(arguments, capture_output=True, check=True)) for _ in range(ROUNDS)]
    return Measure("replay of a small witness, with the start of Python", median(seconds), "s", 1)


def verifying() -> Measure:
    """The default ``kvwitness verify``, on all cores."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = [sys.executable, "-m", "kvwitness", "verify", "--json", "--out", str(Path(directory) / "out")]
        seconds = timed(lambda: subprocess.run(arguments, capture_output=True, check=True))
    return Measure("default verify", seconds, "s", 120)
