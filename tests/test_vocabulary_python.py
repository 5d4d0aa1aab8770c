"""docs/vocabulary.md says how each notation is written in Python: what stands there declares just that."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest

from oracle.model.buffers import MoveState
from oracle.model.notation import format_buffer
from strategies.cases import decode
from strategies.kinds import find_kind
from strategies.kinds.protocol import Declaration, Surroundings
from strategies.numbers import WIDTH
from tests.face import ROOT

PAGE = (ROOT / "docs" / "vocabulary.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## The same in Python\n")[2].partition("\n## ")[0]
(CODE,) = re.findall(r"^```python\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
ROWS = [
    [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in SECTION.splitlines()
    if line.startswith("| ") and "`" in line
]
BUFFERS = [row for row in ROWS if len(row) == 2]
VALUES = [row for row in ROWS if len(row) == 3]


def written(cell: str) -> str:
    """The text of a cell that is code and nothing else."""
    assert cell.startswith("`") and cell.endswith("`") and "`" not in cell[1:-1], cell
    return cell[1:-1]


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    """What the code before the tables imports and names."""
    names: dict[str, object] = {}
    exec(compile(CODE, "docs/vocabulary.md", "exec"), names)
    return names


@pytest.mark.parametrize(("notation", "python"), BUFFERS)
def test_the_python_of_a_buffer_is_printed_in_its_notation(
    names: dict[str, object], notation: str, python: str
) -> None:
    assert format_buffer(eval(written(python), names)) == written(notation)


@pytest.mark.parametrize(("what", "python", "value"), VALUES)
def test_what_else_is_written_gives_what_it_says(names: dict[str, object], what: str, python: str, value: str) -> None:
    assert what and eval(written(python), names) == ast.literal_eval(written(value))


def test_every_name_that_is_imported_is_used_and_every_move_shown(names: dict[str, object]) -> None:
    said = CODE.partition("\n\n")[2] + "\n".join(python for _, python, *_ in ROWS) + SECTION.partition("```\n")[2]
    for name in re.findall(r"\w+", " ".join(re.findall(r"import (.*)", CODE))):
        assert re.search(rf"\b{name}\b", said), name
    for move in MoveState:
        assert any(re.search(rf"\b{move.value}\b", notation) for notation, _ in BUFFERS), move
    assert len(BUFFERS) >= 20 and len(VALUES) >= 5


@pytest.mark.parametrize("places", [False, True])
def test_only_a_kind_that_places_something_is_told_block_and_prompt(places: bool) -> None:
    told = []
    plain = find_kind("gqa")

    def listen(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        told.append((around.tokens_per_block, around.prompt))
        return plain.decode(numbers, around)

    kind = replace(plain, decode=listen, places=places)
    decode(bytes(WIDTH), kinds=(kind,))
    assert told and all((block > 0 and prompt > 0) is places for block, prompt in told)
    assert places or set(told) == {(0, 0)}


def test_the_page_of_new_kinds_leads_to_the_tables() -> None:
    assert "](vocabulary.md#the-same-in-python)" in (ROOT / "docs" / "new-kind.md").read_text(encoding="utf-8")
