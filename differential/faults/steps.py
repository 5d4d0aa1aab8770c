"""Planting a wrong step of an encoding of block lists, and the conditions under which one matters."""

from __future__ import annotations

from collections.abc import Callable

from differential.faults.fault import Plant
from differential.managers import chunks, tables
from differential.managers.anchors import Anchors
from differential.managers.extents import Extent
from differential.managers.facts import Facts
from differential.managers.suffix import RIGHT, Suffix, Suffixes, Translate
from differential.managers.tables import gather_facts
from differential.managers.v1 import BlockList
from differential.managers.v2 import PageList
from differential.subjects.mapping import Mapping
from differential.subjects.protocol import Subject
from oracle.model.case import SIDES, Case
from oracle.model.writes import Refusal, Writes

ANCHORS, SUFFIX, TABLES = "mapping:anchors", "mapping:suffix", "mapping"
"""the subjects that read block lists in one of the encodings"""


class OfWholePrompts(Suffixes):
    """Suffix lists whose wrong step is one for whole prompts; chunks are listed rightly."""

    def build_chunk(
        self, held: BlockList | PageList, extent: Extent, first: int, end: int, translate: Translate
    ) -> Suffix:
        return RIGHT.build_chunk(held, extent, first, end, translate)


def on_lists(lists: Anchors | Suffixes) -> Plant:
    """A bug in how runs or suffix lists are made or read: ``lists`` overrides the step that goes wrong."""
    subject = Mapping("anchors" if isinstance(lists, Anchors) else "suffix", lists=lists)

    def plant(_: Subject, case: Case, facts: Facts) -> Writes | Refusal:
        return subject.plan(case, facts)

    return plant


def on_facts(change: Callable[[Case, Facts], Facts]) -> Plant:
    """A bug in what a manager lists by position, or in which slices it is sent."""

    def plant(subject: Subject, case: Case, facts: Facts) -> Writes | Refusal:
        return subject.plan(case, change(case, facts))

    return plant


def on_tables(wrong: tables.Tables) -> Plant:
    """A bug in which blocks a table leaves out: ``wrong`` overrides the step."""
    return on_facts(lambda case, facts: gather_facts(case, wrong))


def on_slices(wrong: chunks.Slices) -> Plant:
    """A bug in how a prompt is cut into slices: ``wrong`` overrides the step."""
    return on_facts(lambda case, facts: gather_facts(case, slices=wrong))


def has_window(case: Case) -> bool:
    return any(group.window is not None for group in case.model.groups)


def has_helix(case: Case) -> bool:
    """Whether either side is context parallel."""
    return any(case.side(side).topology.cp > 1 for side in SIDES)


def detaches(case: Case) -> bool:
    """Whether a V1 side came beyond the prompt, so that it may have detached blocks."""
    return has_window(case) and any(case.side(side).manager == "v1" and goes_on(case, side) for side in SIDES)


def has_chunks(case: Case) -> bool:
    return any(request.cuts for request in case.requests)


def has_manager(case: Case, manager: str) -> bool:
    return any(case.side(side).manager == manager for side in SIDES)


def goes_on(case: Case, side: str) -> bool:
    """Whether the side's manager lists anything behind the prompt."""
    return any(request.room(side) > request.prompt for request in case.requests)


def reuses(case: Case) -> bool:
    """Whether the receiver has any whole block of a prompt already."""
    size = case.generation.tokens_per_block
    return any(request.generation.cached >= size for request in case.requests)
