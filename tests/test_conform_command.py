"""``kvwitness conform``: one screen for a good kind, the smallest example for a broken one, and the exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvwitness.cli import conform as command
from kvwitness.conform import LAWS
from strategies.kinds import find_kind
from tests.face import Shell, in_a_process

GOOD = """\
from strategies.kinds.mla import declare
from strategies.kinds.protocol import Kind


def decode(numbers, around):
    return declare(around.layers, 1 + numbers[0], 8)


KIND = Kind("mine", "a kind of one's own", 50, (4,), decode, ((0,), (1,)))
"""
UNEVEN = """\
from oracle.model.axes import Axis, Split
from oracle.model.buffers import Buffer, Model, Part
from strategies.kinds.pieces import TOKENS, layers, paged
from strategies.kinds.protocol import Declaration, Kind


def decode(numbers, around):
    axes = (Axis("H", 4 + numbers[0], Split.EVEN), TOKENS)
    key = Buffer("key", layers(range(around.layers)), (Part(axes, 8),))
    return Declaration(Model(around.layers, (paged("kv", (key,)),)), None)


KIND = Kind("uneven", "heads that ranks cannot share out evenly", 50, (4,), decode, ((0,),))
"""
EXAMPLES = ("--examples", 40)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "80")
    return Shell(capsys)


@pytest.mark.parametrize("name", ["gqa", "mla"])
def test_a_good_kind_takes_one_screen(shell: Shell, tmp_path: Path, name: str) -> None:
    said = shell("conform", name, *EXAMPLES, "--out", tmp_path / "out")
    assert said.status == 0, said.out
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{name}: ")
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    told = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[1:2] == ["pass"]]
    assert told == [law.name for law in LAWS]
    assert f"pass: {name} keeps {len(LAWS)} laws" in lines
    assert "missing" not in said.out
    assert not (tmp_path / "out").exists()


def test_a_kind_of_ones_own_is_tried_from_its_file_and_told_what_it_lacks(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    said = shell("conform", path, *EXAMPLES, "--out", tmp_path)
    assert said.status == 0, said.out
    assert max(map(len, said.out.splitlines())) <= 80
    told = " ".join(said.out.split())
    assert "published not run the kind has no published model" in told
    assert "missing: a published model: " in told
    assert (
        "missing: a registration: in the pyproject.toml of the package that has the file [project.entry-points." in told
    )
    assert '    mine = "PACKAGE.mine:KIND"' in said.out.splitlines()
    assert f"pass: mine keeps {len(LAWS) - 1} laws; not run: published" in told


def test_a_broken_kind_exits_1_with_kind_role_and_rule(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "uneven.py"
    path.write_text(UNEVEN)
    said = shell("conform", path, *EXAMPLES, "--out", tmp_path)
    assert said.status == 1
    told = " ".join(said.out.split())
    assert (
        "builds FAIL Every combination of numbers is a layout that exists. Not so: kind uneven: buffer key, axis H = 4 "
        "is not possible: an even split over 3 ranks needs a multiple of 3" in told
    )
    assert "    numbers (0,)" in said.out.splitlines()
    assert told.count("an even split over") == 1
    for law in ("scope", "reshards", "stresses", "mutants"):
        assert f"{law:<9} not run does not build" in "\n".join(said.out.splitlines())
    assert "mapping pass" in told
    assert "fail: uneven breaks builds; not run: " in told


def test_a_published_model_that_cannot_be_built_for_the_same_reason_is_not_told_again(
    shell: Shell, tmp_path: Path
) -> None:
    path = tmp_path / "uneven.py"
    model = 'PublishedModel("real", "Real", 2, lambda bits: 1 // 0, "a test", "source", element_bits=(16,))'
    wrong = UNEVEN.replace("axes = (", "1 // 0\n    axes = (").replace(
        "Declaration, Kind", "Declaration, Kind, PublishedModel"
    )
    for text, again in ((wrong, False), (wrong.replace("1 // 0\n", "[][0]\n"), True)):
        path.write_text(text.replace("((0,),))", f"((0,),), published=({model},))"))
        told = " ".join(shell("conform", path, "--examples", 5, "--out", tmp_path).out.split())
        assert ("published FAIL" in told) is again, told
        assert told.count("modulo by zero") == 1


def test_several_kinds_are_told_briefly(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "uneven.py"
    path.write_text(UNEVEN)
    said = shell("conform", "mla", path, "--examples", 10, "--out", tmp_path)
    assert said.status == 1
    lines = said.out.splitlines()
    assert f"pass: mla keeps {len(LAWS)} laws" in lines
    assert lines[-1] == "fail: uneven of 2 kinds"
    assert not any(" pass " in line for line in lines)


def test_all_kinds(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "registered_kinds", lambda: (find_kind("mla"), find_kind("kda_replicated")))
    said = shell("conform", "--all", "--examples", 30, "--out", tmp_path)
    assert said.status == 0, said.out
    assert said.out.splitlines()[-1] == "pass: 2 kinds"


def test_one_object_for_programs(shell: Shell, tmp_path: Path) -> None:
    said = shell("conform", "mla", *EXAMPLES, "--json", "--seed", 3, "--out", tmp_path)
    assert said.status == 0 and said.out.count("\n") == 1
    found = said.json
    assert (found["verdict"], found["seed"], found["examples"]) == ("pass", 3, 40)
    kind = found["kinds"]["mla"]
    assert list(kind["laws"]) == [law.name for law in LAWS]
    assert {law["outcome"] for law in kind["laws"].values()} == {"pass"}
    assert kind["laws"]["reshards"]["sentence"].startswith("What the ranks of one instance hold")
    assert kind["mutants"]["key: send → never"] == {"by": "judge", "how": "missing"}
    assert kind["missing"] == []


def test_every_mutant_is_listed_on_request(shell: Shell, tmp_path: Path) -> None:
    said = shell("conform", "mla", *EXAMPLES, "--mutants", "--out", tmp_path)
    assert "    key: send → never: caught by judge: missing" in said.out.splitlines()
    assert max(map(len, said.out.splitlines())) <= 80


def test_the_same_seed_says_the_same_and_another_another(shell: Shell, tmp_path: Path) -> None:
    said = [
        shell("conform", "mla", "--examples", 20, "--seed", seed, "--json", "--out", tmp_path) for seed in (1, 1, 2)
    ]
    assert said[0].out == said[1].out != said[2].out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("KIND = None\n", "KIND = None is not possible: expected a Kind (strategies.kinds.protocol)"),
        (
            GOOD.replace('"mine"', '"gqa"'),
            "KIND.name = 'gqa' is not possible: a kind of the project has this name; choose another",
        ),
    ],
)
def test_a_file_without_a_kind_of_its_own_exits_2(shell: Shell, tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    said = shell("conform", path, *EXAMPLES, "--out", tmp_path)
    assert (said.status, said.out, said.err) == (2, "", f"kvwitness: {path}: {reason}\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "nothing to do: expected names of kinds or files, or --all"),
        (("mla", "--all"), "--all means every kind: expected names or --all, not both"),
        (("nope",), "kind = 'nope' is not possible: expected one of gqa, mla"),
        (("gone.py",), "gone.py: there is no such file; expected the name of a kind, or a file that names a KIND"),
        (("mla", "--examples", 0), "--examples = 0 is not possible: expected a whole number of at least 1"),
        (("mla", "--seed", "x"), "--seed = 'x' is not possible"),
    ],
)
def test_what_cannot_run_exits_2(shell: Shell, tmp_path: Path, arguments: tuple, reason: str) -> None:
    said = shell("conform", *arguments, "--out", tmp_path)
    assert said.status == 2 and said.out == ""
    assert said.err.startswith(f"kvwitness: {reason}"), said.err
    assert "Traceback" not in said.err


def test_it_runs_where_the_user_stands(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    said = in_a_process("conform", "mine.py", "--examples", 5, "--json", cwd=tmp_path)
    assert said.status == 0, said.err
    assert said.json["kinds"]["mine.py"]["kind"] == "mine"
