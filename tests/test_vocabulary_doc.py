"""docs/vocabulary.md keeps its word: what it declares is read, what it shows is shown, what it refuses is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oracle.model.axes import Split
from oracle.model.buffers import GroupKind, MoveState
from oracle.model.codec import from_plain
from oracle.model.errors import InvalidCase
from oracle.model.notation import format_buffer, parse_buffer
from oracle.model.sides import lay_out
from tests.face import ROOT, Shell

TEXT = (ROOT / "docs" / "vocabulary.md").read_text()
BLOCKS = re.findall(r"^```([^\n]*)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
BUFFERS = [line for language, block in BLOCKS if language == "buffer" for line in block.splitlines()]
FILES = {language.removeprefix("json "): block for language, block in BLOCKS if language.endswith(".json")}
SHOWN = [block for language, block in BLOCKS if not language and block.startswith("$ ")]
REFUSED = [pair for language, block in BLOCKS if language == "refused" for pair in block.strip().split("\n\n")]
LAYERS = 4


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def case_of(model: dict[str, object], **instance: object) -> object:
    """The case of ``model`` between two such instances."""
    side = {"tp": 1, "stages": [model["layers"]], "tokens_per_block": 4, **instance}
    lengths = {group["length"]: 1 for group in model["groups"] if "length" in group}  # type: ignore[union-attr]
    request = {"content": 0, "prompt": 1, **({"lengths": lengths} if lengths else {})}
    case = from_plain({"schema": 1, "model": model, "context": side, "generation": side, "requests": [request]})
    lay_out(case, "context")
    return case


@pytest.mark.parametrize("text", BUFFERS)
def test_a_buffer_it_declares_is_read_and_printed_so(text: str) -> None:
    assert format_buffer(parse_buffer(text)) == text


def test_its_model_can_be_built() -> None:
    (model,) = [json.loads(block) for language, block in BLOCKS if language == "json model"]
    built = case_of(model).model  # type: ignore[attr-defined]
    assert {group.kind for group in built.groups} == set(GroupKind)
    assert [group.name for group in built.groups] == ["local", "full", "draft", "cross", "state"]


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.splitlines()[0])
def test_a_command_prints_what_it_shows(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, block in FILES.items():
        (tmp_path / name).write_text(block)
    first, *lines = shown.splitlines()
    said = shell(*first.removeprefix("$ kvwitness ").split())
    assert said.status == 0, said.err
    assert len(lines) > 2
    assert "\n".join(lines) in "\n".join(line.rstrip() for line in said.out.splitlines())


@pytest.mark.parametrize("block", REFUSED)
def test_what_it_refuses_is_refused_with_that_message(block: str) -> None:
    *given, message = block.splitlines()
    with pytest.raises(InvalidCase) as caught:
        build(given)
    told = str(caught.value).removeprefix(f"buffer = {given[0]!r} is not possible: ")
    assert told == message.removeprefix("→ ")


def build(given: list[str]) -> None:
    """Buffers of a group, and lines ``group``, ``beside`` and ``instance`` with more fields as JSON."""
    more: dict[str, dict] = {"group": {}, "beside": {}, "instance": {}}
    buffers = []
    for line in given:
        word, _, rest = line.partition(" ")
        if word in more:
            more[word] = json.loads(rest)
        else:
            parse_buffer(line)  # so that the message of the text is that of the text alone
            buffers.append(line)
    groups = [{"name": "kv", **more["group"], "buffers": buffers}]
    if more["beside"]:
        groups.append({"name": "beside", **more["beside"]})
    case_of({"layers": LAYERS, "groups": groups}, **more["instance"])


def test_there_is_an_example_of_each_word() -> None:
    text = "\n".join(BUFFERS)
    for move in MoveState:
        assert move is MoveState.SEND or re.search(rf"; {move.value}\b", text), move
    for word in ("request", "first_local", "alias", "own", "pad(", "align(", "fused(", "x(", "rec(", "foot(", "ids "):
        assert f" {word}" in text, word
    for split in Split:
        assert f".{split.value}" in TEXT, split
    assert len(REFUSED) >= 25


def test_links_lead_somewhere() -> None:
    for link, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]*))?\)", TEXT):
        path = ROOT / "docs" / link
        assert path.exists(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert anchor in {head.lower().replace(" ", "-") for head in heads}, anchor
