"""What two subjects differ in, told in words and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from differential.compare import ByteDifference, Difference, PairDifference
from differential.ledger import Settled, to_look_at
from differential.subjects.protocol import Subject
from kvwitness.words import count

MOST_LINES = 12
"""Differences that an argument spells out."""


def told_difference(settled: Settled) -> tuple[str, ...]:
    """The lines that explain why two plans differ in something that the ledger does not know."""
    lines = settled.open.lines()
    names = settled.open.first, settled.open.second
    told = [f"differs: {names[0]} and {names[1]}, {count(len(lines), 'difference')} that the ledger does not know"]
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
    return f"{names}: {', '.join(filter(None, (unknown, known)))}"


def told_of(settled: Settled) -> str:
    """On which smaller case differences are told, as a sentence; empty where it is the case itself."""
    small = settled.told_of
    if small is None:
        return ""
    prompts = ", ".join(str(request.prompt) for request in small.requests)
    return f"memory is too large to name each byte: told of the same instances with narrow elements, prompt {prompts}"


def rows_of(settled: Settled) -> Iterator[tuple[str, Difference]]:
    """Every difference with the ledger entry that covers it, empty for none; what is not known first."""
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
