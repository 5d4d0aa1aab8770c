"""``kvwitness bench``: how fast the checker is, each value with its bar."""

from __future__ import annotations

import json
import sys

import click

from kvwitness.bench import Measure, measure_all
from kvwitness.cli.output import console, write_text
from kvwitness.cli.status import PASS, VIOLATIONS


@click.command("bench")
@click.option("--quick", is_flag=True, help="Leave out the default verify, which takes longest.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON list and nothing else.")
def command(quick: bool, as_object: bool) -> int:
    """Measure rates and ratios on this machine, each with its bar where it has one.

    Exit status: 0 all bars hold, 1 one does not.
    """
    to = console()
    measures = []
    for measure in measure_all(verify=not quick):
        measures.append(measure)
        if as_object:
            print(f"{measure.name}: {_value(measure)}", file=sys.stderr, flush=True)
        else:
            write_text(
                to,
                f"{_holds(measure):<7}{measure.name}: {_value(measure)}{_bar(measure)}",
                hang=7,
                style=_style(measure),
            )
            if measure.detail:
                write_text(to, measure.detail, indent=7)
    if as_object:
        print(json.dumps([measure.plain() for measure in measures], indent=1))
    return PASS if all(measure.holds for measure in measures) else VIOLATIONS


def _holds(measure: Measure) -> str:
    if measure.bar is None:
        return ""
    return "holds" if measure.holds else "MISSES"


def _bar(measure: Measure) -> str:
    if measure.bar is None:
        return ""
    return f" ({'at least' if measure.at_least else 'at most'} {measure.bar:g} {measure.unit})"


def _style(measure: Measure) -> str:
    if measure.bar is None:
        return ""
    return "green" if measure.holds else "bold red"


def _value(measure: Measure) -> str:
    digits = 0 if measure.value >= 100 else 1 if measure.value >= 10 else 2
    return f"{measure.value:,.{digits}f} {measure.unit}"
