"""Running the commands in tests, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvwitness.cli import run

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Said:
    """Exit status and what was written."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


class Shell:
    """Runs command lines in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture

    def __call__(self, *arguments: object) -> Said:
        self.capture.readouterr()
        status = run([str(argument) for argument in arguments])
        written = self.capture.readouterr()
        return Said(status, written.out, written.err)


def in_a_process(*arguments: object, cwd: Path, **environment: str) -> Said:
    """Runs a command line as a user would, in another directory."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, "-m", "kvwitness", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    return Said(done.returncode, done.stdout, done.stderr)
