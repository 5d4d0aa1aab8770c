"""Subjects are found by name, by entry point and by import path; nothing is imported before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from differential.managers.facts import Facts
from differential.managers.tables import gather_facts
from differential.subjects import registry
from differential.subjects.mapping import Mapping, group_kinds, layer_group_of
from differential.subjects.protocol import encoding_of
from differential.subjects.registry import find_subject, known_subjects
from oracle.model.buffers import GroupKind, Model
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.topology import Topology
from oracle.model.writes import Writes
from tests.mapping_cases import TOKENS, buffer, case_of, keys_only, paged, payload, ranks_of_case, state


def nothing(case: Case, facts: Facts) -> Writes:
    return Writes(notes=("nothing",))


class Nothing:
    def plan(self, case: Case, facts: Facts) -> Writes:
        return nothing(case, facts)


class Named(Nothing):
    name = "named"
    election = "paired"


ready = Nothing()
number = 7


def plan_notes(name: str) -> tuple[str, ...]:
    case = case_of(keys_only(1), Topology(), Topology())
    writes = find_subject(name).plan(case, gather_facts(case))
    assert isinstance(writes, Writes)
    return writes.notes


def test_the_mapping_is_found_and_elects_among_paired_ranks() -> None:
    subject = find_subject("mapping")
    assert isinstance(subject, Mapping) and (subject.name, subject.election) == ("mapping", "paired")


@pytest.mark.parametrize("attribute", ["nothing", "Nothing", "ready", "ready.plan", "Named"])
def test_a_function_an_object_or_a_class_is_a_subject(attribute: str) -> None:
    assert plan_notes(f"{__name__}:{attribute}") == ("nothing",)


@pytest.mark.parametrize(
    ("asked", "name", "encoding"),
    [
        ("mapping", "mapping", "tables"),
        ("mapping:tables", "mapping", "tables"),
        ("mapping:anchors", "mapping:anchors", "anchors"),
        ("mapping:suffix", "mapping:suffix", "suffix"),
    ],
)
def test_the_mapping_reads_the_encoding_that_its_name_says(asked: str, name: str, encoding: str) -> None:
    subject = find_subject(asked)
    assert isinstance(subject, Mapping)
    assert (subject.name, subject.encoding, encoding_of(subject)) == (name, encoding, encoding)
    assert name in known_subjects()


def test_a_subject_that_does_not_say_reads_tables() -> None:
    assert [encoding_of(find_subject(name)) for name in ("native", f"{__name__}:nothing", f"{__name__}:Named")] == [
        "tables"
    ] * 3
    with pytest.raises(InvalidCase, match="mapping encoding = 'list' is not possible: expected one of tables"):
        Mapping("list")  # type: ignore[arg-type]


def test_an_object_keeps_its_own_name_and_election() -> None:
    assert find_subject(f"{__name__}:Named").name == "named"
    assert find_subject(f"{__name__}:Named").election == "paired"
    assert find_subject(f"{__name__}:nothing").name == f"{__name__}:nothing"
    assert find_subject(f"{__name__}:nothing").election == "own"


def test_an_entry_point_names_a_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("other", f"{__name__}:Named", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: (point,) if group == "kvwitness.subjects" else ())
    assert plan_notes("other") == ("nothing",)
    assert "other" in known_subjects()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("maping", "subject = 'maping' is not possible: expected one of mapping"),
        ("", "or package.module:plan"),
        ("mapping:list", "expected one of mapping, mapping:anchors, mapping:suffix, native"),
        ("mapping:anchor", "native:suffix, native:no-helix, native:suffix,no-helix, or package.module:plan; did you"),
        ("mapping:anchor", "; did you mean mapping:anchors?"),
        ("no_such_module:plan", "No module named 'no_such_module'"),
        (f"{__name__}:missing", "has no attribute 'missing'"),
        (f"{__name__}:number", "a function or an object with a method plan, not int"),
    ],
)
def test_an_unknown_name_is_refused_and_the_known_ones_are_named(name: str, message: str) -> None:
    with pytest.raises(InvalidCase) as caught:
        find_subject(name)
    assert message in str(caught.value)


def test_each_name_that_a_refusal_lists_is_that_of_a_subject() -> None:
    with pytest.raises(InvalidCase) as caught:
        find_subject("nobody")
    names = caught.value.accepted.removeprefix("expected one of ").removesuffix(", or package.module:plan").split(", ")
    assert [find_subject(name).name for name in names] == names
    assert set(known_subjects()) <= set(names)


def test_importing_the_registry_imports_no_subject() -> None:
    program = (
        "import sys; from differential.subjects import registry; registry.known_subjects();"
        "print([name for name in sys.modules if name.startswith(('differential.subjects.mapping', "
        "'differential.subjects.native'))])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert result.stdout.strip() == "[]"


def test_a_buffer_s_group_and_its_kind_are_read_from_the_page_table() -> None:
    groups = (paged(buffer("key", "0", TOKENS)), state(buffer("ssm", "1", payload(2))))
    context, _ = ranks_of_case(case_of(Model(2, groups), Topology(1, (1, 1)), Topology(1, (2,))))
    assert layer_group_of(context[0].table, 0, "key") == 0 and layer_group_of(context[1].table, 1, "ssm") == 1
    assert [group_kinds(rank) for rank in context] == [{0: GroupKind.PAGED}, {1: GroupKind.STATE}]
    with pytest.raises(InvalidCase, match="this page table has"):
        layer_group_of(context[0].table, 1, "ssm")
