"""Memory against memory: what two plans of one case left on the destination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from differential.engines.memory.describe import identity_of
from differential.engines.memory.landed import Landing
from oracle.model.case import Case
from oracle.model.errors import InvalidCase
from oracle.truth.reserved import FOREIGN, INCOMPATIBLE, PADDING
from oracle.truth.verdict import Element, Place
from oracle.truth.wording import element_text


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """Bytes of the destination that two plans left unlike; the first of them in detail.

    ``due`` is the element due at ``place``; ``first`` and ``second`` say what either memory holds
    there (None: no element, the texts beside say what).
    """

    nbytes: int
    place: Place
    due: Element | None
    first: Element | None
    second: Element | None
    first_text: str
    second_text: str

    def __str__(self) -> str:
        return (
            f"{self.nbytes:,} B of memory differ, the first at pool {self.place.pool} slot {self.place.slot} "
            f"+{self.place.offset} of generation rank {self.place.rank}: {self.first_text} / {self.second_text}"
        )


def compare_memory(first: Landing, second: Landing) -> MemoryDifference | None:
    """Where the memories that two plans of one case left differ, guards included; None where they are alike.

    What is native only is passed over.
    """
    planes = first.planes
    case = planes.truth.case
    if case != second.planes.truth.case:
        raise InvalidCase("second", second.planes.truth.case, "expected the memory of the same case")
    unlike = first.words != second.words
    if planes.native_only is not None:
        unlike &= ~planes.native_only
    differing = np.flatnonzero(unlike)
    if not len(differing):
        return None
    position = int(differing[0])
    rank, pool, offset = planes.destination.locate(position)
    table = planes.truth.generation.side.tables[rank]
    place = Place(rank, pool, *divmod(offset, table.pools[pool].slot_stride))
    due = None
    if 0 <= offset < table.pool_extent(pool):
        address = planes.truth.generation.starts[rank][pool] + offset
        due = planes.truth.generation_keys.decode(case, "generation", int(planes.truth.due[address]))
    (one, one_text), (two, two_text) = (_held(case, landing, position) for landing in (first, second))
    return MemoryDifference(len(differing), place, due, one, two, one_text, two_text)


def _held(case: Case, landing: Landing, position: int) -> tuple[Element | None, str]:
    planes = landing.planes
    found, note = identity_of(planes, landing.words[position])
    if landing.words[position] in (planes.never, planes.guard):
        return None, "nothing came"
    reserved = {FOREIGN: "a slot that holds no block of this transfer", PADDING: "padding"}
    if found is None or found in reserved or found >= INCOMPATIBLE:
        return None, note or reserved.get(found or 0, "no element: the sides cut elements or blocks differently")
    element = planes.truth.context_keys.decode(case, "context", found)
    return element, element_text(case, "context", element) if element else "no element"
