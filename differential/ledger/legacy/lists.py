"""What the suffix sender takes for which block: the lists that both sides have, without their holes.

It pairs entries by how far they are from the end of both lists (spec: legacy sender, 6.3). That is right where each
list has all blocks from its first one to the end, and under Helix only those of one receiver.
"""

from __future__ import annotations

from differential.compare import ByteDifference
from differential.ledger.legacy.heads import is_uneven
from differential.ledger.legacy.sides import is_helix
from differential.managers.facts import BlockTable
from differential.managers.tables import gather_facts
from differential.runner import Kind, Violation
from oracle.model.case import Case


def block_count(case: Case, request: int, group: int) -> int:
    return -(-case.requests[request].tokens(case.model.groups[group].length) // case.context.tokens_per_block)


def _ordinals(case: Case, request: int, group: int, table: BlockTable) -> list[int]:
    listed = [table.first + table.stride * place for place, slot in enumerate(table.slots.tolist()) if slot >= 0]
    return [ordinal for ordinal in listed if ordinal < block_count(case, request, group)]


def asked_blocks(case: Case, request: int, group: int, destination: int) -> list[int]:
    """The blocks that ``destination`` lists."""
    table = gather_facts(case).generation[destination].blocks.get((request, group))
    return [] if table is None else _ordinals(case, request, group, table)


def listed_blocks(case: Case, request: int, group: int) -> list[list[int]]:
    """The blocks that each context rank lists that has the request and the group."""
    found = [rank.blocks.get((request, group)) for rank in gather_facts(case).context]
    return [_ordinals(case, request, group, table) for table in found if table is not None]


def strided_lists(case: Case, request: int, group: int) -> dict[int, list[int]]:
    """The blocks that ranks of the sender list, by their context-parallel coordinate."""
    found = [(rank.rank.cp, rank.blocks.get((request, group))) for rank in gather_facts(case).context]
    return {own: _ordinals(case, request, group, table) for own, table in found if table is not None}


def offered_blocks(case: Case, request: int, group: int, destination: int) -> list[list[int]]:
    """The blocks that each context rank offers to ``destination``; under Helix every cp-th of its list."""
    lists = listed_blocks(case, request, group)
    if is_helix(case):
        own = case.generation.topology.rank(destination).cp
        lists = [listed[own :: case.generation.topology.cp] for listed in lists]
    return lists


def has_gap(ordinals: list[int], stride: int, blocks: int) -> bool:
    """Whether some of the blocks from the first one to the end of ``blocks`` are not listed."""
    return bool(ordinals) and len(range(ordinals[0], blocks, stride)) > len(ordinals)


def sent_for(case: Case, request: int, group: int, offered: list[int], asked: list[int]) -> dict[int, int]:
    """Block of the receiver -> block that the suffix sender sends for it, where it does not refuse.

    Without a window, a receiver that lists more is refused.
    """
    window, blocks = case.model.groups[group].window, block_count(case, request, group)
    tokens = case.requests[request].tokens(case.model.groups[group].length)
    first = 0 if window is None else max(0, (tokens + 1 - window) // case.context.tokens_per_block)
    asked = asked[max(0, len(asked) - len(offered)) :]
    starts = [max(blocks - len(listed), first) for listed in (offered, asked)]
    kept = [listed[max(starts) - start :] for listed, start in zip((offered, asked), starts, strict=True)]
    return dict(zip(kept[1], kept[0], strict=False))


def is_misplaced(case: Case, difference: ByteDifference) -> bool:
    """Whether the suffix sender leaves this block out or sends another one for it, and nothing else is odd."""
    request, group, block = difference.request, difference.group, difference.ordinal
    if request is None or group is None or block is None or difference.layer is None:
        return False
    declared = case.model.groups[group]
    if declared.window is None:
        return False
    if not any(each.role == difference.role and difference.layer in each.layers for each in declared.buffers):
        return False
    first, second = set(difference.first_senders), set(difference.second_senders)
    if not is_uneven(case, difference.layer) and (len(first | second) != 1 or max(first | second) >= _ranks(case)):
        return False
    asked = asked_blocks(case, request, group, difference.destination)
    held = any(block in listed for listed in listed_blocks(case, request, group))
    for offered in offered_blocks(case, request, group, difference.destination):
        sent = sent_for(case, request, group, offered, asked).get(block)
        if sent != block and bool(second) == (sent is not None) and bool(first) == (held and block in asked):
            return True
    return False


def _ranks(case: Case) -> int:
    return case.context.topology.size


def is_of_another_block(case: Case, violation: Violation) -> bool:
    """Whether a violation is that the suffix sender left a block out, or sent another one for it.

    Twice, where heads do not share out evenly.
    """
    request, group, destination = violation.request, violation.group, violation.destination
    if request is None or group is None or destination is None or case.model.groups[group].window is None:
        return False
    asked = asked_blocks(case, request, group, destination)
    offers = offered_blocks(case, request, group, destination)
    sent = [sent_for(case, request, group, offered, asked) for offered in offers]
    if violation.kind is Kind.MISSING:
        return violation.ordinal is not None and any(violation.ordinal not in each for each in sent)
    due, found = violation.due, violation.found
    if due is None or found is None or due.ordinal == found.ordinal:
        return False
    if (due.group, due.layer, due.role) != (found.group, found.layer, found.role):
        return False
    if violation.kind is not Kind.WRONG_ELEMENT and not (
        violation.kind is Kind.DUPLICATE and is_uneven(case, due.layer)
    ):
        return False
    return any(each.get(due.ordinal) == found.ordinal for each in sent)
