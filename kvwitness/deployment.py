"""One deployment instead of random cases: a published or own model, how each side is split, a prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from kvwitness.errors import CannotRun, Refused
from kvwitness.reduce import reduce_case
from kvwitness.search import save_failure
from kvwitness.settings import Judged
from kvwitness.trial import Judgement, Trial
from kvwitness.witness import check_writable
from kvwitness.words import count
from oracle.model import upgrades
from oracle.model.buffers import Model
from oracle.model.case import SIDES, Case, Native, Slots
from oracle.model.codec import from_plain
from oracle.model.errors import InvalidCase, MalformedFile
from oracle.model.json_text import parse
from oracle.model.slots import number_blocks
from oracle.truth.verdict import Verdict
from strategies.deployments import deployment


@dataclass(frozen=True, slots=True)
class Deployment:
    """What to judge. ``model``: a published model's name, or the path of a file. Sides: texts as ``tp=4,dp=on@2``."""

    model: str
    context: str = ""
    generation: str = ""
    prompt: int = 4096
    tokens_per_block: int | None = None
    layout: str = "HND"
    element_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a deployment: its case, the judgement, and of a failure two witnesses: as it is, and shrunk."""

    case: Case
    judgement: Judgement
    witness: Path | None = None
    shrunk: Path | None = None
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
    on_rank = {}
    for side in SIDES:
        sides[side] = {"layout": layouts[side], **read_side(f"--{side}", getattr(wanted, side))}
        sides[side]["layout"] = sides[side]["layout"].upper()
        on_rank[side] = _take_rank(f"--{side}", sides[side])
    case = deployment(
        model,
        sides["context"],
        sides["generation"],
        prompt=wanted.prompt,
        tokens_per_block=wanted.tokens_per_block,
        element_bits=wanted.element_bits,
        native=native,
    )
    for side, rank in on_rank.items():
        ranks = case.side(side).topology.data_parallel
        if rank >= ranks:
            accepted = (
                f"expected a rank from 0 to {ranks - 1}: there are {ranks}" if ranks > 1 else "there is rank 0 alone"
            )
            raise InvalidCase(f"--{side} dp", f"on@{rank}", accepted)
    if any(on_rank.values()):
        request = replace(case.requests[0], context_dp=on_rank["context"], generation_dp=on_rank["generation"])
        case = replace(case, requests=(request,))
    return with_tight_pools(case)


def _take_rank(option: str, side: dict[str, str]) -> int:
    """The attention data-parallel rank that the request is on, taken out of ``dp=on@RANK``; 0 where none is given."""
    switch, at, rank = side.get("dp", "").partition("@")
    if not at:
        return 0
    if switch.lower() != "on" or not rank.isdecimal():
        raise InvalidCase(f"{option} dp", side["dp"], "expected on, off, or on@3 for a request on rank 3")
    side["dp"] = switch
    return int(rank)


def with_tight_pools(case: Case) -> Case:
    """The case with pools hardly larger than its blocks: then an engine can carry out more of them.

    An odd number of slots and every second one in turn: no slot equals its ordinal, and one is left over.
    """
    groups = range(len(case.model.groups))
    used = max(sum(number_blocks(case, side, group)[0] for group in groups) for side in SIDES)
    counts = tuple((group.name, (used + 1) | 1) for group in case.model.groups)
    return replace(case, slots=Slots(mul=2, add=1, counts=counts))


# ---- judging it


def judge_deployment(wanted: Deployment, judged: Judged, out: str) -> Outcome:
    """Judge one deployment. Raises ``Refused`` where a subject rightly refuses it, or none serves it."""
    check_writable(out)
    trial = Trial(judged)
    case = build(wanted)
    judgement = trial(case)
    if judgement.failure is not None:
        path, argument = save_failure(judgement, trial, out)
        return Outcome(case, judgement, path, save_failure(_shrunk(judgement, trial), trial, out)[0], argument)
    verdicts = judgement.result.verdicts
    nobody_serves = all(verdict.refusals for verdict in verdicts.values())
    for name, verdict in verdicts.items():
        if verdict.refusals and (verdict or nobody_serves):
            others = tuple((other, _answer(verdicts[other])) for other in verdicts if other != name)
            raise Refused(name, verdict.refusals[0].code, verdict.refusals[0].reason, others)
    return Outcome(case, judgement)


def _answer(verdict: Verdict) -> str:
    """What a subject answered to a transfer that another one refuses."""
    if verdict.refusals:
        return f"refuses it too: {'; '.join(map(str, verdict.refusals))}"
    answer = "every byte would be in its place" if verdict else "not every byte would be in its place"
    return f"plans {count(verdict.pairs, 'rank pair')}, and {answer}"


def _shrunk(judgement: Judgement, trial: Trial) -> Judgement:
    """The same failure in as small a case as the reducer finds."""
    failure = judgement.failure
    assert failure is not None

    def still_fails(case: Case) -> bool:
        now = trial(case).failure
        return now is not None and failure.same_as(now)

    return trial(reduce_case(judgement.case, still_fails))
