"""A kind of another distribution that cannot be used is told in one line, and takes no command along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strategies.kinds as registry
from strategies.kinds import broken_entries, find_kind, find_model, is_shipped, kinds, registered_kinds
from tests.face import Said, Shell, in_a_process

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
        ("import sys\nimport gone\n", "ModuleNotFoundError: No module named 'gone' at their_file.py:2"),
        ("x = 1\n", "AttributeError: module 'their_file' has no attribute 'KIND'"),
        ("raise SystemExit(3)\n", "SystemExit: 3 at their_file.py:1"),
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
        "ModuleNotFoundError: No module named 'gone' at their_file.py:1"
    ]


@pytest.mark.parametrize("command", [(*SEARCH, "--kinds", "mla,theirs"), ("kinds", "theirs"), ("conform", "theirs")])
def test_who_asks_for_it_is_told_why_in_one_line(tmp_path: Path, command: tuple) -> None:
    install(tmp_path, "import gone\n")
    said = in_a_process(*command, cwd=tmp_path)
    assert said.status == 2
    assert told(said) == [
        "kvwitness: kind = 'theirs' is not possible: kind entry point theirs (their_file:KIND) cannot be used: "
        "ModuleNotFoundError: No module named 'gone' at their_file.py:1"
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


# ---- kinds that are found, and do not build

TWICE = GOOD.replace("return", "key = rows('key', layers([0]), 2, 8)\n    return paged('kv', (key, key)) or").replace(
    "from strategies.kinds.mla", "from strategies.kinds.pieces import layers, paged, rows\nfrom strategies.kinds.mla"
)
PUBLISHED = GOOD.replace(
    "((0,), (1,)))",
    "((0,), (1,)), (MODEL,))",
).replace(
    "import Kind\n",
    "import Kind, PublishedModel\n\n"
    "MODEL = PublishedModel('theirs-1b', 'T', 2, lambda bits: declare(2, 8 // bits, 8), 'made up', 'config')\n",
)
UNBUILT = [
    (TWICE, "kind theirs: group kv.buffers = (0, 'key') is not possible: two buffers have one key"),
    (
        RAISES,
        "kind theirs: numbers = (3,) is not possible: decode raised ZeroDivisionError: "
        "integer division or modulo by zero at their_file.py:6",
    ),
    (
        PUBLISHED.replace("'T', 2,", "'T', 3,").replace("8 // bits", "2"),
        "kind theirs: model theirs-1b: layers = 3 is not possible: what it builds has 2 layers, 0 of them extra ones",
    ),
    (
        PUBLISHED,
        "kind theirs: model theirs-1b: buffer key, axis D.size = 0 is not possible: "
        "expected a whole number of at least 1",
    ),
]
"""Kinds of which no model builds, or some do not, or a published one does not or is another; and why."""
LATE = GOOD.replace("    return", "    if around.layers == 3:\n        raise KeyError('three')\n    return")
WHY_LATE = "kind theirs: numbers = "
"""A kind that raises in a draw alone."""


def line_of(why: str) -> str:
    return f"kvwitness: kind entry point theirs (their_file:KIND) cannot be used: {why}"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes a kind of another distribution known in this process; nothing of it is left behind."""
    monkeypatch.setenv("COLUMNS", "100")

    class Entry:
        name, value = "theirs", "their_file:KIND"

        def __init__(self, text: str) -> None:
            self.text = text

        def load(self) -> object:
            names: dict = {"__name__": "their_file"}
            exec(compile(self.text, "their_file.py", "exec"), names)
            return names["KIND"]

    def add(text: str) -> None:
        monkeypatch.setattr(registry, "entry_points", lambda group: [Entry(text)] if group == registry.GROUP else [])
        registry.registry.cache_clear()

    yield add
    monkeypatch.undo()
    registry.registry.cache_clear()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.mark.parametrize(("text", "why"), [*UNBUILT, (LATE, WHY_LATE)])
def test_the_list_has_all_other_kinds(register: Callable[[str], None], shell: Shell, text: str, why: str) -> None:
    register(text)
    said = shell("kinds")
    (line,) = told(said)
    assert said.status == 0 and (line == line_of(why) or (text == LATE and line.startswith(line_of(why))))
    for kind in kinds():
        assert (kind.name in {row.split(" ")[0] for row in said.out.splitlines()}) is is_shipped(kind.name)
    assert "In how many of 300 cases of a kind each stress shows" in said.out
    as_json = shell("kinds", "--json")
    assert (as_json.status, told(as_json)) == (0, [line])
    assert list(as_json.json["kinds"]) == [kind.name for kind in kinds() if is_shipped(kind.name)]
    (broken,) = as_json.json["broken"]
    assert (broken["name"], broken["entry"]) == ("theirs", "their_file:KIND") and line.endswith(broken["reason"])


def test_the_list_of_good_kinds_names_none_as_broken(register: Callable[[str], None], shell: Shell) -> None:
    register(GOOD)
    said = shell("kinds", "--json")
    assert (said.status, said.err, said.json["broken"]) == (0, "", [])
    assert "theirs" in said.json["kinds"]


@pytest.mark.parametrize(
    ("text", "why"), [*UNBUILT, ("import gone\n", "ModuleNotFoundError: No module named 'gone' at their_file.py:1")]
)
def test_a_search_over_all_kinds_leaves_it_out_and_says_so(
    register: Callable[[str], None], shell: Shell, tmp_path: Path, text: str, why: str
) -> None:
    register(text)
    search = (*SEARCH, "--out", tmp_path)
    said = shell(*search)
    assert (said.status, [line for line in told(said) if "entry point" in line]) == (0, [line_of(why)])
    closing = " ".join(said.out.split()).rpartition("pass: no violation in 2 random cases")[2]
    assert closing.endswith("; not judged: theirs (cannot be used)")
    as_json = shell(*search, "--json").json
    assert as_json["broken"] == [{"name": "theirs", "entry": "their_file:KIND", "reason": why}]
    assert "theirs" not in as_json["kinds"] and len(as_json["kinds"]) == len(kinds())
    others = shell(*search, "--kinds", "mla", "--json").json
    assert others["broken"] == []


@pytest.mark.parametrize(("text", "why"), UNBUILT)
@pytest.mark.parametrize("command", [(*SEARCH, "--kinds", "mla,theirs"), ("kinds", "theirs")])
def test_who_asks_for_a_kind_that_does_not_build_is_told_why(
    register: Callable[[str], None], shell: Shell, command: tuple, text: str, why: str
) -> None:
    register(text)
    said = shell(*command)
    assert (said.status, said.out, told(said)) == (2, "", [f"kvwitness: {why}"])


def test_the_name_of_a_published_model_that_is_taken_is_refused(
    register: Callable[[str], None], shell: Shell, tmp_path: Path
) -> None:
    """Nobody is to judge another model than the one that was asked for."""
    text = PUBLISHED.replace("8 // bits", "2").replace("theirs-1b", "llama-3-70b")
    register(text)
    why = "published model = 'llama-3-70b' is not possible: a model of kind gqa of the project has this name"
    said = shell("kinds")
    assert told(said) == [line_of(why)]
    assert find_model("llama-3-70b")[0].name == "gqa"
    (tmp_path / "their_file.py").write_text(text)
    said = shell("conform", tmp_path / "their_file.py")
    assert (said.status, told(said)[-1]) == (2, f"kvwitness: {tmp_path / 'their_file.py'}: {why}")


@pytest.mark.parametrize(("text", "why"), UNBUILT)
def test_conform_still_looks_into_it(
    register: Callable[[str], None], shell: Shell, tmp_path: Path, text: str, why: str
) -> None:
    register(text)
    said = shell("conform", "theirs", "--examples", 20, "--out", tmp_path)
    assert (said.status, said.err) == (1, "")
    assert "FAIL" in said.out and "fail: theirs breaks " in said.out and "a registration" not in said.out


def test_a_model_of_a_kind_that_does_not_build_is_told_with_its_reason(register: Callable[[str], None]) -> None:
    register(PUBLISHED)
    with pytest.raises(registry.InvalidCase, match=r"^kind theirs: model theirs-1b: buffer key, axis D\.size = 0"):
        find_model("theirs-1b")


def test_kinds_of_the_project_would_build_as_others_have_to() -> None:
    for kind in kinds():
        registry._build_some(kind)
    assert registered_kinds() == kinds() and broken_entries() == ()


def test_a_kind_of_the_project_that_does_not_build_is_no_warning(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    broken = registry.Kind("mla", "broken", 0, (1,), lambda numbers, around: 1 // 0, ((0,),))
    monkeypatch.setattr("kvwitness.cli.kinds.kinds", lambda: (broken, find_kind("gqa")))
    said = shell("kinds")
    assert said.status == 2 and "kind mla: numbers = (0,)" in said.err and "entry point" not in said.err
