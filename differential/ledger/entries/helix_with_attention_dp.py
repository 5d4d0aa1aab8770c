"""Context parallelism and attention data parallelism on one instance: the mapping refuses that by policy."""

from __future__ import annotations

from datetime import date

from differential.compare import FIRST, RefusalDifference
from differential.ledger.entry import HELIX, Entry, Refuses
from oracle.model.case import Case


def covers(case: Case, difference: RefusalDifference) -> bool:
    topologies = case.context.topology, case.generation.topology
    return difference.request is None and any(each.cp > 1 and each.attention_dp for each in topologies)


ENTRY = Entry(
    name="helix-with-attention-dp",
    summary="one instance joins context parallelism with attention data parallelism: refused by policy, served before",
    reference="spec: mapping, refusals; spec: legacy sender, 3",
    component="legacy compatibility check",
    second=HELIX,
    form=Refuses(FIRST, ("context_parallel_with_attention_dp",), covers),
    look_again=date(2027, 6, 1),
)
