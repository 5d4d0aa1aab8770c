"""``kvwitness conform``: every law tried on a cache kind, one's own or one of the project."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.text import Text

from kvwitness.cli.broken import warn_of_broken_kinds
from kvwitness.cli.options import read_seed
from kvwitness.cli.output import console, write_lines, write_text
from kvwitness.cli.status import PASS, VIOLATIONS
from kvwitness.conform import EXAMPLES, LAWS, Conformed, Result, Sample, conform, find_source
from kvwitness.conform.mutants import EQUIVALENT, SELDOM, SURVIVES
from kvwitness.errors import CannotRun
from kvwitness.witness import check_writable
from kvwitness.words import count, joined
from oracle.model.errors import require_whole
from oracle.truth.verdict import Outcome
from strategies.kinds import registered_kinds

OUT = "witnesses"
WORDS = {Outcome.PASS: "pass", Outcome.FAIL: "FAIL", Outcome.NOT_RUN: "not run"}
STYLES = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.NOT_RUN: "yellow"}
SENTENCES = {law.name: law.sentence for law in LAWS}
NAME = max(len(law.name) for law in LAWS)
INDENT = 2 + NAME + 1 + len(WORDS[Outcome.NOT_RUN]) + 1


@click.command("conform")
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...")
@click.option("--all", "all_kinds", is_flag=True, help="Every registered kind.")
@click.option("--examples", type=int, default=EXAMPLES, show_default=True, help="Cases that are drawn of each kind.")
@click.option("--seed", default="0", show_default=True, help="What is drawn depends on it alone; 'random' chooses one.")
@click.option("--mutants", "list_mutants", is_flag=True, help="List every mutant, and who catches it.")
@click.option("--out", default=OUT, show_default=True, metavar="DIR", help="Where witnesses are written.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    names: tuple[str, ...],
    all_kinds: bool,
    examples: int,
    seed: str,
    list_mutants: bool,
    out: str,
    as_object: bool,
) -> int:
    """Try every law on cache kinds: registered ones by name, or the KIND of a file.

    The laws: numbers build, declarations are pure and reshard byte for byte without a planner, pages hold each byte
    once, plans are right, published models fit, and small mistakes in the declaration are noticed.

    Exit status: 0 every law holds, 1 one is broken, 2 a kind could not be found or loaded.
    """
    if names and all_kinds:
        raise CannotRun("--all means every kind: expected names or --all, not both")
    if not names and not all_kinds:
        raise CannotRun("nothing to do: expected names of kinds or files, or --all")
    require_whole("--examples", examples, least=1)
    chosen = read_seed(seed)
    warn_of_broken_kinds(names)
    sources = [find_source(name) for name in names] or [find_source(kind.name) for kind in registered_kinds()]
    check_writable(out)
    found: list[Conformed] = []
    for source in sources:
        sample = Sample(source, chosen, examples, out)
        found.append(conform(sample))
        if not as_object:
            _tell(console(), found[-1], list_mutants, brief=len(sources) > 1)
            sys.stdout.flush()
    if as_object:
        print(json.dumps(_plain(found, chosen, examples)))
    elif len(found) > 1:
        _tell_all(console(), found)
    return PASS if all(each.passed for each in found) else VIOLATIONS


# ---- in words


def _tell(to: Console, found: Conformed, list_mutants: bool, *, brief: bool) -> None:
    """One screen for a good kind; ``brief``: only what is not as it should be, for many kinds."""
    kind = found.source.kind
    described = f": {kind.description}" if kind.description else ""
    write_text(to, f"{kind.name}{described}", hang=2, style="bold")
    for name, result in found.results.items():
        if brief and result.outcome is not Outcome.FAIL:
            continue
        _write_row(to, name, result)
        if not result:
            write_lines(to, [f"    {line}" for line in result.example])
        elif not brief:
            for line in result.example:
                write_text(to, line, indent=INDENT, hang=2, style="dim")
    if list_mutants:
        for standing in found.mutants:
            caught = standing.by if standing.by in (EQUIVALENT, SELDOM, SURVIVES) else f"caught by {standing.by}"
            write_text(to, f"{standing.mutant.name}: {caught}: {standing.how}", indent=4, hang=2)
    for missing in () if brief else found.missing:
        write_text(to, f"missing: {missing.what}", indent=2, hang=2, style="yellow")
        write_lines(to, [f"    {line}" for line in missing.how])
    write_text(to, _closing(found), hang=2, style=STYLES[Outcome.PASS if found.passed else Outcome.FAIL])
    to.print()


def _write_row(to: Console, name: str, result: Result) -> None:
    """A law and what came of it, wrapped beside its name."""
    head = f"  {name:<{NAME}} {WORDS[result.outcome]:<{len(WORDS[Outcome.NOT_RUN])}} "
    said = f"{SENTENCES[name]} Not so: {result.said}" if result.outcome is Outcome.FAIL else result.said
    rows = Text(said).wrap(to, max(20, to.width - INDENT))
    for number, row in enumerate(rows):
        row.rstrip()
        style = "" if result else STYLES[result.outcome]
        to.print(Text(" " * INDENT if number else head, style) + Text(row.plain, style), soft_wrap=True)


def _closing(found: Conformed) -> str:
    not_run = [name for name, result in found.results.items() if result.outcome is Outcome.NOT_RUN]
    rest = f"; not run: {joined(not_run)}" if not_run else ""
    if found.broken:
        return f"fail: {found.source.kind.name} breaks {joined(found.broken)}{rest}"
    holds = len(found.results) - len(not_run)
    return f"pass: {found.source.kind.name} keeps {count(holds, 'law')}{rest}"


def _tell_all(to: Console, found: Sequence[Conformed]) -> None:
    failed = [each.source.kind.name for each in found if not each.passed]
    said = f"fail: {joined(failed)} of {len(found)} kinds" if failed else f"pass: {count(len(found), 'kind')}"
    write_text(to, said, style=STYLES[Outcome.FAIL if failed else Outcome.PASS])


# ---- as an object


def _plain(found: Sequence[Conformed], seed: int, examples: int) -> dict[str, object]:
    return {
        "verdict": "pass" if all(each.passed for each in found) else "fail",
        "seed": seed,
        "examples": examples,
        "kinds": {each.source.file or each.source.kind.name: _plain_kind(each) for each in found},
    }


def _plain_kind(found: Conformed) -> dict[str, object]:
    return {
        "kind": found.source.kind.name,
        "verdict": "pass" if found.passed else "fail",
        "laws": {
            name: {
                "sentence": SENTENCES[name],
                "outcome": result.outcome.value,
                "said": result.said,
                "example": list(result.example),
            }
            for name, result in found.results.items()
        },
        "mutants": {each.mutant.name: {"by": each.by, "how": each.how} for each in found.mutants},
        "missing": [each.what for each in found.missing],
    }
