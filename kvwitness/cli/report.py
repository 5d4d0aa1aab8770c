"""How the outcome of a search is told: in words and a table, or as one JSON object."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvwitness.cli.broken import plain_broken
from kvwitness.cli.compared import plain_compared, tell_compared
from kvwitness.cli.output import STYLES, fits, write_lines, write_text
from kvwitness.search import Report
from kvwitness.tally import Spread, Tally
from kvwitness.trial import Failure
from kvwitness.words import count, in_bytes, in_seconds, joined, short
from strategies.scope import describe

STATED = {"all": "with cache states", "none": "without cache states"}
"""What random cases have, by ``--states``."""

LEAST_MEASURED = 1.0
"""Processor seconds below which no rate is told: a first case costs many times what a later one does."""


def tell_report(to: Console, report: Report) -> None:
    """What failed first, then what was judged, then the verdict."""
    for finding in report.findings:
        shrunk = "shrunk" if finding.case.kind == finding.kind else f"shrunk to one of {finding.case.kind}"
        tell_failure(to, finding, f"found in {finding.where}, {shrunk}")
    tell_stale(to, report.stale)
    to.print()
    _tell_bounds(to, report)
    to.print()
    table = _table(report)
    unmet = _unmet(report)
    if fits(to, table):
        to.print(table)
        sized = "random cases" if report.random_cases else "scope"
        write_text(to, f"ranks of both sides, layers, blocks: least/median/most of the {sized}")
        unmet = unmet if report.findings else []
    else:
        _tell_kinds(to, report)
    if unmet:
        why = "not judged" if report.findings else "not run, for no case of them came"
        write_text(to, f"{why}: {joined(unmet)}", hang=2, style=STYLES["not run"])
    judged = {kind: tally for kind, tally in report.kinds.items() if tally.cases or not report.findings}
    compared = {kind: tally.compared for kind, tally in judged.items()}
    tell_compared(to, compared, {kind: tally.left_out for kind, tally in judged.items()})
    to.print()
    for note in report.notes:
        write_text(to, note if note.endswith(("?", ".")) else f"{note}.", style="yellow")
    write_text(to, _closing(report) + _stopped(report) + _not_judged(report), style=STYLES[report.verdict])


class Found(Protocol):
    """A failure and where its shrunk case was written."""

    failure: Failure
    path: Path
    argument: tuple[str, ...]


def tell_failure(to: Console, found: Found, where: str) -> None:
    """One failure: what, where it was found, why it fails, and the line that replays it."""
    to.print()
    write_text(to, f"FAIL {found.failure}", style="bold red")
    write_text(to, f"{where}; the witness is {found.path}", indent=2, hang=2)
    write_lines(to, [f"  {line}" for line in found.argument])
    write_lines(to, [f"  replay it: kvwitness replay {found.path}"], style="bold")
    if found.failure.stage == "comparison":
        write_lines(to, [f"  in full:   kvwitness diff {found.path}"])


def tell_stale(to: Console, stale: list[str]) -> None:
    """Entries of the ledger that are no longer true: each fails the run."""
    for sentence in stale:
        to.print()
        write_text(to, f"FAIL {sentence}", hang=2, style="bold red")


def _tell_bounds(to: Console, report: Report) -> None:
    search, judged = report.search, report.judged
    planted = f" with the planted fault {judged.fault}" if judged.fault else ""
    engine = f"engine {judged.engine}{'' if judged.device == 'cpu' else f' on {judged.device}'}"
    write_text(to, f"judged: {joined(judged.subjects)}{planted}; {engine}; padding {judged.padding}", hang=2)
    if report.scope:
        kinds = list(report.scope)
        for some in [[kind] for kind in kinds] if len(kinds) <= 3 else [kinds]:
            whose = some[0] if len(some) == 1 else f"{len(some)} kinds"
            write_text(to, f"{search.scope} scope of {whose}: {describe(search.scope, some)}.", hang=2)
        write_text(to, "In the small scope the engine carries out one case of each topology class.", indent=2)
    if report.random_cases:
        write_text(
            to,
            f"random: {count(report.random_cases, 'case')} of seed {search.seed} {STATED[search.states]}"
            f" in {count(report.shards, 'shard')}{_rates(report)}",
            hang=2,
        )


def _rates(report: Report) -> str:
    if report.timing.whole < LEAST_MEASURED or not report.timing.served:
        return ""
    compared = ", judged and compared" if report.compared else " and judged"
    carried = f"; {report.rate_carried:,.0f} a second with carrying out" if report.timing.carrying else ""
    return f", {report.rate:,.0f} a second on one core, drawn, planned{compared}{carried}"


# ---- kind by kind


def verdict_of(tally: Tally) -> str:
    if tally.failed:
        return "fail"
    return "pass" if tally.cases else "not run"


def spreads(tally: Tally) -> tuple[Spread, Spread, Spread]:
    """Ranks, layers and blocks of the cases."""
    return Spread.of(tally.ranks), Spread.of(tally.layers), Spread.of(tally.blocks)


def _sized(report: Report, kind: str) -> Tally:
    """The tally whose sizes are told: the random cases, which nobody enumerated, or the scope where there are none."""
    random = report.random.get(kind)
    return random if random is not None and random.cases else report.scope.get(kind, Tally())


def _table(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("kind", no_wrap=True)
    for name in ("scope", "random", "refused", "rank pairs", "runs", "bytes", "ranks", "layers", "blocks"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    left_out = _unmet(report) if report.findings else ()
    for kind, tally in report.kinds.items():
        if kind in left_out:
            continue
        scope, random = report.scope.get(kind, Tally()), report.random.get(kind, Tally())
        table.add_row(
            kind,
            f"{scope.cases:,}",
            f"{random.cases:,}",
            f"{tally.refused:,}",
            short(tally.pairs),
            short(tally.runs),
            in_bytes(tally.nbytes),
            *map(str, spreads(_sized(report, kind))),
            _verdict_text(tally),
        )
    return table


def _verdict_text(tally: Tally) -> Text:
    verdict = verdict_of(tally)
    return Text("FAIL" if verdict == "fail" else verdict, style=STYLES[verdict])


def _unmet(report: Report) -> list[str]:
    """Kinds of which nothing was judged."""
    return [kind for kind, tally in report.kinds.items() if not tally.cases]


def _tell_kinds(to: Console, report: Report) -> None:
    unmet = _unmet(report)
    for kind, tally in report.kinds.items():
        if kind in unmet:
            continue
        scope, random = report.scope.get(kind, Tally()), report.random.get(kind, Tally())
        ranks, layers, blocks = spreads(_sized(report, kind))
        to.print(Text(f"{kind}: ", style="bold") + _verdict_text(tally))
        for line in (
            f"{scope.cases:,} of the scope, {count(random.cases, 'random case')}, {tally.refused:,} rightly refused",
            f"{count(tally.pairs, 'rank pair')}, {count(tally.runs, 'run')}, {in_bytes(tally.nbytes)} judged",
            f"ranks {ranks}, layers {layers}, blocks {blocks} (least/median/most)",
        ):
            write_text(to, line, indent=2, hang=2)


def _closing(report: Report) -> str:
    parts = []
    if report.scope_cases:
        parts.append(f"{count(report.scope_cases, 'case')} of the {report.search.scope} scope")
    if report.random_cases:
        parts.append(f"{count(report.random_cases, 'random case')} of seed {report.search.seed}")
    what = f"{joined(parts) or 'no case'} in {in_seconds(report.seconds)}"
    if report.verdict == "fail":
        stale = f", {count(len(report.stale), 'stale entry', 'stale entries')} of the ledger" if report.stale else ""
        return f"fail: {count(len(report.findings), 'witness', 'witnesses')}{stale} in {what}"
    if report.verdict == "not run":
        return f"not run: {what}"
    unknown = ", and no difference that is not known" if report.compared else ""
    hidden = f"; the planted fault {report.judged.fault} did not show in them" if report.judged.fault else ""
    return f"pass: no violation in {what}{unknown}{hidden}"


def _stopped(report: Report) -> str:
    """That a failed run went no further, and what it left: the rest of a kind's scope, and of the random cases."""
    if not report.findings:
        return ""
    search, left = report.search, []
    rest = report.scope_size - report.scope_cases
    if rest:
        left.append(f"{rest:,} of {count(report.scope_size, 'case')} of the {search.scope} scope")
    if search.examples is not None and search.examples > report.random_cases:
        left.append(f"{search.examples - report.random_cases:,} of {count(search.examples, 'random case')}")
    each = " of each kind" if len(search.kinds) > 1 and not report.random_cases else ""
    return f"; stopped at the first failure{each}{f': {joined(left)} not judged' if left else ''}"


def _not_judged(report: Report) -> str:
    """Which kinds a search over all of them left out; why is told on stderr."""
    if not report.broken:
        return ""
    names = joined(dict.fromkeys(entry.name for entry in report.broken))
    return f"; not judged: {names} (cannot be used)"


# ---- for programs


def as_json(report: Report) -> dict[str, object]:
    """The object that ``--json`` prints. Sizes are [least, median, most]."""
    return {
        "verdict": report.verdict,
        "seed": report.search.seed,
        "states": report.search.states,
        "cases": report.cases,
        "random_cases": report.random_cases,
        "rate": round(report.rate, 1),
        "rate_carried": round(report.rate_carried, 1),
        "seconds": round(report.seconds, 2),
        "scope": {"bound": report.search.scope, "cases": report.scope_cases},
        "kinds": {kind: _plain_tally(report, kind, tally) for kind, tally in report.kinds.items()},
        "subjects": plain_compared(report.compared),
        "broken": plain_broken(report.broken),
        "stale": report.stale,
        "judged": list(report.judged.subjects),
        "fault": report.judged.fault or None,
        "witnesses": [str(finding.path) for finding in report.findings],
        "notes": report.notes,
    }


def _plain_tally(report: Report, kind: str, tally: Tally) -> dict[str, object]:
    sizes = zip(("ranks", "layers", "blocks"), spreads(_sized(report, kind)), strict=True)
    return {
        "verdict": verdict_of(tally),
        "cases": tally.cases,
        "refused": tally.refused,
        "pairs": tally.pairs,
        "runs": tally.runs,
        "bytes": tally.nbytes,
        "violations": tally.failed,
        "violation_kinds": dict(tally.violations),
        "subjects": plain_compared(tally.compared),
        "left_out": dict(tally.left_out),
        **{name: [spread.least, spread.median, spread.most] for name, spread in sizes},
    }
