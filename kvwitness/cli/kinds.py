"""``kvwitness kinds``: the cache kinds, what each stresses, one of them in detail, or a file for a new one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvwitness.cli.broken import plain_broken, warn_of, warn_of_broken_kinds
from kvwitness.cli.output import console, write_lines, write_text
from kvwitness.cli.status import PASS
from kvwitness.errors import CannotRun
from kvwitness.kinds import (
    ShownModel,
    describe_native,
    native_of,
    show_published,
    show_small,
    splits_of,
)
from kvwitness.new_kind import write_new_kind
from kvwitness.words import joined
from oracle.model.case import Native
from oracle.model.errors import require_whole
from strategies.kinds import BrokenEntry, broken_entries, broken_entry, find_kind, is_shipped, kinds
from strategies.kinds.protocol import Kind
from strategies.stresses import STRESSES, SUBJECTS
from strategies.stresses.reach import CASES, Reach, reach_of

MISSED = "!!!"
PUBLISHED = "pub"
"""Stands for what only published models of a kind show, and no drawn case can."""
"""A stress that a kind declares and that none of its cases reaches."""

NUMBER = 3
"""Columns of a number of cases."""


@click.command("kinds")
@click.argument("name", required=False)
@click.option("--tp", type=int, help="Tensor ranks of the instance whose pools are shown; with NAME only; default: 1.")
@click.option("--new", "file", type=click.Path(), help="Write a file to start a kind of your own from.")
@click.option("--json", "as_object", is_flag=True, help="Print one JSON object and nothing else.")
def command(name: str | None, tp: int | None, file: str | None, as_object: bool) -> int:
    """List the cache kinds, and count which stress each of them reaches.

    With NAME: one kind in detail. The counts are of cases that are the same every time.
    """
    warn_of_broken_kinds(() if name is None else (name,))
    if file is not None:
        return _write_new(file, name, tp, as_object)
    if name is None:
        if tp is not None:
            raise CannotRun("--tp has no meaning here: without NAME no pools are shown")
        chosen, broken = _that_build()
        if as_object:
            _print_object({**_plain_all(chosen), "broken": plain_broken((*broken_entries(), *broken))})
        else:
            _tell_all(console(), chosen)
        return PASS
    tp = 1 if tp is None else tp
    require_whole("--tp", tp, least=1)
    kind = find_kind(name)
    if as_object:
        _print_object(_plain_one(kind, tp))
    else:
        _tell_one(console(), kind, tp)
    return PASS


def _write_new(file: str, name: str | None, tp: int | None, as_object: bool) -> int:
    for given, what in ((name, f"the kind {name}"), (tp, "--tp"), (as_object or None, "--json")):
        if given is not None:
            raise CannotRun(f"{what} has no meaning here: --new writes a file and tells what to do with it")
    write_lines(console(), write_new_kind(file))
    return PASS


def _that_build() -> tuple[tuple[Kind, ...], tuple[BrokenEntry, ...]]:
    """The kinds of which all that is told can be built, and those of other distributions of which it cannot.

    Each of these is told on stderr. Some of their numbers are tried when they are looked up, here all that are drawn.
    """
    chosen: list[Kind] = []
    broken: list[BrokenEntry] = []
    for kind in kinds():
        if not is_shipped(kind.name):
            try:
                native_of(kind)
                reach_of(kind)
            except Exception as error:
                broken.append(broken_entry(kind, error))
                warn_of(broken[-1])
                continue
        chosen.append(kind)
    return tuple(chosen), tuple(broken)


def _print_object(plain: dict[str, object]) -> None:
    print(json.dumps(plain))


# ---- all kinds


def _tell_all(to: Console, chosen: Sequence[Kind]) -> None:
    to.print()
    widest = max(len(kind.name) for kind in chosen)
    for kind in chosen:
        _tell_kind(to, kind, widest + 2)
    to.print()
    blank = (
        f"blank where its declarations cannot show it, {PUBLISHED} where only published models do, "
        f"{MISSED} where small ones can and no case did"
    )
    write_text(to, f"In how many of {CASES} cases of a kind each stress shows: {blank}.")
    reached = {kind.name: reach_of(kind) for kind in chosen}
    for block in _blocks(to.width, chosen):
        to.print()
        to.print(_table(block, reached))
    to.print()
    missed = [(kind.name, stress) for kind in chosen for stress, reach in reached[kind.name].items() if reach.is_missed]
    for name, stress in missed:
        write_text(to, f"{MISSED} {name} never reaches: {stress}", hang=4, style="bold red")


def _tell_kind(to: Console, kind: Kind, indent: int) -> None:
    _tell_beside(to, kind.name, kind.description, indent, style="bold")
    rules = {native is not None for native in native_of(kind)}
    native = "legacy rule for some models" if len(rules) > 1 else "legacy rule" if True in rules else "no legacy rule"
    published = joined(model.name for model in kind.published)
    said = f"{' '.join(splits_of(kind))}; {native}; {published or 'no published model'}"
    write_text(to, said, indent=indent, style="dim")


def _tell_beside(to: Console, head: str, text: str, indent: int, *, style: str = "") -> None:
    """``head`` in ``style``, and beside it ``text``, wrapped to what is left."""
    for number, row in enumerate(Text(text).wrap(to, max(20, to.width - indent))):
        row.rstrip()
        to.print(Text(f"{'' if number else head:<{indent}}", style=style) + row, soft_wrap=True)


def _blocks(width: int, chosen: Sequence[Kind]) -> Iterator[Sequence[Kind]]:
    """As many kinds side by side as fit, the same number in each table."""
    room = max(4, (width - 2 - max(len(stress.name) for stress in STRESSES)) // (NUMBER + 1))
    tables = -(-len(chosen) // room)
    size = -(-len(chosen) // tables)
    return (chosen[start : start + size] for start in range(0, len(chosen), size))


def _table(chosen: Sequence[Kind], reached: dict[str, dict[str, Reach]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0, collapse_padding=True)
    table.add_column("", no_wrap=True)
    tallest = max(len(kind.name) for kind in chosen)
    for kind in chosen:
        table.add_column("\n".join(kind.name.rjust(tallest)), justify="right", no_wrap=True, min_width=NUMBER)
    for subject, stresses in SUBJECTS.items():
        table.add_row(Text(subject, style="bold"))
        for stress in stresses:
            table.add_row(f"  {stress.name}", *(_cell(reached[kind.name][stress.name]) for kind in chosen))
    return table


def _cell(reach: Reach) -> Text:
    if reach.is_missed:
        return Text(MISSED, style="bold red")
    if reach.is_of_published:
        return Text(PUBLISHED, style="dim")
    return Text("" if reach.is_blank else f"{reach.cases}")


# ---- one kind


def _tell_one(to: Console, kind: Kind, tp: int) -> None:
    write_text(to, f"{kind.name}: {kind.description}", hang=2, style="bold")
    for name, said in (
        ("splits", " ".join(splits_of(kind))),
        ("layers", f"{kind.layers[0]} to {kind.layers[1]} of a small model"),
        ("blocks", f"{joined(kind.tokens_per_block, 'or')} tokens in small models"),
        ("legacy", "; or ".join(map(describe_native, native_of(kind)))),
        ("published", ", ".join(model.name for model in kind.published) or "no model"),
    ):
        write_text(to, f"{name:<12}{said}", hang=12)
    for shown in (show_small(kind, tp), *(show_published(model, tp) for model in kind.published[:1])):
        to.print()
        _tell_model(to, shown)
    to.print()
    _tell_reach(to, reach_of(kind))


def _tell_model(to: Console, shown: ShownModel) -> None:
    write_text(to, shown.title, style="bold")
    for name, retention, buffers in shown.groups:
        write_text(to, f"{name}: {retention}", indent=2, hang=2)
        for buffer in buffers:
            _tell_buffer(to, buffer)
    write_text(to, f"pools of {shown.rank}:", indent=2)
    for pool in shown.pools:
        said = (
            f"pool {pool.number}, pool group {pool.pool_group}, {pool.slot_bytes:,} B a slot: {'; '.join(pool.holds)}"
        )
        write_text(to, said, indent=4, hang=2)


def _tell_buffer(to: Console, buffer: str) -> None:
    """A buffer in the notation, wrapped at its blanks, and a list of layers too long for a line at its commas."""
    width = max(20, to.width - 6)
    rows = [""]
    for word in re.split("(?<= )", buffer):
        for piece in [word] if len(word.rstrip()) <= width else re.split("(?<=,)", word):
            if len(rows[-1]) + len(piece.rstrip()) > width:
                rows.append("")
            rows[-1] += piece
    write_lines(to, (f"{' ' * (6 if number else 4)}{row.rstrip()}" for number, row in enumerate(rows)))


def _tell_reach(to: Console, reached: dict[str, Reach]) -> None:
    write_text(to, f"stresses, in how many of {CASES} cases", style="bold")
    widest = max(len(stress.name) for stress in STRESSES)
    for stress in STRESSES:
        reach = reached[stress.name]
        if not reach.is_blank:
            head = f"{_cell(reach).plain:>5}  {stress.name}"
            _tell_beside(to, head, stress.sentence, widest + 9, style="bold red" if reach.is_missed else "")


# ---- for programs


def _plain_all(chosen: Sequence[Kind]) -> dict[str, object]:
    return {
        "cases": CASES,
        "stresses": {stress.name: stress.sentence for stress in STRESSES},
        "kinds": {kind.name: _plain_kind(kind) for kind in chosen},
    }


def _plain_kind(kind: Kind) -> dict[str, object]:
    return {
        "description": kind.description,
        "splits": list(splits_of(kind)),
        "layers": list(kind.layers),
        "tokens_per_block": list(kind.tokens_per_block),
        "legacy": [_plain_native(native) for native in native_of(kind)],
        "published": {model.name: model.title for model in kind.published},
        "stresses": {
            name: {"declared": reach.declared, "cases": reach.cases} for name, reach in reach_of(kind).items()
        },
    }


def _plain_native(native: Native | None) -> dict[str, object] | None:
    return None if native is None else {"mappers": dict(native.mappers), "ignored": list(native.ignored)}


def _plain_one(kind: Kind, tp: int) -> dict[str, object]:
    shown = [show_small(kind, tp), *(show_published(model, tp) for model in kind.published)]
    return {"name": kind.name, "cases": CASES, **_plain_kind(kind), "models": [_plain_model(model) for model in shown]}


def _plain_model(shown: ShownModel) -> dict[str, object]:
    return {
        "title": shown.title,
        "groups": [
            {"name": name, "retention": retention, "buffers": list(buffers)}
            for name, retention, buffers in shown.groups
        ],
        "rank": shown.rank,
        "pools": [
            {"pool_group": pool.pool_group, "slot_bytes": pool.slot_bytes, "holds": list(pool.holds)}
            for pool in shown.pools
        ],
    }
