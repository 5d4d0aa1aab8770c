"""Every published model between many pairs of splits: which are served, and what they cost in runs and bytes."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from differential.ledger import Settled
from kvwitness.covering import Row, cover
from kvwitness.deployment import Deployment, build
from kvwitness.errors import CannotRun
from kvwitness.settings import Judged
from kvwitness.trial import Judgement, Trial
from kvwitness.words import NO_LEGACY_RULE, count
from oracle.model.counts import buffer_bytes
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.topology import Topology
from oracle.truth.verdict import Outcome, Verdict
from strategies.instances import has_heads
from strategies.kinds import find_model, models
from strategies.topologies import even_cut

MOST = 40
"""Deployments of a model."""

PROMPT = 8193
"""One token into a block."""
LONG_PROMPT = 131_072

LAYOUTS = ("HND", "NHD", "NHD to HND", "HND to NHD")


@dataclass(frozen=True, slots=True)
class Splits:
    """Tensor sizes and stages that are varied, and whether every pair of tensor sizes is to meet before all else."""

    sizes: tuple[int, ...]
    stages: tuple[str, ...]
    all_pairs: bool = False


DENSE = Splits((1, 2, 4, 8, 16), ("1", "2", "4", "2 uneven", "4 uneven"), all_pairs=True)
"""For kinds whose layers are all alike."""
OTHERS = Splits((1, 2, 4, 8), ("1", "2", "4 uneven"))
"""For all other kinds, which have more models."""


def splits_of(name: str) -> Splits:
    """What is varied of a published model."""
    return DENSE if find_model(name)[0].name in ("gqa", "mla") else OTHERS


# ---- which


@lru_cache(maxsize=64)
def factors(name: str) -> dict[str, tuple[object, ...]]:
    """What is varied of a model: tensor and pipeline parallelism, attention DP, a Helix receiver, both layouts."""
    kind, model = find_model(name)
    splits = splits_of(name)
    stages = splits.stages if kind.stages else ("1",)
    on = (False, True) if kind.attention_dp else (False,)
    return {
        "context tp": splits.sizes,
        "generation tp": splits.sizes,
        "context pp": stages,
        "generation pp": stages,
        "context dp": on,
        "generation dp": on,
        "generation cp": (1, 2) if kind.helix else (1,),
        "layout": LAYOUTS if has_heads(model.declare().model) else ("HND",),
    }


def exists(name: str, row: Row) -> bool:
    """Whether a row says something: attention DP of one rank says nothing, together with Helix it is refused.

    Nor does it where an axis of the model that is shared out evenly has a remainder: no such instance exists.
    """
    tp, own_tp, _, _, dp, own_dp, cp, _ = row
    if (dp and tp == 1) or (own_dp and (own_tp == 1 or cp == 2)):
        return False
    return _is_even(name, 1 if dp else tp, 1) and _is_even(name, 1 if own_dp else own_tp, cp)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def _is_even(name: str, tp: int, cp: int) -> bool:
    model = find_model(name)[1].declare().model
    instance = Instance(Topology(tp, (model.layers,), cp), find_model(name)[1].block_length())
    try:
        for group in model.groups:
            for buffer in group.buffers:
                buffer_bytes(buffer, instance, instance.topology.rank(0))
    except InvalidCase:
        return False
    return True


@lru_cache(maxsize=64)
def design(name: str) -> tuple[Row, ...]:
    """The rows of a model: every TP pair, and as far as they reach every two values of different factors."""
    tensor = ("context tp", "generation tp") if splits_of(name).all_pairs else None
    return _designed(
        tuple(factors(name).items()),
        tuple(row for row in product(*factors(name).values()) if exists(name, row)),
        tensor,
    )


@lru_cache(maxsize=64)
def _designed(
    varied: tuple[tuple[str, tuple[object, ...]], ...], rows: tuple[Row, ...], first: tuple[str, str] | None
) -> tuple[Row, ...]:
    """Models that can be split alike have one design: finding it takes a second."""
    return cover(dict(varied), most=MOST - 2, exists=frozenset(rows).__contains__, cost=_ranks, first=first)


def _ranks(row: Row) -> int:
    return row[0] * _number(row[2]) + row[1] * _number(row[3]) * row[6]  # type: ignore[operator]


def _number(stages: object) -> int:
    return int(str(stages).split()[0])


def deployments_of(name: str) -> Iterator[Deployment]:
    """At most ``MOST`` deployments of a published model, each as ``kvwitness verify --model`` takes it.

    Under attention DP the request is on the last rank. The last two: a long prompt, and,
    where the kind can be split so, one that is refused.
    """
    kind, model = find_model(name)
    with_heads = has_heads(model.declare().model)
    for row in design(name):
        yield _deployment(name, model.layers, row, PROMPT, with_heads)
    long = 4, 8, "1", "1", False, False, 1, "HND"
    yield _deployment(name, model.layers, long, LONG_PROMPT, with_heads)
    if kind.helix and kind.attention_dp:
        refused = 4, 4, "1", "1", False, True, 2, "HND"
        yield _deployment(name, model.layers, refused, PROMPT, with_heads)


def _deployment(name: str, layers: int, row: Row, prompt: int, with_heads: bool) -> Deployment:
    tp, own_tp, stages, own_stages, dp, own_dp, cp, layout = row
    first, _, second = str(layout).lower().partition(" to ")
    return Deployment(
        name,
        _side(layers, tp, stages, dp, 1),
        _side(layers, own_tp, own_stages, own_dp, cp),
        prompt,
        layout=("" if not with_heads else f"context={first},generation={second}" if second else first) or "hnd",
    )


def _side(layers: int, tp: object, stages: object, dp: object, cp: object) -> str:
    parts = [f"tp={tp}"]
    if stages != "1":
        parts.append(f"pp={cut_of(layers, str(stages))}")
    if cp != 1:
        parts.append(f"cp={cp}")
    if dp:
        parts.append(f"dp=on@{int(tp) - 1}")  # type: ignore[call-overload]
    return ",".join(parts)


def cut_of(layers: int, stages: str) -> str:
    """How ``2``, ``4`` or ``4 uneven`` cuts the layers: a number, or the layers of each stage.

    An uneven cut moves layers from the last stages to the first ones, a quarter of a stage and more.
    """
    number, uneven = _number(stages), stages.endswith("uneven")
    if not uneven:
        return str(number)
    even = even_cut(layers, number)
    moved = max(1, min(even) // 4)
    half = number // 2
    cut = [size + moved * (half - place if place < half else half - place - 1) for place, size in enumerate(even)]
    return "+".join(map(str, cut))


# ---- what becomes of them


@dataclass(frozen=True, slots=True)
class TableRow:
    """One deployment, what the subjects say of it, and what the first one, ``subject``, sends.

    ``verdict``: the judge's on it. ``others``: of each other one by name, how it compares with it.
    ``trouble``: what failed or differs and is not known, empty for nothing.
    """

    deployment: Deployment
    subject: str
    verdict: str
    others: tuple[tuple[str, str], ...]
    pairs: int
    runs: int
    nbytes: int
    trouble: str = ""


def judge_row(wanted: Deployment, trial: Trial) -> TableRow:
    """Judge one deployment. Large memory is judged in closed form, so most of them are."""
    judgement = trial(build(wanted), carry=False)
    verdicts = judgement.result.verdicts
    first, *rest = verdicts
    sent = verdicts[first]
    return TableRow(
        wanted,
        first,
        _said(sent),
        tuple((name, _compared(judgement, first, name)) for name in (*rest, *judgement.left_out)),
        sent.pairs,
        sent.runs,
        sent.nbytes,
        str(judgement.failure or ""),
    )


def _said(verdict: Verdict) -> str:
    if verdict.refusals:
        refusal = verdict.refusals[0]
        return f"{'refused' if verdict else 'FAIL, refused'}: {refusal.code}: {refusal.reason}"
    if verdict.outcome is Outcome.FAIL:
        return f"FAIL: {', '.join(kind.value for kind in verdict.counts) or verdict.reason}"
    return "pass"


def _compared(judgement: Judgement, first: str, name: str) -> str:
    if name in judgement.left_out:
        return f"no ({NO_LEGACY_RULE})"
    settled = next((each for each in judgement.settled if _is_between(each, first, name)), None)
    if settled is None:
        return "FAIL: no plan"
    if settled.verdict == "accepted":
        return f"known: {', '.join(settled.accepted)}"
    return settled.verdict.replace("different", "DIFFERENT")


def _is_between(settled: Settled, first: str, second: str) -> bool:
    return {settled.open.first, settled.open.second} == {first, second}


def judge_table(
    names: Iterable[str], judged: Judged, *, jobs: int, watch: Callable[[TableRow], None] = lambda row: None
) -> dict[str, list[TableRow]]:
    """The rows of each model in order; ``watch`` is told of each as it is known."""
    wanted = [deployment for name in names for deployment in deployments_of(name)]
    found: dict[str, list[TableRow]] = {name: [] for name in names}
    for row in _judge_all(wanted, judged, jobs):
        watch(row)
        found[row.deployment.model].append(row)
    return found


_trial: Trial | None = None


def _start(judged: Judged) -> None:
    global _trial
    _trial = Trial(judged)


def _judge(wanted: Deployment) -> TableRow:
    assert _trial is not None
    return judge_row(wanted, _trial)


def _judge_all(wanted: Sequence[Deployment], judged: Judged, jobs: int) -> Iterator[TableRow]:
    if jobs == 1:
        trial = Trial(judged)
        yield from (judge_row(each, trial) for each in wanted)
        return
    try:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start, (judged,)) as pool:
            yield from pool.map(_judge, wanted)
    except BrokenProcessPool:
        raise CannotRun("a worker process died: too little memory, or a subject crashed; --jobs 1 shows more") from None


def model_names() -> list[str]:
    """All published models, in the order of their kinds."""
    return [model.name for _, model in models()]


# ---- the table


def render(table: Mapping[str, Sequence[TableRow]], command: str) -> Iterator[str]:
    """The table as lines of Markdown; ``command`` is what makes it."""
    rows = [row for found in table.values() for row in found]
    yield "# Deployments"
    yield ""
    yield f"Made by `{command}`. Do not edit it: a test makes it anew and compares."
    yield ""
    yield from INTRODUCTION.splitlines()
    yield ""
    yield f"{count(len(table), 'model')}, {count(len(rows), 'deployment')}: {_summary(rows)}."
    for name, found in table.items():
        kind, model = find_model(name)
        names = [other for other, _ in found[0].others]
        appended = model.declare().extra
        extra = f" and {appended} appended" if appended else ""
        yield ""
        yield f"## {model.title}"
        yield ""
        units = f"blocks of {model.block_length()} tokens, {model.element_bits[0]} bits an element"
        yield f"`{name}`, kind {kind.name}, {model.layers} layers{extra}, {units}: {_summary(found)}."
        yield ""
        yield _line(
            "context", "generation", "layout", "prompt", found[0].subject, *names, "rank pairs", "runs", "bytes"
        )
        yield _line(*["---"] * 5, *["---"] * len(names), *["---:"] * 3)
        with_heads = has_heads(model.declare().model)
        for row in found:
            yield _rendered(row, with_heads)


INTRODUCTION = """\
Each row is judged as `kvwitness verify --model` does, and can be run by itself, without `--layout` where it says `any`:

```
kvwitness verify --model MODEL --context CONTEXT --generation GENERATION --layout LAYOUT --prompt PROMPT
```

Under attention DP the request is on the last rank (`dp=on@RANK`). In the rows of a model every two values of different
settings meet at least once, as far as the model can be split so: TP 1 to 8, PP 1, 2 and 4 cut evenly and unevenly,
attention DP on either side, a Helix receiver, the layouts of both sides. Where all layers are alike, TP goes to 16 and
every TP pair occurs. The last row but one has a long prompt, the last one is a deployment that cannot be served; a
model without Helix has none such.

The column of the first subject is the judge's verdict on its plan. That of another one says how its plan compares with
the first: identical, or different in a way that the ledger knows by the name given. Rank pairs, runs and bytes are
those of the first subject's plan."""


def _summary(rows: Sequence[TableRow]) -> str:
    """``mapping 35 pass, 1 refused; native 22 identical, 14 known``."""
    said = {rows[0].subject: Counter(_word(row.verdict) for row in rows)}
    for number, (name, _) in enumerate(rows[0].others):
        said[name] = Counter(_word(row.others[number][1]) for row in rows)
    return "; ".join(f"{name} {_counted(found)}" for name, found in said.items())


def _word(text: str) -> str:
    return text.partition(":")[0]


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{found[word]} {word}" for word in sorted(found))


def _rendered(row: TableRow, with_heads: bool) -> str:
    wanted = row.deployment
    numbers = [f"{number:,}" if number else "" for number in (row.pairs, row.runs, row.nbytes)]
    return _line(
        wanted.context,
        wanted.generation,
        wanted.layout if with_heads else "any",
        f"{wanted.prompt:,}",
        row.verdict,
        *(how for _, how in row.others),
        *numbers,
    )


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
