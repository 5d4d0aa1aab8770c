"""Reading option values that are lists or small languages."""

from __future__ import annotations

import os
import secrets

from differential.subjects.registry import known_subjects
from kvwitness.errors import CannotRun
from kvwitness.witness import Witness, load
from oracle.model.errors import InvalidCase


def split_subjects(text: str) -> tuple[str, ...]:
    """Subjects by comma, of which ``native:suffix,no-helix`` is a single one."""
    names: list[str] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        if names and names[-1].startswith("native:") and ":" not in piece and piece not in known_subjects():
            names[-1] += f",{piece}"
        else:
            names.append(piece)
    return _distinct("--subjects", text, tuple(names))


def split_names(option: str, text: str) -> tuple[str, ...]:
    """Names by comma; each at least once, none twice."""
    return _distinct(option, text, tuple(name.strip() for name in text.split(",") if name.strip()))


def split_kinds(text: str) -> tuple[str, ...]:
    """Names of registered kinds by comma, as ``--kinds`` takes them; a file is none."""
    names = split_names("--kinds", text)
    for name in names:
        if name.endswith(".py") or "/" in name or os.sep in name:
            accepted = "a file is judged by kvwitness conform; register it to verify it (docs/new-kind.md)"
            raise CannotRun(f"--kinds = {name!r} is not possible: {accepted}")
    return names


def _distinct(option: str, text: str, names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise CannotRun(f"{option} = {text!r} is not possible: expected at least one name")
    if len(set(names)) < len(names):
        raise CannotRun(f"{option} = {text!r} is not possible: expected each name once")
    return names


def read_seed(text: str) -> int:
    """A whole number, or ``random`` for one that nobody chose."""
    if text == "random":
        return secrets.randbelow(1 << 32)
    if not text.isascii() or not text.isdigit():
        raise CannotRun(f"--seed = {text!r} is not possible: expected a whole number of at least 0, or random")
    return int(text)


def load_named(file: str) -> Witness:
    """The witness or case in ``file``; what is wrong with it is said with the file's name."""
    try:
        return load(file)
    except InvalidCase as error:
        raise CannotRun(f"{file}: {error}") from None


def cores() -> int:
    """Processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
