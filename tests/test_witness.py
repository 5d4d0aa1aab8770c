"""Witness files, and the reducer that makes what is in them small."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from differential.faults import size_of
from kvwitness.errors import CannotRun
from kvwitness.reduce import reduce_case
from kvwitness.story import tell
from kvwitness.version import VERSION
from kvwitness.witness import Meta, check_writable, load, pins_of, save
from oracle.model.case import SIDES, Case, Request
from oracle.model.codec import case_id, encode
from oracle.model.errors import MalformedFile
from oracle.model.sides import lay_out
from strategies.cases import cases, decode
from strategies.deployments import deployment
from strategies.features import features_of
from strategies.numbers import simplest
from tests.small_cases import case_of


@settings(max_examples=50)
@given(cases())
def test_a_case_and_what_is_said_of_it_come_back_from_the_file(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    out = tmp_path_factory.mktemp("witnesses")
    path = save(case, out, subject="mapping", property=("stray", "missing"), fault="f", seed=5, argument=["a", " b"])
    found = load(path)
    assert found.case == case
    expected = Meta("mapping", "f", ("stray", "missing"), seed=5, pins=pins_of(case), argument=("a", " b"))
    assert found.meta == expected
    assert found.unpinned() == []


def test_the_name_tells_the_kind_and_the_content(tmp_path: Path) -> None:
    case = decode(simplest())
    path = save(case, tmp_path / "new" / "directory", subject="mapping", property=("missing",))
    assert path.name == f"{case.kind}-{case_id(case)}.json"
    assert (
        save(replace(case, kind="", notes="other"), tmp_path, subject="x", property=()).name
        == f"case-{case_id(case)}.json"
    )


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = decode(simplest())
    path = save(case, tmp_path, subject="mapping", property=("missing",))
    before = path.read_text()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(CannotRun, match="No space left on device"):
        save(case, tmp_path, subject="mapping", property=("missing",), argument=["another"])
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


FOUND = {"subject": "mapping", "property": ("missing",), "fault": "f", "stage": "plan", "other": ""}


def test_another_finding_of_the_same_case_has_a_file_of_its_own(tmp_path: Path) -> None:
    case = decode(simplest())
    findings = [
        FOUND,
        {**FOUND, "subject": "native"},
        {**FOUND, "property": ("stray", "missing")},
        {**FOUND, "fault": ""},
        {**FOUND, "stage": "memory"},
        {**FOUND, "other": "native"},
        {**FOUND, "property": (), "test": "test_one"},
        {**FOUND, "property": (), "test": "test_other"},
    ]
    paths = [save(case, tmp_path, **finding) for finding in findings]
    name = f"{case.kind}-{case_id(case)}"
    assert [path.name for path in paths] == [f"{name}.json", *(f"{name}-{number}.json" for number in range(2, 9))]
    again = [save(case, tmp_path, **finding, argument=["again"], seed=5) for finding in findings]
    assert again == paths and sorted(tmp_path.iterdir()) == sorted(paths)
    for path, finding in zip(paths, findings, strict=True):
        meta = load(path).meta
        assert meta is not None and meta.argument == ("again",)
        assert {**FOUND, **finding, "property": meta.kinds, "subject": meta.subject} == {**FOUND, **finding}


@pytest.mark.parametrize("held", ["", "{", "{}", None])
def test_a_file_that_is_no_witness_of_the_finding_is_never_replaced(tmp_path: Path, held: str | None) -> None:
    case = decode(simplest())
    path = tmp_path / f"{case.kind}-{case_id(case)}.json"
    path.write_text(encode(case) if held is None else held)
    before = path.read_text()
    assert save(case, tmp_path, **FOUND).name == f"{case.kind}-{case_id(case)}-2.json"
    assert path.read_text() == before


def test_a_name_that_another_process_takes_meanwhile_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = decode(simplest())
    link = os.link
    theirs = save(case, tmp_path / "theirs", **{**FOUND, "subject": "native"}).read_text()

    def be_late(source: str, target: Path) -> None:
        if not list(tmp_path.glob(f"{case.kind}-*.json")):
            target.write_text(theirs)
        link(source, target)

    monkeypatch.setattr("os.link", be_late)
    mine = save(case, tmp_path, **FOUND)
    assert mine.name.endswith("-2.json")
    assert {load(path).meta.subject for path in tmp_path.glob("*.json")} == {"mapping", "native"}  # type: ignore


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    case = decode(simplest())
    paths = [save(case, tmp_path, **{**FOUND, "subject": subject}) for subject in ("mapping", "native", "mapping")]
    assert paths[0] == paths[2] != paths[1]
    assert sorted(tmp_path.iterdir()) == sorted(paths[:2])


def test_an_empty_field_is_left_out(tmp_path: Path) -> None:
    path = save(decode(simplest()), tmp_path, subject="mapping", property=("missing",))
    said = json.loads(path.read_text())["witness"]
    assert {"fault", "seed", "test", "argument"}.isdisjoint(said)
    assert said["version"] == VERSION


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", "5"), ("property", [1]), ("pins", {"sender": []}), ("pins", []), ("subject", None), ("colour", "red")],
)
def test_a_field_that_cannot_be_is_refused_with_its_path(tmp_path: Path, field: str, value: object) -> None:
    path = save(decode(simplest()), tmp_path, subject="mapping", property=("missing",))
    plain = json.loads(path.read_text())
    plain["witness"][field] = value
    path.write_text(json.dumps(plain))
    with pytest.raises(MalformedFile) as raised:
        load(path)
    assert raised.value.argument == f"witness.{field}"


def test_pins_are_short_whatever_the_model() -> None:
    case = deployment("llama-3-70b", {"tp": 2}, {"tp": 4}, prompt=4096)
    for pins in pins_of(case).values():
        assert max(map(len, pins)) < 400
        assert any(" and 152 more (" in pin for pin in pins)


def test_pins_tell_apart_what_differs_beyond_the_part_that_is_spelled_out() -> None:
    one = deployment("llama-3-70b", {"tp": 2}, {"tp": 4}, prompt=4096)
    order = (*range(70), *range(79, 69, -1))
    other = replace(one, context=replace(one.context, layer_order=order))
    assert pins_of(one)["context"] != pins_of(other)["context"]
    assert pins_of(one)["generation"] == pins_of(other)["generation"]


def test_a_directory_that_can_be_made_is_writable_and_not_made(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


# ---- making a case smaller


@settings(max_examples=40)
@given(cases())
def test_every_step_of_the_reducer_is_a_case_that_exists(case: Case) -> None:
    seen: list[Case] = []

    def fails(smaller: Case) -> bool:
        seen.append(smaller)
        return len(seen) % 3 == 0

    reduce_case(case, fails, seconds=2)
    for smaller in seen:
        assert all(lay_out(smaller, side) for side in SIDES)


@settings(max_examples=40)
@given(cases(("gqa", "mla", "fp8", "vswa", "gemma4")))
def test_what_fails_everywhere_becomes_the_simplest_case(case: Case) -> None:
    reduced = reduce_case(case, lambda smaller: True, seconds=20)
    assert features_of(reduced) <= {"8 bits"}
    assert tuple(size_of(reduced)) == (2, 1, 1)
    assert len(reduced.requests) == 1
    assert reduced.context.tokens_per_block == 1


@pytest.mark.parametrize(("tp", "layers", "prompt"), [(2, 3, 7), (1, 1, 1), (4, 2, 2)])
def test_the_reducer_keeps_what_the_failure_needs(tp: int, layers: int, prompt: int) -> None:
    case = deployment("llama-3-70b", {"tp": 4, "pp": 5}, {"tp": 8}, prompt=[40, 9, 70], tokens_per_block=4)

    def fails(smaller: Case) -> bool:
        return (
            smaller.context.topology.tp >= tp
            and smaller.model.layers >= layers
            and max(request.prompt for request in smaller.requests) >= prompt
        )

    reduced = reduce_case(case, fails, seconds=20)
    assert reduced.context.topology.tp == tp
    assert reduced.model.layers == layers
    assert [request.prompt for request in reduced.requests] == [prompt]
    assert reduced.generation.topology.size == 1


def test_a_case_with_explicit_slots_keeps_them() -> None:
    case = decode(simplest())
    explicit = load_explicit(case)
    reduced = reduce_case(explicit, lambda smaller: True)
    assert reduced.tables == explicit.tables
    assert [request.prompt for request in reduced.requests] == [request.prompt for request in explicit.requests]


def load_explicit(case: Case) -> Case:
    from oracle.model.case import SlotList

    rows = []
    for side in SIDES:
        layout = lay_out(case, side)
        for rank, groups in enumerate(layout.slots):
            for group, requests in groups.items():
                rows += [
                    SlotList(side, rank, case.model.groups[group].name, request, tuple(slots.tolist()))
                    for request, slots in enumerate(requests)
                ]
    return replace(case, tables=tuple(rows))


def test_pins_are_of_a_rank_that_a_request_is_on_and_of_its_requests() -> None:
    requests = (Request(0, 3, 0, 1), Request(1, 3, 1, 2))
    case = case_of("key @ 0 : T D(2) ; 8", "tp2 dp", "tp3 dp", requests=requests)
    slots = {side: [pin for pin in pins if " in slots " in pin] for side, pins in pins_of(case).items()}
    for side, rank, request in (("context", 0, 0), ("generation", 1, 0)):
        own = lay_out(case, side).slots[rank][0][request].tolist()
        assert slots[side] == [f"{case.model.groups[0].name} of request {request} in slots {' '.join(map(str, own))}"]
    lines = tell(case)
    assert "context rank 0 in memory" in lines and "generation rank 1 in memory" in lines
