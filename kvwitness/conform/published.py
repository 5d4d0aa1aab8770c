"""The law that published models exist at their real size and can be deployed."""

from __future__ import annotations

from collections.abc import Iterator

from differential.managers.tables import gather_facts
from differential.subjects.registry import find_subject
from kvwitness.conform.law import Law, Result, broken, holds, not_run
from kvwitness.conform.sample import Sample, case_between
from kvwitness.words import count
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.model.writes import Refusal
from oracle.truth.decide import judge_any
from strategies.kinds.protocol import Declaration, Kind, PublishedModel
from strategies.topologies import Grid, Shape, check_allowed

USUAL = 32
"""Tokens of a block where a model takes any number."""


def deployments(kind: Kind) -> Iterator[Grid]:
    """Ways to deploy a model of ``kind``, those that most models fit first."""
    for grid in (
        Grid(Shape(), Shape(2)),
        Grid(Shape(4), Shape(8)),
        Grid(Shape(2, 2), Shape(4)),
        Grid(Shape(2), Shape(2, 1, 2)),
        Grid(Shape(2), Shape(4, attention_dp=True)),
    ):
        try:
            check_allowed(kind, grid.context, "context")
            check_allowed(kind, grid.generation, "generation")
        except InvalidCase:
            continue
        yield grid


def _case(kind: Kind, declaration: Declaration, grid: Grid, block: int) -> Case:
    prompt = 2 * grid.generation.cp * block + 1
    return case_between(kind, declaration, grid, tokens_per_block=block, prompt=prompt)


def _plan_trouble(case: Case) -> str | None:
    """What the mapping does wrong in one deployment, "" for nothing, None where it rightly refuses it."""
    plan = find_subject("mapping").plan(case, gather_facts(case))
    verdict = judge_any(case, plan)
    if not verdict:
        kinds = ", ".join(kind.value for kind in verdict.counts)
        return f"the mapping: {kinds}" + (f" ({verdict.reason})" if verdict.reason else "")
    return None if isinstance(plan, Refusal) or plan.refusals else ""


def _trouble(sample: Sample, model: PublishedModel) -> tuple[str, int]:
    """(what is wrong with a published model, "" for nothing; layouts that were tried)."""
    kind = sample.kind
    tried, first, served = 0, "", False
    for bits in model.element_bits:
        try:
            declaration = model.declare(bits)
        except Exception as error:
            return f"{model.name}, {bits} bits: {sample.told(error)}", tried
        for block in model.tokens_per_block or (USUAL,):
            setting = f"{model.name}, {bits} bits, {count(block, 'token')} a block"
            fits = False
            for grid in deployments(kind):
                tried += 1
                try:
                    case = _case(kind, declaration, grid, block)
                except Exception as error:
                    first = first or f"{setting}, {grid}: {sample.told(error)}"
                    continue
                fits = True
                if served:
                    break  # that it exists is enough, once it has been served
                said = _plan_trouble(case)
                if said:
                    return f"{setting}, {grid}: {said}", tried
                served = said is not None
            if not fits:
                return f"{setting}: it fits no deployment; {first}", tried
    return ("" if served else f"{model.name}: no deployment is served"), tried


def check_published(sample: Sample) -> Result:
    """Build each published model with every element width and block length, and deploy it."""
    if not sample.kind.published:
        return not_run("the kind has no published model")
    tried = 0
    for model in sample.kind.published:
        said, layouts = _trouble(sample, model)
        tried += layouts
        if said:
            return broken(said)
    models = count(len(sample.kind.published), "model")
    return holds(f"{models} at real size, {count(tried, 'deployment')}, one of each model judged")


PUBLISHED = Law("published", "Published models exist at their real size and can be deployed.", check_published)
