"""``kvwitness bench``: every value has a bar, and says whether it holds. No test asserts a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvwitness import bench
from kvwitness.bench import Measure
from strategies.kinds import kinds
from tests.face import Shell


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def measured(*measures: Measure) -> object:
    def measure_all(*, verify: bool = True) -> Iterator[Measure]:
        yield from measures

    return measure_all


RATE = Measure("a rate", 600.0, "cases/s", 500, True, "ranks 2/6/16")
RATIO = Measure("a ratio", 4.5, "x", 4)


def test_a_rate_must_reach_its_bar_and_a_ratio_must_not_exceed_it() -> None:
    assert RATE.holds
    assert not Measure("a rate", 400.0, "cases/s", 500, True).holds
    assert not RATIO.holds
    assert Measure("a ratio", 3.5, "x", 4).holds


def test_json_is_a_list_of_values_with_their_bars(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwitness.cli.bench.measure_all", measured(RATE, RATIO))
    said = shell("bench", "--json")
    assert said.status == 1
    rate, ratio = said.json
    assert rate == {
        "name": "a rate",
        "value": 600.0,
        "unit": "cases/s",
        "bar": 500,
        "holds": True,
        "detail": "ranks 2/6/16",
    }
    assert ratio["holds"] is False


def test_a_missed_bar_is_seen(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwitness.cli.bench.measure_all", measured(RATE, RATIO))
    said = shell("bench")
    assert said.status == 1
    assert "holds  a rate: 600 cases/s (at least 500 cases/s)" in said.out
    assert "MISSES a ratio: 4.50 x (at most 4 x)" in said.out
    monkeypatch.setattr("kvwitness.cli.bench.measure_all", measured(RATE))
    assert shell("bench").status == 0


def test_rates_come_with_the_sizes_of_the_drawn_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(bench, "CASES", 40)
    measures = list(bench.rates())
    assert [measure.bar for measure in measures] == [500, 1000, 250, None, 200, None]
    assert [measure.name.partition(", ")[2] for measure in measures[::2]] == [
        "dense kinds",
        "all kinds",
        "all kinds with states",
    ]
    for measure in measures:
        assert measure.value > 0
        assert "mapping and native; ranks 2/" in measure.detail
        assert ", layers 1/" in measure.detail
        assert ", blocks 1/" in measure.detail


EVERY = tuple(kind.name for kind in kinds())


@pytest.mark.parametrize(
    ("names", "states"),
    [(bench.DENSE, False), (EVERY, False), (EVERY, True)],
    ids=("dense kinds", "all kinds", "all kinds with states"),
)
def test_cases_of_a_rate_are_as_large_as_the_bars_ask(names: tuple[str, ...], states: bool) -> None:
    """A rate counts only where the median case has at least 6 ranks, 2 layers and 3 blocks."""
    drawn: list = []
    for number in range(4):
        bench._draw(names, number, drawn.append, states)
    sizes = [size.split(" ")[1].split("/") for size in bench.spread_of(drawn).split(", ")]
    medians = [int(median) for _, median, _ in sizes]
    assert medians[0] >= 6
    assert medians[1] >= 2
    assert medians[2] >= 3


def test_planning_and_the_cold_search_are_measured_on_what_the_bars_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "ratio", lambda action, floor, **_: (action(), floor(), 1.0)[2])
    monkeypatch.setattr(bench, "ROUNDS", 1)
    warm = bench.warm_planning()
    runs = int(warm.detail.partition(" runs")[0].replace(",", ""))
    assert runs >= 100_000
    assert bench.cold_search().unit == "ms"


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "shortest"), [("HND", 512), ("NHD", 8)])
def test_the_judge_is_measured_on_at_least_4_million_ids(
    layout: str, shortest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "ratio", lambda action, floor, **_: (action(), floor(), 1.0)[2])
    measure = bench.judging(layout, "", 1)
    ids, _, rest = measure.detail.partition(" M ids")
    assert float(ids) >= 4
    run = int(rest.rpartition("from ")[2].removesuffix(" B"))
    assert run == shortest if layout == "NHD" else run >= shortest


def test_a_ratio_is_that_of_the_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([9.0, 9.0, 4.0, 2.0, 60.0, 2.0, 4.0, 1.0])
    monkeypatch.setattr(bench, "timed", lambda action: next(clock))
    assert bench.ratio(lambda: None, lambda: None, rounds=3) == 2.0


def test_production_is_measured_in_a_process_of_its_own() -> None:
    took, memory = bench.production("hnd", 5, 1)
    assert (took.unit, memory.unit) == ("s", "GiB")
    assert 0 < memory.value < 40
