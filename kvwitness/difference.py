"""What two subjects differ in, told in words and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from differential.compare import BOTH, FIRST, NEITHER, SECOND, ByteDifference, Difference, PairDifference
from differential.ledger import Settled, to_look_at
from differential.subjects.protocol import Subject
from kvwitness.words import count, joined
from oracle.model.layers import LayerSet

MOST_LINES = 12
"""Differences that an argument spells out."""


def told_difference(settled: Settled) -> tuple[str, ...]:
    """The lines that explain why two plans differ in something that the ledger does not know."""
    lines = sentences(replace(settled, accepted={}))
    names = settled.open.first, settled.open.second
    told = [f"differs: {names[0]} and {names[1]}, in {count(len(lines), 'way')} that the ledger does not know"]
    told += [f"  {line}" for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        told.append(f"  and {len(lines) - MOST_LINES} more, which kvwitness diff tells")
    known = [f"{name} ({len(found)})" for name, found in settled.accepted.items()]
    if known:
        told.append(f"  known besides: {', '.join(known)}")
    if settled.told_of is not None:
        told.append(f"  {told_of(settled)}")
    return tuple(told)


def describe_comparison(settled: Settled) -> str:
    """One line: ``mapping and native: identical``, or in what known and unknown ways they differ."""
    names = f"{settled.open.first} and {settled.open.second}"
    if settled.identical:
        return f"{names}: identical"
    known = f"known differences: {', '.join(settled.accepted)}" if settled.accepted else ""
    unknown = "" if settled.open.identical else f"{count(len(settled.open.differences), 'unknown difference')}"
    unsaid = [each.words((settled.open.first, settled.open.second)) for each in settled.open.unsaid]
    return f"{names}: {', '.join(filter(None, (unknown, known, *unsaid)))}"


def told_of(settled: Settled) -> str:
    """On which smaller case differences are told, as a sentence; empty where it is the case itself."""
    small = settled.told_of
    if small is None:
        return ""
    prompts = ", ".join(str(request.prompt) for request in small.requests)
    return f"memory is too large to name each byte: told of the same instances with narrow elements, prompt {prompts}"


def rows_of(settled: Settled) -> Iterator[tuple[str, Difference]]:
    """(ledger entry that covers it, difference) of every difference; no entry where it is not known, those first."""
    for difference in settled.open.differences:
        yield "", difference
    for name, found in settled.accepted.items():
        for difference in found:
            yield name, difference


def plain_difference(entry: str, difference: Difference, names: tuple[str, str]) -> dict[str, object]:
    """One difference as JSON has it: ``what`` is ``bytes``, ``pair`` or ``refusal``; ``known_as`` the ledger entry."""
    call = dict(zip(("first", "second"), names, strict=True))
    plain: dict[str, object] = {"known_as": entry or None, "request": difference.request}
    if isinstance(difference, ByteDifference):
        return plain | {
            "what": "bytes",
            "rank": difference.destination,
            "group": difference.group,
            "layer": difference.layer,
            "role": difference.role,
            "block": difference.ordinal,
            "heads": list(difference.heads) if difference.heads is not None else None,
            "tokens": list(difference.tokens) if difference.tokens is not None else None,
            "bytes": difference.nbytes,
            "senders": {
                names[0]: list(difference.first_senders),
                names[1]: list(difference.second_senders),
            },
            "right": call.get(difference.right, difference.right),
        }
    if isinstance(difference, PairDifference):
        seen = {names[0]: difference.first, names[1]: difference.second}
        return plain | {"what": "pair", "source": difference.source, "rank": difference.destination, "seen_by": seen}
    return plain | {
        "what": "refusal",
        "refused_by": call[difference.refused_by],
        "code": difference.code,
        "reason": difference.reason,
    }


def entries_to_look_at(subjects: Sequence[Subject], today: date) -> list[str]:
    """Sentences about ledger entries between ``subjects`` whose date to look again has come."""
    names = {subject.name for subject in subjects}
    return [
        f"ledger: {entry.name} was to be looked at again by {entry.look_again:%Y-%m-%d}: is it still so?"
        for entry in to_look_at(today)
        if entry.first in names and names.intersection(entry.second)
    ]


# ---- in sentences


@dataclass(frozen=True, slots=True)
class Gathered:
    """Byte differences that are told in one sentence: same receiver, request, group, senders and verdict."""

    entry: str
    differences: tuple[ByteDifference, ...]

    def words(self, names: tuple[str, str]) -> str:
        first = self.differences[0]
        where = [f"generation rank {first.destination}"]
        where += [f"request {first.request}"] if first.request is not None else []
        where.append(self._what())
        nbytes = sum(each.nbytes for each in self.differences)
        senders = [
            f"from {_ranks(ranks)} in {name}"
            for name, ranks in zip(names, (first.first_senders, first.second_senders), strict=True)
        ]
        known = f"; known as {self.entry}" if self.entry else ""
        return f"{', '.join(where)}: {count(nbytes, 'byte')} {', '.join(senders)}; {judged(first.right, names)}{known}"

    def _what(self) -> str:
        roles = joined(dict.fromkeys(each.role for each in self.differences if each.role is not None))
        told = [roles or "bytes of no buffer"]
        for word, found in (
            ("layer", {each.layer for each in self.differences}),
            ("block", {each.ordinal for each in self.differences}),
            ("head", {head for each in self.differences for head in each.heads or ()}),
        ):
            numbers = sorted(number for number in found if number is not None)
            if numbers:
                told.append(f"{word}{'s' * (len(numbers) > 1)} {spans(numbers)}")
        tokens = [each.tokens for each in self.differences if each.tokens is not None]
        if tokens:
            low, high = min(low for low, _ in tokens), max(high for _, high in tokens)
            told.append(f"token{'s' * (low < high)} {span(low, high)}")
        return ", ".join(told)


def gather(settled: Settled) -> list[Gathered]:
    """Byte differences by sentence, what is not known first."""
    found: dict[tuple[object, ...], list[ByteDifference]] = {}
    for entry, each in rows_of(settled):
        if isinstance(each, ByteDifference):
            senders = each.first_senders, each.second_senders
            key = entry, each.destination, each.request, each.group, *senders, each.right
            found.setdefault(key, []).append(each)
    return [Gathered(str(key[0]), tuple(members)) for key, members in found.items()]


def sentences(settled: Settled) -> list[str]:
    """All differences, alike ones in one sentence, what is not known first."""
    names = settled.open.first, settled.open.second
    told = []
    for entry, each in rows_of(settled):
        if not isinstance(each, ByteDifference):
            told.append((bool(entry), f"{each.words(names)}{f'; known as {entry}' if entry else ''}"))
    told += [(bool(one.entry), one.words(names)) for one in gather(settled)]
    return [sentence for _, sentence in sorted(told, key=lambda pair: pair[0])]


def judged(right: str, names: tuple[str, str]) -> str:
    """``mapping is right``, ``both are right``, ..."""
    call = {FIRST: f"{names[0]} is right", SECOND: f"{names[1]} is right", BOTH: "both are right"}
    return call.get(right, "neither is right" if right == NEITHER else "which is right was not asked")


def spans(numbers: Iterable[int]) -> str:
    """``0-2,5`` for 0, 1, 2, 5."""
    return str(LayerSet.of(numbers)).replace("..", "-")


def span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _ranks(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return "nobody"
    return f"context rank{'s' * (len(ranks) > 1)} {joined(ranks)}"
