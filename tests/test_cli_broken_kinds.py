"""A kind of another distribution that cannot be used is told in one line, and takes no command along."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.face import Said, in_a_process

GOOD = """\
from strategies.kinds.mla import declare
from strategies.kinds.protocol import Kind


def decode(numbers, around):
    return declare(around.layers, 1 + numbers[0], 8)


KIND = Kind("theirs", "a kind of another distribution", 50, (4,), decode, ((0,), (1,)))
"""
SEARCH = ("verify", "--scope", "none", "--examples", 2, "--jobs", 1)


def install(where: Path, text: str, name: str = "theirs") -> None:
    """A distribution whose entry point ``name`` is the ``KIND`` of a file with this text."""
    (where / "their_file.py").write_text(text)
    info = where / "their_kinds-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-kinds\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[kvwitness.kinds]\n{name} = their_file:KIND\n")


def told(said: Said) -> list[str]:
    return said.err.splitlines()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("KIND = (\n", "{file}:1: '(' was never closed"),
        ("import gone\n", "ModuleNotFoundError: No module named 'gone'"),
        ("x = 1\n", "AttributeError: module 'their_file' has no attribute 'KIND'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("KIND = 3\n", "type of what it names = 'int' is not possible: expected a Kind: a file of kinds names it KIND"),
        (GOOD.replace('"theirs"', '"mla"'), "kind.name = 'mla' is not possible: a kind of the project has this name"),
    ],
)
def test_the_search_goes_on_with_the_other_kinds(tmp_path: Path, text: str, reason: str) -> None:
    install(tmp_path, text)
    said = in_a_process(*SEARCH, "--kinds", "mla", cwd=tmp_path)
    assert said.status == 0, said.err
    line = f"kind entry point theirs (their_file:KIND) cannot be used: {reason.format(file=tmp_path / 'their_file.py')}"
    assert [line for line in told(said) if "entry point" in line] == [f"kvwitness: {line}"]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("kinds", "mla"), 0),
        (("conform", "mla", "--examples", 5), 0),
        (("deployments", "--models", "deepseek-v3", "--subjects", "nope", "--jobs", 1), 2),
        (("verify", "--model", "deepseek-v3", "--prompt", 64), 0),
    ],
)
def test_every_command_that_takes_kinds_says_it_once(tmp_path: Path, command: tuple, status: int) -> None:
    install(tmp_path, "import gone\n")
    said = in_a_process(*command, cwd=tmp_path)
    assert said.status == status, said.err
    lines = [line for line in told(said) if "entry point" in line]
    assert lines == [
        "kvwitness: kind entry point theirs (their_file:KIND) cannot be used: "
        "ModuleNotFoundError: No module named 'gone'"
    ]


@pytest.mark.parametrize("command", [(*SEARCH, "--kinds", "mla,theirs"), ("kinds", "theirs"), ("conform", "theirs")])
def test_who_asks_for_it_is_told_why_in_one_line(tmp_path: Path, command: tuple) -> None:
    install(tmp_path, "import gone\n")
    said = in_a_process(*command, cwd=tmp_path)
    assert said.status == 2
    assert told(said) == [
        "kvwitness: kind = 'theirs' is not possible: kind entry point theirs (their_file:KIND) cannot be used: "
        "ModuleNotFoundError: No module named 'gone'"
    ]


def test_an_entry_of_another_name_than_its_kind_is_refused_in_words(tmp_path: Path) -> None:
    install(tmp_path, GOOD, name="quest")
    said = in_a_process("kinds", "quest", cwd=tmp_path)
    assert said.status == 2
    assert told(said)[0].endswith("kind.name = 'theirs' is not possible: expected the name of its entry point, quest")


# ---- kinds that are found, and raise

RAISES = GOOD.replace("1 + numbers[0]", "6 // (3 - numbers[0])")


@pytest.mark.parametrize(("jobs", "scope"), [(1, "((0,), (1,))"), (2, "((0,), (1,))"), (1, "((0,), (3,))")])
def test_what_decode_raises_is_told_in_one_line_with_kind_and_numbers(tmp_path: Path, jobs: int, scope: str) -> None:
    install(tmp_path, RAISES.replace("((0,), (1,))", scope))
    bound = "small" if "3" in scope else "none"
    said = in_a_process(
        *("verify", "--kinds", "theirs", "--scope", bound, "--examples", 100, "--jobs", jobs), cwd=tmp_path
    )
    assert said.status == 2 and said.out == ""
    assert [line for line in told(said) if "cases" not in line] == [
        "kvwitness: kind theirs: numbers = (3,) is not possible: decode raised ZeroDivisionError: "
        "integer division or modulo by zero at their_file.py:6"
    ]
