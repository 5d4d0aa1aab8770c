"""The model of the legacy sender plans what the recorded senders planned: refusals, pairs, elections, bytes.

``pytest tests/test_native_plans.py --native-plans FILE`` replays another file of the same form.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.subjects.native import make
from oracle.model.writes import Writes
from oracle.truth.judge import judge
from oracle.truth.verdict import Kind
from tests.golden import RECORDED, Scenario, scenarios
from tests.native_data import SETTINGS, case_and_facts, cut_as_recorded, disagreements

JUDGED = {
    "missing": Kind.MISSING,
    "double": Kind.DUPLICATE,
    "wrong": Kind.WRONG_ELEMENT,
    "stray": Kind.STRAY,
    "out_of_range": Kind.OUT_OF_BOUNDS,
}


def recorded_file(config: pytest.Config) -> Path:
    given = config.getoption("--native-plans", default=None)
    return RECORDED if given is None else Path(given)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``recorded``: every result under each generation that gave it; ``plan``: the plans among them to be replayed."""
    rows = [
        pytest.param((scenario, result, generation), id=f"{scenario['id']}-{generation}")
        for scenario in scenarios(recorded_file(metafunc.config))
        for result in scenario["results"]
        for generation in result["generations"]
        if generation in SETTINGS or len(result["generations"]) == 1
    ]
    if "recorded" in metafunc.fixturenames:
        metafunc.parametrize("recorded", rows)
    if "plan" in metafunc.fixturenames:
        metafunc.parametrize("plan", [row for row in rows if is_replayed_plan(*row.values[0])])


def is_replayed_plan(scenario: Scenario, result: Scenario, generation: str) -> bool:
    return generation in SETTINGS and result["status"] == "ok"


def test_the_recorded_result_is_planned(recorded: tuple[Scenario, Scenario, str]) -> None:
    scenario, result, generation = recorded
    if generation not in SETTINGS:
        pytest.skip(f"only the generation {generation} gave this result, and no setting of the subject stands for it")
    assert not disagreements(scenario, result, make(SETTINGS[generation]))


def test_the_judge_finds_in_the_plan_what_was_recorded(plan: tuple[Scenario, Scenario, str]) -> None:
    scenario, result, generation = plan
    case, facts = case_and_facts(scenario)
    writes = make(SETTINGS[generation]).plan(case, facts)
    assert isinstance(writes, Writes)
    counts = judge(case, cut_as_recorded(scenario, case, writes), padding="due", election="own").counts
    found = {name: counts.get(kind, 0) for name, kind in JUDGED.items()}
    assert found == {name: result["check"][name] for name in JUDGED}


def test_every_generation_that_a_setting_stands_for_is_replayed(request: pytest.FixtureRequest) -> None:
    path = recorded_file(request.config)
    results = [result for scenario in scenarios(path) for result in scenario["results"]]
    seen = {generation for result in results for generation in result["generations"]}
    assert seen & set(SETTINGS), f"{path} has the generations {sorted(seen)}: expected some of {sorted(SETTINGS)}"
    if path == RECORDED:
        assert set(SETTINGS) <= seen
