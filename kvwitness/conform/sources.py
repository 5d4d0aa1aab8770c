"""The kind to be tried: a registered one by its name, or the one that a file declares."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from kvwitness.errors import CannotRun
from oracle.model.errors import InvalidCase
from strategies.kinds import GROUP, check_models, find_kind, is_shipped, registered_kinds
from strategies.kinds.protocol import Kind
from strategies.numbers import KIND_NUMBERS

ATTRIBUTE = "KIND"
MISSING = object()
"""Stands for an attribute that a module has not; None is one that it has."""


@dataclass(frozen=True, slots=True)
class Source:
    """A kind and the file that was loaded for it, "" where the kind is registered."""

    kind: Kind
    file: str = ""

    @property
    def registered(self) -> bool:
        """Whether the commands know this kind by its name."""
        return any(_same(kind, self.kind) for kind in registered_kinds())


def _same(kind: Kind, other: Kind) -> bool:
    if kind is other:
        return True
    files = [_file_of(each) for each in (kind, other)]
    return kind.name == other.name and files[0] is not None and files[0] == files[1]


def _file_of(kind: Kind) -> Path | None:
    code = getattr(kind.decode, "__code__", None)
    return Path(code.co_filename).resolve() if code is not None else None


def find_source(name: str) -> Source:
    """The registered kind called ``name``, whether or not its models build, or that of the file at this path.

    Raises ``CannotRun`` that names the file, the attribute and the line where a file declares no kind, and
    ``InvalidCase`` with the known names for a name that no kind has.
    """
    if "/" in name or name.endswith(".py") or Path(name).is_file():
        return Source(_load(Path(name)), name)
    registered = {kind.name: kind for kind in registered_kinds()}
    return Source(registered.get(name) or find_kind(name))


def _load(path: Path) -> Kind:
    """The ``KIND`` of a file, which is run as a module of its own."""
    if not path.is_file():
        raise CannotRun(
            f"{path}: there is no such file; expected the name of a kind, or a file that names a {ATTRIBUTE}"
        )
    where = path.resolve()
    module_name = f"kvwitness_kind_{sha256(str(where).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, where)
    if spec is None or spec.loader is None:
        raise CannotRun(f"{path}: expected a Python file that names a {ATTRIBUTE}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickles look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise CannotRun(f"{path}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise CannotRun(f"{path}{_line_in(error, where)}: {_told(error)}") from error
    kind = getattr(module, ATTRIBUTE, MISSING)
    if kind is MISSING:
        near = next((name for name, value in vars(module).items() if isinstance(value, Kind)), "")
        accepted = f"; did you mean {near}?" if near else ""
        raise CannotRun(f"{path}: it has no attribute {ATTRIBUTE}, which names the Kind that it declares{accepted}")
    if not isinstance(kind, Kind):
        raise CannotRun(f"{path}: {ATTRIBUTE} = {kind!r} is not possible: expected a Kind (strategies.kinds.protocol)")
    if len(kind.bounds) > KIND_NUMBERS:
        raise CannotRun(f"{path}: {ATTRIBUTE}.bounds = {kind.bounds} is not possible: expected at most {KIND_NUMBERS}")
    if is_shipped(kind.name) and not _same(find_kind(kind.name), kind):
        raise CannotRun(
            f"{path}: {ATTRIBUTE}.name = {kind.name!r} is not possible: a kind of the project has this name; "
            "choose another"
        )
    if not is_shipped(kind.name):
        try:
            check_models(kind)
        except InvalidCase as error:
            raise CannotRun(f"{path}: {error}") from None
    return kind


def _line_in(error: BaseException, file: Path) -> str:
    """``:12``, the innermost line of ``file`` that led to ``error``."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).resolve() == file
    ]
    return f":{lines[-1]}" if lines else ""


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, InvalidCase) else f"{type(error).__name__}: {error}"


def origin_of(error: BaseException) -> BaseException:
    """What the kind itself raised, where ``error`` only tells of it; ``error``, where that is a refusal in words."""
    first = error
    while isinstance(first, InvalidCase) and first.__cause__ is not None:
        first = first.__cause__
    return error if isinstance(first, InvalidCase) else first


def line_of(error: BaseException, source: Source) -> str:
    """``FILE:12: `` of the line of the kind's own file that raised ``error``, "" where it is none of it."""
    file = _file_of(source.kind)
    line = _line_in(error, file) if file is not None else ""
    return f"{source.file or file.name}{line}: " if line else ""


def last_line(error: BaseException) -> str:
    """``FILE:12``, where ``error`` was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def how_to_register(source: Source) -> tuple[str, ...]:
    """What to write so that the commands know the kind by its name."""
    stem = Path(source.file).stem
    return (
        f'[project.entry-points."{GROUP}"]',
        f'{source.kind.name} = "PACKAGE.{stem}:{ATTRIBUTE}"',
    )
