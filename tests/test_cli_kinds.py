"""``kvwitness kinds``: the list, the table of stresses, one kind in detail, and a file for a kind of one's own."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import strategies.kinds as registry
from kvwitness.kinds import describe_native, native_of, show_published, show_small, splits_of
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from oracle.model.case import Native
from oracle.model.notation import format_buffer, parse_buffer
from strategies.cases import decode
from strategies.deployments import deployment
from strategies.kinds import find_kind, kinds
from strategies.kinds.gqa import declare
from strategies.kinds.protocol import Kind
from strategies.numbers import WIDTH
from strategies.stresses import STRESSES
from strategies.stresses.reach import CASES, reach_of
from tests.face import ROOT, Said, Shell

NAMES = [kind.name for kind in kinds()]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


# ---- all kinds


def tables_of(said: Said) -> dict[str, dict[str, str]]:
    """By kind and stress, what stands in the tables: their names are read downwards."""
    found: dict[str, dict[str, str]] = {}
    lines = said.out.splitlines()
    for rule in [number for number, line in enumerate(lines) if line and set(line) == {"─"}]:
        heads = []
        for line in reversed(lines[:rule]):
            if not line.strip():
                break
            heads.insert(0, line)
        ends = [at for at, letter in enumerate(heads[-1]) if letter != " "]
        names = ["".join(line.ljust(at + 1)[at] for line in heads).strip() for at in ends]
        for line in lines[rule + 1 :]:
            if not line.strip():
                break
            stress = line[:34].strip()
            for name, at in zip(names, ends, strict=True):
                found.setdefault(name, {})[stress] = line.ljust(at + 1)[at - 2 : at + 1].strip()
    return found


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_table_says_of_each_kind_how_often_it_reaches_each_stress(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = shell("kinds")
    assert said.status == 0, said.err
    assert max(map(len, said.out.splitlines())) <= columns
    assert not [line for line in said.out.splitlines() if line != line.rstrip()]
    found = tables_of(said)
    assert list(found) == NAMES
    for kind in kinds():
        for name, reach in reach_of(kind).items():
            expected = "" if reach.is_blank else "!!!" if reach.is_missed else str(reach.cases)
            expected = "pub" if reach.is_of_published else expected
            assert found[kind.name][name] == expected, (kind.name, name)


@pytest.mark.parametrize("columns", [80, 120])
def test_each_kind_is_told_in_words(shell: Shell, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    told = " ".join(shell("kinds").out.split())
    for kind in kinds():
        assert f"{kind.name} {kind.description} {' '.join(splits_of(kind))}; " in told
        assert ", ".join(model.name for model in kind.published).rpartition(", ")[0] in told
    assert "gqa multi-head and grouped-query attention" in told
    assert "tp pp cp dp; legacy rule; llama-3-70b, qwen3-32b, qwen3-235b-a22b and minimax-m2" in told


def test_what_no_case_reaches_is_told_loudly(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = narrow_kind()
    monkeypatch.setattr("kvwitness.cli.kinds.kinds", lambda: (find_kind("mla"), theirs))
    said = shell("kinds")
    assert said.status == 0
    assert "\n!!! narrow never reaches: duplicated heads\n" in said.out
    assert "!!! mla" not in said.out
    assert tables_of(said)["narrow"]["duplicated heads"] == "!!!"


def narrow_kind() -> Kind:
    """Nine heads, more than a side has ranks: heads could repeat, and never do."""
    return Kind(
        name="narrow",
        description="nine heads",
        order=90,
        bounds=(),
        decode=lambda numbers, around: declare(around.layers, 9, 1, 8),
        scope=((),),
    )


def test_json_says_the_same(shell: Shell) -> None:
    said = shell("kinds", "--json")
    assert said.status == 0
    assert said.out.count("\n") == 1
    assert said.json["cases"] == CASES
    assert said.json["stresses"] == {stress.name: stress.sentence for stress in STRESSES}
    assert list(said.json["kinds"]) == NAMES
    for kind in kinds():
        plain = said.json["kinds"][kind.name]
        assert plain["description"] == kind.description
        assert plain["stresses"] == {
            name: {"declared": reach.declared, "cases": reach.cases} for name, reach in reach_of(kind).items()
        }
    gqa = said.json["kinds"]["gqa"]
    assert gqa["legacy"] == [{"mappers": {"all": "indexed"}, "ignored": []}]
    assert gqa["splits"] == ["tp", "pp", "cp", "dp"]
    assert gqa["published"]["llama-3-70b"] == "Llama-3 70B"
    assert (gqa["layers"], gqa["tokens_per_block"]) == ([1, 6], [1, 2, 3, 4, 8])


def test_a_process_of_its_own_counts_the_same(shell: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvwitness", "kinds", "mla", "--json"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == shell("kinds", "mla", "--json").out


# ---- one kind


def test_one_kind_is_shown_with_a_small_model_and_a_published_one(shell: Shell) -> None:
    said = shell("kinds", "gqa", "--tp", 4)
    assert said.status == 0, said.err
    assert "legacy      all indexed\n" in said.out
    assert "published   llama-3-70b, qwen3-32b, qwen3-235b-a22b, minimax-m2\n" in said.out
    assert "Llama-3 70B, 80 layers, 32 tokens a block\n  kv: blocks of all tokens\n" in said.out
    assert "    key @ 0..79 : H(8).heads T D(128) ; 16\n" in said.out
    # Two of eight heads, 32 tokens of 128 elements of two bytes.
    slot = 80 * 2 * 2 * 32 * 128 * 2
    pool = f"pool 0, pool group 0, {slot:,} B a slot: kv: key and value ×80 of 16,384 B"
    assert f"  pools of rank 0, tp 4:\n    {pool}\n" in said.out
    assert f"stresses, in how many of {CASES} cases\n" in said.out
    assert f"{reach_of(find_kind('gqa'))['duplicated heads'].cases:>5}  duplicated heads " in said.out


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_of_a_kind_can_be_read_back(name: str) -> None:
    kind = find_kind(name)
    for shown in (show_small(kind), show_small(kind, 2), *map(show_published, kind.published)):
        texts = [text for _, _, texts in shown.groups for text in texts]
        assert [format_buffer(parse_buffer(text)) for text in texts] == texts
        assert shown.pools
        assert [pool.number for pool in shown.pools] == list(range(len(shown.pools)))


@pytest.mark.parametrize("name", NAMES)
def test_one_kind_fits_80_columns(shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    wide = shell("kinds", name).out
    monkeypatch.setenv("COLUMNS", "80")
    said = shell("kinds", name)
    assert said.status == 0, said.err
    assert not [line for line in said.out.splitlines() if len(line) > 80 or line != line.rstrip()]
    assert re.sub(r"\s", "", said.out) == re.sub(r"\s", "", wide)


def test_a_buffer_of_many_layers_goes_on_below_itself(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    layers = "0..2,4..6,8..10,12..14,16..18,20..22,24..26,28..30,32..34,", "36..38,40..42,44..46"
    shown = f"    ssm_state @ {layers[0]}\n      {layers[1]} : H(48).even@TPCP P(128) N(128) ; 32\n"
    assert shown in shell("kinds", "qwen4_exp").out
    monkeypatch.setenv("COLUMNS", "160")
    assert shown.replace("\n      ", "") in shell("kinds", "qwen4_exp").out


def test_json_of_one_kind_has_all_published_models(shell: Shell) -> None:
    plain = shell("kinds", "gqa", "--json").json
    assert plain["name"] == "gqa"
    assert [model["title"].split(",")[0] for model in plain["models"][1:]] == [
        model.title for model in find_kind("gqa").published
    ]
    (pool,) = plain["models"][1]["pools"]
    assert pool["slot_bytes"] == 80 * 2 * 8 * 32 * 128 * 2
    assert plain["models"][1]["groups"][0]["buffers"][0] == "key @ 0..79 : H(8).heads T D(128) ; 16"


def test_what_the_legacy_sender_declares_is_told() -> None:
    assert describe_native(None) == "no legacy rule"
    assert describe_native(Native(())) == "all indexed"
    native = Native((("all", "indexed"), ("index_key", "replicated")), ("index_value",))
    assert describe_native(native) == "all indexed, index_key replicated; not registered: index_value"
    assert native_of(find_kind("gqa")) == (Native((("all", "indexed"),)),)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("gpa",), "kind = 'gpa' is not possible: did you mean gqa? The kinds are gqa, mla, "),
        (("gqa", "--tp", 0), "--tp = 0 is not possible: expected a whole number of at least 1"),
        (("--tp", 2), "--tp has no meaning here: without NAME no pools are shown"),
        (("gqa", "--new", "x.py"), "the kind gqa has no meaning here: --new writes a file"),
        (("--new", "x.py", "--json"), "--json has no meaning here: --new writes a file"),
    ],
)
def test_what_cannot_be_is_said(shell: Shell, arguments: tuple, reason: str) -> None:
    said = shell("kinds", *arguments)
    assert said.status == 2
    assert reason in said.err
    assert not Path("x.py").exists()


# ---- a kind of one's own


def load(path: Path) -> Kind:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.KIND


@pytest.fixture
def ours(shell: Shell, tmp_path: Path) -> Kind:
    assert shell("kinds", "--new", tmp_path / "side_keys.py").status == 0
    return load(tmp_path / "side_keys.py")


def test_a_new_file_is_a_kind_that_is_judged_right(ours: Kind) -> None:
    assert (ours.name, ours.layers) == ("side_keys", (1, 6))
    trial, random = Trial(Judged()), Random(3)
    for _ in range(150):
        assert trial(decode(random.randbytes(WIDTH), kinds=(ours,)), carry=False).failure is None


def test_a_fault_shows_in_the_kind_of_a_new_file(ours: Kind) -> None:
    trial, random = Trial(Judged(("mapping",), fault="elect-first")), Random(3)
    cases = (decode(random.randbytes(WIDTH), kinds=(ours,)) for _ in range(150))
    assert any(trial(case, carry=False).failure is not None for case in cases)


def test_a_new_file_reaches_all_that_it_declares(ours: Kind) -> None:
    reached = reach_of(ours)
    assert not [name for name, reach in reached.items() if reach.is_missed]
    for name in ("replicated beside sharded", "coalesced on one side only", "a stage without a role"):
        assert reached[name].declared and reached[name].cases


def test_a_new_file_is_in_the_style_of_the_project(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "side_keys.py"
    shell("kinds", "--new", path)
    for command in (("check",), ("format", "--check")):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", ROOT / "pyproject.toml", path],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_said_how_to_register_a_new_kind(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "side_keys.py"
    said = shell("kinds", "--new", path).out
    assert said.startswith(f"wrote {path}: the kind side_keys, which runs as it stands\n")
    assert f"  kvwitness conform {path}\n" in said
    group, entry = re.search(r'\[project\.entry-points\."(.*)"\]\n +(.*)\n', said).groups()  # type: ignore[union-attr]
    assert group == registry.GROUP
    assert entry == 'side_keys = "my_kinds.side_keys:KIND"'
    # An entry point that says so adds the kind to all commands.
    (tmp_path / "my_kinds").mkdir()
    path.rename(tmp_path / "my_kinds" / "side_keys.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    module, attribute = entry.split('"')[1].split(":")

    class Entry:
        name = "side_keys"
        value = f"{module}:{attribute}"

        def load(self) -> object:
            return getattr(importlib.import_module(module), attribute)

    monkeypatch.setattr(registry, "entry_points", lambda group: [Entry()] if group == registry.GROUP else [])
    registry.registry.cache_clear()
    try:
        assert find_kind("side_keys").name == "side_keys"
        assert shell("kinds", "side_keys").out.startswith("side_keys: keys and values split by heads")
        judged = shell(
            *("verify", "--kinds", "side_keys", "--subjects", "mapping", "--scope", "none", "--examples", 30),
            *("--jobs", 1, "--out", tmp_path),
        )
        assert judged.status == 0, judged.out
    finally:
        monkeypatch.undo()
        registry.registry.cache_clear()


def test_a_file_among_the_kinds_of_the_project_needs_no_registering(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "__file__", str(tmp_path / "__init__.py"))
    said = shell("kinds", "--new", tmp_path / "side_keys.py").out
    assert "It lies among the kinds of the project, so all commands know it: kvwitness kinds side_keys\n" in said
    assert "entry-points" not in said
    assert "there is a kind or a module of this name" in shell("kinds", "--new", tmp_path / "protocol.py").err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gqa.py", "there is a kind or a module of this name; choose another"),
        ("protocol.py", "there is a kind or a module of this name; choose another"),
        ("numpy.py", "there is a kind or a module of this name; choose another"),
        ("random.py", "there is a kind or a module of this name; choose another"),
        ("strategies.py", "there is a kind or a module of this name; choose another"),
        ("__main__.py", "there is a kind or a module of this name; choose another"),
        ("Mine.py", "'Mine' is to be the name of the kind; expected lower case letters, digits and _, as of a module"),
        ("my-kind.py", "'my-kind' is to be the name of the kind; "),
        ("2kinds.py", "'2kinds' is to be the name of the kind; "),
        ("class.py", "'class' is to be the name of the kind; "),
        ("mine.txt", "expected a file that ends in .py"),
        ("gone/mine.py", "cannot be written: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_a_new_kind_is_refused(shell: Shell, tmp_path: Path, name: str, reason: str) -> None:
    said = shell("kinds", "--new", tmp_path / name)
    assert said.status == 2
    assert reason in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_may_lie_in_a_directory_of_its_name(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("side_keys").mkdir()
    assert shell("kinds", "--new", "side_keys/side_keys.py").status == 0
    Path("side_keys/__init__.py").touch()
    importlib.invalidate_caches()
    assert "there is a kind or a module of this name" in shell("kinds", "--new", "side_keys.py").err


def test_an_existing_file_is_left_as_it_is(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("mine")
    said = shell("kinds", "--new", path)
    assert (said.status, path.read_text()) == (2, "mine")
    assert "the file exists, and is left as it is" in said.err


def test_a_deployment_has_the_pools_that_are_shown() -> None:
    shown = show_published(next(model for model in find_kind("gqa").published if model.name == "qwen3-32b"), 2)
    case = deployment("qwen3-32b", {"tp": 2}, {}, prompt=1)
    assert shown.title == "Qwen3-32B, 64 layers, 32 tokens a block"
    assert case.context.tokens_per_block == 32
    assert [pool.slot_bytes for pool in shown.pools] == [64 * 2 * 4 * 32 * 128 * 2]
