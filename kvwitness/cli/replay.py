"""``kvwitness replay FILE``: does a witness still fail?"""

from __future__ import annotations

import json

import click

from kvwitness.cli.options import load_named, split_subjects
from kvwitness.cli.output import console, write_lines
from kvwitness.replay import Answer, Replay, replay
from kvwitness.witness import Witness


@click.command("replay")
@click.argument("file", type=click.Path())
@click.option("--subjects", help="Who is judged, by comma; default: the subject that the witness names.")
@click.option("--fault", help="Plant this fault; default: the fault that the witness names. 'none' plants none.")
@click.option("--engine", help="The engine that moves the bytes; default: that of the witness.")
@click.option("--device", help="Where the engine works; default: that of the witness.")
@click.option("--padding", type=click.Choice(["optional", "due"]), help="Whether rows past the prompt must arrive.")
@click.option(
    "--bisect",
    is_flag=True,
    expose_value=False,  # it concerns every way to end: see kvwitness.cli.run
    help="Exit with 125 instead of 2, so that git bisect run skips the revision.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(
    file: str,
    subjects: str | None,
    fault: str | None,
    engine: str | None,
    device: str | None,
    padding: str | None,
    as_json: bool,
) -> int:
    """Judge the case in FILE again. Exit status: 1 it still fails, 0 it is fixed, 2 cannot tell.

    FILE is a witness that verify or a test wrote, or any case file.
    """
    witness = load_named(file)
    found = replay(
        witness,
        subjects=split_subjects(subjects) if subjects is not None else (),
        fault="" if fault == "none" else fault,
        engine=engine or "",
        device=device or "",
        padding=padding or "",
    )
    if as_json:
        print(json.dumps(_plain(file, found)))
    else:
        _tell(file, witness, found)
    return found.answer.value


def _tell(file: str, witness: Witness, found: Replay) -> None:
    to = console()
    style = {Answer.FAILS: "bold red", Answer.FIXED: "bold green", Answer.CANNOT_TELL: "bold yellow"}[found.answer]
    for sentence in found.unpinned:
        write_lines(to, [f"derived otherwise than when it was written: {sentence}"], style="yellow")
    write_lines(to, [f"{file}: {found.sentence}"], style=style)
    write_lines(to, [f"  {line}" for line in found.lines])
    if found.answer is Answer.FAILS:
        write_lines(to, [f"  in words: kvwitness show {file}"])


def _plain(file: str, found: Replay) -> dict[str, object]:
    failure = found.judgement.failure if found.judgement is not None else None
    return {
        "verdict": {Answer.FAILS: "fail", Answer.FIXED: "pass", Answer.CANNOT_TELL: "not run"}[found.answer],
        "file": file,
        "sentence": found.sentence,
        "violations": list(failure.kinds) if failure is not None else [],
        "subject": failure.subject if failure is not None else None,
        "argument": list(found.lines),
        "derived_otherwise": list(found.unpinned),
    }
