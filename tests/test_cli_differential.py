"""``kvwitness verify`` compares: what is the same, what is known, what is not, and what is no longer so."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest

from differential.ledger import entries
from kvwitness import load_case
from kvwitness.settings import Judged
from kvwitness.trial import Trial
from strategies.deployments import deployment
from strategies.scope import small_scope
from tests.face import Shell
from tests.ledger_cases import among_paired_ranks

RANDOM = ("verify", "--scope", "none", "--jobs", 1)

SENDERS = """
from differential.faults import find_fault
from differential.subjects.mapping import Mapping
from differential.subjects.native import make
from oracle.model.writes import Writes

class Copy:
    '''The mapping under another name.'''
    name = "copy"
    election = "own"
    def plan(self, case, facts):
        return Mapping().plan(case, facts)

class First(Copy):
    '''Every byte arrives, but from the first of several holders.'''
    name = "first"
    def plan(self, case, facts):
        return find_fault("elect-first").wrap(Mapping()).plan(case, facts)

class Silent(Copy):
    '''Sends nothing, and is not judged for the pairs that it leaves out.'''
    name = "silent"
    def plan(self, case, facts):
        return Writes()

class Raises(Copy):
    name = "raises"
    def plan(self, case, facts):
        raise ValueError("no plan")

class Mended(Copy):
    '''The mapping under the name of the legacy sender: none of its weaknesses is left.'''
    name = "native"
"""


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "120")
    return Shell(capsys)


@pytest.fixture
def senders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "their_senders.py").write_text(SENDERS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "out"


# ---- the run


def test_every_case_is_compared_and_counted_by_pair_and_kind(shell: Shell, tmp_path: Path) -> None:
    found = shell(*RANDOM, "--examples", 300, "--json", "--out", tmp_path).json
    assert found["verdict"] == "pass"
    assert found["judged"] == ["mapping", "native"]
    whole = found["subjects"]["mapping/native"]
    compared = whole["identical"] + whole["accepted"] + whole["different"]
    left_out = sum(kind["left_out"].get("native", 0) for kind in found["kinds"].values())
    assert compared + left_out == found["cases"] == 300 and 0 < left_out < 100
    assert whole["identical"] > 60 and whole["accepted"] > 5 and whole["different"] == 0
    assert set(whole["entries"]) <= {entry.name for entry in entries()}
    assert sum(whole["entries"].values()) >= whole["accepted"]
    by_kind = [kind["subjects"]["mapping/native"] for kind in found["kinds"].values() if kind["subjects"]]
    for verdict in ("identical", "accepted", "different"):
        assert sum(each[verdict] for each in by_kind) == whole[verdict]


def test_the_table_tells_each_known_difference_with_its_cases(shell: Shell, tmp_path: Path) -> None:
    arguments = ("--examples", 120, "--kinds", "gqa,mla", "--out", tmp_path)
    counts = shell(*RANDOM, *arguments, "--json").json["kinds"]["gqa"]["subjects"]["mapping/native"]
    said = shell(*RANDOM, *arguments)
    rows = [line.split() for line in said.out.splitlines()]
    assert [
        "gqa",
        "mapping",
        "and",
        "native",
        *(str(counts[v]) for v in ("identical", "accepted", "different")),
    ] in rows
    for entry, cases in counts["entries"].items():
        assert [entry, str(cases)] in rows
    assert said.out.rstrip().endswith("and no difference that is not known")


@pytest.mark.parametrize("columns", [40, 79, 80, 120])
def test_the_comparison_fits_the_terminal(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = shell(*RANDOM, "--kinds", "gqa", "--examples", 40, "--out", tmp_path)
    assert max(map(len, said.out.splitlines())) <= columns
    assert "identical" in said.out and "head-major-and-token-major" in said.out


def test_the_known_weaknesses_of_a_legacy_subject_fail_no_run_even_alone(shell: Shell, tmp_path: Path) -> None:
    said = shell(*RANDOM, "--examples", 150, "--subjects", "native", "--json", "--out", tmp_path)
    assert said.status == 0
    assert said.json["subjects"] == {}
    vllm = said.json["kinds"]["vllm_v4"]
    assert vllm["left_out"] == {"native": vllm["cases"]} and vllm["verdict"] == "pass"


def test_a_kind_without_a_legacy_rule_is_compared_with_nobody_and_told_so(shell: Shell, tmp_path: Path) -> None:
    said = shell(*RANDOM, "--kinds", "vllm_fused,mla", "--examples", 40, "--out", tmp_path)
    assert said.status == 0
    (row,) = [line.split() for line in said.out.splitlines() if "no legacy rule)" in line]
    assert row == ["vllm_fused", "native:", "no", "(no", "legacy", "rule)"]


def test_a_difference_that_no_entry_covers_fails_the_run(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tuple(entry for entry in entries() if entry.name != "head-major-and-token-major")
    monkeypatch.setattr(import_module("differential.ledger.settle"), "entries", lambda: left)
    said = shell(*RANDOM, "--kinds", "gqa", "--examples", 200, "--json", "--out", tmp_path)
    assert said.status == 1
    assert said.json["subjects"]["mapping/native"]["different"] > 0
    (path,) = said.json["witnesses"]
    case = load_case(path)
    assert (case.context.layout == "NHD") != (case.generation.layout == "NHD")


def test_another_sender_of_the_right_bytes_differs_and_leaves_a_witness(shell: Shell, senders: Path) -> None:
    """Each plan alone delivers every byte: only the comparison sees it."""
    names = ("--subjects", "mapping,their_senders:First")
    said = shell(*RANDOM, "--examples", 400, *names, "--out", senders)
    assert said.status == 1
    assert "FAIL mapping and first: differs (bytes)" in said.out
    (path,) = senders.glob("*.json")
    plain = json.loads(path.read_text())["witness"]
    assert (plain["subject"], plain["other"]) == ("mapping", "their_senders:First")
    assert (plain["property"], plain["stage"]) == (["differs"], "comparison")
    assert f"replay it: kvwitness replay {path}" in said.out
    assert f"in full:   kvwitness diff {path}" in said.out
    for line in plain["argument"]:
        assert line in said.out
    assert "mapping is right" in said.out
    case = load_case(path)
    assert case.model.layers == 1 and len(case.requests) == 1

    again = shell("replay", path)
    assert again.status == 1
    assert f"{path}: still fails: mapping and first: differs (bytes)" in again.out
    assert shell("replay", path, "--json").json["violations"] == ["differs"]
    shown = shell("show", path)
    assert "found       mapping and their_senders:First: differs" in shown.out
    assert "now         still fails: mapping and first: differs" in shown.out


def test_a_witness_of_a_difference_is_fixed_once_the_two_plan_alike(shell: Shell, senders: Path) -> None:
    names = ("--subjects", "mapping,their_senders:First")
    (path,) = shell(*RANDOM, "--examples", 400, *names, "--json", "--out", senders).json["witnesses"]
    said = shell("replay", path, "--subjects", "mapping,their_senders:Copy")
    assert said.status == 0
    assert "fixed: it passes" in said.out
    assert "mapping and copy: identical" in said.out


def test_shrinking_keeps_to_the_way_in_which_they_differ(senders: Path) -> None:
    trial = Trial(Judged(("mapping", "their_senders:Silent")))
    failure = trial(next(iter(small_scope("mla")))).failure
    assert failure is not None and failure.kinds == ("missing",)  # whoever is wrong alone comes first
    differing = Trial(Judged(("mapping", "their_senders:First")))
    found = [judged.failure for judged in map(differing, islice(small_scope("mla"), 400)) if judged.failure is not None]
    assert {each.forms for each in found} == {("bytes",)}
    assert found[0].same_as(found[1])
    assert not found[0].same_as(replace(found[0], forms=("pairs",)))
    assert not found[0].same_as(replace(found[0], other="native"))


def test_a_subject_that_makes_no_plan_is_not_compared(shell: Shell, senders: Path) -> None:
    said = shell(*RANDOM, "--subjects", "mapping,their_senders:Raises", "--json", "--out", senders)
    assert said.status == 1
    (kind,) = (kind for kind in said.json["kinds"].values() if kind["violations"])
    assert kind["violation_kinds"] == {"crash": 1}
    assert said.json["subjects"] == {}


def test_a_subject_that_plans_like_the_mapping_shares_its_known_differences(shell: Shell, senders: Path) -> None:
    names = ("--subjects", "their_senders:Copy,native,mapping")
    found = shell(*RANDOM, "--examples", 150, *names, "--json", "--out", senders).json
    assert found["verdict"] == "pass"
    pairs = found["subjects"]
    assert pairs.keys() == {"copy/native", "copy/mapping", "native/mapping"}
    assert pairs["copy/mapping"]["identical"] == 150
    assert pairs["copy/native"] == pairs["native/mapping"]


def test_two_legacy_subjects_differ_in_known_ways_where_both_do_from_the_mapping(shell: Shell, tmp_path: Path) -> None:
    names = ("--subjects", "mapping,native,native:suffix,no-helix")
    found = shell(*RANDOM, "--examples", 150, *names, "--json", "--out", tmp_path).json
    assert found["verdict"] == "pass"
    between = found["subjects"]["native/native:suffix,no-helix"]
    assert between["accepted"] > 0 and between["different"] == 0
    assert "any-context-parallelism" in between["entries"]
    alone = shell(
        *RANDOM, "--examples", 150, "--subjects", "native,native:suffix,no-helix", "--json", "--out", tmp_path
    )
    assert alone.status == 1  # without the mapping nobody says what is known


def test_nothing_is_compared_where_a_fault_is_planted(shell: Shell, tmp_path: Path) -> None:
    arguments = ("--examples", 30, "--fault", "skip-stage", "--kinds", "mla", "--seed", 9, "--json", "--out", tmp_path)
    found = shell(*RANDOM, *arguments).json
    assert found["subjects"] == {}
    assert all(kind["subjects"] == {} for kind in found["kinds"].values())


def test_a_planted_fault_counts_where_the_subject_it_is_in_is_right() -> None:
    """The legacy sender refuses these layouts; that must not hide what is planted into the mapping."""
    case = deployment("llama-3-70b", {"tp": 1, "layout": "NHD"}, {"tp": 2}, prompt=1, tokens_per_block=1)
    failure = Trial(Judged(fault="drop-last-run"))(case, carry=False).failure
    assert failure is not None
    assert (failure.subject, failure.kinds) == ("mapping", ("missing",))


# ---- the ledger's word


def test_an_entry_that_is_no_longer_true_fails_the_run(shell: Shell, senders: Path) -> None:
    names = ("--subjects", "mapping,their_senders:Mended")
    said = shell(*RANDOM, "--examples", 20, *names, "--out", senders)
    assert said.status == 1
    stale = [line for line in said.out.splitlines() if line.startswith("FAIL stale: ")]
    assert len(stale) == sum("native" in entry.second for entry in entries())
    assert "fail: 0 witnesses" in said.out and f"{len(stale)} stale entries of the ledger" in said.out
    found = shell(*RANDOM, "--examples", 20, *names, "--json", "--out", senders).json
    assert found["verdict"] == "fail" and len(found["stale"]) == len(stale) and found["witnesses"] == []


def test_the_helix_gap_is_stale_once_the_legacy_sender_elects_among_paired_ranks() -> None:
    trial = Trial(Judged(("mapping", "native")))
    assert trial.stale_entries() == []
    trial.bases[1] = among_paired_ranks()
    (sentence,) = trial.stale_entries()
    assert "replicated-state-under-helix" in sentence and "it does not differ any more" in sentence


def test_a_date_to_look_again_warns(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(date):
        @classmethod
        def today(cls) -> date:
            return date(2099, 1, 1)

    monkeypatch.setattr("kvwitness.search.date", Later)
    said = shell(*RANDOM, "--examples", 5, "--json", "--out", tmp_path)
    assert said.status == 0
    assert any("uneven-heads was to be looked at again" in note for note in said.json["notes"])


# ---- nothing declared


def test_what_was_not_asked_is_said(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Trial.__call__
    monkeypatch.setattr(Trial, "__call__", lambda self, case, **how: usual(self, replace(case, native=None), **how))
    found = shell(*RANDOM, "--examples", 10, "--kinds", "mla", "--json", "--out", tmp_path).json
    assert found["verdict"] == "pass" and found["subjects"] == {}
    assert "native not run in 10 cases of mla: no legacy rule" in found["notes"]
