"""Nobody asks whether a block that the sender has lost was due: the rest is sent, and the receiver waits for a hole."""

from __future__ import annotations

import numpy as np

from differential.faults.fault import Fault, Size
from differential.faults.steps import TABLES
from differential.managers.facts import Facts
from differential.runner import Kind
from differential.subjects.mapping import Mapping
from differential.subjects.protocol import Subject
from oracle.model.buffers import LayerGroup
from oracle.model.case import Case
from oracle.model.writes import Refusal, Writes


def none_is_due(group: LayerGroup, tokens: int, tokens_per_block: int, ordinals: np.ndarray) -> np.ndarray:
    return np.zeros(len(ordinals), dtype=bool)


def go_on(subject: Subject, case: Case, facts: Facts) -> Writes | Refusal:
    return Mapping(is_due=none_is_due).plan(case, facts)


FAULT = Fault(
    name="due-blocks-unchecked",
    description="a request goes on without a due block that the sender no longer holds",
    kinds=frozenset({Kind.MISSING}),
    minimum=Size(ranks=2, layers=1, blocks=1),
    plant=go_on,
    base=TABLES,
)
