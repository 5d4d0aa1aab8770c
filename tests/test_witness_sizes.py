"""Shrunk witnesses of every kind, also of the richest, can be read at a glance, and replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.faults import find_fault, size_of
from kvwitness import load_case
from oracle.model.case import Case
from oracle.model.codec import encode
from strategies.kinds import kinds
from tests.face import Shell
from tests.kind_cases import drawn

NAMES = tuple(kind.name for kind in kinds())
FAULTS = ("drop-last-run", "elect-first", "heads-modulo", "hnd-as-nhd", "run-end-off-by-one", "skip-stage")
CASE, FILE = 700, 2_000
"""Bytes of the case, and of the whole file: what was declared, what was derived from it and the argument."""
LINES = 55
"""Of the whole file."""


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def found(shell: Shell, kind: str, fault: str, out: Path) -> Path | None:
    """The shrunk witness of a planted fault, which ``verify`` finds among the first cases of the kind."""
    said = shell(
        *("verify", "--scope", "none", "--jobs", 1, "--seed", 0, "--examples", 1_000, "--subjects", "mapping"),
        *("--kinds", kind, "--fault", fault, "--json", "--out", out),
    )
    paths = [Path(path) for path in said.json["witnesses"]]
    assert said.status == len(paths) <= 1
    return paths[0] if paths else None


def check(shell: Shell, path: Path, fault: str) -> Case:
    """The witness is small, and says on replay what it was saved for; its case."""
    case = load_case(path)
    text = path.read_text()
    assert len(encode(case).encode()) <= CASE, path.name
    assert len(text.encode()) <= FILE, path.name
    assert text.count("\n") <= LINES
    assert max(map(len, text.partition('"witness"')[0].splitlines())) <= 120
    replayed = shell("replay", path, "--json")
    assert replayed.status == 1
    assert set(replayed.json["violations"]) & {kind.value for kind in find_fault(fault).kinds}
    return case


@pytest.mark.parametrize("kind", NAMES)
def test_a_missing_run_shrinks_to_a_witness_of_one_row_that_fits_on_a_screen(
    kind: str, shell: Shell, tmp_path: Path
) -> None:
    path = found(shell, kind, "drop-last-run", tmp_path)
    assert path is not None
    case = check(shell, path, "drop-last-run")
    assert case.kind == kind and [request.prompt <= 2 for request in case.requests] == [True]
    assert size_of(case) == (2, 1, 1)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [("qwen4_exp", "skip-stage"), ("mamba2", "skip-stage"), ("nvfp4", "hnd-as-nhd"), ("csa2", "run-end-off-by-one")],
)
def test_witnesses_of_rich_kinds_stay_as_small_where_the_fault_needs_more(
    kind: str, fault: str, shell: Shell, tmp_path: Path
) -> None:
    path = found(shell, kind, fault, tmp_path)
    assert path is not None
    assert size_of(check(shell, path, fault)) <= find_fault(fault).minimum


HEADLESS = {"mla", "dsa", "fp4_mla", "kda", "kda_replicated", "deepseek_v4", "csa2", "vllm_v4"}
CANNOT_SHOW = {
    # Heads that are shared out by floor do not repeat as that fault has it.
    "heads-modulo": HEADLESS | {"vllm_hybrid", "vllm_fused"},
    "hnd-as-nhd": HEADLESS,
    "skip-stage": {"csa2"},
}
"""Kinds of which no case can show a fault."""


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_show_in_cases_of_all_kinds_but_those_that_cannot_show_them(fault: str) -> None:
    applies = find_fault(fault).applies
    assert {kind for kind in NAMES if not any(map(applies, drawn(kind, 150)))} == CANNOT_SHOW.get(fault, set())


# The rest, some minutes on one core: pytest -m slow tests/test_witness_sizes.py


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [(kind, fault) for fault in FAULTS for kind in NAMES if kind not in CANNOT_SHOW.get(fault, set())],
)
def test_every_fault_that_a_kind_can_show_shrinks_to_a_small_witness(
    kind: str, fault: str, shell: Shell, tmp_path: Path
) -> None:
    path = found(shell, kind, fault, tmp_path)
    assert path is not None
    check(shell, path, fault)
