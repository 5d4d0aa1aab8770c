"""The pytest plugin, run on small projects of its own: witnesses, one seed, profiles, and what was not run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from differential.faults import find_fault, size_of
from kvwitness.witness import load
from tests.face import ROOT, in_a_process

PLANTED = '''
from hypothesis import given
from differential.faults import find_fault
from differential.runner import run_case
from differential.subjects.mapping import Mapping
from strategies.cases import cases

class Theirs:
    """A sender with the bug of the planted fault elect-first."""
    name = "theirs:Theirs"
    election = "paired"

    def plan(self, case, facts):
        return find_fault("elect-first").wrap(Mapping()).plan(case, facts)
'''
PROPERTY = """
from hypothesis import given, settings
from strategies.cases import cases
from theirs import Theirs, run_case

@settings(max_examples=500)  # whatever the seed, the planted bug shows within so many
@given(cases(["gqa"]))
def test_every_byte_arrives(case):
    subject = Theirs()
    assert run_case(case, [subject]).passed
"""


@dataclass(frozen=True)
class Run:
    status: int
    out: str


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the ``conftest.py`` of this repository."""
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "theirs.py").write_text(PLANTED)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -ra\npythonpath = .\n")
    return tmp_path


def run_tests(project: Path, *arguments: str, **environment: str) -> Run:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
    )
    return Run(done.returncode, done.stdout + done.stderr)


def test_a_failing_property_leaves_its_shrunk_case_as_a_witness(project: Path) -> None:
    (project / "test_it.py").write_text(PROPERTY)
    run = run_tests(project)
    assert run.status == 1, run.out
    (path,) = (project / "witnesses").glob("*.json")
    assert f"witness: witnesses/{path.name}" in run.out
    assert f"replay it: kvwitness replay witnesses/{path.name}" in run.out
    witness = load(path)
    assert size_of(witness.case) == find_fault("elect-first").minimum
    assert witness.meta is not None
    assert witness.meta.kinds == ("not elected",)
    assert witness.meta.subject == "theirs:Theirs"
    assert witness.meta.test == "test_it.py::test_every_byte_arrives"
    assert in_a_process("replay", path, cwd=project).status == 1
    (project / "theirs.py").write_text(PLANTED.replace('find_fault("elect-first").wrap(Mapping())', "Mapping()"))
    assert in_a_process("replay", path, cwd=project).status == 0


def test_workers_of_xdist_write_witnesses_too(project: Path) -> None:
    (project / "test_it.py").write_text(PROPERTY)
    run = run_tests(project, "-n", "1", "--kvwitness-out", "elsewhere")
    assert run.status == 1, run.out
    (path,) = (project / "elsewhere").glob("*.json")
    assert f"replay it: kvwitness replay elsewhere/{path.name}" in run.out


def test_a_test_that_fails_for_another_reason_still_keeps_its_case(project: Path) -> None:
    (project / "test_it.py").write_text(
        "from strategies.cases import decode\nfrom strategies.numbers import simplest\n"
        "def test_it():\n    case = decode(simplest())\n    assert case.kind == 'other'\n"
    )
    run = run_tests(project)
    assert run.status == 1
    (path,) = (project / "witnesses").glob("*.json")
    assert "the judge finds nothing wrong with mapping there" in run.out
    said = in_a_process("replay", path, cwd=project)
    assert said.status == 2
    assert "a test failed on this case, and the judge finds nothing; run test_it.py::test_it" in said.out
    shown = in_a_process("show", path, cwd=project).out
    assert "found       by test_it.py::test_it" in shown
    assert "AssertionError: assert 'gqa' == 'other'" in shown


def test_two_tests_that_fail_on_one_case_leave_a_witness_each(project: Path) -> None:
    (project / "test_it.py").write_text(
        "from strategies.cases import decode\nfrom strategies.numbers import simplest\n"
        "def test_one():\n    case = decode(simplest())\n    assert not case\n"
        "def test_other():\n    case = decode(simplest())\n    assert not case\n"
    )
    for _ in range(2):
        assert run_tests(project).status == 1
    metas = [load(path).meta for path in (project / "witnesses").glob("*.json")]
    assert sorted(meta.test for meta in metas if meta) == ["test_it.py::test_one", "test_it.py::test_other"]


def test_a_failing_test_without_a_case_leaves_nothing(project: Path) -> None:
    (project / "test_it.py").write_text("def test_it():\n    case = 1\n    assert not case\n")
    run = run_tests(project)
    assert run.status == 1
    assert "replay it:" not in run.out
    assert not (project / "witnesses").exists()


def test_a_witness_that_cannot_be_written_does_not_hide_the_failure(project: Path) -> None:
    (project / "test_it.py").write_text(PROPERTY)
    (project / "file").write_text("")
    run = run_tests(project, "--kvwitness-out", "file/witnesses")
    assert run.status == 1
    assert "no witness could be written: CannotRun: cannot write a witness under" in run.out
    assert "assert False" in run.out


# ---- seeds and profiles

DRAWN = """
from pathlib import Path
from hypothesis import given, strategies as st

@given(st.binary(min_size=8, max_size=8))
def test_it(drawn):
    with open("drawn.txt", "a") as file:
        file.write(drawn.hex() + "\\n")
"""


def drawn_by(project: Path, *arguments: str) -> tuple[list[str], str]:
    (project / "drawn.txt").unlink(missing_ok=True)
    run = run_tests(project, *arguments)
    assert run.status == 0, run.out
    return (project / "drawn.txt").read_text().splitlines(), run.out


def test_the_seed_that_is_printed_draws_the_same_examples(project: Path) -> None:
    (project / "test_it.py").write_text(DRAWN)
    first, out = drawn_by(project)
    option = re.search(r"(--kvwitness-seed=\d+) draws the same examples", out)
    assert option is not None, out
    again, _ = drawn_by(project, option[1])
    on_a_worker, _ = drawn_by(project, option[1], "-n", "1")
    other, _ = drawn_by(project, "--kvwitness-seed=1")
    assert first == again == on_a_worker
    assert first != other


@pytest.mark.parametrize(
    ("arguments", "environment", "profile", "examples"),
    [
        ((), {}, "dev", 100),
        ((), {"CI": "true"}, "ci", 300),
        (("--hypothesis-profile=nightly",), {"CI": "true"}, "nightly", 3000),
    ],
)
def test_profiles_keep_chance_and_database(
    project: Path, arguments: tuple[str, ...], environment: dict[str, str], profile: str, examples: int
) -> None:
    (project / "test_it.py").write_text(
        "from hypothesis import settings\n"
        "def test_it():\n"
        "    assert settings.default.derandomize is False\n"
        "    assert settings.default.database is not None\n"
        "    assert settings.default.deadline is None\n"
    )
    run = run_tests(project, *arguments, **environment)
    assert run.status == 0, run.out
    said = f"Hypothesis profile {profile}: {examples} examples, deadline None, derandomize False, database "
    assert said in run.out


def test_a_failure_is_kept_in_the_database_and_tried_first(project: Path) -> None:
    (project / "test_it.py").write_text(
        DRAWN + "    assert drawn.hex() < '8'\n".replace("'8'", "'80'")  # about half of all examples fail
    )
    run_tests(project)
    (project / "drawn.txt").unlink()
    run_tests(project)
    assert (project / "drawn.txt").read_text().splitlines()[0] == "80" + "00" * 7


# ---- what is not run

MARKED = """
import pytest

@pytest.mark.gpu
def test_gpu(): pass

@pytest.mark.nixl
def test_nixl(): pass

@pytest.mark.slow
def test_slow(): pass
"""
NO_DEVICES = """
from kvwitness import pytest_project
pytest_project.MISSING.update(gpu=lambda: "there is no device", nixl=lambda: "there is no library")
"""


@pytest.fixture
def bare(project: Path) -> Path:
    """A project with marked tests, on a machine with neither device nor library."""
    (project / "conftest.py").write_text((ROOT / "conftest.py").read_text() + NO_DEVICES)
    (project / "test_it.py").write_text(MARKED)
    return project


def test_what_cannot_run_is_skipped_with_its_reason(bare: Path) -> None:
    run = run_tests(bare)
    assert run.status == 0
    assert "gpu: there is no device" in run.out
    assert "nixl: there is no library" in run.out
    assert "1 passed, 2 skipped" in run.out


def test_what_is_required_and_cannot_run_fails(bare: Path) -> None:
    run = run_tests(bare, "--require", "cuda,nixl")
    assert run.status == 1
    assert "--require gpu: there is no device" in run.out
    assert "--require nixl: there is no library" in run.out
    unknown = run_tests(bare, "--require", "tpu")
    assert unknown.status == 4
    assert "--require 'tpu': expected cuda, gpu, nixl" in unknown.out


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_what_is_deselected_is_reported(bare: Path, workers: tuple[str, ...]) -> None:
    run = run_tests(bare, "-m", "not slow", *workers)
    assert run.status == 0, run.out
    assert "not run: 1 marked slow (takes more than a few seconds), deselected by 'not slow'" in run.out


# ---- in other projects


def test_the_installed_plugin_alone_leaves_other_projects_alone(tmp_path: Path) -> None:
    """Their profiles, markers and options are theirs; their failing cases still leave witnesses."""
    (tmp_path / "theirs.py").write_text(PLANTED)
    (tmp_path / "test_it.py").write_text(
        PROPERTY + "\ndef test_profile():\n    from hypothesis import settings\n"
        "    assert settings.get_current_profile_name() == 'default'\n"
    )
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--require')\n")
    arguments = () if _is_installed() else ("-p", "kvwitness.pytest_plugin")
    run = run_tests(tmp_path, *arguments, PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}")
    assert "1 failed, 1 passed" in run.out, run.out
    assert "replay it: kvwitness replay witnesses/" in run.out
    assert "Hypothesis profile dev" not in run.out


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(point.value == "kvwitness.pytest_plugin" for point in entry_points(group="pytest11"))


def test_recorded_plans_are_found_or_named(project: Path) -> None:
    (project / "test_it.py").write_text("def test_it(native_plans):\n    assert native_plans.read_text() == 'plans'\n")
    (project / "own.jsonl").write_text("plans")
    assert run_tests(project, "--native-plans", "own.jsonl").status == 0
    missing = run_tests(project)
    assert missing.status == 1
    assert "native_plans.jsonl': there is no such file" in missing.out


def test_the_recorded_plans_of_this_repository_are_the_default(native_plans: Path) -> None:
    assert native_plans.read_text().startswith("{")
