"""The README keeps its word: its examples run, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvwitness.cli import COMMANDS, commands
from oracle.truth.verdict import Kind
from tests.face import ROOT, Shell

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def block_with(text: str) -> str:
    (found,) = [block for _, block in BLOCKS if text in block]
    return found


def test_the_example_for_serving_frameworks_runs_and_fits_on_a_screen() -> None:
    (example,) = [block for language, block in BLOCKS if language == "python"]
    assert len(example.splitlines()) <= 20
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()


def test_the_example_fails_where_the_sender_is_wrong() -> None:
    (example,) = [block for language, block in BLOCKS if language == "python"]
    names: dict = {}
    exec(compile(example.replace("source * stride", "0 * stride"), "README.md", "exec"), names)
    with pytest.raises(AssertionError, match="wrong element"):
        names["test_every_byte_of_the_cache_arrives"]()


def test_the_two_commands_are_there() -> None:
    assert "python3 -m venv .venv && . .venv/bin/activate\n" in README
    assert "pip install -c constraints.txt -e . && kvwitness verify\n" in README
    assert "pip install -c constraints.txt -e '.[test]' && pytest -n auto\n" in README


def test_every_option_it_names_exists() -> None:
    known = {"--version", "--help", "--kvwitness-out"}
    for name in COMMANDS:
        command = commands.get_command(None, name)  # type: ignore[arg-type]
        known.update(option for parameter in command.params for option in parameter.opts)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", README))
    assert named <= known


def test_every_kind_of_violation_is_explained() -> None:
    for kind in Kind:
        assert f"| {kind.value} |" in README


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("https://"):
            assert (ROOT / link).exists(), link


def test_the_deployment_is_judged_as_it_says(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    first, *shown = block_with("$ kvwitness verify --model").splitlines()
    said = shell(*first.removeprefix("$ kvwitness ").split())
    assert said.status == 0
    assert [line.rstrip() for line in said.out.splitlines()] == shown


def test_the_planted_fault_fails_as_it_says(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    first, _, *shown = block_with("$ kvwitness verify --scope none --fault").splitlines()
    said = shell(*first.removeprefix("$ kvwitness ").split())
    assert said.status == 1
    assert "\n".join(shown) in said.out
    (witness,) = Path("witnesses").glob("*.json")
    assert f"$ kvwitness replay {witness}" in README
    assert f"$ kvwitness show {witness}" in README


def test_show_shows_the_block_as_it_says(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    first, *_ = block_with("$ kvwitness verify --scope none --fault").splitlines()
    shell(*first.removeprefix("$ kvwitness ").split())
    show, *shown = block_with("$ kvwitness show").splitlines()
    said = shell(*show.removeprefix("$ kvwitness ").split())
    assert said.status == 0
    assert [line.rstrip() for line in said.out.splitlines()] == shown


def test_the_difference_is_told_as_it_says(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "120")
    first, *shown = block_with("$ kvwitness diff").splitlines()
    said = shell(*first.removeprefix("$ kvwitness ").split())
    assert said.status == 0
    assert [line.rstrip() for line in said.out.splitlines()] == shown


def test_the_grid_is_told_as_it_says(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    first, *shown = block_with("$ kvwitness verify --grid").splitlines()
    said = shell(*first.removeprefix("$ kvwitness ").split(), "--out", tmp_path)
    assert said.status == 0
    assert [line.rstrip() for line in said.out.strip().splitlines()] == shown


def test_the_tables_of_verify_have_the_columns_that_it_says(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    heads = [
        line.split() for line in block_with("judged: mapping and native;").splitlines() if line.startswith("kind ")
    ]
    kinds = re.search(r"`kvwitness verify --kinds ([a-z0-9_,]+)`", README)[1]  # type: ignore[index]
    said = shell("verify", "--scope", "none", "--examples", 20, "--jobs", 1, "--kinds", kinds, "--out", tmp_path)
    assert [line.split() for line in said.out.splitlines() if line.startswith("kind ")] == heads


def test_its_own_model_is_one(shell: Shell, tmp_path: Path) -> None:
    (model,) = [block for language, block in BLOCKS if language == "json"]
    path = tmp_path / "model.json"
    path.write_text(model)
    said = shell("verify", "--model", path, "--context", "tp=2", "--generation", "tp=4", "--out", tmp_path)
    assert said.status == 0, said.err
    assert f"{path}, 32 layers" in " ".join(said.out.split())
