"""Bad input gets a clear error and exit status 2, and nothing is left half-written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from strategies.kinds import find_kind
from tests.face import Said, Shell

CASE = {
    "schema": 1,
    "kind": "gqa",
    "model": {"layers": 1, "groups": [{"name": "kv", "buffers": ["key @ 0 : H(2).heads T D(1) ; 8"]}]},
    "context": {"tp": 1, "stages": [1], "tokens_per_block": 2},
    "generation": {"tp": 2, "stages": [1], "tokens_per_block": 2},
    "requests": [{"content": 0, "prompt": 3}],
}


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def refused(said: Said, reason: str) -> None:
    """``reason`` is the whole message, in one line and without a traceback."""
    assert said.status == 2
    assert said.err == f"kvwitness: {reason}\n"
    assert said.out == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--examples", 0), "--examples = 0 is not possible: expected a whole number of at least 1"),
        (("--examples", -5), "--examples = -5 is not possible: expected a whole number of at least 1"),
        (("--time", 0), "--time = 0 is not possible: expected seconds above 0"),
        (("--jobs", 0), "--jobs = 0 is not possible: expected a whole number of at least 1"),
        (("--seed", -1), "--seed = '-1' is not possible: expected a whole number of at least 0, or random"),
        (("--kinds", "gqa,gqa"), "--kinds = 'gqa,gqa' is not possible: expected each name once"),
        (("--kinds", ","), "--kinds = ',' is not possible: expected at least one name"),
        (
            ("--kinds", "mla,swmla.py"),
            "--kinds = 'swmla.py' is not possible: a file is judged by kvwitness conform; register it to verify it "
            "(docs/new-kind.md)",
        ),
        (
            ("--grid", "upstream", "--kinds", "./swmla"),
            "--kinds = './swmla' is not possible: a file is judged by kvwitness conform; register it to verify it "
            "(docs/new-kind.md)",
        ),
        (("--context", "tp=2"), "--context has no meaning here: without --model there is no deployment"),
        (("--model", "llama-3-70b", "--kinds", "mla"), "--kinds has no meaning here: --model judges one deployment"),
        (("--model", "llama-3-70b", "--time", 3), "--time has no meaning here: --model judges one deployment"),
        (("--device", "tpu"), "device = 'tpu' is not possible: the host engine copies on the cpu"),
        (
            ("--subjects", "gone:plan"),
            "subject = 'gone:plan' is not possible: expected an importable package.module:plan, "
            "but No module named 'gone'",
        ),
        (
            ("--subjects", "oracle.model.case:SIDES"),
            "subject = 'oracle.model.case:SIDES' is not possible: expected a "
            "function or an object with a method plan, not tuple",
        ),
    ],
)
def test_an_option_that_cannot_be_is_named(shell: Shell, tmp_path: Path, arguments: tuple, reason: str) -> None:
    refused(shell("verify", "--out", tmp_path, *arguments), reason)


@pytest.mark.parametrize(
    ("option", "beginning"),
    [
        ("--kinds", "kind = 'nope' is not possible: expected one of gqa, mla"),
        (
            "--subjects",
            "subject = 'nope' is not possible: expected one of mapping, mapping:anchors, mapping:suffix, native",
        ),
        ("--engine", "engine = 'nope' is not possible: the engines are host"),
        ("--fault", "fault = 'nope' is not possible: the faults are block-sizes-unchecked, "),
        ("--model", "model = 'nope' is not possible: the published models are "),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    shell: Shell, tmp_path: Path, option: str, beginning: str
) -> None:
    said = shell("verify", "--out", tmp_path, option, "nope")
    assert said.status == 2
    assert said.err.startswith(f"kvwitness: {beginning}"), said.err
    assert said.err.count("\n") == 1


def test_an_unwritable_out_is_refused_before_anything_runs(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "witnesses"
    refused(
        shell("verify", "--fault", "drop-last-run", "--out", out),
        f"--out {str(out)!r} cannot be written: Not a directory",
    )
    refused(
        shell("verify", "--model", "llama-3-70b", "--prompt", 1, "--out", out),
        f"--out {str(out)!r} cannot be written: Not a directory",
    )


def test_usage_errors_exit_2(shell: Shell) -> None:
    assert shell("verify", "--nope").status == 2
    assert shell("replay").status == 2
    assert shell("nope").status == 2
    assert shell("verify", "--scope", "huge").status == 2
    assert shell("verify", "--examples", "many").status == 2


def test_with_json_the_reason_is_on_stdout_too(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", "--examples", 0, "--json", "--out", tmp_path)
    assert said.status == 2
    reason = "--examples = 0 is not possible: expected a whole number of at least 1"
    assert said.json == {"verdict": "not run", "reason": reason}


# ---- files


def damaged(change: Callable[[dict], None]) -> str:
    plain = json.loads(json.dumps(CASE))
    change(plain)
    return json.dumps(plain)


LEAST_1 = "is not possible: expected a whole number of at least 1"
TWICE = "key @ 0 : T D(1) ; 8"
UNEVEN = "key @ 0 : H(3).even T D(1) ; 8"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "case file = '' is not possible: the text ends at line 1, column 1: it was cut short"),
        (json.dumps(CASE)[:-30], None),
        ("[]", None),
        (
            damaged(lambda case: case.update(schema=99)),
            "schema = 99 is not possible: this version knows schemas up to 1; a later one wrote the file",
        ),
        (
            damaged(lambda case: case.update(contex={})),
            "contex = {} is not possible: unknown field; did you mean context?",
        ),
        (damaged(lambda case: case["requests"][0].update(prompt=-3)), f"requests[0]: request.prompt = -3 {LEAST_1}"),
        (damaged(lambda case: case["context"].update(tp=0)), f"context.tp = 0 {LEAST_1}"),
        (
            damaged(lambda case: case["model"]["groups"][0]["buffers"].append(TWICE)),
            "model.groups[0]: group kv.buffers = (0, 'key') is not possible: two buffers have one key",
        ),
        (
            damaged(lambda case: case["model"]["groups"][0].update(buffers=[UNEVEN])),
            "buffer key, axis H = 3 is not possible: an even split over 2 ranks needs a multiple of 2",
        ),
        (
            damaged(lambda case: case.update(slots={"counts": {"kv": 5}}, tables={"context": {"0": {"kv": [[0, 5]]}}})),
            "tables.context.0.kv[0] = 5 is not possible: the pool has slots 0..4",
        ),
        (damaged(lambda case: case.update(witness={"colour": "red"})), None),
        (
            damaged(lambda case: case.update(witness={"property": "stray"})),
            "witness.property = 'stray' is not possible: expected a list of texts",
        ),
    ],
)
@pytest.mark.parametrize("command", ["replay", "show"])
def test_a_file_that_is_no_case_is_named_with_the_field(
    shell: Shell, tmp_path: Path, command: str, text: str, reason: str | None
) -> None:
    path = tmp_path / "case.json"
    path.write_text(text)
    said = shell(command, path)
    assert said.status == 2
    assert said.out == ""
    assert said.err.startswith(f"kvwitness: {path}: ")
    assert "Traceback" not in said.err
    if reason is not None:
        refused(said, f"{path}: {reason}")


def test_a_file_that_is_not_there_is_named(shell: Shell, tmp_path: Path) -> None:
    refused(
        shell("replay", tmp_path / "no.json"), f"cannot read {str(tmp_path / 'no.json')!r}: No such file or directory"
    )


def test_a_file_that_is_no_text_is_refused(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(b"\xff\xfe\x00")
    refused(shell("show", path), f"{path}: case file = {str(path)!r} is not possible: expected a text in UTF-8")


@pytest.mark.parametrize(
    ("name", "near"),
    [("mlaa", "mla"), ("Kda-replicated", "kda_replicated"), ("minimaxm3", "minimax_m3")],
)
@pytest.mark.parametrize("command", [("verify", "--kinds"), ("kinds",), ("conform",)])
def test_a_kind_that_is_nearly_written_so_is_proposed(
    shell: Shell, command: tuple[str, ...], name: str, near: str
) -> None:
    said = shell(*command, name)
    assert said.status == 2 and said.out == ""
    assert re.match(f"kvwitness: kind = '{name}' is not possible: did you mean {near}[ ?]", said.err), said.err
    assert "? The kinds are gqa, mla, " in said.err


def test_a_kind_in_place_of_a_model_is_answered_with_its_models_and_the_reverse(shell: Shell, tmp_path: Path) -> None:
    models = ", ".join(model.name for model in find_kind("mla").published)
    refused(
        shell("verify", "--model", "mla", "--out", tmp_path),
        f"model = 'mla' is not possible: that is a kind; its published models are {models}",
    )
    refused(
        shell("verify", "--model", "vllm_fused", "--out", tmp_path),
        "model = 'vllm_fused' is not possible: that is a kind without a published model",
    )
    said = shell("verify", "--kinds", "llama-3-70b", "--out", tmp_path)
    assert said.status == 2
    assert "kind = 'llama-3-70b' is not possible: that is a model; did you mean gqa? The kinds are gqa, " in said.err
