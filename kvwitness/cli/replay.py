"""``kvwitness replay FILE...``: does a witness still fail?"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable

import click

from kvwitness.cli.options import load_named, split_subjects
from kvwitness.cli.output import console, write_lines
from kvwitness.errors import CannotRun
from kvwitness.replay import Answer, Replay, check_asked, replay
from kvwitness.words import count
from oracle.model.errors import InvalidCase

WORDS = {Answer.FAILS: "still failing", Answer.CANNOT_TELL: "unclear", Answer.FIXED: "passing"}
"""What some of several files do, most severe first."""
VERDICTS = {Answer.FAILS: "fail", Answer.FIXED: "pass", Answer.CANNOT_TELL: "not run"}
STYLES = {Answer.FAILS: "bold red", Answer.FIXED: "bold green", Answer.CANNOT_TELL: "bold yellow"}


@click.command("replay")
@click.argument("files", metavar="FILE...", type=click.Path(), nargs=-1, required=True)
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file, each on a line, and no more.")
def command(
    files: tuple[str, ...],
    subjects: str | None,
    fault: str | None,
    engine: str | None,
    device: str | None,
    padding: str | None,
    as_json: bool,
) -> int:
    """Judge the case in FILE again. Exit status: 1 it still fails, 0 it is fixed, 2 cannot tell.

    FILE is a witness that verify or a test wrote, or any case file. Of several, all are judged: the status is 1 if
    any still fails, else 2 if any cannot tell.
    """
    chosen = {
        "subjects": split_subjects(subjects) if subjects is not None else (),
        "fault": "" if fault == "none" else fault,
        "engine": engine or "",
        "device": device or "",
        "padding": padding or "",
    }
    check_asked(**chosen)  # type: ignore[arg-type]

    def answer(file: str) -> Answer:
        found = replay(load_named(file), **chosen)  # type: ignore[arg-type]
        if as_json:
            print(json.dumps(_plain(file, found)))
        else:
            _tell(file, found)
        return found.answer

    if len(files) == 1 and not as_json:
        return answer(files[0]).value
    return _answer_all(files, answer, as_json)


def _answer_all(files: Iterable[str], answer: Callable[[str], Answer], as_json: bool) -> int:
    """Answer for every file, whatever becomes of another one, and return the status of them all."""
    answers: Counter[Answer] = Counter()
    for file in files:
        try:
            found = answer(file)
        except (CannotRun, InvalidCase) as error:
            found = Answer.CANNOT_TELL
            if as_json:
                print(json.dumps({"verdict": VERDICTS[found], "file": file, "reason": str(error)}))
            where = "" if file in str(error) else f"{file}: "
            print(f"kvwitness: {where}{error}", file=sys.stderr)
        answers[found] += 1
    if not as_json:
        told = ", ".join(f"{answers[each]} {words}" for each, words in WORDS.items() if answers[each])
        write_lines(console(), [f"{count(answers.total(), 'file')}: {told}"], style="bold")
    return next(each for each in WORDS if answers[each]).value


def _tell(file: str, found: Replay) -> None:
    to = console()
    for sentence in found.unpinned:
        write_lines(to, [f"derived otherwise than when it was written: {sentence}"], style="yellow")
    planted = f", with the planted fault {found.fault}" if found.fault else ""
    write_lines(to, [f"{file}: {found.sentence}{planted}"], style=STYLES[found.answer])
    write_lines(to, [f"  {line}" for line in found.lines])
    if found.answer is Answer.FAILS:
        write_lines(to, [f"  in words: kvwitness show {file}"])


def _plain(file: str, found: Replay) -> dict[str, object]:
    failure = found.judgement.failure if found.judgement is not None else None
    return {
        "verdict": VERDICTS[found.answer],
        "file": file,
        "sentence": found.sentence,
        "fault": found.fault,
        "violations": list(failure.kinds) if failure is not None else [],
        "subject": failure.subject if failure is not None else None,
        "argument": list(found.lines),
        "derived_otherwise": list(found.unpinned),
    }
