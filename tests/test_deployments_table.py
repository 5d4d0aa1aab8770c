"""The table of deployments: what it covers, that it is as the command makes it, and that each row can be run."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path

import pytest

from kvwitness.covering import cover, meets
from kvwitness.deployment import build, read_side
from kvwitness.deployments import (
    DENSE,
    LAYOUTS,
    LONG_PROMPT,
    MOST,
    PROMPT,
    cut_of,
    deployments_of,
    design,
    exists,
    factors,
    model_names,
    splits_of,
)
from oracle.model.topology import Topology
from strategies.instances import has_heads
from strategies.kinds import find_model
from tests.face import ROOT, Shell

TABLE = ROOT / "docs" / "deployments.md"


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def rows_of(text: str) -> dict[str, list[list[str]]]:
    """Cells by model, without the heads."""
    found: dict[str, list[list[str]]] = {}
    for section in text.split("\n## ")[1:]:
        name = re.search(r"^`([^`]+)`", section, re.MULTILINE)[1]  # type: ignore[index]
        lines = [line for line in section.splitlines() if line.startswith("| ")]
        found[name] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return found


# ---- the design


@pytest.mark.parametrize("name", model_names())
def test_every_two_values_of_different_settings_meet(name: str) -> None:
    chosen = factors(name)
    rows = design(name)
    assert len(rows) <= MOST - 2 and len(set(rows)) == len(rows)
    assert all(exists(name, row) for row in rows)
    every = [row for row in product(*chosen.values()) if exists(name, row)]
    for one, other in combinations(chosen, 2):
        assert meets(chosen, rows, one, other) == meets(chosen, every, one, other), (one, other)


def test_dense_models_meet_every_pair_of_tensor_sizes() -> None:
    for name in ("llama-3-70b", "deepseek-v3"):
        tensor = "context tp", "generation tp"
        assert meets(factors(name), design(name), *tensor) == set(product(DENSE.sizes, DENSE.sizes))


def test_the_design_is_much_shorter_than_all_combinations() -> None:
    every = sum(exists("llama-3-70b", row) for row in product(*factors("llama-3-70b").values()))
    assert every > 9000
    assert len(design("llama-3-70b")) < 40


def test_a_split_that_leaves_a_remainder_is_not_in_the_table() -> None:
    """48 value heads of recurrent state over 16 tensor ranks, but not over 16 times 2."""
    row = 1, 16, "1", "1", False, False, 1, "HND"
    assert exists("qwen3.8-flash-next", row)
    assert not exists("qwen3.8-flash-next", (*row[:6], 2, "HND"))


def test_a_list_that_is_cut_short_has_what_comes_first() -> None:
    pairs = {"a": (1, 2, 3), "b": (1, 2, 3), "c": (1, 2, 3)}
    rows = cover(pairs, most=9, first=("a", "c"))
    assert meets(pairs, rows, "a", "c") == set(product((1, 2, 3), repeat=2))
    assert cover(pairs, most=2) == cover(pairs, most=9)[:2]
    assert cover({"a": (1, 2), "b": (1, 2)}, most=9, exists=lambda row: row[0] == row[1]) == ((1, 1), (2, 2))
    assert cover({"a": (1, 2), "b": (1, 2)}, most=1, cost=lambda row: -row[0] - row[1]) == ((2, 2),)


@pytest.mark.parametrize("layers", [61, 62, 64, 80, 94])
def test_uneven_cuts_have_all_layers_and_no_two_stages_alike(layers: int) -> None:
    for stages in DENSE.stages:
        sizes = [int(size) for size in cut_of(layers, stages).split("+")]
        if "uneven" not in stages:
            assert sizes == [int(stages)]
            continue
        assert len(sizes) == int(stages[0]) and sum(sizes) == layers
        assert len(set(sizes)) == len(sizes) and min(sizes) > 0


@pytest.mark.parametrize("name", model_names())
def test_every_model_meets_what_the_table_promises(name: str) -> None:
    kind, model = find_model(name)
    splits, extra = splits_of(name), model.declare().extra
    wanted = list(deployments_of(name))
    assert len(wanted) <= MOST
    cases = list(map(build, wanted))
    for side in ("context", "generation"):
        topologies: list[Topology] = [case.side(side).topology for case in cases]
        assert {topology.tp for topology in topologies} == set(splits.sizes)
        assert {topology.pp for topology in topologies} == ({1, 2, 4} if kind.stages else {1})
        if kind.stages:
            spreads = {max(topology.stages) - min(topology.stages) for topology in topologies if topology.pp > 1}
            assert min(spreads) <= 1 + extra and max(spreads) > 2, "cut evenly and unevenly"
        assert {topology.attention_dp for topology in topologies} == ({True, False} if kind.attention_dp else {False})
    assert {case.generation.topology.cp for case in cases} == ({1, 2} if kind.helix else {1})
    assert [each.prompt for each in wanted].count(LONG_PROMPT) == 1
    assert {each.prompt for each in wanted} == {PROMPT, LONG_PROMPT}
    layouts = {(case.context.layout, case.generation.layout) for case in cases}
    heads = has_heads(model.declare().model)
    assert layouts == (set(product(("HND", "NHD"), repeat=2)) if heads else {("", "")})


def test_under_attention_dp_the_request_is_on_the_last_rank() -> None:
    for wanted in deployments_of("llama-3-70b"):
        case = build(wanted)
        (request,) = case.requests
        assert request.context_dp == case.context.topology.data_parallel - 1
        assert request.generation_dp == case.generation.topology.data_parallel - 1


# ---- the table


def sections_of(text: str) -> dict[str, str]:
    """The part on each model, by its title."""
    return dict(section.split("\n", 1) for section in text.rstrip().split("\n\n## ")[1:])


def test_the_head_of_the_table_says_what_is_in_it() -> None:
    text = TABLE.read_text()
    assert "Made by `kvwitness deployments --out docs/deployments.md`." in text
    rows = [row for found in rows_of(text).values() for row in found]
    served = sum(row[4] == "pass" for row in rows)
    assert f"{len(model_names())} models, {len(rows)} deployments: mapping {served} pass, " in text
    assert list(sections_of(text)) == [find_model(name)[1].title for name in model_names()]


@pytest.mark.parametrize("name", model_names())
def test_the_table_is_as_the_command_makes_it(name: str, shell: Shell) -> None:
    said = shell("deployments", "--models", name, "--jobs", 1)
    assert said.status == 0, said.err
    ((title, section),) = sections_of(said.out).items()
    assert sections_of(TABLE.read_text())[title] == section


def test_the_table_is_written_whole_or_not_at_all(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = shell("deployments", "--models", "kimi-linear-48b", "--out", "docs/deployments.md", "--jobs", 1)
    assert said.status == 0, said.err
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["deployments.md"]
    assert list(rows_of((tmp_path / "docs" / "deployments.md").read_text())) == ["kimi-linear-48b"]


def test_every_deployment_is_served_but_for_one_that_says_why_not() -> None:
    rows = rows_of(TABLE.read_text())
    assert list(rows) == model_names()
    for name, found in rows.items():
        kind, _ = find_model(name)
        assert len(found) == len(list(deployments_of(name)))
        refused = [row for row in found if row[4] != "pass"]
        assert not any("FAIL" in cell or "DIFFERENT" in cell for row in found for cell in row)
        served = found
        if kind.helix and kind.attention_dp:
            assert [row[4] for row in refused] == [
                "refused: context_parallel_with_attention_dp: the generation side has cp = 2 and attention DP 4"
            ]
            assert refused[0] == found[-1] and refused[0][6:] == ["", "", ""]
            served = found[:-1]
        else:
            assert not refused
        assert all(int(cell.replace(",", "")) > 0 for row in served for cell in row[6:])


def test_bytes_are_those_of_the_published_sizes() -> None:
    """A receiver of each head gets all of them once: 80 layers, key and value, 8 heads of 128 elements of 2 bytes."""
    rows = rows_of(TABLE.read_text())["llama-3-70b"]
    by_split = {(row[0], row[1], row[3]): row for row in rows}
    assert by_split["tp=4", "tp=8", "131,072"][8] == f"{131072 * 80 * 2 * 8 * 128 * 2:,}"
    blocks = -(-PROMPT // 32)
    assert by_split["tp=4", "tp=2", "8,193"][8] == f"{blocks * 32 * 80 * 2 * 8 * 128 * 2:,}"


@pytest.mark.parametrize(("model", "number"), [("llama-3-70b", 3), ("llama-3-70b", -1), ("deepseek-v3", 7)])
def test_a_row_can_be_run_by_itself(shell: Shell, tmp_path: Path, model: str, number: int) -> None:
    row = rows_of(TABLE.read_text())[model][number]
    context, generation, layout, prompt, verdict, native, pairs, runs, nbytes = row
    arguments = ["--context", context, "--generation", generation, "--prompt", prompt.replace(",", "")]
    arguments += ["--layout", layout] if layout != "any" else []
    said = shell("verify", "--model", model, *arguments, "--json", "--out", tmp_path)
    if verdict != "pass":
        assert said.status == 2
        assert f"refused: {said.json['refused']['code']}: {said.json['refused']['reason']}" == verdict
        return
    assert said.status == 0, said.err
    (kind,) = said.json["kinds"].values()
    assert [f"{kind[name]:,}" for name in ("pairs", "runs", "bytes")] == [pairs, runs, nbytes]
    compared = said.json["subjects"]["mapping/native"]
    assert compared["identical"] == (native == "identical")
    assert compared["entries"] == ({} if native == "identical" else {native.removeprefix("known: "): 1})


# ---- the command


def test_one_model_can_be_asked_for_and_is_printed(shell: Shell) -> None:
    said = shell("deployments", "--models", "deepseek-v3", "--jobs", 1)
    assert said.status == 0
    assert "Made by `kvwitness deployments --models deepseek-v3`." in said.out
    assert list(rows_of(said.out)) == ["deepseek-v3"]
    rows = shell("deployments", "--models", "deepseek-v3", "--jobs", 1, "--json").json
    assert len(rows) == len(rows_of(said.out)["deepseek-v3"])
    assert rows[0]["verdict"] == "pass" and rows[0]["others"] == {"native": "identical"} and rows[0]["trouble"] == ""


def test_a_deployment_that_fails_is_named_and_exits_1(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short_sender.py").write_text(
        "from differential.faults import find_fault\nfrom differential.subjects.mapping import Mapping\n"
        "def plan(case, facts):\n    return find_fault('drop-last-run').wrap(Mapping()).plan(case, facts)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    names = ("--models", "deepseek-v3", "--subjects", "mapping,short_sender:plan", "--jobs", 1)
    said = shell("deployments", *names, "--json")
    assert said.status == 1
    assert "deepseek-v3 tp=1 to tp=1: short_sender:plan: missing" in said.err
    assert said.json[0]["others"] == {"short_sender:plan": "DIFFERENT"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--models", "llama"), "model = 'llama' is not possible"),
        (("--models", ","), "--models = ',' is not possible: expected at least one name"),
        (("--jobs", 0), "--jobs = 0 is not possible"),
        (("--subjects", "nope"), "subject = 'nope' is not possible"),
    ],
)
def test_what_cannot_be_asked_for_exits_2(shell: Shell, tmp_path: Path, arguments: tuple, reason: str) -> None:
    said = shell("deployments", *arguments, "--out", tmp_path / "table.md")
    assert said.status == 2
    assert said.err.startswith(f"kvwitness: {reason}"), said.err
    assert not (tmp_path / "table.md").exists()


def test_an_unwritable_table_is_refused_before_anything_runs(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = shell("deployments", "--out", tmp_path / "file" / "table.md")
    assert said.status == 2 and "cannot be written" in said.err
    assert "deployments: " not in said.err


@pytest.mark.parametrize("text", ["tp=4,dp=on@x", "tp=4,dp=off@1", "tp=4,dp=@1"])
def test_the_rank_of_a_request_is_a_number(shell: Shell, tmp_path: Path, text: str) -> None:
    assert read_side("--context", text)["dp"]
    said = shell("verify", "--model", "deepseek-v3", "--context", text, "--prompt", 1, "--out", tmp_path)
    assert said.status == 2
    assert "expected on, off, or on@3 for a request on rank 3" in said.err


def test_a_rank_that_does_not_exist_is_refused(shell: Shell, tmp_path: Path) -> None:
    said = shell("verify", "--model", "deepseek-v3", "--context", "tp=4,dp=on@4", "--prompt", 1, "--out", tmp_path)
    assert said.status == 2
    assert "--context dp = 'on@4' is not possible: expected a rank from 0 to 3" in said.err


def test_layouts_are_told_by_both_sides() -> None:
    assert set(LAYOUTS) == {"HND", "NHD", "NHD to HND", "HND to NHD"}
