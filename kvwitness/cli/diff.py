"""``kvwitness diff FILE``: what subjects differ in on one case."""

from __future__ import annotations

import json

import click
from rich import box
from rich.console import Console
from rich.table import Table

from differential.compare import SECOND, ByteDifference
from differential.ledger import Settled, find_entry
from kvwitness.cli.options import load_named, split_subjects
from kvwitness.cli.output import console, fits, write_lines, write_text
from kvwitness.cli.status import PASS, VIOLATIONS
from kvwitness.diff import Compared, compare_subjects, describe_verdict
from kvwitness.difference import (
    describe_comparison,
    judged,
    plain_difference,
    rows_of,
    sentences,
    span,
    spans,
    told_of,
)
from kvwitness.settings import Judged
from kvwitness.witness import Meta, Witness
from kvwitness.words import joined
from oracle.model.codec import case_id

MOST_SENTENCES = 30
MOST_ROWS = 60
"""What is told of a large difference; --json tells all of it."""

STYLES = {"identical": "bold green", "accepted": "bold green", "cannot say": "bold green", "different": "bold red"}


@click.command("diff")
@click.argument("file", type=click.Path())
@click.option(
    "--subjects", metavar="A,B,...", help="Who is compared; default: mapping,native, or whom a witness names."
)
@click.option("--padding", type=click.Choice(["optional", "due"]), help="Whether rows past the prompt must arrive.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(file: str, subjects: str | None, padding: str | None, as_json: bool) -> int:
    """Compare two subjects on the case in FILE, byte for byte, or every two of several.

    Tells which bytes differ, who sends them, which of the two is right, and which entry of the ledger
    knows of it. Exit status: 0 identical or all known, 1 different, 2 could not compare.
    """
    witness = load_named(file)
    meta = witness.meta or Meta()
    names = split_subjects(subjects) if subjects is not None else _default(meta)
    found = compare_subjects(witness.case, names, padding=padding or meta.padding)
    if as_json:
        print(json.dumps(_plain(file, found)))
    else:
        _tell(console(), file, witness, found)
    return VIOLATIONS if found.verdict == "different" else PASS


def _default(meta: Meta) -> tuple[str, ...]:
    if meta.other:
        return meta.subject, meta.other
    first, second = Judged().subjects
    return first, second if meta.subject in ("", first) else meta.subject


def _tell(to: Console, file: str, witness: Witness, found: Compared) -> None:
    alone = len(found.settled) == 1
    said = describe_comparison(found.settled[0]) if alone else f"{', '.join(found.verdicts)} side by side"
    write_text(to, f"{file}: {found.verdict}: {said}", hang=2, style=STYLES[found.verdict])
    if witness.meta is not None and witness.meta.fault:
        write_text(to, f"the fault {witness.meta.fault} of the witness is not planted here", indent=2, style="yellow")
    width = max(map(len, found.verdicts)) + 2
    for name, judgement in found.verdicts.items():
        write_text(to, f"{name:<{width}}{describe_verdict(judgement)}", indent=2, hang=width)
    known: set[str] = set()
    if not alone:
        to.print()
    for settled in found.settled:
        if not alone:
            write_text(to, describe_comparison(settled), hang=2, style=STYLES[settled.verdict])
        _tell_one(to, settled, known, alone)


def _tell_one(to: Console, settled: Settled, known: set[str], alone: bool) -> None:
    """What two subjects differ in; ``known``: the entries of the ledger that were told already."""
    for name in settled.accepted:
        entry = find_entry(name)
        if name not in known:
            write_text(to, f"{name}: {entry.summary} ({entry.component}; {entry.reference})", indent=2, hang=2)
        known.add(name)
    if settled.verdict in ("identical", "cannot say"):
        return
    if settled.told_of is not None:
        write_text(to, told_of(settled), indent=2, hang=2, style="yellow")
    told = sentences(settled)
    if alone:
        to.print()
    for sentence in told[:MOST_SENTENCES]:
        write_text(to, sentence, indent=2 * (not alone), hang=2)
    if len(told) > MOST_SENTENCES:
        write_text(to, f"and {len(told) - MOST_SENTENCES} more; --json tells all", style="yellow")
    _tell_table(to, settled)


def _tell_table(to: Console, settled: Settled) -> None:
    rows = [(entry, each) for entry, each in rows_of(settled) if isinstance(each, ByteDifference)]
    if not rows:
        return
    names = settled.open.first, settled.open.second
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    for name in ("rank", "request", "layer", "role", "block", "heads", "tokens", "bytes"):
        table.add_column(name, justify="left" if name == "role" else "right", no_wrap=True)
    for name in (f"{names[0]} from", f"{names[1]} from", "right", "known as"):
        table.add_column(name)
    for entry, each in rows[:MOST_ROWS]:
        table.add_row(
            str(each.destination),
            _cell(each.request),
            _cell(each.layer),
            each.role or "-",
            _cell(each.ordinal),
            spans(each.heads) if each.heads else "-",
            span(*each.tokens) if each.tokens else "-",
            f"{each.nbytes:,}",
            joined(each.first_senders) or "nobody",
            joined(each.second_senders) or "nobody",
            judged(each.right, names).removesuffix(" is right").removesuffix(" are right"),
            entry or "-",
        )
    if not fits(to, table):
        return  # the sentences say the same
    to.print()
    to.print(table)
    if len(rows) > MOST_ROWS:
        write_lines(to, [f"and {len(rows) - MOST_ROWS} rows more; --json tells all"], style="yellow")


def _cell(number: int | None) -> str:
    return "-" if number is None else str(number)


def _plain(file: str, found: Compared) -> dict[str, object]:
    head = {"verdict": found.verdict, "file": file, "subjects": list(found.verdicts)}
    judged = {
        name: {
            "verdict": verdict.outcome.value,
            "violations": {kind.value: nbytes for kind, nbytes in verdict.counts.items()},
            "refusals": [
                {"request": refusal.request, "code": refusal.code, "reason": refusal.reason}
                for refusal in verdict.refusals
            ],
        }
        for name, verdict in found.verdicts.items()
    }
    if len(found.settled) == 1:
        return {**head, "judged": judged, **_plain_one(found.settled[0])}
    pairs = [
        {"verdict": each.verdict, "subjects": [each.open.first, each.open.second], **_plain_one(each)}
        for each in found.settled
    ]
    return {**head, "judged": judged, "comparisons": pairs}


def _plain_one(settled: Settled) -> dict[str, object]:
    names = settled.open.first, settled.open.second
    unsaid = settled.open.unsaid
    return {
        "entries": {name: len(differences) for name, differences in settled.accepted.items()},
        "differences": [plain_difference(entry, difference, names) for entry, difference in rows_of(settled)],
        "cannot_say": [
            {"subject": names[each.by == SECOND], "request": each.request, "code": each.code} for each in unsaid
        ],
        "told_of": case_id(settled.told_of) if settled.told_of is not None else None,
    }
