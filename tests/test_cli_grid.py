"""``kvwitness verify --grid upstream``: served, refused, compared and not run, manager by manager."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.grid import UPSTREAM, managers_of
from kvwitness import load_case
from tests.face import Shell

SENDERS = """
from differential.faults import find_fault
from differential.subjects.native import make

class Native:
    name = "native"
    election = "own"
    def plan(self, case, facts):
        return find_fault("elect-first").wrap(make()).plan(case, facts)
"""

CELLS = 63
GRID = ("verify", "--grid", "upstream")


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def test_the_grid_passes_and_nothing_in_it_did_not_run(shell: Shell, tmp_path: Path) -> None:
    said = shell(*GRID, "--json", "--out", tmp_path / "out")
    assert said.status == 0 and said.out.count("\n") == 1
    found = said.json
    assert found["verdict"] == "pass" and found["grid"] == "upstream"
    assert list(found["managers"]) == [manager.name for manager in UPSTREAM]
    assert found["cells"] == CELLS * 16 and found["not_run"] == {}
    for row in found["managers"].values():
        compared = row["subjects"]["mapping/native"]
        assert compared["different"] == 0 and row["failures"] == [] and row["not_run"] == {}
        for subject in ("mapping", "native"):
            assert row["served"][subject] + sum(row["refused"][subject].values()) == CELLS
    assert found["managers"]["CSA2"]["refused"]["mapping"] == {
        "csa2 takes no pp": 28,
        "csa2 takes no cp": 10,
    }
    whole = found["subjects"]["mapping/native"]
    assert whole["identical"] + whole["accepted"] == found["cells"] - 38
    assert found["stale"] == [] and found["witnesses"] == []
    assert not (tmp_path / "out").exists()


def test_all_of_it_has_a_manager_of_every_kind(shell: Shell, tmp_path: Path) -> None:
    chosen = ("--kinds", "cross,kda_replicated")
    said = shell("verify", "--grid", "all", *chosen, "--json", "--out", tmp_path)
    assert said.status == 0 and said.json["grid"] == "all"
    assert list(said.json["managers"]) == [manager.name for manager in managers_of("all")]
    assert said.json["managers"]["cross attention"]["left_out"] == {"native": CELLS}
    assert said.json["cells"] == 2 * CELLS
    told = shell("verify", "--grid", "all", *chosen, "--out", tmp_path)
    assert told.out.strip().startswith(f"grid all: {len(managers_of('all'))} managers, 7 context and 9 generation")


@pytest.mark.parametrize("columns", [60, 100])
def test_it_is_told_in_words(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = shell(*GRID, "--kinds", "mla", "--subjects", "mapping,native:suffix,no-helix", "--out", tmp_path)
    assert said.status == 0
    told = " ".join(said.out.split())
    assert "native:suffix,no-helix: 49 served, 14 refused (14 context_parallel_unsupported)" in told
    assert "mapping and native:suffix,no-helix: 49 identical, 14 accepted, 0 different" in told
    assert "accepted in 14 cells: any-context-parallelism" in told
    assert "MHA (kind gqa was not asked for)" in told
    assert "pass: 63 cells of 1 manager; 15 managers not run" in told
    assert max(map(len, said.out.splitlines())) <= columns


def test_it_is_told_as_a_table_where_there_is_room(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    said = shell(*GRID, "--subjects", "mapping,native:suffix,no-helix", "--kinds", "mla,csa2", "--out", tmp_path)
    lines = said.out.splitlines()
    assert ["MLA", "63", "63", "0", "49", "14", "49", "14", "0"] in [line.split() for line in lines]
    why = "MLA: native:suffix,no-helix refuses 14: context_parallel_unsupported; 14 accepted: any-context-parallelism"
    assert why in lines
    assert "CSA2: all refuse 10: csa2 takes no cp; all refuse 28: csa2 takes no pp" in lines


def test_a_cell_that_fails_leaves_a_shrunk_witness(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_senders.py").write_text(SENDERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("kvwitness.trial.Trial.stale_entries", lambda trial: [])
    out = tmp_path / "out"
    said = shell(*GRID, "--kinds", "mla", "--subjects", "mapping,wrong_senders:Native", "--out", out)
    assert said.status == 1
    assert "FAIL mapping and native: differs (bytes)" in said.out
    assert "found in MLA: tp 2 → tp 2 · attention DP, shrunk" in said.out
    (path,) = out.glob("*.json")
    assert f"replay it: kvwitness replay {path}" in said.out
    assert shell("replay", path).status == 1
    assert len(load_case(path).requests) == 1
    assert "fail: " in said.out and " failing cells in 63 cells of 1 manager" in said.out
    found = shell(*GRID, "--kinds", "mla", "--subjects", "mapping,wrong_senders:Native", "--json", "--out", out).json
    assert found["verdict"] == "fail" and found["witnesses"] == [str(path)]
    assert found["managers"]["MLA"]["subjects"]["mapping/native"]["different"] == len(
        found["managers"]["MLA"]["failures"]
    )


def test_a_stale_entry_fails_the_grid(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwitness.trial.Trial.stale_entries", lambda trial: ["stale: an entry"])
    said = shell(*GRID, "--kinds", "mla", "--out", tmp_path)
    assert said.status == 1
    assert "FAIL stale: an entry" in said.out


def test_a_grid_of_which_nothing_ran_exits_2(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("differential.grid.managers.UPSTREAM", UPSTREAM[:1])
    said = shell(*GRID, "--kinds", "mla", "--json", "--out", tmp_path)
    assert said.status == 2 and said.json["verdict"] == "not run"
    assert said.json["not_run"] == {"MHA": "kind gqa was not asked for"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--examples", 5), "--examples has no meaning here: --grid judges its own cases"),
        (("--seed", 5), "--seed has no meaning here: --grid judges its own cases"),
        (("--fault", "elect-first"), "--fault has no meaning here: --grid judges its own cases"),
        (("--engine", "host"), "--engine has no meaning here: --grid judges its own cases"),
        (("--model", "llama-3-70b"), "--grid has no meaning here: --model judges one deployment"),
        (("--context", "tp=2"), "--context has no meaning here: without --model there is no deployment"),
        (("--kinds", "nope"), "kind = 'nope' is not possible: expected one of gqa, mla"),
    ],
)
def test_what_has_no_meaning_beside_it_exits_2(shell: Shell, tmp_path: Path, arguments: tuple, reason: str) -> None:
    said = shell(*GRID, *arguments, "--out", tmp_path)
    assert said.status == 2
    assert said.err.startswith(f"kvwitness: {reason}"), said.err


def test_a_grid_that_does_not_exist_is_refused(shell: Shell) -> None:
    assert shell("verify", "--grid", "nope").status == 2


@pytest.mark.parametrize("kinds", ["gqa", "mla"])
def test_blocks_of_lines_are_one_blank_line_apart(shell: Shell, tmp_path: Path, kinds: str) -> None:
    said = shell(*GRID, "--kinds", kinds, "--out", tmp_path)
    assert said.status == 0 and "\n\nnot run:" in said.out
    assert "\n\n\n" not in said.out
