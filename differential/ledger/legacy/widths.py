"""Element widths: the legacy sender compares one for a whole cache (spec: legacy sender, 1 and 3)."""

from __future__ import annotations

from collections.abc import Iterator

from oracle.model.buffers import Buffer
from oracle.model.case import Case


def compared_buffer(case: Case) -> Buffer | None:
    """The paged buffer whose width stands for all: the first on the first layer, not replicated if one is not."""
    if case.native is None:
        return None
    found = [
        buffer
        for group in case.model.groups
        for buffer in group.buffers
        if group.is_paged and buffer.role not in case.native.ignored
    ]
    found = [each for each in found if case.native.mapper_of(each.role) != "replicated"] or found
    return min(found, key=lambda each: each.layers.ids[0], default=None)


def widths_differ(case: Case, buffer: Buffer) -> bool:
    """Whether the two sides store elements of ``buffer`` in different widths."""
    sides = case.context, case.generation
    return any(
        sides[0].bits_of(buffer.role, part.bits) != sides[1].bits_of(buffer.role, part.bits) for part in buffer.parts
    )


def moving(case: Case) -> Iterator[Buffer]:
    """Buffers that move on some layer."""
    for group in case.model.groups:
        yield from (buffer for buffer in group.buffers if any(buffer.move_on(layer).moves for layer in buffer.layers))
