"""``kvwitness verify``: what it judges, how it says so, and that the cases depend on the seed alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from differential.faults import find_fault, names, size_of
from kvwitness import load_case
from kvwitness.cli.report import TABLE_WIDTH
from oracle.model.codec import encode
from strategies.scope import describe, small_scope
from tests.face import ROOT, Shell, in_a_process

RANDOM = ("--scope", "none", "--jobs", 1)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def test_a_pass_exits_0_and_states_bound_seed_and_number_of_cases(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", "--kinds", "mla", "--examples", 60, "--seed", 7, "--jobs", 1, "--out", tmp_path / "out")
    cases = sum(1 for _ in small_scope("mla"))
    assert said.status == 0, said.err
    told = " ".join(said.out.split())
    assert describe("small", "mla") in told
    assert f"pass: no violation in {cases:,} cases of the small scope and 60 random cases of seed 7" in told
    assert not (tmp_path / "out").exists()


def test_json_is_one_object_and_nothing_else(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", *RANDOM, "--examples", 200, "--json", "--out", tmp_path)
    assert said.status == 0
    assert said.out.count("\n") == 1
    found = said.json
    assert found["verdict"] == "pass"
    assert found["seed"] == 0
    assert found["cases"] == 200 == sum(kind["cases"] for kind in found["kinds"].values())
    assert found["rate"] > 0
    assert found["subjects"].keys() == {"mapping/native"}
    assert found["stale"] == []
    assert found["witnesses"] == []
    for kind in found["kinds"].values():
        assert kind["violations"] == 0
        assert kind["runs"] > 0
        assert kind["bytes"] > 0
        assert kind["ranks"] == sorted(kind["ranks"])


def judged_kinds(shell: Shell, out: Path, *arguments: object) -> dict:
    return shell("verify", "--scope", "none", "--json", "--out", out, *arguments).json["kinds"]


def test_the_cases_depend_on_the_seed_and_not_on_the_jobs(shell: Shell, tmp_path: Path) -> None:
    one = judged_kinds(shell, tmp_path, "--examples", 600, "--seed", 3, "--jobs", 1)
    again = judged_kinds(shell, tmp_path, "--examples", 600, "--seed", 3, "--jobs", 1)
    several = judged_kinds(shell, tmp_path, "--examples", 600, "--seed", 3, "--jobs", 2)
    other = judged_kinds(shell, tmp_path, "--examples", 600, "--seed", 4, "--jobs", 1)
    assert one == again == several
    assert one != other


def test_the_cases_do_not_depend_on_the_process_that_draws_them(shell: Shell, tmp_path: Path) -> None:
    arguments = ("verify", "--scope", "none", "--examples", 80, "--seed", 5, "--jobs", 1, "--json", "--out", tmp_path)
    here = shell(*arguments).json
    there = in_a_process(*arguments, cwd=tmp_path).json
    assert here["kinds"] == there["kinds"]


def test_the_failure_that_is_reported_does_not_depend_on_the_jobs(shell: Shell, tmp_path: Path) -> None:
    arguments = ("--scope", "none", "--examples", 1000, "--seed", 0, "--fault", "heads-modulo", "--json")
    found = []
    for jobs in (1, 2):
        said = shell("verify", *arguments, "--jobs", jobs, "--out", tmp_path / str(jobs))
        assert said.status == 1
        found.append((said.json["kinds"], [Path(path).read_text() for path in said.json["witnesses"]]))
    assert found[0] == found[1]


QUICK = ("due-blocks-unchecked", "helix-contiguous", "no-window-trim")
"""Of the many faults of block lists, one of each encoding; tests of their own look for all of them."""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=pytest.mark.slow) if find_fault(name).base and name not in QUICK else name
        for name in names()
    ],
)
def test_a_planted_fault_is_found_and_shrunk_to_its_minimum(shell: Shell, tmp_path: Path, fault: str) -> None:
    said = shell("verify", *RANDOM, "--examples", 1000, "--fault", fault, "--seed", 1, "--json", "--out", tmp_path)
    assert said.status == 1, said.err
    assert said.json["verdict"] == "fail"
    (path,) = said.json["witnesses"]
    size, least = size_of(load_case(path)), find_fault(fault).minimum
    if fault == "helix-by-global-count":
        least = least._replace(blocks=2)  # what is shrunk keeps its kind: one block is refused, three are mixed up
    assert all(is_now <= could_be + 1 for is_now, could_be in zip(size, least, strict=True)), (size, least)
    kinds = json.loads(Path(path).read_text())["witness"]["property"]
    assert set(kinds) <= {kind.value for kind in find_fault(fault).kinds}


def test_a_fault_of_an_encoding_is_planted_in_the_subject_that_has_the_step(shell: Shell, tmp_path: Path) -> None:
    fault = "no-window-trim"
    said = shell("verify", *RANDOM, "--fault", fault, "--out", tmp_path)
    assert said.status == 1
    assert f"judged: mapping:suffix with the planted fault {fault};" in said.out
    assert "FAIL mapping:suffix: wrong element" in said.out
    (path,) = tmp_path.glob("*.json")
    meta = json.loads(path.read_text())["witness"]
    assert (meta["subject"], meta["fault"]) == ("mapping:suffix", fault)
    assert "still fails: mapping:suffix: wrong element" in shell("replay", path).out
    assert shell("replay", path, "--fault", "none").status == 0
    # A case that names nobody is replayed with that subject too.
    bare = tmp_path / "bare"
    bare.write_text(encode(load_case(path)))
    assert shell("replay", bare, "--fault", fault).status == 1
    refused = shell("verify", *RANDOM, "--fault", fault, "--subjects", "mapping", "--out", tmp_path)
    assert refused.status == 2
    assert refused.err == (
        f"kvwitness: fault = '{fault}' is not possible: it is a wrong step of mapping:suffix: "
        "expected that subject, not mapping\n"
    )
    unknown = shell("verify", *RANDOM, "--fault", "no-windows", "--out", tmp_path)
    assert unknown.status == 2 and "fault = 'no-windows' is not possible: the faults are " in unknown.err


def test_a_failure_of_the_small_scope_is_shrunk_and_replaces_the_random_part(shell: Shell, tmp_path: Path) -> None:
    arguments = ("--kinds", "gqa", "--fault", "elect-first", "--jobs", 1, "--out", tmp_path)
    said = shell("verify", *arguments)
    assert said.status == 1
    assert "FAIL mapping: not elected" in said.out
    assert "found in the small scope of gqa, shrunk" in said.out
    assert "random cases were not drawn: the small scope failed" in said.out
    (path,) = tmp_path.glob("gqa-*.json")
    assert f"replay it: kvwitness replay {path}" in said.out
    assert size_of(load_case(path)) == find_fault("elect-first").minimum


def test_a_failure_is_printed_with_its_argument(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", *RANDOM, "--fault", "heads-modulo", "--out", tmp_path)
    assert said.status == 1
    (path,) = tmp_path.glob("*.json")
    for line in json.loads(path.read_text())["witness"]["argument"]:
        assert line in said.out


def test_a_subject_that_crashes_fails(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_sender.py").write_text(
        "from differential.subjects.mapping import Mapping\n"
        "def plan(case, facts):\n"
        "    1 // (len(case.requests) - 2)\n"
        "    return Mapping().plan(case, facts)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    said = shell("verify", *RANDOM, "--examples", 500, "--subjects", "their_sender:plan", "--out", tmp_path / "out")
    assert said.status == 1
    assert "crash: ZeroDivisionError: integer division or modulo by zero at their_sender.py:3" in said.out
    (path,) = (tmp_path / "out").glob("*.json")
    assert len(load_case(path).requests) == 2


def test_time_bounds_the_random_part(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", *RANDOM, "--time", 0.5, "--out", tmp_path)
    assert said.status == 0
    assert "how many cases a seed gives depends on the machine" in " ".join(said.out.split())
    assert "pass: no violation in " in said.out


def test_time_can_end_before_the_examples(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", *RANDOM, "--time", 0.2, "--examples", 1_000_000, "--json", "--out", tmp_path)
    assert said.status == 0
    assert 0 < said.json["cases"] < 1_000_000


def test_a_drawn_seed_is_named(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", *RANDOM, "--examples", 5, "--seed", "random", "--json", "--out", tmp_path)
    again = shell("verify", *RANDOM, "--examples", 5, "--seed", said.json["seed"], "--json", "--out", tmp_path)
    assert said.json["kinds"] == again.json["kinds"]


@pytest.mark.parametrize("columns", [40, 80, TABLE_WIDTH, 200])
def test_the_report_fits_the_terminal(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = shell("verify", *RANDOM, "--examples", 30, "--out", tmp_path)
    assert said.status == 0
    assert max(map(len, said.out.splitlines())) <= columns
    assert "gqa" in said.out
    assert ("rank pairs " in said.out) == (columns >= TABLE_WIDTH)


def test_progress_in_a_log_is_plain_lines_on_stderr(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", *RANDOM, "--examples", 30, "--out", tmp_path)
    assert said.err.splitlines()[0] == "random cases: 30 cases"
    assert said.err.splitlines()[-1].startswith("random cases: 30 cases in ")
    assert "\x1b" not in said.out + said.err


def test_a_reader_that_stops_reading_is_no_violation(tmp_path: Path) -> None:
    command = f"{sys.executable} -m kvwitness verify --scope none --examples 20 --jobs 1 --out {tmp_path}"
    script = f"set -o pipefail; {command} | true; echo status $?"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.stdout == "status 2\n"
    assert "Traceback" not in done.stderr
