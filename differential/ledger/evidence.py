"""Witnesses of the ledger: cases that must still differ exactly as they say (mapping contract, differential check)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from differential.compare import Comparison, RefusalDifference, compare
from differential.ledger.entry import Entry
from differential.ledger.settle import settle
from differential.ledger.shelf import entries
from differential.managers.tables import gather_facts
from differential.subjects.protocol import Subject
from oracle.model.case import Case
from oracle.model.codec import decode_file, encode_file
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.records import frozen


@frozen()
class Stale:
    """An entry whose witness no longer differs in exactly the stated way; it fails the run."""

    entry: Entry
    second: str
    stated: tuple[str, ...]
    found: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        said, now = (f"{len(lines)} difference{'s' * (len(lines) != 1)}" for lines in (self.stated, self.found))
        return (
            f"stale: {self.entry.name} ({self.entry.first} and {self.second}): {self.reason}; "
            f"{self.entry.witness.name} states {said}, found {now}"
        )


def read_witness(entry: Entry) -> tuple[Case, tuple[str, ...]]:
    """The case of an entry's witness and the differences that it states, as sentences.

    Raises ``InvalidCase`` if the file is not there, and as the codec does.
    """
    if not entry.witness.is_file():
        raise InvalidCase(f"witness of {entry.name}", entry.witness.name, "expected a case file of that name")
    case, extras = decode_file(entry.witness.read_text(encoding="utf-8"))
    stated = extras.get("witness", {}).get("argument")  # type: ignore[union-attr]
    if not isinstance(stated, list) or not stated or any(type(line) is not str for line in stated):
        raise MalformedFile(f"witness of {entry.name}", stated, "expected argument, a list of sentences")
    return case, tuple(stated)


def write_witness(entry: Entry, case: Case, subjects: Iterable[Subject]) -> Path:
    """Make ``case`` the witness of ``entry``; what it states is what ``subjects`` differ in.

    Raises ``InvalidCase`` unless each pair that the entry is about differs there, alike, and in
    nothing that the entry does not cover.
    """
    by_name = {subject.name: subject for subject in subjects}
    lines: dict[tuple[str, ...], str] = {}
    for second in entry.second:
        comparison = _compare(entry, case, by_name[entry.first], by_name[second])
        trouble = _trouble(entry, case, comparison)
        if trouble:
            raise InvalidCase(f"witness of {entry.name}", second, trouble)
        lines[_lines(entry, comparison)] = second
    if len(lines) != 1:
        raise InvalidCase(f"witness of {entry.name}", list(lines.values()), "expected one and the same difference")
    told = {"subject": entry.second[0], "argument": list(next(iter(lines)))}
    entry.witness.write_text(encode_file(case, {"witness": told}), encoding="utf-8")
    return entry.witness


def check_witnesses(subjects: Iterable[Subject], *, known: Iterable[Entry] | None = None) -> list[Stale]:
    """Entries (``known``, by default all) whose witness does not differ as it says between ``subjects``.

    Pairs of subjects of which one is not there are passed over. Costs two plans an entry and pair.
    """
    by_name = {subject.name: subject for subject in subjects}
    found: list[Stale] = []
    for entry in entries() if known is None else known:
        if entry.first not in by_name:
            continue
        for second in entry.second:
            if second not in by_name:
                continue
            case, stated = read_witness(entry)
            comparison = _compare(entry, case, by_name[entry.first], by_name[second])
            now = _lines(entry, comparison)
            trouble = _trouble(entry, case, comparison)
            if not trouble and now != stated:
                trouble = "it differs in another way"
            if trouble:
                found.append(Stale(entry, second, stated, now, trouble))
    return found


def _compare(entry: Entry, case: Case, first: Subject, second: Subject) -> Comparison:
    facts = gather_facts(case)
    plans = first.plan(case, facts), second.plan(case, facts)
    return compare(case, *plans, names=(first.name, second.name))


def _lines(entry: Entry, comparison: Comparison) -> tuple[str, ...]:
    """The differences as sentences; of refusals the code counts, the wording of the reason does not."""
    return tuple(
        (replace(each, reason="") if isinstance(each, RefusalDifference) else each).words(entry.names)
        for each in comparison.differences
    )


def _trouble(entry: Entry, case: Case, comparison: Comparison) -> str:
    """Why the comparison is not what the entry means; empty if it is."""
    settled = settle(case, comparison, known=(entry,))
    if not settled.accepted:
        return "it does not differ any more" if comparison.identical else "it differs, but not as the entry says"
    if not settled.open.identical:
        return f"besides what the entry covers it differs in: {settled.open.lines()[0]}"
    return ""
