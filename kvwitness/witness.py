"""Witnesses: failing cases as files that replay on any later version, from any directory.

A witness is a case file with a ``witness`` object beside the case: who failed, how, and what was
told of it. The case alone decides what happens on replay; the rest is for people, but for the
*pins*: short strings of what was derived from the case, so that a version that derives something
else says so instead of judging another transfer in silence.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kvwitness.errors import CannotRun
from kvwitness.settings import Judged
from kvwitness.version import VERSION
from oracle.model.case import SIDES, Case
from oracle.model.codec import case_id, decode_file, encode_file
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.pages import PageTable
from oracle.model.sides import lay_out

FIELDS = (
    "subject",
    "other",
    "fault",
    "property",
    "stage",
    "engine",
    "device",
    "padding",
    "seed",
    "version",
    "test",
    "pins",
    "argument",
)

PINNED = 8
"""Regions and slots that a pin spells out; the rest is told by a digest."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What a witness says beside its case.

    ``kinds``: violation kinds, as the judge names them, the main one first (``property`` in the
    file), or ``differs`` where ``subject`` and ``other`` do; empty where a test failed of which the
    judge knows nothing, which ``test`` then names.
    ``argument``: the lines that explained the failure when it was found.
    """

    subject: str = ""
    fault: str = ""
    kinds: tuple[str, ...] = ()
    stage: str = "plan"
    engine: str = "host"
    device: str = "cpu"
    padding: str = "optional"
    seed: int | None = None
    version: str = VERSION
    test: str = ""
    pins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    argument: tuple[str, ...] = ()
    other: str = ""

    @property
    def judged(self) -> Judged:
        """How the failure was found."""
        subjects = tuple(filter(None, (self.subject, self.other))) or Judged().subjects
        return Judged(subjects, self.engine, self.device, self.fault, self.padding)

    @property
    def finding(self) -> tuple[object, ...]:
        """What makes this the same finding as another of the same case; where the judge finds nothing, the test."""
        return (self.subject, self.other, self.fault, self.kinds, self.stage, "" if self.kinds else self.test)

    def plain(self) -> dict[str, object]:
        """As the ``witness`` object of a file, empty fields left out."""
        values: dict[str, object] = {name: getattr(self, "kinds" if name == "property" else name) for name in FIELDS}
        values["pins"] = {side: list(pins) for side, pins in self.pins.items()}
        for name in ("property", "argument"):
            values[name] = list(values[name])
        return {name: value for name, value in values.items() if value not in ("", None, [], {})}


@dataclass(frozen=True, slots=True)
class Witness:
    """A case and what the file says of it; ``meta`` is None where the file is a plain case file."""

    case: Case
    meta: Meta | None = None

    def unpinned(self) -> list[str]:
        """Sentences about pins that this version derives otherwise than the one that wrote the file."""
        found = []
        now = pins_of(self.case) if self.meta is not None and self.meta.pins else {}
        for side, pins in (self.meta.pins if self.meta is not None else {}).items():
            for was, is_now in _differing(pins, now.get(side, ())):
                where = f"{side} rank {pinned_rank(self.case, side)}"
                found.append(f"{where} had {was or 'nothing'}; this version derives {is_now or 'nothing'}")
        return found


def _differing(was: Iterable[str], now: Iterable[str]) -> list[tuple[str, str]]:
    was, now = list(was), list(now)
    length = max(len(was), len(now))
    was += [""] * (length - len(was))
    now += [""] * (length - len(now))
    return [(one, other) for one, other in zip(was, now, strict=True) if one != other]


# ---- pins


def pins_of(case: Case) -> dict[str, tuple[str, ...]]:
    """Pools, regions and slots of one rank of each side, see :func:`pinned_rank`, as short strings."""
    found = {}
    for side in SIDES:
        layout, rank = lay_out(case, side), pinned_rank(case, side)
        groups = [group.name for group in case.model.groups]
        pins = list(pins_of_pools(case, side))
        for group, by_request in sorted(layout.slots[rank].items()):
            for request in requests_on(case, side, rank):
                listed = _capped([str(slot) for slot in by_request[request].tolist()], " ")
                pins.append(f"{groups[group]} of request {request} in slots {listed or '(none)'}")
        found[side] = tuple(pins)
    return found


def pinned_rank(case: Case, side: str) -> int:
    """The first rank of the side that a request is on: rank 0, but with attention data parallelism."""
    return next(rank for rank in range(case.side(side).topology.size) if requests_on(case, side, rank))


def requests_on(case: Case, side: str, rank: int) -> list[int]:
    """The requests that a rank has, by number."""
    topology = case.side(side).topology
    tp = topology.rank(rank).tp
    return [
        number
        for number, request in enumerate(case.requests)
        if not topology.attention_dp or request.dp_rank(side) == tp
    ]


def pins_of_pools(case: Case, side: str) -> Iterable[str]:
    """Pools and regions of one rank of one side, as short strings."""
    table = lay_out(case, side).tables[pinned_rank(case, side)]
    return _pinned_table(table, [group.name for group in case.model.groups])


def _pinned_table(table: PageTable, groups: list[str]) -> Iterable[str]:
    for number, pool in enumerate(table.pools):
        stride = "" if pool.slot_stride == pool.slot_bytes else f", stride {pool.slot_stride}"
        layers = f", layer stride {pool.layer_stride}" if pool.layer_stride else ""
        yield f"pool {number}: {pool.count} slots of {pool.slot_bytes} B{stride}{layers}"
        regions = [
            f"{groups[entry.group]} {entry.role}@{entry.layer} +{entry.offset} {entry.nbytes} B"
            for entry in table.entries
            if entry.pool == number
        ]
        yield f"pool {number} holds {_capped(regions, ', ')}"


def _capped(items: list[str], separator: str) -> str:
    if len(items) <= PINNED:
        return separator.join(items)
    digest = hashlib.sha256(separator.join(items).encode()).hexdigest()[:8]
    return f"{separator.join(items[:PINNED])} and {len(items) - PINNED} more ({digest})"


# ---- files


def save(
    case: Case,
    out_dir: str | os.PathLike[str],
    *,
    subject: str,
    property: Iterable[str],
    fault: str = "",
    argument: Iterable[str] = (),
    **others: object,
) -> Path:
    """Write a witness under ``out_dir`` and return its path; the name tells the kind and the content of the case.

    The directory is made if need be. A file of the same finding in the same case is replaced as a whole:
    nobody ever reads half a file. A file that holds anything else stays, and the name ends in ``-2``, ``-3``
    and so on. ``others`` are fields of :class:`Meta`. Raises ``CannotRun`` where the directory cannot be written.
    """
    meta = Meta(
        subject=subject, fault=fault, kinds=tuple(property), pins=pins_of(case), argument=tuple(argument), **others
    )
    text = encode_file(case, {"witness": meta.plain()})
    directory = Path(out_dir)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=directory, prefix=".unfinished-", suffix=".json")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(unfinished, 0o644)
            for number in itertools.count(1):
                path = directory / f"{case.kind or 'case'}-{case_id(case)}{f'-{number}' * (number > 1)}.json"
                if _put(unfinished, path, meta):
                    return path
        finally:
            Path(unfinished).unlink(missing_ok=True)
    except OSError as error:
        raise CannotRun(f"cannot write a witness under {str(out_dir)!r}: {error.strerror or error}") from None
    raise AssertionError("a number is always left")


def _put(unfinished: str, path: Path, meta: Meta) -> bool:
    """Give the finished file its name, unless that name is taken by something else than the finding of ``meta``."""
    try:
        os.link(unfinished, path)  # fails where the name is taken, even if another process took it just now
        return True
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        if not path.exists():
            os.replace(unfinished, path)
            return True
    if not _holds(path, meta):
        return False
    os.replace(unfinished, path)
    return True


def _holds(path: Path, meta: Meta) -> bool:
    """Whether a file is a witness of the finding of ``meta``; what cannot be read is not."""
    try:
        found = load(path).meta
    except (CannotRun, InvalidCase):
        return False
    return found is not None and found.finding == meta.finding


def check_writable(out_dir: str | os.PathLike[str]) -> None:
    """Raise ``CannotRun`` unless a file could be written under ``out_dir``; leaves nothing behind."""
    nearest = Path(out_dir).absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise CannotRun(f"--out {str(out_dir)!r} cannot be written: {error.strerror or error}") from None


def load(path: str | os.PathLike[str]) -> Witness:
    """The witness, or plain case, in a file. Raises ``InvalidCase`` with the path of what is wrong in it.

    ``CannotRun`` where the file cannot be read at all.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CannotRun(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise MalformedFile("case file", str(path), "expected a text in UTF-8") from None
    case, extras = decode_file(text)
    for side in SIDES:
        lay_out(case, side)  # a slot outside its pool shows only here
    return Witness(case, _meta(extras["witness"]) if "witness" in extras else None)


def _meta(plain: dict[str, object]) -> Meta:
    values: dict[str, object] = {}
    for name, value in plain.items():
        where = f"witness.{name}"
        if name not in FIELDS:
            raise MalformedFile(where, value, f"unknown field; expected one of {', '.join(FIELDS)}")
        if name == "pins":
            if type(value) is not dict or any(side not in SIDES or not _is_texts(pins) for side, pins in value.items()):
                raise MalformedFile(where, value, "expected lists of texts under context and generation")
            values[name] = {side: tuple(pins) for side, pins in value.items()}
        elif name in ("property", "argument"):
            if not _is_texts(value):
                raise MalformedFile(where, value, "expected a list of texts")
            values["kinds" if name == "property" else name] = tuple(value)
        elif name == "seed":
            if type(value) is not int:
                raise MalformedFile(where, value, "expected a whole number")
            values[name] = value
        else:
            if type(value) is not str:
                raise MalformedFile(where, value, "expected a text")
            values[name] = value
    return Meta(**{"version": "", **values})


def _is_texts(value: object) -> bool:
    return type(value) is list and all(type(text) is str for text in value)


def load_case(path: str | os.PathLike[str]) -> Case:
    """The case in a case file or witness; errors as :func:`load`."""
    return load(path).case


__all__ = ["InvalidCase", "Meta", "Witness", "check_writable", "load", "load_case", "pins_of", "pins_of_pools", "save"]
