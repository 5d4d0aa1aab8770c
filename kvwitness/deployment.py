"""One deployment instead of random cases: a published or own model, how each side is split, a prompt."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from kvwitness.errors import CannotRun, Refused
from kvwitness.search import save_failure
from kvwitness.settings import Judged
from kvwitness.trial import Judgement, Trial
from kvwitness.witness import check_writable
from kvwitness.words import in_bytes
from oracle.model import upgrades
from oracle.model.buffers import Model
from oracle.model.case import SIDES, Case, Native, Slots
from oracle.model.codec import from_plain
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.json_text import parse
from oracle.model.sides import lay_out
from oracle.model.slots import number_blocks
from strategies.deployments import deployment

BYTES_A_BYTE = 45
"""Memory that judging takes for each byte of both sides' pools, an engine's copies included (measured)."""

LEAST_BOUND = 1 << 30
"""Bytes that a deployment may always take."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What to judge. ``model``: a published model's name, or the path of a file. Sides are texts as ``tp=4,pp=2``."""

    model: str
    context: str = ""
    generation: str = ""
    prompt: int = 4096
    tokens_per_block: int = 32
    layout: str = "HND"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a deployment: its case, the judgement, and the witness of a failure."""

    case: Case
    judgement: Judgement
    witness: Path | None = None
    argument: tuple[str, ...] = ()


# ---- building the case


def read_side(option: str, text: str) -> dict[str, str]:
    """``tp=4,pp=2,dp=on`` as a dict; raises ``InvalidCase`` for what is not ``name=value`` pairs."""
    found: dict[str, str] = {}
    for piece in filter(None, re.split(r"[,\s]+", text)):
        name, sign, value = piece.partition("=")
        if not sign or not name or not value:
            raise InvalidCase(option, text, "expected name=value pairs by comma such as tp=4,pp=2,dp=on")
        if name in found:
            raise InvalidCase(option, text, f"{name} is given twice")
        found[name] = value
    return found


def read_layout(text: str) -> dict[str, str]:
    """``nhd``, or ``context=nhd,generation=hnd``: the layout of each side."""
    if "=" not in text:
        return dict.fromkeys(SIDES, text.upper())
    sides = read_side("--layout", text)
    for name in sides:
        if name not in SIDES:
            raise InvalidCase("--layout", text, f"{name!r} is no side; expected {' or '.join(SIDES)}")
    return {side: sides.get(side, "HND").upper() for side in SIDES}


def read_model(path: str) -> tuple[Model, Native | None]:
    """One's own model from a JSON file: the ``model`` part of a case file, and ``native`` beside it if there is any.

    Both ``{"layers": ..., "groups": [...]}`` and ``{"model": {...}, "native": {...}}`` will do.
    """
    try:
        plain = parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotRun(f"cannot read --model {path!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CannotRun(f"--model {path!r} is not a text in UTF-8") from None
    if type(plain) is not dict:
        raise MalformedFile("model file", type(plain).__name__, "expected an object with layers and groups")
    whole = dict(plain) if "model" in plain else {"model": {k: v for k, v in plain.items() if k != "native"}}
    if "native" in plain:
        whole["native"] = plain["native"]
    unknown = set(whole) - {"model", "native", "schema"}
    if unknown:
        raise MalformedFile("model file", sorted(unknown)[0], "unknown field; expected model and native")
    layers = whole["model"].get("layers") if type(whole["model"]) is dict else None
    side = {
        "tp": 1,
        "stages": [layers if type(layers) is int else 1],
        "tokens_per_block": _tokens_that_fit(whole["model"]),
    }
    request = {"content": 0, "prompt": 1}
    case = from_plain({"schema": upgrades.SCHEMA, **whole, "context": side, "generation": side, "requests": [request]})
    return case.model, case.native


def _tokens_that_fit(model: object) -> int:
    """Tokens a block that every row and sub-page of a model divides, only to have a case around it while it is read."""
    numbers = [
        int(number) for number in re.findall(r"[Tb]\((\d+)\)|x\((\d+)\)", str(model)) for number in number if number
    ]
    tokens = 1
    for number in numbers:
        tokens *= max(1, min(number, 1024))
    return tokens


def build(wanted: Deployment) -> Case:
    """The case of a deployment; raises ``CannotRun`` or ``InvalidCase`` with the option that is at fault."""
    model: str | Model = wanted.model
    native = None
    if "/" in wanted.model or wanted.model.endswith(".json"):
        model, native = read_model(wanted.model)
    layouts = read_layout(wanted.layout)
    sides = {}
    for side in SIDES:
        sides[side] = {"layout": layouts[side], **read_side(f"--{side}", getattr(wanted, side))}
        sides[side]["layout"] = sides[side]["layout"].upper()
    case = deployment(
        model,
        sides["context"],
        sides["generation"],
        prompt=wanted.prompt,
        tokens_per_block=wanted.tokens_per_block,
        native=native,
    )
    return with_tight_pools(case)


def with_tight_pools(case: Case) -> Case:
    """The case with pools hardly larger than its blocks: memory is what bounds a deployment.

    An odd number of slots and every second one in turn: no slot equals its ordinal, and one is left over.
    """
    groups = range(len(case.model.groups))
    used = max(sum(number_blocks(case, side, group)[0] for group in groups) for side in SIDES)
    counts = tuple((group.name, (used + 1) | 1) for group in case.model.groups)
    return replace(case, slots=Slots(mul=2, add=1, counts=counts))


# ---- whether it fits


def bytes_to_enumerate(case: Case) -> int:
    """Memory for an id of every byte of both sides, and for what judge and engine make of them."""
    tables = [table for side in SIDES for table in lay_out(case, side).tables]
    return BYTES_A_BYTE * sum(table.pool_extent(pool) for table in tables for pool in range(len(table.pools)))


def free_memory() -> int:
    """Half of the memory that is free here, in bytes, but at least ``LEAST_BOUND``."""
    free = [LEAST_BOUND * 2]
    try:
        free.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError):
        pass
    return max(free) // 2


def check_fits(wanted: Deployment, case: Case, bound: int) -> None:
    """Raise ``CannotRun`` where judging takes more than ``bound`` bytes, with the largest prompt that fits."""
    needed = bytes_to_enumerate(case)
    if needed <= bound:
        return
    most = _largest_prompt(wanted, bound)
    fits = f"the largest prompt that fits is --prompt {most}" if most else "not even one block fits"
    raise CannotRun(
        f"judging this deployment byte by byte takes about {in_bytes(needed)} of memory, and {in_bytes(bound)} is the"
        f" bound (--memory); {fits}"
    )


def _largest_prompt(wanted: Deployment, bound: int) -> int:
    """In tokens, whole blocks; 0 where one block is too much."""
    least, most = 0, -(-wanted.prompt // wanted.tokens_per_block)
    while least < most - 1:
        half = (least + most) // 2
        if bytes_to_enumerate(build(replace(wanted, prompt=half * wanted.tokens_per_block))) <= bound:
            least = half
        else:
            most = half
    return least * wanted.tokens_per_block


# ---- judging it


def judge_deployment(wanted: Deployment, judged: Judged, out: str, *, bound: int) -> Outcome:
    """Judge one deployment in at most ``bound`` bytes. Raises ``Refused`` where a subject rightly refuses it."""
    check_writable(out)
    trial = Trial(judged)
    case = build(wanted)
    check_fits(wanted, case, bound)
    judgement = trial(case)
    if judgement.failure is not None:
        path, argument = save_failure(judgement, trial, out)
        return Outcome(case, judgement, path, argument)
    for name, verdict in judgement.result.verdicts.items():
        for refusal in verdict.refusals:
            raise Refused(name, refusal.code, refusal.reason)
    return Outcome(case, judgement)
