"""A transfer whose sender is what another transfer received into."""

from __future__ import annotations

from dataclasses import replace

from oracle.model.case import Case, SlotList
from oracle.model.sides import lay_out


def in_the_middle(first: Case, case: Case) -> Case:
    """``case`` with its context side lying where ``first`` has its generation side."""
    layout = lay_out(first, "generation")
    topology = case.context.topology
    slots = []
    for rank in topology.ranks():
        for layer_group, rows in layout.slots[rank.number].items():
            group = case.model.groups[layer_group]
            for request, row in enumerate(rows):
                if topology.attention_dp and case.requests[request].context_dp != rank.tp:
                    continue
                own = range(rank.cp, len(row), topology.cp) if group.is_paged else range(len(row))
                listed = tuple(int(row[ordinal]) if ordinal in own else -1 for ordinal in range(len(row)))
                slots.append(SlotList("context", rank.number, group.name, request, listed))
    return replace(
        case, context=replace(case.context, page_tables=tuple(enumerate(layout.tables))), tables=tuple(slots)
    )
