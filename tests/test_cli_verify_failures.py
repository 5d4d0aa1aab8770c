"""What ``kvwitness verify`` says of a run that failed: where, what it left out, and under which names it is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kvwitness import load_case
from kvwitness.settings import Judged, Search
from kvwitness.shards import RANDOM as RANDOM_GROUP
from kvwitness.shards import Part
from kvwitness.workers import Task, Workers
from tests.face import Shell

RANDOM = ("verify", "--scope", "none", "--examples", 500, "--fault", "heads-modulo", "--jobs", 1)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def rows(text: str) -> dict[str, str]:
    """The verdict of each row of the table of kinds."""
    table = text[text.index("\nkind ") :].split("\n\n")[0].splitlines()
    return {row.split()[0]: row.split()[-1] for row in table if row.endswith(("pass", "FAIL", "not run"))}


@pytest.mark.parametrize(("seed", "found", "shrunk"), [(1, "gqa", "gqa"), (2, "draft", "gqa")])
def test_the_kind_that_failed_is_named_and_another_that_it_was_shrunk_to(
    shell: Shell, tmp_path: Path, seed: int, found: str, shrunk: str
) -> None:
    said = shell(*RANDOM, "--kinds", "gqa,draft", "--seed", seed, "--out", tmp_path)
    assert said.status == 1
    (path,) = tmp_path.glob("*.json")
    assert load_case(path).kind == shrunk
    to = "" if shrunk == found else f" to one of {shrunk}"
    told = f"found in a case of {found} (shard 0 of seed {seed}), shrunk{to}; the witness is {path}"
    assert told in in_one_line(said.out)
    assert [kind for kind, verdict in rows(said.out).items() if verdict == "FAIL"] == [found]


def test_a_random_failure_says_what_it_stopped(shell: Shell, tmp_path: Path) -> None:
    said = shell(*RANDOM, "--kinds", "gqa", "--out", tmp_path)
    judged = int(re.search(r"fail: 1 witness in (\d+) random case", said.out)[1])  # type: ignore[index]
    assert 0 < judged < 500
    ending = f"; stopped at the first failure: {500 - judged} of 500 random cases not judged"
    assert in_one_line(said.out).endswith(ending)


def test_a_failure_of_the_last_case_of_all_says_that_nothing_is_left(shell: Shell, tmp_path: Path) -> None:
    judged = shell(*RANDOM, "--kinds", "gqa", "--json", "--out", tmp_path).json["cases"]
    said = shell(*RANDOM, "--kinds", "gqa", "--examples", judged, "--out", tmp_path)
    assert in_one_line(said.out).endswith("; stopped at the first failure")


def test_a_failure_before_the_time_is_up_is_what_ends_the_run(shell: Shell, tmp_path: Path) -> None:
    arguments = ("verify", "--scope", "none", "--time", 60, "--kinds", "gqa", "--fault", "heads-modulo", "--jobs", 1)
    said = shell(*arguments, "--out", tmp_path)
    assert "--time 60: a failure ended it; " in said.out
    assert in_one_line(said.out).endswith("; stopped at the first failure")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_ends_a_run_that_only_time_bounds(jobs: int) -> None:
    judged, search = Judged(fault="heads-modulo"), Search(("gqa",), "none", None, 60.0, jobs=jobs)
    asked = []

    def shards() -> Iterator[Task]:
        for number in range(50):
            asked.append(number)
            yield Task(RANDOM_GROUP, number)

    with Workers(judged, search, [RANDOM_GROUP]) as workers:
        parts = list(workers.run(shards()))
    assert any(part.failure is not None for part in parts)
    assert len(asked) < 10


@pytest.mark.parametrize(("kinds", "each"), [("gqa", ""), ("gqa,mla", " of each kind")])
def test_a_failure_of_the_small_scope_says_what_it_stopped(shell: Shell, tmp_path: Path, kinds: str, each: str) -> None:
    said = shell("verify", "--kinds", kinds, "--fault", "drop-last-run", "--jobs", 1, "--out", tmp_path)
    found = re.search(
        r"(\d+) witness(?:es)? in (\d+) cases? of the small scope in [\d.]+ s; stopped at the first failure(.*):"
        r" ([\d,]+) of ([\d,]+) cases of the small scope and 4,000 of 4,000 random cases not judged$",
        in_one_line(said.out),
    )
    assert found is not None, said.out
    failures, judged, of_each, left, scope = (text.replace(",", "") for text in found.groups())
    assert int(failures) == len(kinds.split(",")) and of_each == each
    assert int(judged) + int(left) == int(scope)


@pytest.mark.parametrize("columns", [60, 120])
def test_kinds_of_which_nothing_was_judged_have_no_row_but_a_line(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = shell(*RANDOM, "--out", tmp_path)
    kinds = shell(*RANDOM, "--json", "--out", tmp_path).json["kinds"]
    left = [kind for kind, told in kinds.items() if not told["cases"]]
    assert len(left) > 5
    assert f" not judged: {', '.join(left[:-1])} and {left[-1]} fail: 1 witness" in in_one_line(said.out)
    assert "not run" not in said.out
    assert max(len(line) for line in said.out.splitlines() if "not judged" in line) <= columns
    if columns == 120:
        assert list(rows(said.out)) == [kind for kind in kinds if kind not in left]


def test_a_run_that_passes_keeps_the_rows_of_kinds_of_which_no_case_came(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", "--scope", "none", "--examples", 1, "--jobs", 1, "--kinds", "gqa,mla", "--out", tmp_path)
    assert sorted(rows(said.out).values()) == ["pass", "run"]
    assert "stopped" not in said.out and "not judged" not in said.out


def test_progress_counts_the_cases_that_the_report_counts(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hasty(Workers):
        """Ends the later parts first, as several processes may."""

        __slots__ = ()

        def run(self, tasks: Iterable[Task]) -> Iterator[Part]:
            for task in reversed(list(tasks)):
                yield self._worker.run(task)  # type: ignore[union-attr]

    monkeypatch.setattr("kvwitness.search.Workers", Hasty)
    said = shell(*RANDOM, "--kinds", "gqa", "--out", tmp_path)
    judged = re.search(r"fail: 1 witness in (\d+ random cases?) of seed 0", said.out)[1]  # type: ignore[index]
    assert said.err.splitlines()[-1].startswith(f"random cases: {judged.replace('random ', '')} in ")


def test_no_rate_is_told_where_less_than_a_second_was_measured(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("verify", "--scope", "none", "--examples", 5, "--jobs", 1, "--kinds", "gqa", "--out", tmp_path)
    monkeypatch.setattr("kvwitness.cli.report.LEAST_MEASURED", 1e9)
    assert "random: 5 cases of seed 0 with cache states in 1 shard\n" in shell(*arguments).out
    monkeypatch.setattr("kvwitness.cli.report.LEAST_MEASURED", 0)
    assert " a second on one core, drawn, planned, judged and compared" in in_one_line(shell(*arguments).out)


def test_one_case_is_told_as_one(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", "--scope", "none", "--examples", 1, "--jobs", 1, "--kinds", "cross", "--out", tmp_path)
    assert "native not run in 1 case of cross: " in said.out


def test_two_faults_that_shrink_to_one_case_keep_a_witness_each(shell: Shell, tmp_path: Path) -> None:
    faults = ("drop-last-run", "run-end-off-by-one", "drop-last-run")
    paths = []
    for fault in faults:
        said = shell("verify", "--kinds", "gqa", "--fault", fault, "--jobs", 1, "--json", "--out", tmp_path)
        paths += said.json["witnesses"]
    first, second, again = paths
    assert first == again != second
    assert load_case(first) == load_case(second)
    assert [json.loads(Path(path).read_text())["witness"]["fault"] for path in (first, second)] == list(faults[:2])
    assert shell("replay", first, second).status == 1
