"""``kvwitness verify --model``: one deployment instead of random cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvwitness
from differential.faults import find_fault, size_of
from kvwitness.deployment import Deployment, build, read_layout, read_model
from oracle.model.errors import InvalidCase
from oracle.model.sides import lay_out
from tests.face import Shell

LLAMA = ("verify", "--model", "llama-3-70b", "--tokens-per-block", 2, "--prompt", 3)
HEADS = "H(4).heads T D(8) ; 16"
MODEL = {"layers": 3, "groups": [{"name": "kv", "buffers": [f"key @ 0..2 : {HEADS}"]}]}
BYTES_A_TOKEN = 80 * 2 * 8 * 128 * 2
"""80 layers, key and value, 8 heads of 128 elements of 2 bytes."""


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


def test_a_deployment_is_judged_and_its_bytes_are_counted(shell: Shell, tmp_path: Path) -> None:
    said = shell(*LLAMA, "--context", "tp=4", "--generation", "tp=8", "--out", tmp_path)
    assert said.status == 0, said.err
    assert "context     4 ranks: tp 4; 2 tokens a block; HND" in said.out
    assert "generation  8 ranks: tp 8; 2 tokens a block; HND" in said.out
    # two whole blocks, the row past the prompt included
    assert f"8 rank pairs, 2,560 runs, 1.2 MiB ({4 * BYTES_A_TOKEN:,} bytes) judged" in said.out
    assert "engine      carried the plan out, and what landed was judged again" in said.out
    assert "pass: every byte is in its place" in said.out


def test_the_name_of_a_long_subject_is_set_off_from_what_is_said_of_it(shell: Shell, tmp_path: Path) -> None:
    said = shell(*LLAMA, "--subjects", "mapping,native:suffix", "--out", tmp_path)
    assert said.status == 0, said.err
    assert "\nmapping     1 rank pair, " in said.out and "\nnative:suffix 1 rank pair, " in said.out


def test_json_has_the_shape_of_a_search(shell: Shell, tmp_path: Path) -> None:
    said = shell(*LLAMA, "--context", "tp=2,pp=2", "--generation", "tp=2", "--json", "--out", tmp_path)
    assert said.status == 0
    found = said.json
    assert found["verdict"] == "pass"
    assert found["cases"] == 1
    assert found["kinds"]["gqa"]["bytes"] == 4 * BYTES_A_TOKEN
    assert found["kinds"]["gqa"]["violations"] == 0
    assert found["witnesses"] == []
    assert found["deployment"]["context"] == "tp=2,pp=2"


def test_a_refused_deployment_prints_code_and_reason_and_exits_2(shell: Shell, tmp_path: Path) -> None:
    arguments = (*LLAMA, "--context", "tp=3", "--generation", "tp=8", "--out", tmp_path)
    said = shell(*arguments)
    assert said.status == 2
    reason = "along tp: 3 source ranks and 8 destination ranks: neither number divides the other"
    beside = "plans 8 rank pairs, and not every byte would be in its place"
    assert said.err == f"kvwitness: mapping refuses this transfer: fan_undefined: {reason}; native {beside}\n"
    as_json = shell(*arguments, "--json")
    assert as_json.status == 2
    assert as_json.json["verdict"] == "not run"
    assert as_json.json["refused"] == {"subject": "mapping", "code": "fan_undefined", "reason": reason}
    assert as_json.json["others"] == {"native": beside}


def test_what_cannot_be_built_has_its_deployment_in_json(shell: Shell) -> None:
    said = shell("verify", "--model", "kimi-k3", "--context", "tp=3", "--generation", "tp=5", "--json")
    assert said.status == 2
    assert said.json["verdict"] == "not run" and "refused" not in said.json
    assert said.err == f"kvwitness: {said.json['reason']}\n"
    assert (said.json["deployment"]["model"], said.json["deployment"]["generation"]) == ("kimi-k3", "tp=5")


def test_refusals_of_each_subject_are_in_json(shell: Shell, tmp_path: Path) -> None:
    arguments = ("verify", "--model", "deepseek-v4-pro", "--generation", "cp=2", "--prompt", 256, "--out", tmp_path)
    said, told = shell(*arguments, "--json"), shell(*arguments)
    assert said.status == told.status == 0
    (refusal,) = said.json["plans"]["native"]["refusals"]
    assert (refusal["request"], refusal["code"]) == (0, "helix_window")
    assert f"native refuses request 0: helix_window ({refusal['reason']})" in " ".join(told.out.split())
    assert said.json["plans"]["mapping"]["refusals"] == []
    assert "refusals" not in said.json["kinds"]["deepseek_v4"]


def test_the_rank_of_the_request_is_told_where_attention_dp_is_on(shell: Shell, tmp_path: Path) -> None:
    said = shell(*LLAMA, "--context", "tp=2", "--generation", "tp=4,dp=on@3", "--out", tmp_path)
    assert said.status == 0, said.err
    assert "context     2 ranks: tp 2; 2 tokens a block; HND\n" in said.out
    where = "the request is on attention DP rank 3"
    assert f"generation  4 ranks: tp 4, attention DP; 2 tokens a block; HND; {where}\n" in said.out


def test_a_failing_deployment_leaves_a_witness(shell: Shell, tmp_path: Path) -> None:
    arguments = ("--context", "tp=1", "--generation", "tp=1", "--fault", "drop-last-run", "--out", tmp_path)
    said = shell(*LLAMA, *arguments)
    assert said.status == 1
    assert "FAIL mapping: missing" in said.out
    paths = list(tmp_path.glob("*.json"))
    assert sum(f"replay it: kvwitness replay {path}" in said.out for path in paths) == 1
    assert [shell("replay", path).status for path in paths] == [1, 1]


@pytest.mark.parametrize(("layout", "runs_a_block"), [("hnd", 2 * 80 * 8), ("nhd", 2 * 80 * 8 * 32)])
def test_a_deployment_of_production_size_is_judged_too(
    shell: Shell, tmp_path: Path, layout: str, runs_a_block: int
) -> None:
    split = ("--context", "tp=4", "--generation", "tp=8", "--layout", layout, "--out", tmp_path)
    said = shell("verify", "--model", "llama-3-70b", "--prompt", 131072, *split, "--json")
    assert said.status == 0, said.err
    found = said.json["kinds"]["gqa"]
    assert found["bytes"] == 131072 * BYTES_A_TOKEN == 40 << 30
    assert found["runs"] == 4096 * runs_a_block


def test_a_fault_in_a_deployment_of_production_size_is_found_and_shrunk(shell: Shell, tmp_path: Path) -> None:
    split = ("--context", "tp=4,pp=3", "--generation", "tp=16", "--prompt", 4096, "--out", tmp_path)
    said = shell("verify", "--model", "llama-3-70b", *split, "--fault", "heads-modulo")
    assert said.status == 1
    assert "FAIL mapping: wrong element" in said.out
    assert "engine      not run (memory of this size is judged in closed form, from the plan alone)" in said.out
    (shown,) = (line for line in said.out.splitlines() if "  shrunk:    kvwitness show " in line)
    small = kvwitness.load_case(shown.rpartition(" ")[2])
    least = find_fault("heads-modulo").minimum
    assert all(is_now <= could_be + 1 for is_now, could_be in zip(size_of(small), least, strict=True))
    for path in tmp_path.glob("*.json"):
        assert shell("replay", path).status == 1


def test_ones_own_model_is_read_from_a_file(shell: Shell, tmp_path: Path) -> None:
    both = {"layers": 3, "groups": [{"name": "kv", "buffers": [f"{r} @ 0..2 : {HEADS}" for r in ("key", "value")]}]}
    for name, plain in (("bare", MODEL), ("whole", {"model": both, "native": {"mappers": {"all": "indexed"}}})):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(plain))
        arguments = ("--prompt", 40, "--context", "tp=2", "--generation", "tp=4", "--layout", "context=nhd")
        said = shell("verify", "--model", path, *arguments, "--out", tmp_path / "out")
        assert said.status == 0, said.err
        assert f"2 ranks: tp 2; 32 tokens a block; {'NHD'}" in said.out
        assert "4 ranks: tp 4; 32 tokens a block; HND" in said.out
        legacy = {
            "bare": "compared    with native: no (no legacy rule)",
            "whole": "known differences: head-major-and-token-major",
        }
        assert legacy[name] in said.out


def test_a_model_with_compressed_rows_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"layers": 2, "groups": [{"name": "kv", "buffers": ["key @ 0..1 : T(128) D(4) ; 8"]}]}))
    assert read_model(str(path))[0].layers == 2


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        ([], "expected an object with layers and groups"),
        ({"model": MODEL, "context": {}}, "unknown field; expected model and native"),
        ({**MODEL, "layer": 3}, "unknown field"),
        ({"layers": 0, "groups": MODEL["groups"]}, "expected a whole number of at least 1"),
    ],
)
def test_a_file_that_is_no_model_is_refused(shell: Shell, tmp_path: Path, plain: object, reason: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(plain))
    said = shell("verify", "--model", path, "--prompt", 1, "--out", tmp_path)
    assert said.status == 2
    assert reason in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--prompt", 0), "prompt = 0 is not possible: expected a whole number of at least 1"),
        (("--tokens-per-block", 0), "tokens_per_block = 0 is not possible: expected a whole number of at least 1"),
        (("--context", "tp=0"), "context.tp = 0 is not possible: expected a whole number of at least 1"),
        (("--context", "tp=many"), "context.tp = 'many' is not possible: expected a whole number of at least 1"),
        (
            ("--context", "tp"),
            "--context = 'tp' is not possible: expected name=value pairs by comma such as tp=4,pp=2,dp=on",
        ),
        (("--generation", "tp=1,tp=2"), "--generation = 'tp=1,tp=2' is not possible: tp is given twice"),
        (("--generation", "dp=maybe"), "generation.dp = 'maybe' is not possible: expected on or off"),
        (("--layout", "xyz"), "context.layout = 'XYZ' is not possible: expected HND or NHD"),
        (
            ("--layout", "sender=nhd"),
            "--layout = 'sender=nhd' is not possible: 'sender' is no side; expected context or generation",
        ),
        (
            ("--generation", "tp=8,dp=on@8"),
            "--generation dp = 'on@8' is not possible: expected a rank from 0 to 7: there are 8",
        ),
        (("--context", "dp=on@1"), "--context dp = 'on@1' is not possible: there is rank 0 alone"),
        (("--context", "pp=99"), "context.pp = 99 is not possible: expected at most one stage for each of 80 layers"),
    ],
)
def test_a_part_of_a_deployment_that_cannot_be_is_named(
    shell: Shell, tmp_path: Path, arguments: tuple, reason: str
) -> None:
    said = shell("verify", "--model", "llama-3-70b", "--prompt", 1, "--out", tmp_path, *arguments)
    assert said.status == 2
    assert said.err == f"kvwitness: {reason}\n"


def test_layouts_are_read_for_both_sides_or_each() -> None:
    assert read_layout("nhd") == {"context": "NHD", "generation": "NHD"}
    assert read_layout("generation=nhd") == {"context": "HND", "generation": "NHD"}
    with pytest.raises(InvalidCase):
        read_layout("both=nhd")


def test_pools_of_a_deployment_are_tight_and_no_slot_is_its_ordinal() -> None:
    case = build(Deployment("llama-3-70b", "tp=4", "tp=8", prompt=9, tokens_per_block=2))
    for side in ("context", "generation"):
        layout = lay_out(case, side)
        slots = layout.slots[0][0][0].tolist()
        assert len(set(slots)) == 5
        assert layout.tables[0].pools[0].count == 7
        assert any(slot != ordinal for ordinal, slot in enumerate(slots))


def test_a_planted_fault_that_cannot_show_is_said_not_to(shell: Shell, tmp_path: Path) -> None:
    said = shell(*LLAMA, "--context", "tp=4", "--generation", "tp=8", "--fault", "heads-modulo", "--out", tmp_path)
    assert said.status == 0
    assert "the planted fault heads-modulo did not show" in said.out
