"""``kvwitness show FILE``: a case in words, and what fails in it."""

from __future__ import annotations

import click
from rich.console import Console

from differential.compare.sibling import is_large
from kvwitness.bytemap import map_failure
from kvwitness.cli.bytes import tell_map
from kvwitness.cli.options import load_named
from kvwitness.cli.output import console, write_lines, write_text
from kvwitness.errors import CannotRun
from kvwitness.neighbours import find_neighbours
from kvwitness.replay import Answer, Replay, replay
from kvwitness.story import tell
from kvwitness.trial import Judgement
from kvwitness.witness import Meta, Witness
from oracle.model.codec import case_id


@click.command("show")
@click.argument("file", type=click.Path())
def command(file: str) -> int:
    """Tell the case in FILE in words: who holds what, and where it lies.

    For a witness also what failed and why, the wrong block byte by byte, and which small changes pass.
    """
    witness = load_named(file)
    to = console()
    what = "a case file" if witness.meta is None else f"a witness{_found_by(witness.meta)}"
    write_lines(to, [f"{file}: {what}, content id {case_id(witness.case)}"], style="bold")
    write_lines(to, tell(witness.case))
    if witness.meta is not None:
        _tell_failure(to, witness, witness.meta)
    return 0


def _found_by(meta: Meta) -> str:
    seed = f", seed {meta.seed}" if meta.seed is not None else ""
    return f" written by kvwitness {meta.version}{seed}" if meta.version else seed


def _tell_failure(to: Console, witness: Witness, meta: Meta) -> None:
    """What failed when the witness was written, what the judge says now, the wrong block, and what would pass."""
    who = " and ".join(filter(None, (meta.subject or "mapping", meta.other)))
    planted = f" with the planted fault {meta.fault}" if meta.fault else ""
    stage = {"memory": " in the memory that the engine left", "plan": " in the plan"}.get(meta.stage, "")
    found = f"{who}{planted}: {', '.join(meta.kinds)}{stage}" if meta.kinds else f"by {meta.test}"
    lines = [f"{'found':<12}{found}"]
    lines += [f"  derived otherwise than then: {sentence}" for sentence in witness.unpinned()]
    try:
        now = replay(witness)
    except CannotRun as error:
        write_lines(to, [*lines, f"{'now':<12}cannot tell: {error.reason}", *_indented(meta.argument)])
        return
    lines.append(f"{'now':<12}{now.sentence}")
    write_lines(to, lines + _indented(meta.argument if now.answer is Answer.CANNOT_TELL else now.lines))
    if now.answer is Answer.FAILS and now.judgement is not None:
        _tell_block(to, now.judgement, meta)
        _tell_neighbours(to, now)


def _tell_block(to: Console, judgement: Judgement, meta: Meta) -> None:
    found = map_failure(judgement, meta.padding)
    if isinstance(found, str):
        write_text(to, f"{'bytes':<12}{found}", hang=12)
        return
    failure = judgement.failure
    assert failure is not None
    write_lines(to, [f"{'bytes':<12}of the block, where it is sent from and where it arrives"])
    tell_map(to, found, (failure.subject, failure.other) if failure.other else ("", ""))


def _tell_neighbours(to: Console, now: Replay) -> None:
    assert now.judgement is not None and now.judgement.failure is not None and now.trial is not None
    if is_large(now.judgement.case):
        write_lines(to, [f"{'near':<12}not looked for: the case is too large to judge many like it"])
        return
    near = find_neighbours(now.judgement.case, now.trial, carry=now.judgement.failure.stage == "memory")
    for number, line in enumerate(near.lines()):
        write_text(to, f"{'' if number else 'near':<12}{line}", hang=14)


def _indented(lines: tuple[str, ...]) -> list[str]:
    return [f"  {line}" for line in lines]
