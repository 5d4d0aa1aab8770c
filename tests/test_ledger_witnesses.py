"""Witnesses of the ledger: the Helix gap exactly as described, stale entries, and entries that are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from differential import ledger
from differential.compare import FIRST
from differential.ledger import Bytes, Entry, Refuses, check_case, entries, find_entry, settle
from differential.runner import Kind
from differential.subjects.mapping import Mapping
from differential.subjects.registry import FunctionSubject
from oracle.model.case import Native, SlotList
from oracle.model.codec import encode_file
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.topology import Topology
from oracle.model.writes import Refusal
from tests.golden import case_of, scenarios
from tests.ledger_cases import (
    VARIANTS,
    among_grid_partners,
    among_paired_ranks,
    compared,
    receivers,
    roles,
    state_case,
    subjects,
)
from tests.small_cases import case_of as small_case
from tests.small_cases import group

GAP = "replicated-state-under-helix"
RECORDED = [case_of(scenario) for scenario in scenarios()]


# ---- the Helix gap (spec: legacy sender, 7.1)

HELIX = [
    # context tp, generation tp, generation cp, receivers that miss the replicated state
    (2, 1, 2, [1]),
    (2, 1, 4, [2, 3]),
    (1, 1, 2, []),
    (1, 2, 2, []),
    (4, 1, 2, [1]),
    (2, 2, 2, []),
    (4, 2, 2, [1, 3]),
]


@pytest.mark.parametrize(("there", "here", "parallel", "missing"), HELIX)
@pytest.mark.parametrize("variant", VARIANTS[:2])
def test_the_helix_gap_is_where_it_is_described_and_nowhere_else(
    there: int, here: int, parallel: int, missing: list[int], variant: str
) -> None:
    case = state_case(Topology(there, (2,)), Topology(here, (2,), parallel))
    comparison = compared(case, variant)
    settled = settle(case, comparison)
    assert receivers(comparison, "ple") == missing and roles(comparison) <= {"ple"}
    assert list(settled.accepted) == [GAP] * bool(missing) and settled.open.identical
    for each in comparison.bytes:
        assert (each.nbytes, each.second_senders, each.right) == (6, (), FIRST)


def test_the_mapping_sends_each_receiver_its_replicated_state_once_from_the_first_paired_rank() -> None:
    comparison = compared(state_case(Topology(4, (2,)), Topology(2, (2,), 2)))
    assert [(each.destination, each.first_senders) for each in comparison.bytes] == [(1, (0,)), (3, (2,))]


@pytest.mark.parametrize("name", ["g287", "g291", "g295"])
def test_the_recorded_helix_scenarios_lack_replicated_state_and_nothing_else(name: str) -> None:
    case = next(case for case in RECORDED if case.notes.startswith(name))
    comparison = compared(case, "native:suffix")
    settled = settle(case, comparison)
    assert list(settled.accepted) == [GAP] and settled.open.identical
    assert all(case.native.mapper_of(each.role) == "replicated" for each in comparison.bytes)  # type: ignore[union-attr]
    recorded = next(s for s in scenarios() if s["id"] == name)["results"]
    (helix,) = [result for result in recorded if "main_helix" in result["generations"]]
    assert sum(each.nbytes for each in comparison.bytes) == helix["check"]["missing"]


@pytest.mark.parametrize("variant", ["", "suffix"])
def test_the_gap_is_stale_once_native_elects_among_paired_ranks(variant: str) -> None:
    mended = among_paired_ranks(variant)
    stale = ledger.check_witnesses([Mapping(), mended])
    assert [(each.entry.name, each.second) for each in stale] == [(GAP, mended.name)]
    assert "it does not differ any more" in str(stale[0]) and "found 0 differences" in str(stale[0])
    for there, here, parallel, _ in HELIX:
        case = state_case(Topology(there, (2,)), Topology(here, (2,), parallel))
        assert compared(case, mended).identical


def test_another_repair_of_the_gap_is_a_difference_that_no_entry_covers() -> None:
    other = among_grid_partners()
    case = state_case(Topology(2, (2,)), Topology(1, (2,), 2))
    settled = settle(case, compared(case, other))
    assert [(e.destination, e.first_senders, e.second_senders) for e in settled.open.bytes] == [(1, (0,), (1,))]
    (stale,) = ledger.check_witnesses([Mapping(), other])
    assert stale.entry.name == GAP and stale.reason == "it differs, but not as the entry says"


def test_a_difference_of_another_buffer_is_not_the_helix_gap() -> None:
    case = state_case(Topology(2, (2,)), Topology(1, (2,), 2))
    entry = find_entry(GAP)
    (gap,) = compared(case).bytes
    assert entry.covers(case, gap)
    for change in ({"destination": 0}, {"role": "ssm"}, {"group": 0}, {"layer": 0}, {"request": None}):
        assert not entry.covers(case, replace(gap, **change)), change
    assert not entry.covers(state_case(Topology(2, (2,)), Topology(2, (2,), 2)), gap)


# ---- stale entries and bad ones


def entry_with(path: Path, monkeypatch: pytest.MonkeyPatch, argument: object, name: str = GAP) -> Entry:
    """An entry whose witness is written to ``path`` with another statement."""
    entry = find_entry(name)
    case, _ = ledger.read_witness(entry)
    (path / f"{name}.json").write_text(encode_file(case, {"witness": {"argument": argument}}))
    monkeypatch.setattr("differential.ledger.entry.WITNESSES", path)
    return entry


def test_a_witness_that_states_another_difference_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_with(tmp_path, monkeypatch, ["rank 1 gets nothing", "rank 2 neither"])
    stale = ledger.check_witnesses(subjects("native"), known=[entry])
    assert [each.reason for each in stale] == ["it differs in another way"]
    assert str(stale[0]).endswith("replicated-state-under-helix.json states 2 differences, found 1 difference")


def test_a_witness_that_differs_in_more_than_its_entry_covers_is_stale() -> None:
    narrower = replace(find_entry("uneven-heads"), form=Bytes(lambda case, difference: difference.role == "key"))
    (stale,) = ledger.check_witnesses(subjects("native"), known=[narrower])
    assert stale.reason.startswith("besides what the entry covers it differs in: rank 0, request 0, value of layer 0")


def test_only_pairs_of_subjects_that_are_there_are_checked() -> None:
    assert ledger.check_witnesses([Mapping()]) == []
    assert ledger.check_witnesses([among_paired_ranks()]) == []


def test_a_witness_is_written_only_for_a_case_that_differs_as_the_entry_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("differential.ledger.entry.WITNESSES", tmp_path)
    entry = find_entry(GAP)
    case = state_case(Topology(2, (2,)), Topology(1, (2,), 2))
    path = ledger.write_witness(entry, case, subjects("native", "native:suffix"))
    assert ledger.read_witness(entry)[0] == case and path == tmp_path / f"{GAP}.json"
    assert ledger.check_witnesses(subjects("native", "native:suffix"), known=[entry]) == []
    no_gap = state_case(Topology(2, (2,)), Topology(2, (2,), 2))
    with pytest.raises(InvalidCase, match="it does not differ any more"):
        ledger.write_witness(entry, no_gap, subjects("native", "native:suffix"))
    with pytest.raises(InvalidCase, match="it differs, but not as the entry says"):
        ledger.write_witness(find_entry("uneven-heads"), case, subjects(*VARIANTS))


@pytest.mark.parametrize("argument", [[], "text", [1], None])
def test_a_witness_must_state_its_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: object) -> None:
    entry = entry_with(tmp_path, monkeypatch, argument)
    with pytest.raises(MalformedFile, match="expected argument, a list of sentences"):
        ledger.read_witness(entry)


def test_a_missing_witness_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("differential.ledger.entry.WITNESSES", tmp_path)
    with pytest.raises(InvalidCase, match=r"witness of uneven-heads = 'uneven-heads.json' is not possible: expected"):
        ledger.read_witness(find_entry("uneven-heads"))


def test_a_date_to_look_again_only_warns() -> None:
    assert ledger.to_look_at(date(2000, 1, 1)) == ()
    assert ledger.to_look_at(date(2100, 1, 1)) == entries()
    assert ledger.check_witnesses(subjects("native")) == []


def test_an_unknown_entry_is_told_the_names() -> None:
    with pytest.raises(InvalidCase, match="did you mean uneven-heads"):
        find_entry("uneven-head")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Two words"}, "expected lower case letters"),
        ({"reference": " "}, "entry uneven-heads.reference"),
        ({"component": ""}, "entry uneven-heads.component"),
        ({"second": ()}, "expected subjects other than mapping"),
        ({"second": ("mapping",)}, "expected subjects other than mapping"),
    ],
)
def test_an_entry_without_what_it_needs_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidCase, match=message):
        replace(find_entry("uneven-heads"), **changes)  # type: ignore[arg-type]


def test_a_refusal_form_names_a_side_and_a_code() -> None:
    with pytest.raises(InvalidCase, match="expected first or second"):
        Refuses("both", ("code",), lambda case, difference: True)
    with pytest.raises(InvalidCase, match="expected at least one refusal code"):
        Refuses("first", (), lambda case, difference: True)


# ---- more buffers on some layers of a view


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("there", "here", "code"),
    [
        ("tp1", "tp2", "layer_regions_differ"),
        ("tp1 pp1+1", "tp2 pp2", "buffer_counts_differ"),
        ("tp2 pp2", "tp1 pp1+1", "buffer_counts_differ"),
    ],
)
def test_a_side_buffer_as_large_as_keys_on_some_layers_is_refused_in_one_known_way(
    there: str, here: str, code: str, variant: str
) -> None:
    """Three buffers on layer 1 and two on layer 0: five over two layers are two, and three over one."""
    halves = "H(2).heads T D(1) ; 8"
    view = group(f"key @ 0..1 : {halves}", f"value @ 0..1 : {halves}", f"index_key @ 1 : {halves}")
    declared = Native(tuple((role, "indexed") for role in ("key", "value", "index_key")))
    checked = check_case(small_case(view, there, here, native=declared), subjects(variant))
    (violation,) = checked.result.verdicts[variant].violations
    assert violation.refusal is not None and violation.refusal.code == code
    assert checked.passed and list(checked.settled[0].accepted) == ["layers-of-a-view-differ"]


def test_a_pair_refused_for_a_known_wrong_reason_stays_known_where_a_block_is_lost_too() -> None:
    """The mapping refuses the only request, so the plans do not differ; that of the pair is false all the same."""
    halves = "H(2).heads T D(1) ; 8"
    view = group(f"key @ 0..1 : {halves}", f"value @ 0..1 : {halves}", f"index_key @ 1 : {halves}")
    declared = Native(tuple((role, "indexed") for role in ("key", "value", "index_key")))
    lost = (SlotList("context", 0, "kv", 0, (-1, 2)),)
    case = small_case(view, prompts=4, native=declared, tables=lost)
    checked = check_case(case, subjects("native"))
    assert [each.code for each in checked.result.verdicts["mapping"].refusals] == ["block_lost"]
    assert checked.result.verdicts["native"].kinds == {Kind.FALSE_REFUSAL}
    assert checked.passed and not checked.settled[0].accepted
    refused = Refusal("no_reason", "none")
    other = FunctionSubject("native", lambda case, facts: refused)
    assert not check_case(case, [Mapping(), other]).passed
