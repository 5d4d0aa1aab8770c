"""``kvwitness show FILE``: a case in words, and what fails in it."""

from __future__ import annotations

import click

from kvwitness.cli.options import load_named
from kvwitness.cli.output import console, write_lines
from kvwitness.errors import CannotRun
from kvwitness.replay import Answer, replay
from kvwitness.story import tell
from kvwitness.witness import Meta, Witness
from oracle.model.codec import case_id


@click.command("show")
@click.argument("file", type=click.Path())
def command(file: str) -> int:
    """Tell the case in FILE in words: who holds what, where it lies, and for a witness what failed and why."""
    witness = load_named(file)
    to = console()
    what = "a case file" if witness.meta is None else f"a witness{_found_by(witness.meta)}"
    write_lines(to, [f"{file}: {what}, content id {case_id(witness.case)}"], style="bold")
    write_lines(to, tell(witness.case))
    if witness.meta is not None:
        write_lines(to, _failure(witness, witness.meta))
    return 0


def _found_by(meta: Meta) -> str:
    seed = f", seed {meta.seed}" if meta.seed is not None else ""
    return f" written by kvwitness {meta.version}{seed}" if meta.version else seed


def _failure(witness: Witness, meta: Meta) -> list[str]:
    """What failed when the witness was written, and what the judge says now."""
    who = " and ".join(filter(None, (meta.subject or "mapping", meta.other)))
    planted = f" with the planted fault {meta.fault}" if meta.fault else ""
    stage = {"memory": " in the memory that the engine left", "plan": " in the plan"}.get(meta.stage, "")
    lines = [
        f"found       {who}{planted}: {', '.join(meta.kinds)}{stage}" if meta.kinds else f"found       by {meta.test}"
    ]
    lines += [f"  derived otherwise than then: {sentence}" for sentence in witness.unpinned()]
    try:
        now = replay(witness)
    except CannotRun as error:
        return [*lines, f"now         cannot tell: {error.reason}", *_indented(meta.argument)]
    lines.append(f"now         {now.sentence}")
    return lines + _indented(meta.argument if now.answer is Answer.CANNOT_TELL else now.lines)


def _indented(lines: tuple[str, ...]) -> list[str]:
    return [f"  {line}" for line in lines]
