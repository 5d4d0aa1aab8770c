"""``kvwitness verify``: the main job."""

from __future__ import annotations

import json

import click
from click.core import ParameterSource

from differential.grid import GRIDS
from kvwitness.cli.broken import warn_of_broken_kinds
from kvwitness.cli.deployment import run_deployment
from kvwitness.cli.grid import run_the_grid
from kvwitness.cli.options import cores, read_seed, split_kinds, split_subjects
from kvwitness.cli.output import console
from kvwitness.cli.progress import watcher
from kvwitness.cli.report import as_json, tell_report
from kvwitness.cli.status import COULD_NOT_RUN, PASS, VIOLATIONS
from kvwitness.deployment import Deployment
from kvwitness.errors import CannotRun
from kvwitness.search import run_search
from kvwitness.settings import SCOPES, STATES, Judged, Search
from kvwitness.trial import subjects_for
from strategies.kinds import broken_entries, find_kind, kinds

EXAMPLES = 4000
OUT = "witnesses"

OF_A_SEARCH = ("kind_names", "examples", "seconds", "scope", "states", "seed", "jobs")
OF_NO_GRID = ("examples", "seconds", "scope", "states", "seed", "jobs", "fault", "engine", "device")
OF_A_DEPLOYMENT = ("context", "generation", "prompt", "tokens_per_block", "element_bits", "layout")


@click.command("verify")
@click.option("--kinds", "kind_names", metavar="NAMES", help="Cache kinds, by comma; default: all.")
@click.option("--examples", type=int, help=f"Random cases; default: {EXAMPLES:,}, or as many as --time allows.")
@click.option("--time", "seconds", type=float, metavar="SECONDS", help="Stop drawing random cases after this time.")
@click.option(
    "--scope", type=click.Choice(SCOPES), default="small", show_default=True, help="What is enumerated in full."
)
@click.option(
    "--states",
    type=click.Choice(STATES),
    default="all",
    show_default=True,
    help="Cache states of random cases: managers, reserves, speculation, reuse, beams; or none but a receiver's reuse.",
)
@click.option(
    "--seed",
    default="0",
    show_default=True,
    help="The cases depend on it, on --kinds and --states; 'random' chooses one.",
)
@click.option(
    "--subjects",
    default=",".join(Judged().subjects),
    show_default=True,
    metavar="NAMES",
    help="Who is judged, and compared with each other, by comma; package.module:plan too.",
)
@click.option(
    "--fault",
    default="",
    metavar="NAME",
    help="Plant a bug in the subjects that can have it: violations where it shows, else a pass that says so.",
)
@click.option("--engine", default="host", show_default=True, help="What moves the bytes.")
@click.option("--device", default="cpu", show_default=True, help="Where the engine works.")
@click.option(
    "--padding",
    type=click.Choice(["optional", "due"]),
    default="optional",
    show_default=True,
    help="Whether rows past the prompt must arrive.",
)
@click.option("--jobs", type=int, help="Processes; default: all cores. They do not change which cases are judged.")
@click.option("--out", default=OUT, show_default=True, metavar="DIR", help="Where witnesses are written.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object and nothing else.")
@click.option(
    "--grid", type=click.Choice(GRIDS), help="Judge this grid of managers and splits instead of random cases."
)
@click.option("--model", metavar="NAME|FILE", help="Judge one deployment of this model instead of random cases.")
@click.option("--context", default="", metavar="SPLIT", help="How the sender is split: tp=4,pp=2,cp=1,dp=on.")
@click.option("--generation", default="", metavar="SPLIT", help="How the receiver is split.")
@click.option("--prompt", type=int, default=4096, show_default=True, help="Tokens of the deployment's request.")
@click.option("--tokens-per-block", type=int, help="Tokens of a block; default: as the model is usually run.")
@click.option("--element-bits", type=int, help="Bits of a K/V element; default: as the model is usually run.")
@click.option("--layout", default="hnd", show_default=True, help="hnd, nhd, or context=nhd,generation=hnd.")
@click.pass_context
def command(
    here: click.Context,
    kind_names: str | None,
    examples: int | None,
    seconds: float | None,
    scope: str,
    states: str,
    seed: str,
    subjects: str,
    fault: str,
    engine: str,
    device: str,
    padding: str,
    jobs: int | None,
    out: str,
    as_object: bool,
    grid: str | None,
    model: str | None,
    context: str,
    generation: str,
    prompt: int,
    tokens_per_block: int | None,
    element_bits: int | None,
    layout: str,
) -> int:
    """Judge where every byte goes, and compare subjects: the small scope in full, then random cases.

    Differences that the ledger knows are counted, all others fail. Whatever fails is shrunk, written as
    a witness under --out, and printed with its argument and the one line that replays it. The first failure
    stops the search (in the small scope: that of its kind, and no random case is drawn). With --model, one
    deployment is judged instead.
    """
    given = {name for name in here.params if here.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    who = split_subjects(subjects) if "subjects" in given else subjects_for(fault)
    judged = Judged(who, engine, device, fault, padding)
    warn_of_broken_kinds(() if kind_names is None else split_kinds(kind_names))
    if model is not None:
        _refuse(given, (*OF_A_SEARCH, "grid"), "--model judges one deployment")
        wanted = Deployment(model, context, generation, prompt, tokens_per_block, layout, element_bits)
        return run_deployment(wanted, judged, out, as_object)
    if grid is not None:
        _refuse(given, OF_NO_GRID, "--grid judges its own cases")
        _refuse(given, OF_A_DEPLOYMENT, "without --model there is no deployment")
        chosen = None if kind_names is None else split_kinds(kind_names)
        return run_the_grid(judged, grid, chosen, out, as_object)
    _refuse(given, OF_A_DEPLOYMENT, "without --model there is no deployment")
    if seconds is not None and not seconds > 0:
        raise CannotRun(f"--time = {seconds:g} is not possible: expected seconds above 0")
    names = split_kinds(kind_names) if kind_names is not None else tuple(kind.name for kind in kinds())
    search = Search(
        tuple(find_kind(name).name for name in names),
        scope,
        EXAMPLES if examples is None and seconds is None else examples,
        seconds,
        read_seed(seed),
        cores() if jobs is None else jobs,
        states=states,
    )
    report = run_search(judged, search, out, watcher())
    if kind_names is None:
        report.broken = broken_entries()
    if as_object:
        print(json.dumps(as_json(report)))
    else:
        tell_report(console(), report)
    return {"pass": PASS, "fail": VIOLATIONS, "not run": COULD_NOT_RUN}[report.verdict]


def _refuse(given: set[str], names: tuple[str, ...], why: str) -> None:
    spelled = {"kind_names": "kinds", "seconds": "time"}
    for name in names:
        if name in given:
            raise CannotRun(f"--{spelled.get(name, name).replace('_', '-')} has no meaning here: {why}")
