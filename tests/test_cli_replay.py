"""``kvwitness replay`` and ``show``: a witness replays alike anywhere, and its answer is an exit status."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvwitness.replay import Answer, replay
from kvwitness.witness import load
from tests.face import ROOT, Said, Shell, in_a_process


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A witness of the planted fault elect-first."""
    out = tmp_path_factory.mktemp("planted")
    arguments = ("verify", "--scope", "none", "--jobs", 1, "--fault", "elect-first", "--seed", 2, "--out", out)
    said = in_a_process(*arguments, cwd=out)
    assert said.status == 1, said.err
    (path,) = out.glob("*.json")
    return path


def changed(path: Path, to: Path, **fields: object) -> Path:
    """A copy of a witness with other fields in its ``witness`` object; None leaves a field out."""
    plain = json.loads(path.read_text())
    plain["witness"].update(fields)
    plain["witness"] = {name: value for name, value in plain["witness"].items() if value is not None}
    to.write_text(json.dumps(plain))
    return to


def test_a_witness_that_still_fails_exits_1_with_the_argument(shell: Shell, planted: Path) -> None:
    said = shell("replay", planted)
    assert said.status == 1
    assert said.out.startswith(f"{planted}: still fails: mapping: not elected, with the planted fault elect-first\n")
    for line in json.loads(planted.read_text())["witness"]["argument"]:
        assert line in said.out


def test_a_witness_replays_identically_from_another_directory_and_process(planted: Path, tmp_path: Path) -> None:
    moved = shutil.copy(planted, tmp_path / "moved.json")
    there = in_a_process("replay", "moved.json", cwd=tmp_path)
    here = in_a_process("replay", moved, cwd=ROOT)
    assert there.status == here.status == 1
    assert there.out.replace("moved.json", "") == here.out.replace(str(moved), "")


def test_a_witness_of_a_fault_that_is_not_planted_is_fixed(shell: Shell, planted: Path) -> None:
    said = shell("replay", planted, "--fault", "none")
    assert said.status == 0
    assert f"{planted}: fixed: it passes\n" in said.out
    assert shell("replay", planted, "--fault", "none", "--json").json["fault"] == ""


def test_a_planted_fault_is_said_whatever_becomes_of_it(shell: Shell, planted: Path, tmp_path: Path) -> None:
    said = shell("replay", planted, "--fault", "drop-last-run", "--subjects", "mapping")
    assert (said.status, said.out.splitlines()[0]) == (
        1,
        f"{planted}: still fails: mapping: missing (it was found as not elected), with the planted fault drop-last-run",
    )
    hidden = shell("replay", planted, "--fault", "heads-modulo")
    assert (hidden.status, hidden.out.splitlines()[0]) == (
        0,
        f"{planted}: fixed: it passes, with the planted fault heads-modulo",
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"subject": "gone"}, "subject = 'gone' is not possible"),
        ({"fault": "gone"}, "fault = 'gone' is not possible"),
        ({"engine": "gone"}, "engine = 'gone' is not possible"),
    ],
)
def test_what_does_not_exist_here_cannot_tell(
    shell: Shell, planted: Path, tmp_path: Path, fields: dict, reason: str
) -> None:
    said = shell("replay", changed(planted, tmp_path / "w.json", **fields))
    assert said.status == 2
    assert reason in said.err
    assert shell("replay", tmp_path / "w.json", "--bisect").status == 125


def test_pins_that_no_longer_match_are_said_aloud(shell: Shell, planted: Path, tmp_path: Path) -> None:
    pins = json.loads(planted.read_text())["witness"]["pins"]
    pins["context"][0] = "pool 0: 2 slots of 1 B"
    said = shell("replay", changed(planted, tmp_path / "w.json", pins=pins))
    assert said.status == 1
    assert said.out.startswith(
        "derived otherwise than when it was written: context rank 0 had pool 0: 2 slots of 1 B; "
    )


def test_json_says_the_same(shell: Shell, planted: Path) -> None:
    said = shell("replay", planted, "--json")
    assert said.status == 1
    assert said.json["verdict"] == "fail"
    assert said.json["violations"] == ["not elected"]
    assert said.json["subject"] == "mapping"
    assert said.json["fault"] == "elect-first"
    assert said.json["derived_otherwise"] == []


@pytest.fixture
def three(planted: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    """Files that still fail, cannot tell and pass."""
    missing = changed(planted, tmp_path / "missing.json", subject="gone")
    plain = json.loads(planted.read_text())
    del plain["witness"]
    (tmp_path / "case.json").write_text(json.dumps(plain))
    return planted, missing, tmp_path / "case.json"


def test_of_several_files_all_are_judged(shell: Shell, three: tuple[Path, Path, Path]) -> None:
    fails, missing, passes = three
    said = shell("replay", *three)
    assert said.status == 1
    assert f"{fails}: still fails: mapping: not elected, with the planted fault elect-first\n" in said.out
    assert f"kvwitness: {missing}: subject = 'gone' is not possible" in said.err
    assert f"{passes}: " in said.out
    assert said.out.endswith("3 files: 1 still failing, 1 unclear, 1 passing\n")


def test_the_status_of_several_files_is_that_of_the_worst(shell: Shell, three: tuple[Path, Path, Path]) -> None:
    fails, missing, passes = three
    assert shell("replay", passes, fails).status == 1
    assert shell("replay", passes, missing).status == 2
    assert shell("replay", passes, passes).status == 0
    assert shell("replay", passes, missing, "--bisect").status == 125
    assert shell("replay").status == 2


def test_a_file_that_cannot_be_read_is_named_once(shell: Shell, planted: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for files in ((broken,), (planted, broken)):
        said = shell("replay", *files)
        assert said.err.count(str(broken)) == 1
        found = json.loads(shell("replay", *files, "--json").out.splitlines()[-1])
        assert (found["verdict"], found["file"]) == ("not run", str(broken))


def test_a_wrong_option_is_told_once_whatever_the_files(shell: Shell, planted: Path) -> None:
    said = shell("replay", planted, planted, "--subjects", "gone")
    assert said.status == 2
    assert said.err.count("'gone'") == 1 and not said.out


def test_several_files_are_a_json_object_each(shell: Shell, three: tuple[Path, Path, Path]) -> None:
    lines = shell("replay", *three, "--json").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["verdict"] for each in found] == ["fail", "not run", "pass"]
    assert [each["file"] for each in found] == [str(path) for path in three]


def test_a_plain_case_file_is_judged_too(shell: Shell, planted: Path, tmp_path: Path) -> None:
    plain = json.loads(planted.read_text())
    del plain["witness"]
    (tmp_path / "case.json").write_text(json.dumps(plain))
    said = shell("replay", tmp_path / "case.json")
    assert said.status == 0
    assert "passes" in said.out
    assert shell("replay", tmp_path / "case.json", "--fault", "elect-first").status == 1


def test_a_refused_case_prints_code_and_reason_and_exits_2(shell: Shell, planted: Path, tmp_path: Path) -> None:
    plain = json.loads(planted.read_text())
    del plain["witness"]
    plain["context"].update(tp=2, attention_dp=False)
    plain["generation"].update(tp=3, attention_dp=False)
    plain["requests"] = [{"content": 0, "prompt": 1}]
    (tmp_path / "case.json").write_text(json.dumps(plain))
    said = shell("replay", tmp_path / "case.json")
    assert said.status == 2
    assert "mapping refuses the instances: fan_undefined: along tp: 2 source ranks and 3 destination ranks" in said.out


def test_a_refusal_that_is_the_only_right_answer_is_a_fix(tmp_path: Path) -> None:
    """Three heads on four ranks, received on two: head 1 is due where no paired rank holds it."""
    path = tmp_path / "w.json"
    path.write_text(
        json.dumps(
            {
                "schema": 1,
                "model": {"layers": 1, "groups": [{"name": "kv", "buffers": ["key @ 0 : H(3).heads T D(1) ; 8"]}]},
                "context": {"tp": 4, "stages": [1], "tokens_per_block": 1},
                "generation": {"tp": 2, "stages": [1], "tokens_per_block": 1},
                "requests": [{"content": 0, "prompt": 1}],
                "witness": {"subject": "mapping", "property": ["missing"]},
            }
        )
    )
    found = replay(load(path))
    assert found.answer is Answer.FIXED
    assert "rightly refused" in found.lines[0]


def test_a_failing_base_is_told_apart_from_the_planted_fault(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lost.py").write_text(
        "from oracle.model.writes import Writes\nclass Lost:\n    name = 'lost'\n    election = 'paired'\n"
        "    def plan(self, case, facts):\n        return Writes()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = replay(load(planted), subjects=("lost:Lost",))
    assert found.answer is Answer.FAILS
    assert found.sentence.startswith("fails without the planted fault 'elect-first', which proves nothing here: lost: ")


def test_git_bisect_finds_the_commit_that_broke_it(planted: Path, tmp_path: Path) -> None:
    """Five commits of a sender that elects as it should, until the third one."""
    case = changed(planted, tmp_path / "case.json", subject="sender:Sender", fault=None)
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True)
        return done.stdout

    git("init", "-q")
    git("config", "user.name", "nobody")
    git("config", "user.email", "nobody@example.org")
    for number in range(5):
        broken = "find_fault('elect-first').wrap(Mapping())" if number >= 2 else "Mapping()"
        (repository / "sender.py").write_text(
            f"from differential.faults import find_fault\nfrom differential.subjects.mapping import Mapping\n"
            f"class Sender:\n    name = 'sender'\n    election = 'paired'\n    number = {number}\n"
            f"    def plan(self, case, facts):\n        return {broken}.plan(case, facts)\n"
        )
        git("add", "sender.py")
        git("commit", "-q", "-m", f"commit {number}")
    git("bisect", "start", "HEAD", "HEAD~4")
    script = repository / "replay.sh"
    script.write_text(
        f"PYTHONPATH={ROOT} PYTHONDONTWRITEBYTECODE=1 {sys.executable} -m kvwitness replay {case} --bisect\n"
    )
    assert "is the first bad commit\ncommit" in (found := git("bisect", "run", "sh", str(script))), found
    assert "\n    commit 2\n" in found


# ---- show


def told(shell: Shell, path: Path) -> Said:
    said = shell("show", path)
    assert said.status == 0, said.err
    return said


def test_show_tells_who_holds_what_and_why_it_fails(shell: Shell, planted: Path) -> None:
    said = told(shell, planted)
    for text in (
        "a witness written by kvwitness",
        "seed 2",
        "context     2 ranks: tp 2",
        "attention DP",
        "request 0   1 token; 1 block to receive into; content 0",
        "context ranks hold",
        "generation ranks hold",
        "context rank 0 in memory",
        "found       mapping with the planted fault elect-first: not elected in the plan",
        "now         still fails: mapping: not elected",
        "elected 1 = [0, 1][key 1 mod 2]",
    ):
        assert text in said.out, text


def test_show_keeps_the_recorded_argument_where_it_cannot_judge(shell: Shell, planted: Path, tmp_path: Path) -> None:
    said = told(shell, changed(planted, tmp_path / "w.json", subject="gone", argument=["it was like this"]))
    assert "now         cannot tell: subject = 'gone'" in said.out
    assert "it was like this" in said.out


def test_show_tells_shares_requests_and_layouts(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(
        json.dumps(
            {
                "schema": 1,
                "model": {
                    "layers": 3,
                    "groups": [{"name": "kv", "window": 5, "buffers": ["key @ 0..2 : H(4).heads T D(2) ; 16"]}],
                },
                "context": {"tp": 2, "stages": [2, 1], "tokens_per_block": 4, "layout": "NHD"},
                "generation": {"tp": 4, "stages": [3], "cp": 2, "tokens_per_block": 4, "layout": "HND"},
                "requests": [{"content": 1, "prompt": 9, "generation": {"cached": 4}}],
                "contents": [{}, {"parent": 0, "length": 4}],
                "slots": {"mul": 2},
            }
        )
    )
    said = told(shell, path)
    for text in (
        "kv: blocks of the last 5 tokens",
        "context     4 ranks: tp 2, pp 2 (2 + 1 layers); 4 tokens a block; NHD",
        "generation  8 ranks: tp 4, cp 2; 4 tokens a block; HND",
        "9 tokens; 2 blocks to receive into; content 1, whose first 4 tokens are content 0's",
        "  generation: cached 4 (lists 2 blocks)",
        "content block k lies in slot (2 * (k + 1) + 0 + 11 * rank) mod the slots of the pool",
        "3 (pp 1, tp 1)  key: layer 2, heads 2..3 of 4".replace("..", "-"),
        "1 (tp 0, cp 1)  key: layers 0..2, head 0 of 4; blocks 1, 3, 5, ...",
    ):
        assert text in said.out, text


def test_what_tables_do_not_carry_is_said(shell: Shell, tmp_path: Path) -> None:
    """Two beams whose last block is their own: its second beam comes by lists that end in tails alone."""
    side = {"tp": 1, "stages": [1], "tokens_per_block": 2, "manager": "v1"}
    tails = {"tails": 1}
    case = {
        "schema": 1,
        "model": {"layers": 1, "groups": [{"name": "full", "buffers": ["key @ 0 : T D(1) ; 8"]}]},
        "context": side,
        "generation": side,
        "requests": [{"content": 0, "prompt": 3, "beams": 2, "context": tails, "generation": tails}],
    }
    (tmp_path / "beams.json").write_text(json.dumps(case))
    said = shell("replay", tmp_path / "beams.json", "--subjects", "mapping,mapping:anchors")
    assert said.status == 0
    by_tables, by_anchors = (
        next(line for line in said.out.splitlines() if f"{name}: " in line) for name in ("mapping", "mapping:anchors")
    )
    assert "each in its place; but for beam tails, which tables do not carry" in by_tables
    assert "beam tails" not in by_anchors
