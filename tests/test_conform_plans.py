"""Wrong pages, judges that disagree, wrong senders and models that do not fit are told with a smallest example."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from differential.faults import find_fault
from kvwitness.conform import Sample, Source, layouts
from kvwitness.conform.layouts import check_judges, check_layouts, table_trouble
from kvwitness.conform.plans import check_compared, check_mapping, check_native
from kvwitness.conform.published import check_published
from oracle.model.buffers import Placement
from oracle.model.case import Case, Native
from oracle.model.codec import decode as read_case
from oracle.model.layers import LayerSet
from oracle.model.pages import Entry, PageTable, Pool
from oracle.truth.elements import Truth, truth_of
from oracle.truth.reserved import PADDING
from oracle.truth.verdict import Kind as Violated
from oracle.truth.verdict import Outcome
from strategies.kinds import find_kind
from strategies.kinds.pieces import rows
from strategies.kinds.protocol import Declaration, PublishedModel, Surroundings
from tests.odd_kinds import NATIVE, declared, heads_and_dims, keys, kind_of, sample_of

CHECKS = (check_layouts, check_judges, check_mapping, check_native, check_compared, check_published)


@pytest.fixture(scope="module")
def samples() -> dict[str, Sample]:
    return {name: sample_of(find_kind(name)) for name in ("gqa", "mla")}


@pytest.mark.parametrize("name", ["gqa", "mla"])
@pytest.mark.parametrize("check", CHECKS)
def test_shipped_kinds_keep_them(samples: dict[str, Sample], name: str, check: object) -> None:
    result = check(samples[name])  # type: ignore[operator]
    assert result.outcome is Outcome.PASS, result


@pytest.mark.parametrize("check", CHECKS[:5])
def test_without_a_case_nothing_runs(check: object) -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        raise ZeroDivisionError("no")

    result = check(sample_of(kind_of(decode, attention_dp=False), 3))  # type: ignore[operator]
    assert (result.outcome, result.said) == (Outcome.NOT_RUN, "no case could be drawn")


# ---- pages


def table(*entries: Entry, slot: int = 8) -> PageTable:
    """A page table that its own checks never saw."""
    made = PageTable((Pool(slot, 2),), ())
    object.__setattr__(made, "entries", entries)
    return made


def test_regions_that_overlap_or_end_past_their_slot_are_noticed() -> None:
    key, value = Entry(0, 0, 0, "key", 0, 4), Entry(0, 0, 0, "value", 4, 4)
    assert table_trouble(table(key, value)) == ""
    assert table_trouble(table(key, replace(value, offset=3))) == "key of layer 0 and value of layer 0 overlap"
    assert table_trouble(table(replace(value, offset=5))) == "value of layer 0 ends past its slot of 8 B"
    assert table_trouble(table(key, replace(value, group=1, offset=0))) == ""


def padded(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
    key = rows("key", LayerSet(tuple(range(around.layers))), 3, 8)
    return declared(around, replace(keys(around), buffers=(replace(key, placement=Placement(align=64)),)))


@pytest.mark.parametrize("named", [True, False])
def test_padding_with_an_identity_and_a_buffer_without_are_noticed(
    monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    def damaged(case: Case) -> Truth:
        truth = truth_of(case)
        source = truth.source.copy()
        where = np.flatnonzero(source == PADDING) if named else np.flatnonzero(source >= 0)
        source[where[:1]] = 5 if named else PADDING
        return replace(truth, source=source)

    sample = sample_of(kind_of(padded, tokens_per_block=(2,)), 10)
    assert check_layouts(sample).outcome is Outcome.PASS
    monkeypatch.setattr(layouts, "truth_of", damaged)
    result = check_layouts(sample)
    assert result.outcome is Outcome.FAIL
    assert result.said.endswith("padding has an identity, or a byte of a buffer has none")
    assert len(read_case(result.example[0]).requests) == 1


def test_judges_that_disagree_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgiving(case: Case, plan: object) -> object:
        verdict = layouts.judge(case, plan)
        counts = {kind: nbytes for kind, nbytes in verdict.counts.items() if kind is not Violated.MISSING}
        return replace(verdict, counts=counts)

    monkeypatch.setattr(layouts, "judge_intervals", forgiving)
    result = check_judges(sample_of(find_kind("mla"), 20))
    assert result.outcome is Outcome.FAIL
    assert "one judge says missing" in result.said
    assert read_case(result.example[0]).kind == "mla"


# ---- senders


def with_fault(sample: Sample, place: int, fault: str) -> Sample:
    """``sample`` whose mapping (0) or legacy sender (1) has a planted fault."""
    planted = find_fault(fault).wrap(sample.trial.bases[place])
    sample.trial.bases = [planted if at == place else base for at, base in enumerate(sample.trial.bases)]
    return sample


def test_a_wrong_mapping_is_told_with_an_argument_and_a_witness(tmp_path: Path) -> None:
    sample = Sample(Source(find_kind("mla")), examples=20, out=str(tmp_path))
    result = check_mapping(with_fault(sample, 0, "drop-last-run"))
    assert (result.outcome, result.said) == (Outcome.FAIL, "the mapping: missing")
    assert result.example[0].startswith("missing: 1 byte at ")
    (witness,) = tmp_path.glob("*.json")
    assert result.example[-1] == f"replay it: kvwitness replay {witness}"
    assert len(result.example) < 30


def test_a_wrong_legacy_sender_is_told() -> None:
    sample = with_fault(sample_of(find_kind("mla"), 20), 1, "drop-last-run")
    result = check_native(sample)
    assert (result.outcome, result.said) == (Outcome.FAIL, "the legacy sender: missing")
    compared = check_compared(sample)
    assert compared.outcome is Outcome.FAIL
    assert compared.said.endswith("differ in unknown ways, where a sender is wrong too")


def test_a_legacy_sender_that_elects_otherwise_is_told_by_the_comparison() -> None:
    sample = with_fault(sample_of(find_kind("mla"), 60), 1, "elect-first")
    assert check_native(sample).outcome is Outcome.PASS
    result = check_compared(sample)
    assert (result.outcome, result.said) == (Outcome.FAIL, "mapping and native: differs (bytes)")


def test_a_wrong_legacy_declaration_is_told() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        return replace(heads_and_dims(numbers, around), native=Native((("all", "replicated"),)))

    sample = sample_of(kind_of(decode, (64, 3)), 60)
    assert check_mapping(sample).outcome is Outcome.PASS
    assert Outcome.FAIL in {check_native(sample).outcome, check_compared(sample).outcome}


def test_a_kind_without_a_legacy_rule_is_not_compared() -> None:
    def decode(numbers: tuple[int, ...], around: Surroundings) -> Declaration:
        return replace(heads_and_dims(numbers, around), native=None)

    sample = sample_of(kind_of(decode, (64, 3)), 10)
    assert check_mapping(sample).outcome is Outcome.PASS
    for check in (check_native, check_compared):
        result = check(sample)
        assert result.outcome is Outcome.NOT_RUN and result.said.startswith("no legacy rule: ")


# ---- published models


def published(declaration: Declaration, layers: int, **options: object) -> Sample:
    model = PublishedModel("odd-1b", "Odd", layers, lambda bits: declaration, "made up", "general knowledge", **options)  # type: ignore[arg-type]
    return sample_of(kind_of(heads_and_dims, (64, 3), published=(model,)))


def a_model(layers: int = 2, native: Native | None = NATIVE, rows_of: int = 1) -> Declaration:
    every = LayerSet(tuple(range(layers)))
    group = replace(keys(Surroundings(layers)), buffers=(rows("key", every, 576, 16, tokens_per_row=rows_of),))
    return declared(Surroundings(layers), group, native=native)


def test_a_published_model_of_other_layers_is_told() -> None:
    assert check_published(published(a_model(), 2)).outcome is Outcome.PASS
    result = check_published(published(a_model(), 3))
    rule = "layers = 3 is not possible: what it builds has 2 layers, 0 of them extra ones"
    assert result.said == f"odd-1b, 16 bits: kind odd: model odd-1b: {rule}"


def test_a_block_length_that_a_model_cannot_have_is_told() -> None:
    assert check_published(published(a_model(rows_of=4), 2, tokens_per_block=(32, 64))).outcome is Outcome.PASS
    result = check_published(published(a_model(rows_of=4), 2, tokens_per_block=(32, 6)))
    assert result.outcome is Outcome.FAIL
    assert result.said.startswith("odd-1b, 16 bits, 6 tokens a block: it fits no deployment; ")
    assert "kind odd: buffer key = 4 is not possible: T(4) does not divide tokens_per_block = 6" in result.said


def test_a_model_that_raises_is_told() -> None:
    def build(bits: int) -> Declaration:
        raise KeyError(bits)

    model = PublishedModel("odd-1b", "Odd", 2, build, "made up", "general knowledge")
    result = check_published(sample_of(kind_of(heads_and_dims, (64, 3), published=(model,))))
    assert result.outcome is Outcome.FAIL and "KeyError: 16" in result.said


def test_a_kind_without_published_models_is_not_run() -> None:
    result = check_published(sample_of(kind_of(heads_and_dims, (64, 3))))
    assert (result.outcome, result.said) == (Outcome.NOT_RUN, "the kind has no published model")
