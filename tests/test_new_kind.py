"""docs/new-kind.md does what it says, from its first line to its last.

Only ``pip install`` is not run: the entry point of the page's pyproject.toml is made known as an installer would.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from differential.subjects.native.views import ALLOWED
from kvwitness.conform import LAWS
from kvwitness.kinds import native_of
from oracle.model.case import MAPPERS
from oracle.model.errors import InvalidCase
from strategies.kinds import find_kind, registry
from strategies.kinds.pieces import layers, rows
from tests.face import ROOT, Shell

PAGE = (ROOT / "docs" / "new-kind.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ELLIPSIS = "..."


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of one's own, from which modules are imported; nothing of it is left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    yield tmp_path
    sys.modules.pop("quest", None)
    registry.cache_clear()


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the lines that it is to say."""
    for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *said = piece.splitlines()
        yield command, said


def masked(line: str) -> str:
    """A line without its numbers, as many words as there are."""
    return " ".join(re.sub(r"\d[\d,.]*", "#", line).split())


def agrees(shown: list[str], said: list[str]) -> bool:
    """Whether ``shown`` is what was said, where an ellipsis stands for any lines."""
    if not shown:
        return not said
    if shown[0] == ELLIPSIS:
        return any(agrees(shown[1:], said[start:]) for start in range(len(said) + 1))
    return bool(said) and masked(shown[0]) == masked(said[0]) and agrees(shown[1:], said[1:])


def install(where: Path) -> None:
    """Make the entry points of ``pyproject.toml`` known, as an editable installation does."""
    project = tomllib.loads((where / "pyproject.toml").read_text())["project"]
    info = where / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    registry.cache_clear()


def run(shell: Shell, command: str, where: Path) -> list[str]:
    """What a command of the page says; its exit status fits its last line."""
    if command == "pip install -e .":
        install(where)
        return []
    program, *arguments = shlex.split(command)
    if program != "kvwitness":
        return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout.splitlines()
    said = shell(*arguments)
    lines = said.out.splitlines()
    while lines and not lines[-1]:
        lines.pop()
    assert said.status == int(any(line.startswith("fail") for line in lines)), (command, said.out, said.err)
    return lines


def test_the_page_is_done_from_beginning_to_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(capsys)
    names: dict = {}
    done = []
    for language, block in BLOCKS:
        if language == "console":
            for command, shown in commands(block):
                said = run(shell, command, here)
                assert agrees(shown, said), f"{command} says:\n" + "\n".join(said)
                done.append(command)
        elif language == "toml":
            (here / "pyproject.toml").write_text(block)
        elif block.startswith("# quest.py, after"):
            path = here / "quest.py"
            path.write_text("from dataclasses import replace\n" + path.read_text() + block)
        elif block.startswith("# quest.py"):
            (here / "quest.py").write_text(block)
        else:
            exec(compile(block, "docs/new-kind.md", "exec"), names)
    assert len(done) == 9 and names["sizes"]["page_summary"] == 491_520


def test_what_is_shown_is_compared() -> None:
    said = ["a 1", "b", "c 3,000"]
    assert agrees(["a 7", "...", "c 9"], said) and agrees(["...", "c 9"], said) and agrees(["..."], said)
    assert not agrees(["a 7", "c 9"], said)
    assert not agrees(["a 7", "b"], said)
    assert not agrees(["...", "d"], said)
    assert not agrees([], said)


def test_every_law_is_named() -> None:
    for law in LAWS:
        assert re.search(rf"^\| (\w+, )?{law.name}[ ,]", PAGE, re.MULTILINE), law.name


def test_every_mapper_is_told_with_kinds_that_declare_it_so() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| .* \| ([^|]*) \|$", PAGE, re.MULTILINE))
    assert set(told) == set(MAPPERS)
    for mapper, examples in told.items():
        for example in examples.split("; "):
            roles = re.findall(r"`(\w+)`", example)
            named, names = ([roles[0]], roles[1:]) if "` of `" in example else (["all"], roles)
            for kind in names:
                for role in named:
                    assert {native.mapper_of(role) for native in native_of(find_kind(kind)) if native} == {mapper}


def test_it_says_which_mappers_a_group_takes() -> None:
    assert "Buffers of blocks take all but `sectioned`, those of a `state` group all but `nhd`" in PAGE
    assert {paged: set(MAPPERS) - set(allowed) for paged, allowed in ALLOWED.items()} == {
        True: {"sectioned"},
        False: {"nhd"},
    }


def test_it_quotes_what_a_hybrid_of_too_few_layers_is_refused_with() -> None:
    with pytest.raises(InvalidCase) as caught:
        rows("key", layers(()), 1, 8)
    assert str(caught.value) in " ".join(PAGE.split())


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
