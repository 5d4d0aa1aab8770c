"""Head-major blocks are cut as if they were token-major."""

from __future__ import annotations

from dataclasses import replace

from differential.faults.fault import Fault, Size, on_case
from differential.runner import Kind
from oracle.model.case import Case
from oracle.model.counts import ordered_axes
from oracle.model.instance import Instance


def head_major_roles(case: Case, instance: Instance) -> list[str]:
    """Roles that ``instance`` stores with the head axis outside the token axis."""
    found: list[str] = []
    for group in case.model.groups:
        for buffer in group.buffers:
            for part in buffer.parts:
                names = [axis.name for axis in ordered_axes(part, instance.layout_of(buffer.role))]
                if "H" in names and "T" in names[names.index("H") :]:
                    found.append(buffer.role)
    return found


def as_token_major(case: Case) -> Case:
    """``case`` with every head-major role declared token-major, on both sides."""
    sides = {}
    for side in ("context", "generation"):
        instance = case.side(side)
        layouts = {**dict(instance.layouts), **dict.fromkeys(head_major_roles(case, instance), "NHD")}
        sides[side] = replace(instance, layouts=tuple(layouts.items()))
    return replace(case, **sides)


def has_head_major_roles(case: Case) -> bool:
    return any(head_major_roles(case, instance) for instance in (case.context, case.generation))


FAULT = Fault(
    name="hnd-as-nhd",
    description="HND blocks are taken for NHD ones",
    kinds=frozenset({Kind.WRONG_ELEMENT}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=on_case(as_token_major),
    applies=has_head_major_roles,
    report="B29 · NVIDIA/TensorRT-LLM#6507",
)
