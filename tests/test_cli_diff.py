"""``kvwitness diff FILE``: what two subjects differ in, in words, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from differential.ledger import entries
from oracle.model.case import SideState
from oracle.model.codec import decode, encode
from strategies.deployments import deployment
from strategies.kinds import gqa
from tests.face import Shell

SENDERS = """
from differential.faults import find_fault
from differential.subjects.mapping import Mapping

class First:
    name = "first"
    election = "own"
    def plan(self, case, facts):
        return find_fault("elect-first").wrap(Mapping()).plan(case, facts)

class Short:
    name = "short"
    election = "own"
    def plan(self, case, facts):
        return find_fault("drop-last-run").wrap(Mapping()).plan(case, facts)

class Raises:
    name = "raises"
    election = "own"
    def plan(self, case, facts):
        raise ValueError("no plan")
"""


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


@pytest.fixture
def senders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "our_senders.py").write_text(SENDERS)
    monkeypatch.syspath_prepend(tmp_path)


def written(path: Path, *, heads: int = 2, context: int = 1, generation: int = 2, **others: object) -> Path:
    """A case file: one layer of K/V heads of two bytes a token, a prompt of three tokens in blocks of two."""
    declared = gqa.declare(1, heads, 2, 8)
    sides = {"tp": context, **others.pop("context_side", {})}, {"tp": generation, **others.pop("generation_side", {})}
    case = deployment(declared.model, *sides, prompt=3, tokens_per_block=2, native=declared.native, **others)
    path.write_text(encode(case))
    return path


def table_rows(out: str) -> list[list[str]]:
    lines = out.splitlines()
    (rule,) = (number for number, line in enumerate(lines) if line.startswith("───"))
    return [line.split() for line in lines[rule + 1 :] if line.strip()]


def test_identical_plans_are_said_to_be(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # however long the path is
    path = written(tmp_path / "case.json")
    said = shell("diff", path)
    assert said.status == 0
    assert said.out.splitlines() == [
        f"{path}: identical: mapping and native: identical",
        "  mapping  right: 8 runs, 32 bytes, each in its place",
        "  native   right: 8 runs, 32 bytes, each in its place",
    ]
    plain = shell("diff", path, "--json").json
    assert plain["verdict"] == "identical"
    assert plain["differences"] == [] and plain["entries"] == {}


def test_known_differences_exit_0_and_name_their_entry(shell: Shell, tmp_path: Path) -> None:
    """Three heads on two ranks, received on one: the legacy sender writes head 1 from both."""
    path = written(tmp_path / "case.json", heads=3, context=2, generation=1)
    said = shell("diff", path)
    assert said.status == 0
    told = " ".join(said.out.split())
    assert told.startswith(f"{path}: accepted: mapping and native: known differences: uneven-heads mapping right: ")
    assert "native wrong: duplicate 16 bytes" in told
    (entry,) = (entry for entry in entries() if entry.name == "uneven-heads")
    assert f"uneven-heads: {entry.summary} ({entry.component}; {entry.reference})" in told
    assert (
        "generation rank 0, request 0, key and value, layer 0, blocks 0-1, head 1, tokens 0-3: 16 bytes from context "
        "rank 0 in mapping, from context ranks 0 and 1 in native; mapping is right; known as uneven-heads"
    ) in told
    assert table_rows(said.out) == [
        ["0", "0", "0", role, block, "1", tokens, "4", "0", "0", "and", "1", "mapping", "uneven-heads"]
        for role in ("key", "value")
        for block, tokens in (("0", "0-1"), ("1", "2-3"))
    ]


def test_unknown_differences_exit_1(shell: Shell, tmp_path: Path, senders: None) -> None:
    path = written(tmp_path / "case.json", heads=1, context=2, generation=4, generation_side={"dp": True})
    said = shell("diff", path, "--subjects", "mapping,our_senders:First")
    assert said.status == 0, "the key of this request is 0: both take the first"
    plain = json.loads(path.read_text())
    plain["requests"][0]["generation_dp"] = 1
    path.write_text(json.dumps(plain))
    said = shell("diff", path, "--subjects", "mapping,our_senders:First")
    assert said.status == 1
    told = " ".join(said.out.split())
    assert told.startswith(f"{path}: different: mapping and first: 4 unknown differences")
    assert "generation rank 1, request 0, key and value, layer 0, blocks 0-1, head 0, tokens 0-3: 16 bytes" in told
    assert "from context rank 1 in mapping, from context rank 0 in first; mapping is right" in told
    assert [row[-4:] for row in table_rows(said.out)] == [["1", "0", "mapping", "-"]] * 4


def test_json_says_it_all(shell: Shell, tmp_path: Path, senders: None) -> None:
    path = written(tmp_path / "case.json")
    said = shell("diff", path, "--subjects", "mapping,our_senders:Short", "--json")
    assert said.status == 1 and said.out.count("\n") == 1
    plain = said.json
    assert plain["verdict"] == "different"
    assert plain["subjects"] == ["mapping", "short"]
    assert plain["judged"]["mapping"] == {"verdict": "pass", "violations": {}, "refusals": []}
    assert plain["judged"]["short"]["violations"] == {"missing": 2}
    told = [(row["role"], row["block"], row["heads"], row["tokens"], row["right"]) for row in plain["differences"]]
    # The row past the prompt differs too, and is right either way.
    assert told == [("value", 1, [1], [2, 2], "mapping"), ("value", 1, [1], [3, 3], "both")]
    for row in plain["differences"]:
        assert row["what"] == "bytes" and row["known_as"] is None and row["bytes"] == 2
        assert row["senders"] == {"mapping": [0], "short": []}
        assert (row["rank"], row["layer"], row["request"], row["group"]) == (1, 0, 0, 0)


def test_a_refusal_is_a_difference(shell: Shell, tmp_path: Path) -> None:
    path = written(tmp_path / "case.json", context_side={"layout": "NHD"})
    said = shell("diff", path)
    assert said.status == 0
    assert "native wrong: wrongly refuses the instances: mapper_kinds_differ" in " ".join(said.out.split())
    assert "mapping serves; known as head-major-and-token-major" in " ".join(said.out.split())
    (row,) = shell("diff", path, "--json").json["differences"]
    assert (row["what"], row["refused_by"], row["code"]) == ("refusal", "native", "mapper_kinds_differ")
    assert row["known_as"] == "head-major-and-token-major"


def test_a_pair_is_a_difference(shell: Shell) -> None:
    (entry,) = (entry for entry in entries() if entry.name == "empty-stage-is-paired")
    plain = shell("diff", entry.witness, "--json").json
    assert plain["subjects"] == ["mapping", "native:suffix"]  # whom the witness names
    assert plain["entries"] == {"empty-stage-is-paired": 1}
    (row,) = plain["differences"]
    assert row["what"] == "pair" and row["seen_by"] == {"mapping": "no", "native:suffix": "both"}
    assert shell("diff", entry.witness).status == 0


@pytest.mark.parametrize("name", [entry.name for entry in entries()])
def test_every_witness_of_the_ledger_is_told_as_known(shell: Shell, name: str) -> None:
    (entry,) = (entry for entry in entries() if entry.name == name)
    plain = shell("diff", entry.witness, "--subjects", f"mapping,{entry.second[0]}", "--json").json
    assert plain["verdict"] == "accepted"
    assert set(plain["entries"]) == {name}


def test_a_large_case_is_told_of_a_small_one(shell: Shell, tmp_path: Path) -> None:
    declared = gqa.declare(40, 6, 128, 16)
    case = deployment(declared.model, {"tp": 4}, {"tp": 2}, prompt=16384, native=declared.native)
    path = tmp_path / "case.json"
    path.write_text(encode(case))
    said = shell("diff", path)
    assert said.status == 0
    told = " ".join(said.out.split())
    assert "memory is too large to name each byte: told of the same instances with narrow elements, prompt 128" in told
    assert "known differences: uneven-heads" in told
    assert "rows more; --json tells all" in told
    assert shell("diff", path, "--json").json["told_of"] is not None


@pytest.mark.parametrize("columns", [40, 100, 120, 160])
def test_it_fits_the_terminal(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.chdir(tmp_path)
    written(Path("c.json"), heads=3, context=2, generation=1)
    monkeypatch.setenv("COLUMNS", str(columns))
    out = shell("diff", "c.json").out
    assert max(map(len, out.splitlines())) <= columns
    assert ("─\n" in out) == (columns >= 120), "there is a table where it has room, and sentences anyway"
    assert "known as uneven-heads" in " ".join(out.split())


def test_several_subjects_stand_side_by_side(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Three context-parallel receivers of a prompt whose first four blocks they have: report B44.
    monkeypatch.setenv("COLUMNS", "400")
    path = written(tmp_path / "case.json", generation=1, generation_side={"cp": 3})
    case = decode(path.read_text())
    (asked,) = case.requests
    case = replace(case, requests=(replace(asked, prompt=15, generation=SideState(cached=8)),))
    path.write_text(encode(case))
    said = shell("diff", path, "--subjects", "mapping,mapping:anchors,native")
    assert said.status == 0
    refusal = "request 0: helix_prefix_reuse (the receiver reuses 4 blocks)"
    head, first, second, third, _, *rest = said.out.splitlines()
    assert head == f"{path}: accepted: mapping, mapping:anchors, native side by side"
    right = "right: 4 runs, 64 bytes, each in its place"
    assert [first, second, third] == [
        f"  mapping          {right}",
        f"  mapping:anchors  {right}",
        f"  native           wrong: wrongly refuses {refusal}",
    ]
    assert rest[:2] == ["mapping and mapping:anchors: identical", KNOWN.format("mapping")]
    assert rest[2].startswith("  helix-with-reuse: a context-parallel receiver that reuses whole blocks is refused")
    assert rest[3].startswith("  native refuses request 0 (helix_prefix_reuse") and "mapping serves" in rest[3]
    assert rest[4] == KNOWN.format("mapping:anchors") and len(rest) == 6
    plain = shell("diff", path, "--subjects", "mapping,mapping:anchors,native", "--json").json
    assert plain["subjects"] == ["mapping", "mapping:anchors", "native"]
    assert [(each["subjects"], each["verdict"]) for each in plain["comparisons"]] == [
        (["mapping", "mapping:anchors"], "identical"),
        (["mapping", "native"], "accepted"),
        (["mapping:anchors", "native"], "accepted"),
    ]


KNOWN = "{} and native: known differences: helix-with-reuse"


def test_the_fault_of_a_witness_is_not_planted(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = shell("verify", "--scope", "none", "--jobs", 1, "--fault", "drop-last-run", "--json", "--out", out).json
    said = shell("diff", *found["witnesses"])
    assert said.status == 0
    assert "the fault drop-last-run of the witness is not planted here" in said.out


@pytest.mark.parametrize(
    ("subjects", "reason"),
    [
        ("mapping", "--subjects = 'mapping' is not possible: expected at least two names by comma"),
        ("mapping,nope", "subject = 'nope' is not possible: expected one of mapping, "),
        ("mapping,our_senders:Raises", "raises made no plan: crash: ValueError: no plan at our_senders.py:"),
        ("mapping,mapping", "--subjects = 'mapping,mapping' is not possible: expected each name once"),
    ],
)
def test_what_cannot_be_compared_exits_2(
    shell: Shell, tmp_path: Path, senders: None, subjects: str, reason: str
) -> None:
    path = written(tmp_path / "case.json")
    said = shell("diff", path, "--subjects", subjects)
    assert said.status == 2
    assert said.err.startswith("kvwitness: ") and reason in said.err
    assert said.out == ""


def test_a_case_that_declares_nothing_for_a_legacy_sender_exits_2(shell: Shell, tmp_path: Path) -> None:
    path = written(tmp_path / "case.json")
    plain = json.loads(path.read_text())
    del plain["native"]
    path.write_text(json.dumps(plain))
    said = shell("diff", path)
    assert said.status == 2
    assert said.err == "kvwitness: native cannot be asked: the case declares nothing for a legacy sender\n"


def test_a_file_that_is_no_case_exits_2_and_names_the_field(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text('{"schema": 99}')
    said = shell("diff", path)
    assert said.status == 2 and said.err.startswith(f"kvwitness: {path}: schema = 99 is not possible")
    assert shell("diff", tmp_path / "no.json").status == 2
